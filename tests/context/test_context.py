"""Context: prompts extend one another, nothing is lost, budgets hold, threads may share it."""

import copy
import json
import pickle
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import anyio
import pytest
from hypothesis import given, strategies as st

from rehydrate import Memory, hydrate, validate
from rehydrate.context import Context, ContextJIT, Threads
from rehydrate.errors import InvalidArgumentError, InvalidMessageError
from rehydrate.memory import MemoryItem
from rehydrate.prompt import (
    Budget,
    HeldOriginals,
    HydrationSource,
    Priority,
    Provenance,
    Section,
)
from rehydrate.prompt.sources import conversation, function
from tests import strategies

SESSION = Path(__file__).parents[2] / "examples" / "session.jsonl"
CONVERSATIONS = {
    "anthropic": strategies.anthropic_conversations(),
    "openai_chat": strategies.openai_chat_conversations(),
    "openai_responses": strategies.openai_responses_items(),
}


def wire(compiled):
    """The bytes that go over the wire, segment by segment, cache marks aside."""
    return [segment.digest for segment in compiled.segments]


def spoken(entries):
    return [entry for entry in entries if entry.get("role") != "system"]


@pytest.mark.parametrize("provider", sorted(CONVERSATIONS))
@given(data=st.data())
def test_every_prompt_extends_the_one_before_and_is_valid(provider, data):
    entries = data.draw(CONVERSATIONS[provider])
    context = Context(
        lambda request: f"Something about {request.query[:20]!r}.",
        provider=provider,
        system="Be brief.",
        timeout=None,
    )
    before = []
    for entry in entries:
        context.add(entry)
        if entry.get("role") != "user":
            continue
        compiled = context.prompt()
        assert wire(compiled)[: len(before)] == before
        assert context.prefix is None or context.prefix.extends
        assert not validate(compiled.messages, provider)
        before = wire(compiled)
    assert context.history == entries


def test_the_entries_of_a_prompt_are_the_very_objects_that_were_added():
    context = Context(provider="openai_chat")
    said = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    context.add(*said)
    compiled = context.prompt("and now?")
    assert all(any(entry is message for message in compiled.messages) for entry in said)


def test_what_memory_gave_a_turn_stays_where_it_was_sent(tmp_path):
    with Memory.open(tmp_path / "m.db", namespace="alice") as memory:
        memory.add(["Staging listens on port 8443.", "Lunch is at noon."])
        context = Context(memory, timeout=None)
        first = context.prompt("Which port does staging listen on?")
        assert "8443" in json.dumps(first.messages)
        context.add({"role": "assistant", "content": "8443."})
        second = context.prompt("And when is lunch?")
        assert second.messages[: len(first.messages) - 1] == first.messages[:-1]
        assert wire(second)[: len(first.segments)] == wire(first)
        assert json.dumps(second.messages).count("Staging listens on port 8443.") == 1


def test_sources_are_asked_once_a_user_turn():
    asked = []

    def notes(request):
        asked.append(request.query)
        return "a note"

    context = Context(notes, provider="openai_chat", timeout=None)
    context.prompt("first question")
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    context.add(
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    )
    context.prompt()
    context.add({"role": "assistant", "content": "It is done."})
    context.prompt("second question")
    assert asked == ["first question", "second question"]


def test_a_name_is_given_once_though_others_of_it_are_gone_or_were_asked_for():
    said = []

    def clock(request):
        said.append(len(said))
        return f"The clock of the tower strikes for the {len(said)}. time."

    context = Context(clock, timeout=None)
    jit = ContextJIT(context)
    context.prompt("One.")
    call = {"type": "tool_use", "id": "t", "name": "request_context", "input": {"query": "clock"}}
    context.add({"role": "assistant", "content": [call]})
    context.add({"role": "user", "content": [jit.handle(call)]})
    context.prompt()
    for turn in range(4):
        context.add({"role": "assistant", "content": "Yes."})
        ir = context.prompt(f"And turn {turn}?").ir
        names = [section.id for section in (*ir.sections, *ir.late_bound)]
        assert len(names) == len(set(names)), names
        assert ir.verify() == []
        if turn == 1:  # some of the name go, others stay
            context.compact(ir.tokens - 40)
    assert len(said) == 6


@pytest.mark.parametrize("error", [OSError("the disk is gone"), KeyboardInterrupt()])
def test_a_prompt_that_raises_leaves_the_context_as_it_was(error):
    failing = []

    def fail(ir, target):
        if failing:
            raise failing.pop()
        return ir

    context = Context(provider="openai_chat", passes=[fail])
    context.prompt("first")
    context.add({"role": "assistant", "content": "yes"})
    before = context.usage, context.history, context.ir, context.turn
    failing.append(error)
    with pytest.raises(type(error)):
        context.prompt("second")
    assert (context.usage, context.history, context.ir, context.turn) == before
    assert context.prompt("second").messages[-1] == {"role": "user", "content": "second"}
    assert [entry["content"] for entry in context.history] == ["first", "yes", "second"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_prompt_that_is_cancelled_leaves_the_context_as_it_was(backend):
    asked, go_on = threading.Event(), threading.Event()

    def slow(request):
        if request.query == "second":
            asked.set()
            go_on.wait(60)
        return f"On {request.query}."

    async def main():
        context = Context(slow, provider="openai_chat", timeout=None)
        await context.aprompt("first")
        await context.aadd({"role": "assistant", "content": "yes"})
        before, usage = context.history, context.usage
        async with anyio.create_task_group() as group:
            group.start_soon(context.aprompt, "second")
            await anyio.to_thread.run_sync(asked.wait)
            group.cancel_scope.cancel()
        assert context.history == before  # while its thread still goes on
        go_on.set()
        assert await anyio.to_thread.run_sync(lambda: context.room_tokens) > 0
        assert context.usage == usage
        await context.aprompt("second")
        return context

    context = anyio.run(main, backend=backend)
    assert [entry["content"] for entry in context.history] == ["first", "yes", "second"]
    assert context.usage.prompts == 2


def test_a_prompt_is_final_once_something_came_after_it():
    context = Context(provider="openai_chat")
    context.prompt("first")
    call = context._thread._last_call
    context.add({"role": "assistant", "content": "yes"})
    call.is_given_up = True
    assert [entry["content"] for entry in context.history] == ["first", "yes"]
    context.prompt("second")
    assert len(context.history) == 3


def test_what_is_no_message_is_refused_and_changes_nothing():
    context = Context()
    with pytest.raises(InvalidMessageError, match="message 1"):
        context.add({"role": "user", "content": "hi"}, 17)
    assert context.history == []
    with pytest.raises(InvalidArgumentError, match="nothing to answer"):
        context.prompt()
    with pytest.raises(InvalidArgumentError, match="nothing to compact"):
        context.compact()
    with pytest.raises(InvalidArgumentError, match="query is of type int"):
        context.prompt(7)


def test_a_source_that_fails_is_left_out_and_said():
    def broken(request):
        raise OSError("the disk is gone")

    context = Context(broken)
    assert context.prompt("hello").messages == [{"role": "user", "content": "hello"}]
    (report,) = [source for source in context.ir.meta.sources if source.name == "broken"]
    assert report.status == "failed"
    assert report.detail == "OSError"


def test_static_sections_stay_in_front_of_the_history():
    rules = Section("rules", "Never push.", Provenance("system"), stability="static")
    context = Context(system=["Be brief.", rules], provider="openai_chat")
    context.prompt("hello")
    context.add({"role": "assistant", "content": "hi"})
    messages = context.prompt("bye").messages
    assert [message["role"] for message in messages].count("system") >= 1
    assert "Never push." in json.dumps(messages[: len(messages) - 3])


def test_threads_may_share_a_context():
    context = Context(provider="openai_chat")
    context.add({"role": "user", "content": "start"})

    def work(number):
        context.add({"role": "assistant", "content": f"said by {number}"})
        return context.prompt(f"asked by {number}")

    with ThreadPoolExecutor(8) as pool:
        prompts = list(pool.map(work, range(40)))
    assert len(context.history) == 81
    prompts.sort(key=lambda compiled: len(compiled.segments))
    for shorter, longer in pairwise(prompts):
        assert wire(longer)[: len(shorter.segments)] == wire(shorter)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_it_can_be_awaited(backend):
    async def main():
        context = Context(provider="openai_chat")
        compiled = await context.aprompt("hello")
        await context.acompact(100)
        return compiled.messages

    assert anyio.run(main, backend=backend) == [{"role": "user", "content": "hello"}]


def test_a_real_session_is_replayed_without_one_needless_break():
    lines = [json.loads(line) for line in SESSION.read_text().splitlines()]
    context = Context(
        lambda request: f"A note on {request.query[:30]!r}.",
        format="claude_code",
        system="You are a coding agent.",
        budget=Budget(10**6, 10**7),
        timeout=None,
    )
    before, prompts = [], 0
    for line in lines:
        if line.get("type") == "assistant" and context.history and not follows_itself(context):
            compiled = context.prompt()
            assert wire(compiled)[: len(before)] == before
            before, prompts = wire(compiled), prompts + 1
        context.add(line)
    assert prompts > 50
    assert context.usage.compactions == 0
    assert context.history == lines


def follows_itself(context):
    """Whether the assistant is in the midst of a message of several lines."""
    return context.history[-1].get("type") == "assistant"


def test_a_context_weighs_little_beyond_its_messages():
    context = Context(budget=Budget(10**8, 10**9))
    session = [{"role": "user", "content": "Write them all."}]
    for number in range(40):
        lines = "\n".join(f"line {number}.{n} writes {n * number} rows" for n in range(500))
        call = {"type": "tool_use", "id": f"t{number}", "name": "Write", "input": {"text": lines}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "done"}
        session += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    context.add(*session)
    context.prompt()  # what all contexts share is there
    tracemalloc.start()
    try:
        context = Context(budget=Budget(10**8, 10**9))
        context.add(*session)
        context.prompt()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(len(str(entry)) for entry in session) > 500_000
    assert held < 200_000


class Rules:
    """Hot memory whose next answers are laid down: a text, or an error."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def source(self):
        return HydrationSource("hot", self.run, kind="hot", timeout=None)

    def run(self, request):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        where = Provenance(request.source)
        return [Section(request.source, answer, where, stability="static", priority=Priority.HIGH)]


def test_hot_memory_that_failed_once_is_asked_again_in_the_next_turn_and_the_prefix_holds():
    rules = Rules(OSError("secret://x:y@z"), "Never delete production.")
    context = Context(rules.source(), system="Be brief.", provider="openai_chat")
    first = context.prompt("Which port is staging?")
    assert first.ir.meta.degraded == ("hot: failed: OSError",)
    context.add({"role": "assistant", "content": "8443."})
    second = context.prompt("And production?")
    assert context.prefix.extends
    assert second.ir.meta.degraded == ()
    assert "Never delete production." in json.dumps(second.messages[-2])
    context.add({"role": "assistant", "content": "443."})
    third = context.prompt("Thanks.")
    assert json.dumps(third.messages).count("Never delete production.") == 1
    assert context.prefix.extends


def test_hot_memory_that_is_late_says_so_in_each_prompt_until_it_is_there():
    go_on = threading.Event()

    def wait(request):
        go_on.wait(60)
        return "Never delete production."

    source = HydrationSource("hot", wait, kind="hot", timeout=0.02)
    context = Context(source, provider="openai_chat", timeout=0.02)
    for turn in range(3):
        prompt = context.prompt(f"Question {turn}?")
        assert prompt.ir.meta.degraded == ("hot: late: no answer within 0.02 s",)
        context.add({"role": "assistant", "content": "Yes."})
    go_on.set()


def test_hot_memory_is_as_it_is_now_after_each_compaction():
    rules = Rules("The state is RED.", "The state is GREEN.")
    context = Context(rules.source(), system="Be brief.", provider="openai_chat")
    for turn in range(30):
        context.prompt(f"Question {turn}?")
        context.add({"role": "assistant", "content": f"Answer {turn}, which is long. " * 9})
    before = context.prompt("And?")
    assert "RED" in json.dumps(before.messages)
    context.compact(600)
    after = json.dumps(context.prompt("And now?").messages)
    assert "GREEN" in after
    assert "RED" not in after
    assert after.index("GREEN") < after.index("Answer 29")


def test_a_compaction_that_the_budget_asks_for_reads_hot_memory_again_too():
    rules = Rules("The state is RED.", "The state is GREEN.")
    budget = Budget(soft_tokens=1_500)
    context = Context(rules.source(), provider="openai_chat", budget=budget)
    while not context.usage.compactions:
        context.add({"role": "user", "content": "Next."})
        prompt = context.prompt()
        assert ("GREEN" if context.usage.compactions else "RED") in json.dumps(prompt.messages)
        context.add({"role": "assistant", "content": "Answer, which is long. " * 20})
    assert not context.prefix.extends


def test_hot_memory_that_came_late_is_in_front_after_the_next_compaction():
    rules = Rules(OSError("busy"), "Never delete production.")
    context = Context(rules.source(), system="Be brief.", provider="openai_chat")
    for turn in range(20):
        context.prompt(f"Question {turn}?")
        context.add({"role": "assistant", "content": f"Answer {turn}, which is long. " * 9})
    context.compact(600)
    (section,) = [each for each in context.ir.sections if each.id == "hot"]
    assert section.is_static
    said = json.dumps(context.prompt("And now?").messages)
    assert said.count("Never delete production.") == 1


def test_hot_memory_is_cut_at_a_hundred_lines_and_not_by_its_tokens(tmp_path):
    def numbered(lines):
        said = "when the operator asks, confirm the vessel, the quay, the tide and the permit"
        return "\n".join(f"- rule {number}: {said}, and only then act" for number in range(lines))

    with Memory.open(tmp_path / "m.db") as memory:
        for lines in (100, 140):
            of = memory.within(f"of {lines}")
            of.add([MemoryItem(numbered(lines), tier="hot")])
            prompt = Context(of, timeout=None).prompt("hi")
            (hot,) = [each for each in prompt.ir.sections if each.id == "hot"]
            assert hot.tokens > 2_500
            assert hot.content == numbered(100)
            assert any("hot memory has 140 lines" in each for each in prompt.ir.meta.degraded) == (
                lines == 140
            )


def test_a_source_of_which_nothing_fits_is_named():
    source = function("notes", lambda request: "word " * 500, budget_tokens=100)
    prompt = Context(source, timeout=None).prompt("hi")
    said = "notes: left out: nothing of what it found fits, source 'notes' may take 100 tokens"
    assert prompt.ir.meta.degraded == (said,)


@pytest.mark.parametrize("carry", [pickle.dumps, copy.deepcopy, copy.copy])
def test_what_has_an_owner_says_how_to_carry_it_elsewhere(tmp_path, carry):
    context = Context()
    context.add({"role": "user", "content": "hi"})
    with (
        Threads.open(tmp_path / "t.db", namespace="alice") as threads,
        Memory.open(tmp_path / "m.db", namespace="alice") as memory,
    ):
        for owned, remedy in (
            (context, r"a Context cannot .*context\.history"),
            (threads, r"a Threads store cannot .*its path"),
            (memory, r"a Memory cannot .*its path"),
            (context.store, r"a ContextStore cannot .*replay"),
            (HeldOriginals(), r"HeldOriginals cannot .*share this one"),
        ):
            with pytest.raises(InvalidArgumentError, match=remedy):
                carry(owned)
    other = Context()
    other.add(*context.history)
    assert other.prompt().messages == context.prompt().messages


def test_what_is_said_of_an_entry_after_a_compaction_has_its_index_in_the_history():
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    budget = Budget(soft_tokens=400)
    context = Context(provider="openai_chat", format="anthropic", budget=budget)
    for number in range(8):
        context.add({"role": "user", "content": f"Question {number}? " + "word " * 80})
        context.add({"role": "assistant", "content": f"Answer {number}. " + "word " * 80})
    context.prompt("And now?")
    assert context.usage.visible_entries < 17
    thinking = {"role": "assistant", "content": [thought, {"type": "text", "text": "So."}]}
    context.add(thinking)
    prompt = context.prompt("What?")
    (note,) = [each for each in prompt.ir.meta.degraded if "thinking" in each]
    assert note.endswith("first history[17]")
    assert context.history[17] is thinking

    context = Context(provider="openai_chat", format="openai_responses", budget=budget)
    context.add(*({"role": "user", "content": f"Question {n}? " + "word " * 80} for n in range(9)))
    context.prompt("And now?")
    context.add({"type": "compaction", "encrypted_content": "c3Vt"})
    with pytest.raises(InvalidMessageError, match="message 10: type 'compaction'"):
        context.prompt("What?")


ASKED = {"role": "user", "content": "Which berth is free?"}
CALL = {"name": "berths", "arguments": "{}"}
ONE_CALL = {
    "anthropic": [
        ASKED,
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "4"}]},
    ],
    "openai_chat": [
        ASKED,
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": CALL}]},
        {"role": "tool", "tool_call_id": "c", "content": "4"},
    ],
    "openai_responses": [
        ASKED,
        {"type": "function_call", "call_id": "c", **CALL},
        {"type": "function_call_output", "call_id": "c", "output": "4"},
    ],
    "bedrock": [
        {"role": "user", "content": [{"text": "Which berth is free?"}]},
        {
            "role": "assistant",
            "content": [{"toolUse": {"toolUseId": "c", "name": "f", "input": {}}}],
        },
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "c", "content": [{"text": "4"}]}}],
        },
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": "Which berth is free?"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"a": "4"}}}]},
    ],
}


@pytest.mark.parametrize("form", ONE_CALL)
def test_a_query_never_comes_between_a_call_and_its_result(form):
    asked, called, answered = ONE_CALL[form]
    context = Context(provider=form)
    context.add(asked, called)
    begun = context.prompt()
    with pytest.raises(InvalidArgumentError, match="add the results first, or leave query out"):
        context.prompt("And the next one?")
    with pytest.raises(InvalidArgumentError, match=r"message 1.*unanswered_tool_call"):
        anyio.run(context.aprompt, "And the next one?")
    assert context.history == [asked, called]
    context.add(answered)
    sent = context.prompt("And the next one?")
    assert validate(sent.messages, form) == []
    assert context.history[:2] == [asked, called]
    assert [each.digest for each in sent.segments][: len(begun.segments)] == [
        each.digest for each in begun.segments
    ]


def test_calls_that_were_left_open_before_are_said_and_do_not_refuse_a_query():
    asked, called, _ = ONE_CALL["anthropic"]
    context = Context(provider="anthropic")
    context.add(asked, called, {"role": "user", "content": "Stop."})
    assert any("unanswered_tool_call" in why for why in context.prompt("Go on.").ir.meta.degraded)


def test_what_a_prompt_left_out_is_a_source_of_any_other():
    context = Context(budget=Budget(soft_tokens=600))
    for berth in range(30):
        said = f"Berth {berth} is free for ships of {berth * 7} metres. " * 4
        context.add({"role": "user", "content": said})
        context.add({"role": "assistant", "content": "Noted. " * 30})
    context.prompt("Go on.")
    left_out = conversation(context.left_out)
    ir = hydrate("which berth is for ships of 21 metres?", left_out, timeout=None)
    best = max(ir.sections, key=lambda section: section.relevance)
    assert "Berth 3 is free" in best.content and ir.meta.degraded == ()
    with pytest.raises(InvalidArgumentError, match=r"pass a function, such as context\.left_out"):
        conversation(context)
