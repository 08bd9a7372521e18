"""Archive(novel=True): a dropped unit becomes a memory if memory does not hold it yet."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from rehydrate import compact_context
from rehydrate.compact import Archive
from rehydrate.compact.archive import kind_of
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory import Memory
from tests.compact.cases import FixedMemory, talk
from tests.memory.plain import PlainStore

NOVEL = Archive(dropped=False, novel=True)

LONG = "is what the notes of the meeting on Tuesday said about it"
ASIDE = "Now something else that has nothing to do with it at all."


@pytest.fixture
def memory() -> Memory:
    return Memory(PlainStore(), namespace="alice")


def drop_all(memory: Any, *lines: str, **options: Any) -> Any:
    """Compact a talk to its end alone, which is not worth a memory."""
    given = {"budget_tokens": 0, "memory": memory, "archive": NOVEL} | options
    # What the assistant said last would be kept as the reply that the user answers.
    is_answered = any(line.startswith("assistant: ") for line in lines)
    end = ("user: Well.", "assistant: Yes.", "user: Go on.") if is_answered else ("user: Go on.",)
    return compact_context(talk(*lines, *end), **given)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("user: No, the port of the staging server is 8443, not 8080.", "correction"),
        ("user: That's wrong, the meeting was moved to Thursday morning.", "correction"),
        ("assistant: Actually, the file is read twice before it is written.", "correction"),
        ("user: I prefer tabs over spaces in all of my Makefiles, thanks.", "preference"),
        ("user: Please never push directly to the main branch of this one.", "preference"),
        ("user: I always run the whole test suite before I commit a thing.", "habit"),
        ("assistant: You usually deploy on Fridays, as the log of it shows.", "habit"),
        ("assistant: The root cause is a stale lock file of an older run.", "wisdom"),
        ("assistant: Lesson: measure first, and only then change the code.", "wisdom"),
        ("user: The root cause is a stale lock file of an older run, I think.", "episode"),
        ("user: My order number is 81-4471 and it was placed last Tuesday.", "episode"),
        ("tool: I prefer, I always, no, actually: a tool has no wishes at all.", "episode"),
        ("user: No, I always prefer the shorter of two names where I can choose.", "correction"),
        ("user: I prefer what I always do: the shorter of two possible names.", "preference"),
    ],
)
def test_the_kind_goes_by_the_first_cue(memory: Memory, line: str, kind: str):
    stats = drop_all(memory, line).stats
    (item,) = memory.list()
    assert (item.kind, item.text) == (kind, line.partition(": ")[2])
    assert (stats.distilled, stats.distilled_kinds) == (1, {kind: 1})


def test_a_typographers_apostrophe_is_an_apostrophe():
    assert kind_of("That\u2019s wrong.", is_assistant=False) == "correction"


def test_what_it_is_from_stands_with_it(memory: Memory):
    drop_all(
        memory,
        f"user: The budget {LONG}",
        f"assistant: {ASIDE}",
        archive=Archive(False, novel=True, thread="meeting-7"),
    )
    newest, oldest = memory.list()
    assert {newest.source, oldest.source} == {"conversation/meeting-7"}
    assert {newest.thread, oldest.thread} == {"meeting-7"}
    assert {newest.tool, oldest.tool} == {"compact_context"}
    assert [item.metadata for item in (oldest, newest)] == [
        {"role": "user", "index": 0},
        {"role": "assistant", "index": 1},
    ]
    assert oldest.trust > newest.trust


def test_a_conversation_without_a_name_has_one_that_lasts_while_it_grows(memory: Memory):
    drop_all(memory, f"user: The budget {LONG}")
    drop_all(memory, f"user: The budget {LONG}", f"assistant: {ASIDE}")
    drop_all(memory, "user: A third thing, of which nobody has ever spoken before.")
    threads = [item.thread for item in memory.list(newest_first=False)]
    assert threads[0] == threads[1] != threads[2]


def test_a_transcript_brings_its_own_name_and_times(memory: Memory):
    entries = [
        {
            "type": "user",
            "sessionId": "s-81",
            "timestamp": "2026-02-17T08:30:00.125Z",
            "message": {"role": "user", "content": text},
        }
        for text in (f"The budget {LONG}", "Go on.")
    ]
    compact_context(entries, budget_tokens=0, memory=memory, archive=NOVEL)
    (item,) = memory.list()
    assert item.thread == "s-81"
    assert item.time is not None
    assert item.time.isoformat() == "2026-02-17T08:30:00.125000+00:00"


@pytest.mark.parametrize("coverage", [0.0, 0.25, 0.4999])
def test_confidence_falls_with_what_memory_held_already(coverage: float):
    memory = Known([coverage, 1.0])
    drop_all(memory, f"user: The budget {LONG}")
    (item,) = memory.added
    assert item.confidence == pytest.approx(0.5 + 0.25 * (1 - coverage))


@pytest.mark.parametrize("coverage", [0.5, 0.8, 1.0])
def test_what_memory_holds_at_least_half_is_not_written_again(coverage: float):
    memory = Known([coverage, 1.0])
    assert drop_all(memory, f"user: The budget {LONG}").stats.distilled == 0
    assert memory.added == []


def test_forty_bytes_are_enough_and_fewer_are_not(memory: Memory):
    drop_all(memory, "user: " + "é" * 19 + "a")
    assert memory.list() == []
    drop_all(memory, "user: " + "é" * 20)
    assert [item.text for item in memory.list()] == ["é" * 20]


@given(st.text(alphabet="aé€🙂 ", min_size=600, max_size=700))
def test_at_most_six_hundred_bytes_are_kept_and_no_character_is_cut(text: str):
    memory = Memory(PlainStore(), namespace="alice", redact=False)
    drop_all(memory, "user: " + text)
    for item in memory.list():
        assert len(item.text.encode()) <= 600
        assert text.strip().startswith(item.text)
        rest = text.strip().removeprefix(item.text)
        assert not rest or len((item.text + rest[0]).encode()) > 600


def test_system_messages_and_what_is_kept_are_not_written(memory: Memory):
    drop_all(memory, f"system: You are careful. {LONG}", f"user: The budget {LONG}", pin=[1])
    assert memory.list() == []


def test_thinking_is_nobodys_news(memory: Memory):
    messages = [
        *talk("user: Hello there, what about the budget?"),
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "They want the budget.", "signature": "c2ln"},
                {"type": "text", "text": f"The budget {LONG}"},
            ],
        },
        *talk("user: Well.", "assistant: Yes.", "user: Go on."),
    ]
    compact_context(messages, budget_tokens=0, memory=memory, archive=NOVEL)
    assert [item.text for item in memory.list(newest_first=False)][-1] == f"The budget {LONG}"


def test_a_call_and_its_results_are_one_memory(memory: Memory):
    call = {"id": "1", "type": "function", "function": {"name": "read", "arguments": '{"a": 1}'}}
    messages = [
        *talk("user: Hello there."),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": f"The budget {LONG}"},
        *talk("assistant: Done.", "user: Go on."),
    ]
    compact_context(messages, budget_tokens=0, memory=memory, archive=NOVEL)
    (item,) = memory.list()
    assert item.kind == "episode"
    assert "read" in item.text
    assert item.text.endswith(LONG)


def test_repeating_the_call_stores_nothing_twice(memory: Memory):
    lines = [f"user: Topic {n} {LONG}, and it has number {n}{n}." for n in range(6)]
    first = drop_all(memory, *lines).stats
    held = memory.list(limit=None)
    again = drop_all(memory, *lines).stats
    assert (first.distilled, again.distilled) == (6, 0)
    assert again.distilled_kinds == {}
    assert memory.list(limit=None) == held


def test_half_a_secret_is_not_remembered_either(memory: Memory):
    secret = "postgres://app:" + "s3cr3t" * 20 + "@db.example.com/main"
    drop_all(memory, f"user: {'x' * 560} {secret} and more after it")
    (item,) = memory.list()
    assert "s3cr3t" not in item.text
    assert item.text.startswith("x" * 560 + " postgres://app:[redacted:")


def test_the_label_of_a_secret_is_among_the_items_redactions(memory: Memory):
    drop_all(memory, "user: The key is AKIAIOSFODNN7EXAMPLE and it is valid until May.")
    (item,) = memory.list()
    ((name, start, end),) = item.redactions
    assert item.text[start:end] == f"[redacted:{name}]"


@pytest.mark.parametrize("archive", [True, NOVEL, Archive(episode=True)])
def test_writing_needs_a_memory_that_can_be_written_to(archive: bool | Archive):
    with pytest.raises(InvalidArgumentError, match=r"archive is .*, but there is no memory .*;"):
        compact_context(talk("user: hi"), archive=archive)
    with pytest.raises(InvalidArgumentError, match=r"which has no add; pass a rehydrate\.Memory"):
        compact_context(talk("user: hi"), memory=FixedMemory([0.0]), archive=archive)


@pytest.mark.parametrize("archive", [1, None, "dropped", {"dropped": True}])
def test_what_is_no_archive_is_refused(archive: Any):
    with pytest.raises(
        InvalidArgumentError, match=r"archive is .*; pass True, False or an Archive"
    ):
        compact_context(talk("user: hi"), archive=archive)


@pytest.mark.parametrize("name", ["dropped", "novel", "episode"])
def test_the_parts_of_an_archive_are_true_or_false(name: str):
    with pytest.raises(InvalidArgumentError, match=f"{name} is 1; pass True or False"):
        Archive(**{name: 1})


def test_an_archive_of_nothing_is_refused():
    with pytest.raises(InvalidArgumentError, match="pass archive=False to write nothing"):
        Archive(dropped=False)


@pytest.mark.parametrize("thread", ["", 7, "\ud800"])
def test_a_thread_is_a_name(thread: Any):
    with pytest.raises(InvalidArgumentError, match="thread is "):
        Archive(thread=thread)


class Known(FixedMemory):
    """Covers what it is told to, and notes what is written."""

    def __init__(self, coverage: list[float]) -> None:
        super().__init__(coverage)
        self.added: list[Any] = []

    def add(self, items: Any) -> list[Any]:
        from rehydrate.memory import Added

        self.added += items
        return [Added(f"mem_{n}", True) for n, _ in enumerate(items)]
