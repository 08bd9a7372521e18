"""A transcript of Claude Code is a tree: what was taken back isn't part of the conversation."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import rehydrate
from rehydrate import Context, compact_context, count_tokens, formats, validate
from rehydrate._native import merged_lines, transcript_branch
from rehydrate.formats import parse
from tests.formats.tree_twin import branch

Line = dict[str, Any]


def line(kind: str, uuid: str, parent: str | None, content: Any, **more: Any) -> Line:
    message = {"role": kind, "content": content}
    if "id" in more:
        message["id"] = more.pop("id")
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "message": message, **more}


def asks(uuid: str, parent: str | None, text: str = "", **more: Any) -> Line:
    return line("user", uuid, parent, text or f"Question {uuid}?", **more)


def says(uuid: str, parent: str | None, **more: Any) -> Line:
    return line("assistant", uuid, parent, [{"type": "text", "text": f"Answer {uuid}."}], **more)


def calls(uuid: str, parent: str | None, call: str, **more: Any) -> Line:
    block = {"type": "tool_use", "id": call, "name": "Read", "input": {}}
    return line("assistant", uuid, parent, [block], **more)


def answers(uuid: str, parent: str | None, call: str, **more: Any) -> Line:
    block = {"type": "tool_result", "tool_use_id": call, "content": f"found by {call}"}
    return line("user", uuid, parent, [block], **more)


def note(uuid: str, parent: str | None, **more: Any) -> Line:
    return {"type": "system", "uuid": uuid, "parentUuid": parent, "subtype": "note", **more}


def queued(uuid: str, parent: str | None, prompt: Any, **more: Any) -> Line:
    attachment = {"type": "queued_command", "prompt": prompt, "commandMode": "prompt", **more}
    return {"type": "attachment", "uuid": uuid, "parentUuid": parent, "attachment": attachment}


def names(lines: list[Line], *, sent: bool = False) -> list[str]:
    """Return the uuids of the conversation's lines, in the order of the file or as sent."""
    if sent:
        sources = [source for _, places in merged_lines(lines) for source in places]
        return [lines[index]["uuid"] for index in sources]
    return [lines[message.index]["uuid"] for message in parse(lines, "claude_code").messages]


REWOUND = [
    asks("u1", None),
    says("a1", "u1", id="m1"),
    asks("u2", "a1", "From now on, always use MongoDB."),
    says("a2", "u2", id="m2"),
    calls("a3", "a2", "t1", id="m2"),
    asks("u3", "a1", "From now on, always use SQLite."),
    says("a4", "u3", id="m3"),
]
PARALLEL = [
    asks("u1", None),
    calls("a1", "u1", "t1", id="m1"),
    calls("a2", "a1", "t2", id="m1"),
    calls("a3", "a2", "t3", id="m1"),
    answers("r1", "a1", "t1"),
    answers("r3", "a3", "t3"),
    answers("r2", "a2", "t2"),
    says("a4", "r2", id="m2"),
]


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (REWOUND, "u1 a1 u3 a4"),
        # To the very beginning.
        ([asks("u1", None), says("a1", "u1"), asks("u2", None), says("a2", "u2")], "u2 a2"),
        # Twice, and back through notes that the model never saw.
        (
            [
                asks("u1", None),
                says("a1", "u1"),
                note("n1", "a1"),
                asks("u2", "n1"),
                says("a2", "u2"),
                asks("u3", "n1"),
                says("a3", "u3"),
                note("n2", "a3"),
                asks("u4", "n2"),
                asks("u5", "n2"),
                says("a5", "u5"),
            ],
            "u1 a1 u3 a3 u5 a5",
        ),
        # Behind parallel calls, which stay whole.
        (
            [*PARALLEL, asks("u2", "a4"), says("b1", "u2"), asks("u3", "a4"), says("b2", "u3")],
            "u1 a1 a2 a3 r1 r3 r2 a4 u3 b2",
        ),
        # While parallel calls are still open.
        (PARALLEL[:6], "u1 a1 a2 a3 r1 r3"),
        # The whole round was taken back.
        ([*PARALLEL, asks("u2", None), says("b1", "u2")], "u2 b1"),
        # Texts that a tool and a hook add to a result that is off the way.
        (
            [
                *PARALLEL[:5],
                asks("s1", "r1", "# Skill", isMeta=True, sourceToolUseID="t1"),
                queued("q1", "r1", "Hurry."),
                *PARALLEL[5:],
            ],
            "u1 a1 a2 a3 r1 s1 q1 r3 r2 a4",
        ),
        # A compaction names what was before it by another key, or not at all.
        (
            [
                *REWOUND,
                note("b1", None, logicalParentUuid="a4") | {"subtype": "compact_boundary"},
                asks("c1", "b1", isCompactSummary=True),
                says("a5", "c1"),
            ],
            "u1 a1 u3 a4 c1 a5",
        ),
        (
            [*REWOUND, note("b1", None) | {"subtype": "compact_boundary"}, asks("c1", "b1")],
            "u1 a1 u3 a4 c1",
        ),
        (
            [*REWOUND, asks("c1", None, isCompactSummary=True), says("a5", "c1")],
            "u1 a1 u3 a4 c1 a5",
        ),
        # A file whose beginning is missing.
        (REWOUND[1:], "a1 u3 a4"),
        (REWOUND[2:], "u3 a4"),
        (REWOUND[3:], "a2 a3 u3 a4"),
        # A file that begins in the middle of parallel calls.
        (PARALLEL[2:], "a2 a3 r1 r3 r2 a4"),
        (PARALLEL[3:], "a3 r1 r3 r2 a4"),
        (PARALLEL[4:], "r1 r3 r2 a4"),
        # Lines that name no parent are read in the order of the file.
        ([{**each, "parentUuid": None} for each in REWOUND], "u1 a1 u2 a2 a3 u3 a4"),
        (
            [{key: each[key] for key in each if key != "parentUuid"} for each in REWOUND],
            "u1 a1 u2 a2 a3 u3 a4",
        ),
        # A subagent's lines in the same file aren't leaves.
        ([*REWOUND, says("x1", "a2", isSidechain=True)], "u1 a1 u3 a4"),
        # A file that was written twice.
        ([*REWOUND, *REWOUND[:3]], "u1 a1 u3 a4"),
        # A circle.
        ([asks("u1", "a1"), says("a1", "u1"), asks("u2", "a1")], "u1 a1 u2"),
    ],
)
def test_the_conversation_is_the_way_from_the_newest_leaf_to_the_root(
    lines: list[Line], kept: str
) -> None:
    assert names(lines) == kept.split()
    assert sorted(names(lines, sent=True)) == sorted(kept.split())
    dropped = {each["uuid"] for each in lines} - set(kept.split())
    ignored = parse(lines, "claude_code").ignored
    assert dropped <= {lines[index]["uuid"] for index in ignored}


def test_the_newest_leaf_is_the_newest_by_time_where_all_lines_tell_it() -> None:
    lines = [{**each, "timestamp": f"2026-09-01T10:00:0{n}.000Z"} for n, each in enumerate(REWOUND)]
    shuffled = [*lines[:2], *lines[5:], *lines[2:5]]
    assert names(shuffled) == ["u1", "a1", "u3", "a4"]
    assert names([*REWOUND[:2], *REWOUND[5:], *REWOUND[2:5]]) == ["u1", "a1", "u2", "a2", "a3"]


@pytest.mark.parametrize(
    ("order", "sent"),
    [
        ("u1 r1 a1 a2 u2", "u1 a1 r1 a2 u2"),
        ("r1 a1 u1 a2 u2", "u1 a1 r1 a2 u2"),
        ("u1 a1 a2 r1 u2", "u1 a1 r1 a2 u2"),
        ("u2 a2 r1 a1 u1", "u1 a1 r1 a2 u2"),
    ],
)
def test_lines_are_sent_in_the_order_of_the_tree(order: str, sent: str) -> None:
    lines = [
        asks("u1", None),
        calls("a1", "u1", "t1", id="m1"),
        answers("r1", "a1", "t1"),
        says("a2", "r1", id="m2"),
        asks("u2", "a2"),
    ]
    written = [next(each for each in lines if each["uuid"] == uuid) for uuid in order.split()]
    assert names(written, sent=True) == sent.split()
    assert validate(written) == []
    context = Context(provider="anthropic", format="claude_code")
    context.add(*written)
    assert validate(context.prompt("And now?").messages) == []


def test_a_result_that_is_written_late_is_sent_with_its_call() -> None:
    late = [*PARALLEL[:5], *PARALLEL[6:], PARALLEL[5]]
    assert validate(late) == []
    assert names(late, sent=True)[-1] == "a4"
    context = Context(provider="anthropic", format="claude_code")
    context.add(*late)
    assert validate(context.prompt("And now?").messages) == []


def test_every_reader_leaves_out_what_was_taken_back() -> None:
    active = [each for each in REWOUND if each["uuid"] in ("u1", "a1", "u3", "a4")]
    assert validate(REWOUND) == []
    assert count_tokens(REWOUND) == count_tokens(active)
    assert rehydrate.retention.read_session(REWOUND).messages == active
    for ratio in (0.3, 0.6, 0.9):
        kept = compact_context(REWOUND, target_ratio=ratio).messages
        assert kept == compact_context(active, target_ratio=ratio).messages
    loud = [*REWOUND[:5], answers("r1", "a3", "t1"), *REWOUND[5:]]
    loud[5]["message"]["content"][0]["content"] = "2026-09-01 10:00:00 INFO started\n" * 2_000
    assert rehydrate.lint(loud) == rehydrate.lint(active)


def test_a_context_sends_what_the_user_said_after_a_rewind() -> None:
    context = Context(provider="anthropic", format="claude_code")
    context.add(*REWOUND[:4])
    assert "MongoDB" in str(context.prompt().request)
    assert "MongoDB" in context.store.render(2_000)
    context.add(*REWOUND[4:])
    prompt = context.prompt("And the tests?")
    assert "MongoDB" not in str(prompt.request)
    assert "SQLite" in str(prompt.request)
    assert validate(prompt.messages) == []
    assert "MongoDB" not in context.store.render(2_000)
    assert "SQLite" in context.store.render(2_000)


def test_what_a_taken_back_rule_put_an_end_to_holds_again() -> None:
    context = Context(provider="anthropic", format="claude_code")
    context.add(asks("u1", None, "From now on, always use tabs for indentation."), says("a1", "u1"))
    context.add(asks("u2", "a1", "From now on, never use tabs for indentation."), says("a2", "u2"))
    assert [item.text for item in context.store.items("User Preferences")] == [
        "From now on, never use tabs for indentation."
    ]
    context.add(asks("u3", "a1", "Good, go on."), says("a3", "u3"))
    assert [item.text for item in context.store.items("User Preferences")] == [
        "From now on, always use tabs for indentation."
    ]
    context.add(asks("u4", "a3", "From now on, always write tests."))
    texts = [item.text for item in context.store.items("User Preferences")]
    assert texts[-1] == "From now on, always write tests."
    assert len({item.id for item in context.store.items()}) == len(context.store.items())


def test_a_stored_context_opens_without_what_was_taken_back(tmp_path: Path) -> None:
    def opened() -> Context:
        return Context.open(
            tmp_path / "threads.db",
            thread="t",
            namespace="me",
            provider="anthropic",
            format="claude_code",
        )

    with opened() as context:
        context.add(*REWOUND[:5])
        context.prompt()
    with opened() as context:
        context.add(*REWOUND[5:])
        request = str(context.prompt("And the tests?").request)
        assert "MongoDB" not in request
    with opened() as context:
        assert "MongoDB" not in context.store.render(2_000)
        assert "SQLite" in context.store.render(2_000)


# Messages queued while the agent works


def test_what_the_user_wrote_while_the_agent_worked_is_theirs() -> None:
    lines = [
        asks("u1", None),
        calls("a1", "u1", "t1", id="m1"),
        answers("r1", "a1", "t1"),
        queued("q1", "r1", "Never touch src/engine.rs."),
        says("a2", "q1", id="m2"),
    ]
    conversation = parse(lines)
    assert [message.role for message in conversation.messages] == [
        *("user", "assistant", "tool", "user", "assistant")
    ]
    assert conversation.messages[3].text == "Never touch src/engine.rs."
    assert conversation.messages[3].is_user_turn
    assert names(lines, sent=True) == ["u1", "a1", "r1", "q1", "a2"]
    assert lines[3] in compact_context(lines, target_ratio=0.5).messages


@pytest.mark.parametrize(
    "more",
    [{"commandMode": "task-notification"}, {"origin": {"kind": "peer"}}, {"origin": {"kind": "x"}}],
)
def test_what_the_harness_queued_is_seen_and_no_turn_of_the_user(more: Any) -> None:
    reported = queued("q1", "a1", "<task-notification>done</task-notification>", **more)
    lines = [asks("u1", None), says("a1", "u1", id="m1"), reported, says("a2", "q1", id="m2")]
    message = parse(lines).messages[2]
    assert message.text.startswith("<task-notification>")
    assert not message.is_user_turn
    assert parse(lines).pins() == {0: "last user turn"}


def test_a_queued_text_can_be_shortened_in_its_place() -> None:
    long = "\n".join(f"line {n}: the berth at quay {n} is free until noon" for n in range(200))
    lines = [
        asks("u1", None),
        says("a1", "u1"),
        queued("q1", "a1", [{"type": "text", "text": long}]),
    ]
    lines += [says("a2", "q1"), asks("u2", "a2", "Which berth?")]
    kept = compact_context(lines, target_ratio=0.3, granularity="excerpt", format="claude_code")
    (shown,) = [each for each in kept.messages if each["uuid"] == "q1"]
    assert len(shown["attachment"]["prompt"][0]["text"]) < len(long)
    assert lines[2]["attachment"]["prompt"][0]["text"] == long


# The laws


@st.composite
def forests(draw: Any) -> list[Line]:
    """Draw lines of which each hangs on any other, or on nothing that is there."""
    count = draw(st.integers(1, 9))
    lines: list[Line] = []
    for number in range(count):
        parent = draw(
            st.sampled_from([None, "gone", "gone too", *[f"l{each}" for each in range(count)]])
        )
        uuid = f"l{number}"
        made = draw(
            st.sampled_from(
                [
                    asks(uuid, parent),
                    asks(uuid, parent, isMeta=True),
                    asks(uuid, parent, isCompactSummary=True),
                    says(uuid, parent, id=draw(st.sampled_from(["m1", "m2"]))),
                    says(uuid, parent),
                    calls(uuid, parent, draw(st.sampled_from("ab")), id="m1"),
                    answers(uuid, parent, draw(st.sampled_from("ab"))),
                    note(uuid, parent),
                    note(uuid, parent) | {"subtype": "compact_boundary"},
                    queued(uuid, parent, "more"),
                    says(uuid, parent, isSidechain=True),
                ]
            )
        )
        if draw(st.booleans()):
            made["timestamp"] = draw(
                st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"])
            )
        if parent is None and draw(st.booleans()):
            del made["parentUuid"]
        if draw(st.integers(0, 9)) == 0:
            made["uuid"] = "l0"
        lines.append(made)
    return lines


@given(forests())
def test_the_branch_is_found_as_the_slow_twin_finds_it(lines: list[Line]) -> None:
    assert transcript_branch(lines) == branch(lines)


def test_what_hangs_on_a_circle_comes_behind_the_line_that_the_model_saw_in_it():
    lines = [asks("u1", "u3"), asks("u2", "n1"), asks("u3", "n1"), note("n1", "u2")]
    assert transcript_branch(lines) == branch(lines) == [1, 2, 0]
    more = asks("u2", "a1", isMeta=True)
    lines = [asks("u1", "n1"), says("a1", "n1", id="m1"), more, note("n1", "a1")]
    assert transcript_branch(lines) == branch(lines) == [1, 0, 2]


@given(forests())
def test_a_line_is_sent_behind_its_parent_and_nothing_is_sent_twice(lines: list[Line]) -> None:
    order = transcript_branch(lines)
    if order is None:
        return
    assert len(set(order)) == len(order)
    place = {lines[index]["uuid"]: position for position, index in enumerate(order)}
    for position, index in enumerate(order):
        parent = lines[index].get("parentUuid")
        assert place.get(parent, -1) < position or _is_in_a_circle(lines, index)


def _is_in_a_circle(lines: list[Line], index: int) -> bool:
    by_uuid = {each["uuid"]: each for each in reversed(lines)}
    seen: list[str] = []
    at: Any = lines[index]
    while at is not None and at["uuid"] not in seen:
        seen.append(at["uuid"])
        at = by_uuid.get(at.get("parentUuid"))
    return at is not None


@pytest.mark.parametrize("seed", range(40))
def test_whole_units_can_go_and_the_rest_is_still_read(seed: int) -> None:
    """A compaction leaves gaps in the tree; they must not look like branches."""
    draw = random.Random(seed)
    lines = a_long_session(draw)
    conversation = parse(lines)
    kept = [draw.random() < 0.6 for _ in conversation.units]
    indices = sorted(
        index
        for unit, keep in zip(conversation.units, kept, strict=True)
        if keep
        for index in unit.members
    )
    rest = [lines[index] for index in indices]
    if rest:
        assert names(rest) == [each["uuid"] for each in rest]
    ignored = [index for index in conversation.ignored if lines[index]["type"] == "system"]
    some = sorted([*indices, *draw.sample(ignored, len(ignored) // 2)])
    assert names([lines[index] for index in some]) == [each["uuid"] for each in rest]


def a_long_session(draw: random.Random) -> list[Line]:
    """Return a session with notes between lines, parallel calls, rewinds and swapped lines."""
    lines: list[Line] = []
    tips: list[str | None] = [None]
    for turn in range(20):
        at = draw.choice(tips[-4:]) if draw.random() < 0.2 else tips[-1]
        lines.append(asks(f"u{turn}", at))
        at = f"u{turn}"
        for step in range(draw.randint(0, 3)):
            results = []
            for number in range(draw.randint(1, 3)):
                uuid = f"a{turn}.{step}.{number}"
                lines.append(calls(uuid, at, f"t{uuid}", id=f"m{turn}.{step}"))
                results.append(answers(f"r{uuid}", uuid, f"t{uuid}"))
                at = uuid
            draw.shuffle(results)
            if draw.random() < 0.3:
                lines[-1], results[0] = results[0], lines[-1]
            lines += results
            at = lines[-1]["uuid"]
            if draw.random() < 0.5:
                lines.append(note(f"n{turn}.{step}", at))
                at = lines[-1]["uuid"]
        lines.append(says(f"s{turn}", at, id=f"m{turn}"))
        lines.append(note(f"e{turn}", f"s{turn}"))
        tips.append(f"e{turn}")
    return lines


def test_another_message_between_a_call_and_its_result_comes_after_them():
    def said(number: int, message: str, block: dict[str, Any]) -> dict[str, Any]:
        role = "user" if block["type"] == "tool_result" else "assistant"
        body = {"role": role, "content": [block]} | ({"id": message} if message else {})
        return {"type": role, "uuid": str(number), "message": body}

    def text(words: str) -> dict[str, Any]:
        return {"type": "text", "text": words}

    def call(name: str) -> dict[str, Any]:
        return {"type": "tool_use", "id": name, "name": "Read", "input": {}}

    def result(name: str) -> dict[str, Any]:
        return {"type": "tool_result", "tool_use_id": name, "content": "ok"}

    asked = {"type": "user", "uuid": "0", "message": {"role": "user", "content": "Look."}}
    rows = [("x", call("a")), ("y", text("So.")), ("y", call("c")), ("x", call("b"))]
    rows += [("", result("a")), ("", result("c")), ("", result("b")), ("z", text("Done."))]
    lines = [asked, *(said(n, *row) for n, row in enumerate(rows, 1))]
    assert validate(lines, "claude_code") == []
    merged = [message for message, _ in merged_lines(lines)]
    assert [each["role"] for each in merged] == ["user", *["assistant", "user"] * 2, "assistant"]
    assert [block["id"] for block in merged[1]["content"]] == ["a", "b"]
    assert merged[3]["content"] == [text("So."), call("c")]
    context = Context(format="claude_code", provider="anthropic")
    context.add(*lines[:-1])
    assert validate(context.prompt().messages, "anthropic") == []


def test_what_the_user_took_back_and_what_was_there_before_are_found_by_their_indices():
    said = {"role": "user", "content": "Use tabs."}
    lines = [{"type": "user", "uuid": "1", "parentUuid": "0", "message": said}]
    lines += [{"type": "user", "uuid": "2", "parentUuid": "0", "message": said}]
    assert formats.taken_back(lines, "claude_code") == {0}
    assert formats.repeated([*lines, lines[0]], "claude_code") == {2}
    rollout = [{"type": "response_item", "payload": {"type": "message", **said}}] * 2
    event = {"type": "thread_rolled_back", "num_turns": 1}
    rollout.append({"type": "event_msg", "payload": event})
    assert formats.taken_back(rollout, "codex") == {1, 2}
    assert formats.taken_back(rollout, "plain") == formats.repeated(rollout, "codex") == set()
