"""Archive(novel=True): a dropped unit becomes a memory if memory does not hold it yet."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from rehydrate import Context, Scoring, _native, compact_context, formats
from rehydrate.compact import Archive
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory import Memory
from rehydrate.process import clear_cache
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
    # The assistant's last message would be kept as the reply that the user answers.
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
    said = formats.parse([{"role": "user", "content": "That\u2019s wrong."}])
    assert _native.unit_memory(said, 0, 600) == ("That\u2019s wrong.", "correction")


def test_its_origin_is_with_it(memory: Memory):
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
    """Covers what it is asked to, and notes what is written."""

    def __init__(self, coverage: list[float]) -> None:
        super().__init__(coverage)
        self.added: list[Any] = []

    def add(self, items: Any) -> list[Any]:
        from rehydrate.memory import Added

        self.added += items
        return [Added(f"mem_{n}", True) for n, _ in enumerate(items)]


# The rules of a user survive: plain prose, in any turn and next to results.


RULES = (
    "Never send anything to customers without my approval.",
    "Our budget is 500 dollars in total.",
    "Please use tabs instead of spaces.",
    "I prefer short answers.",
    "Lösche niemals Kundendaten.",
    "Ne supprime jamais les sauvegardes.",
    "No más de tres intentos.",
    "Не трогай основную ветку.",
    "לעולם אל תמחק גיבויים.",
    "不要删除日志文件。",
    "試行は最大三回までです。",
    "अधिकतम तीन प्रयास।",
)


def small_talk(messages: int) -> list[dict[str, Any]]:
    """A chat whose every message has names and numbers of its own, which is what coverage keeps."""
    return [
        {
            "role": ("user", "assistant")[number % 2],
            "content": f"The module part_{number} of src/box{number}.py took {number * 37} ticks "
            f"in run r{number}a, and the one before it, part_{number - 1}, took fewer; so it goes.",
        }
        for number in range(messages)
    ]


def with_rules(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A rule as a user turn of its own after every twentieth message."""
    planted = list(messages)
    for number, rule in reversed(list(enumerate(RULES))):
        planted.insert(20 * number + 2, {"role": "user", "content": rule})
    return planted


def read_results(steps: int, texts: dict[int, str]) -> list[dict[str, Any]]:
    """Tool calls in Anthropic's format; `texts` holds what the user says with a step's result."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Read the modules."}]
    for step in range(steps):
        call = {"type": "tool_use", "id": f"call{step}", "name": "read"}
        call["input"] = {"path": f"src/box{step}.py"}
        lines = "\n".join(f"row_{step}_{line} = part_{line * step}" for line in range(60))
        content = [{"type": "tool_result", "tool_use_id": f"call{step}", "content": lines}]
        if step in texts:
            content.append({"type": "text", "text": texts[step]})
        messages += [
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": content},
        ]
    return messages


def test_planted_rules_survive_without_a_query_or_pins():
    kept = compact_context(with_rules(small_talk(300)), target_ratio=0.1).messages
    texts = [message["content"] for message in kept]
    assert [rule for rule in RULES if rule not in texts] == []


def test_planted_rules_survive_a_query_about_something_else():
    messages = with_rules(small_talk(300))
    kept = compact_context(messages, "how many ticks did part_17 take?", 0.2).messages
    texts = [message["content"] for message in kept]
    assert [rule for rule in RULES if rule not in texts] == []


def test_planted_rules_survive_the_compaction_of_a_context():
    messages = with_rules(small_talk(300))
    context = Context(provider="openai_chat")
    context.add(*messages)
    ir = context.compact(compact_context(messages, target_ratio=0.2).stats.target_tokens)
    texts = [message["content"] for message in ir.history.entries]
    assert len(texts) < len(messages) / 2
    assert [rule for rule in RULES if rule not in texts] == []


@pytest.mark.parametrize("granularity", ["message", "excerpt"])
def test_a_rule_next_to_a_tool_result_survives(granularity: str):
    messages = read_results(60, {3: RULES[0], 9: RULES[4]})
    kept = compact_context(messages, target_ratio=0.2, granularity=granularity).messages
    kept_rules = [
        block["text"]
        for message in kept
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "text"
    ]
    assert kept_rules == [RULES[0], RULES[4]]


def test_the_paragraph_of_a_long_message_that_holds_a_rule_survives_in_an_excerpt():
    notes = [
        f"Paragraph {number} of the notes tells what the group saw on day {number} of the trip, "
        "from the harbour to the hill and back." * 2
        for number in range(80)
    ]
    notes[50] = RULES[0]
    messages = small_talk(100)
    messages.insert(10, {"role": "user", "content": "\n\n".join(notes)})
    kept = compact_context(messages, target_ratio=0.2, granularity="excerpt")
    (excerpt,) = [m["content"] for m in kept.messages if RULES[0] in m["content"]]
    assert len(excerpt) < len("\n\n".join(notes)) / 2


def test_the_reason_of_a_kept_rule_says_so():
    rows = compact_context(with_rules(small_talk(300)), target_ratio=0.1).explain()
    reasons = {row.preview: row.reason for row in rows if row.preview in RULES}
    assert set(reasons.values()) == {"rule of the user"}


@pytest.mark.parametrize(
    ("said", "is_rule"),
    [
        ("check order 7", False),
        ("Please go ahead and cancel order 7.", False),
        ("Bitte prüfe Bestellung 7.", False),
        ("Use 4 spaces.", True),
        ("Check order 7 before each shipment.", True),
    ],
)
def test_a_number_does_not_make_a_rule_of_an_order(said: str, is_rule: bool):
    messages = small_talk(40)
    messages.insert(4, {"role": "user", "content": said})
    rows = compact_context(messages, target_ratio=0.5).explain()
    (reason,) = [row.reason for row in rows if row.messages == (4,)]
    assert (reason == "rule of the user") is is_rule


def test_where_room_is_scarce_a_rule_that_was_replaced_goes_before_the_one_that_replaced_it():
    messages = small_talk(40)
    earlier = "The total budget of the journey must be 300 dollars."
    later = "The total budget of the journey must be 700 dollars."
    messages.insert(4, {"role": "user", "content": earlier})
    messages.insert(20, {"role": "user", "content": later})
    alone = 0
    for room in range(60, 400, 10):
        kept = [m["content"] for m in compact_context(messages, budget_tokens=room).messages]
        assert earlier not in kept or later in kept
        alone += later in kept and earlier not in kept
    assert alone


@pytest.mark.parametrize("scoring", ["chitta", Scoring(signals="raw")])
def test_the_raw_formula_knows_no_rules(scoring: str | Scoring):
    rows = compact_context(with_rules(small_talk(300)), target_ratio=0.1, scoring=scoring).explain()
    assert "rule of the user" not in {row.reason for row in rows}


def test_what_another_repeats_is_no_rule_though_the_cache_knows_it_as_one():
    rule = "Never push to the release branch without my approval."
    filler = [
        {"role": "assistant" if n % 2 else "user", "content": f"Boat {n} lies at berth {n * 3}."}
        for n in range(400)
    ]
    said_by_others = [*filler[:9], {"role": "assistant", "content": rule}, *filler[10:]]
    said_by_the_user = [*filler[:8], {"role": "user", "content": rule}, *filler[9:]]

    def reasons() -> list[str]:
        return [unit.reason for unit in compact_context(said_by_others, "", 0.2).explain()]

    clear_cache()
    before = reasons()
    assert 8 in compact_context(said_by_the_user, "", 0.2).indices
    assert reasons() == before
    assert "rule of the user" not in " ".join(before)
