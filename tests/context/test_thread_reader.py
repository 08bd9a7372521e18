"""ThreadReader: a stored thread, read by a model outside of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rehydrate import Context, Memory
from rehydrate.context import ThreadReader, Threads
from rehydrate.errors import UnknownHandleError, UnknownThreadError

LOG = "\n".join(f"line {number}: crane {number} stands still" for number in range(4_000))


def say(role: str, content: object) -> dict[str, object]:
    return {"role": role, "content": content}


def talk() -> list[dict[str, object]]:
    call = {"type": "tool_use", "id": "t1", "name": "log", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": LOG}
    return [
        say("user", "Staging listens on port 8443. Look at the log."),
        say("assistant", [call]),
        say("user", [result]),
        say("assistant", "All cranes stand still."),
    ]


@pytest.fixture
def threads(tmp_path: Path):
    with Threads.open(tmp_path / "threads.db", namespace="alice") as threads:
        yield threads


def asked(reader: ThreadReader, **arguments: object) -> str:
    answered = reader.answer("request_context", arguments)
    assert not answered.is_error
    return answered.content


def test_what_the_thread_still_shows_its_own_model_is_found(threads):
    context = Context(threads=threads, thread="t", provider="anthropic")
    context.add(*talk())
    context.prompt("Which port?")
    reader = ThreadReader(threads, "t")
    assert "Staging listens on port 8443." in asked(reader, query="port of staging")


def test_the_same_question_has_the_same_answer(threads):
    Context(threads=threads, thread="t").add(*talk())
    reader = ThreadReader(threads, "t")
    first = asked(reader, query="port of staging")
    assert [asked(reader, query="port of staging") for _ in range(12)] == [first] * 12


def test_the_threads_own_context_goes_on_undisturbed(threads):
    context = Context(threads=threads, thread="t")
    context.add(*talk())
    before = threads.list()
    reader = ThreadReader(threads, "t")
    asked(reader, query="crane 2718")
    reader.answer("fetch_whole", {"handle": "#1", "query": "crane 2718"})
    assert threads.list() == before
    context.add(say("user", "Thanks."))  # no StoreConflictError
    prompt = context.prompt("Which crane?")
    assert [tool.name for tool in prompt.ir.tools] == []


def test_handles_that_the_threads_prompts_gave_are_read(threads):
    context = Context(threads=threads, thread="t")
    context.add(*talk())
    handle = context.originals.put(LOG)
    prompt = context.prompt("Go on.")
    reader = ThreadReader(threads, "t")
    assert reader.whole(handle) == LOG
    assert handle in str(prompt.messages)
    page = reader.answer("fetch_whole", {"handle": handle, "lines": "2719-2719"})
    assert "line 2718: crane 2718 stands still" in page.content
    with pytest.raises(UnknownHandleError):
        reader.whole("orig_nothing")


def test_a_rest_is_still_there_when_the_thread_has_grown(threads):
    context = Context(threads=threads, thread="t")
    for number in range(40):
        context.add(say("user", f"Berth {number} is swept with a broom. " * 8))
        context.add(say("assistant", f"Wind of day {number}: {number} knots from the west. " * 20))
    reader = ThreadReader(threads, "t", budget_tokens=1_000)
    answered = reader.answer("request_context", {"query": "berths that are swept with a broom"})
    assert answered.remaining
    handle = next(word for word in answered.content.split() if word.startswith("rest_"))
    context.add(say("user", "Go on."))
    later = ThreadReader(threads, "t", budget_tokens=1_000, before=reader)
    rest = later.answer("fetch_whole", {"handle": handle})
    assert not rest.is_error and "is swept with a broom" in rest.content


def test_the_whole_of_what_a_source_brought_is_still_there_when_the_thread_has_grown(threads):
    Context(threads=threads, thread="t").add(*talk())
    list_ = "\n".join(f"{number}: pier {number * 7} has a crane" for number in range(900))
    reader = ThreadReader(threads, "t", sources=[lambda _request: list_], budget_tokens=600)
    handles = re.findall(r"orig_\w+", asked(reader, query="pier with a crane"))
    for _ in range(2):
        reader = ThreadReader(threads, "t", before=reader)
    assert list_ in [reader.whole(handle) for handle in handles]


def test_a_memory_is_asked_in_addition_and_its_handles_are_read(threads, tmp_path):
    Context(threads=threads, thread="t").add(*talk())
    with Memory.open(tmp_path / "memory.db", namespace="alice") as memory:
        (added,) = memory.add("Production listens on port 443.")
        reader = ThreadReader(threads, "t", sources=[memory])
        assert "Production listens on port 443." in asked(reader, query="port of production")
        assert reader.whole(added.handle) == "Production listens on port 443."
        said = reader.answer("fetch_whole", {"handle": "orig_nothing"})
        assert said.is_error and "nothing is kept under 'orig_nothing'" in said.content


def test_threads_in_each_format_are_read(threads):
    entries = {
        "anthropic": say("user", "Staging listens on port 8443."),
        "openai_chat": say("user", "Staging listens on port 8443."),
        "openai_responses": {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "Staging listens on port 8443."}],
        },
        "plain": say("user", "Staging listens on port 8443."),
        "claude_code": {
            "type": "user",
            "uuid": "u1",
            "message": say("user", "Staging listens on port 8443."),
        },
    }
    for name, entry in entries.items():
        provider = name if name.startswith("openai") else "anthropic"
        context = Context(threads=threads, thread=name, provider=provider, format=name)
        context.add(entry)
        reader = ThreadReader(threads, name)
        assert "Staging listens on port 8443." in reader.whole("#0")
        assert "#0 user: Staging listens on port 8443." in reader.transcript()


def test_a_thread_that_is_not_there_is_an_error(threads):
    with pytest.raises(UnknownThreadError):
        ThreadReader(threads, "t")


@pytest.mark.parametrize("count", [1, 2])
def test_a_thread_of_one_message_or_its_copies_is_searched_too(threads, count):
    context = Context(threads=threads, thread="t", provider="anthropic")
    context.add(*[say("user", "Staging listens on port 8443.")] * count)
    reader = ThreadReader(threads, "t")
    for query in ("port of staging", "which port does staging use?", "8443"):
        assert "user: Staging listens on port 8443." in asked(reader, query=query)
    assert "Nothing was found" in asked(reader, query="bananas")
