"""validate(after, sent=before) finds thinking whose prefix is not what was sent."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from rehydrate import validate
from tests.strategies import Entry

RULE = "thinking_after_changed_prefix"


def thought(name: str) -> Entry:
    return {"type": "thinking", "thinking": "", "signature": name}


def user(text: str) -> Entry:
    return {"role": "user", "content": text}


def answer(name: str) -> Entry:
    said = {"type": "text", "text": f"What {name} led to."}
    return {"role": "assistant", "content": [thought(name), said]}


SENT = [user("one"), answer("a"), user("two"), answer("b"), user("three")]
AFTER = [*SENT, answer("c"), user("four")]
TOOLS = [{"name": "get", "input_schema": {"type": "object"}}]


def stale(after: Any, sent: Any = SENT, **how: Any) -> list[int]:
    """Return the indices of messages whose thinking is refused."""
    found = validate(after, "anthropic", sent=sent, **how)
    return [violation.index for violation in found if violation.rule == RULE]


def bare(entry: Entry) -> Entry:
    """Return a message without its thinking."""
    return {**entry, "content": entry["content"][1:]}


def request(messages: list[Entry], **more: Any) -> Entry:
    return {"system": "Be brief.", "tools": TOOLS, "messages": messages, **more}


def test_what_only_grows_is_taken():
    assert stale(AFTER) == []
    assert stale(request(AFTER), request(SENT)) == []
    assert stale(SENT[:3]) == []  # back to an earlier question


def test_without_what_was_sent_nothing_is_said_of_it():
    assert validate([user("another"), *AFTER[1:]], "anthropic") == []


@pytest.mark.parametrize(
    ("after", "refused"),
    [
        ([user("another"), *AFTER[1:]], [1, 3, 5]),
        ([*AFTER[:2], user("another"), *AFTER[3:]], [3, 5]),
        (AFTER[2:], [1, 3]),
        ([*AFTER[:2], *AFTER[4:]], [3]),
        ([user("First of all"), *AFTER], [2, 4, 6]),
    ],
)
def test_thinking_after_an_edited_missing_or_new_message_is_refused(after, refused):
    assert stale(after) == refused


@pytest.mark.parametrize(
    "changed",
    [{"system": "Be long."}, {"tools": []}, {"tools": [*TOOLS, {"name": "more"}]}],
)
def test_all_thinking_is_after_system_and_tools(changed):
    assert stale(request(AFTER, **changed), request(SENT)) == [1, 3, 5]
    assert stale(request(AFTER, **changed), SENT) == []  # only one side has them


def test_what_is_no_part_of_the_prefix_may_change():
    marked = copy.deepcopy(request(AFTER))
    marked["messages"][1]["content"][1]["cache_control"] = {"type": "ephemeral"}
    marked["tools"][0]["cache_control"] = {"type": "ephemeral"}
    marked["system"] = [{"type": "text", "text": "Be brief."}]
    marked["tools"].append({"name": "later", "defer_loading": True})
    marked["max_tokens"] = 7
    assert stale(marked, request(SENT)) == []


def test_thinking_may_go_from_the_front_and_from_the_end_but_leaves_no_gap():
    one, a, two, b, three, c, four = AFTER
    assert stale([one, bare(a), two, b, three, c, four]) == []
    assert stale([one, a, two, bare(b), three, bare(c), four]) == []
    assert stale([one, bare(a), two, bare(b), three, bare(c), four]) == []
    assert stale([one, a, two, bare(b), three, c, four]) == [5]
    # Nor may it come back.
    gone = [one, bare(a), two, b, three]
    assert stale(AFTER, gone) == [3, 5]


def test_new_thinking_answers_what_was_sent_and_nothing_else():
    reply = answer("c")
    assert stale([*SENT, reply]) == []
    assert stale([*SENT[:-1], reply]) == [4]
    assert stale([*SENT, user("by the way"), reply]) == [6]
    assert stale([*SENT, bare(reply), user("four"), answer("d")]) == []


def test_thinking_right_after_what_is_missing_is_refused():
    sent = [user("one"), bare(answer("a")), user("two"), answer("b"), user("three")]
    assert stale([*sent, answer("c")], sent) == []
    assert stale([*sent[:2], *sent[3:]], sent) == [2]


def test_a_message_of_thinking_alone_may_go_and_is_no_gap_at_the_end():
    only = {"role": "assistant", "content": [thought("b")]}
    sent = [user("one"), answer("a"), user("two"), only, user("three")]
    assert stale([*sent[:3], sent[4], user("four")], sent) == []
    assert stale([*sent[:3], sent[4], answer("c")], sent) == [4]


def test_a_summary_of_the_apis_own_counts_for_what_it_replaces():
    summary = {"role": "assistant", "content": [{"type": "compaction", "content": "So far."}]}
    assert stale([summary, *SENT[3:], answer("c"), user("four")]) == []
    assert stale([summary, *SENT[2:], answer("c")]) == []
    assert stale([summary, user("another"), *SENT[3:]]) == [2]
    assert stale([summary, user("new"), answer("c"), user("four")]) == []
    # Another's summary is a change like any other.
    assert stale([user("So far: one."), *SENT[3:], answer("c")]) == [1, 3]
    # After it, later thinking depends on it.
    later = [summary, *SENT[3:], answer("c"), user("four")]
    assert stale([*later, answer("d")], later) == []
    assert stale([summary, SENT[3], user("other"), *later[3:], answer("d")], later) == [3, 5]


def test_it_depends_on_the_model_and_an_unknown_claude_binds():
    edited = [user("another"), *AFTER[1:]]
    assert stale(edited, model="claude-opus-5-5") == [1, 3, 5]
    assert stale(edited, model="") == [1, 3, 5]
    assert stale(edited, model="claude-opus-4-8") == []


def test_other_formats_are_compared_in_their_own_shape():
    def lines(entries: list[Entry]) -> list[Entry]:
        return [{"type": e["role"], "uuid": str(n), "message": e} for n, e in enumerate(entries)]

    edited = [user("another"), *AFTER[1:]]
    found = validate(lines(edited), sent=lines(SENT))
    assert [violation.index for violation in found] == [1, 3, 5]
    assert validate(lines(AFTER), sent=lines(SENT)) == []

    def chat(entries: list[Entry]) -> list[Entry]:
        return [
            {"role": e["role"], "content": e["content"]}
            if e["role"] == "user"
            else {
                "role": "assistant",
                "content": e["content"][1]["text"],
                "thinking_blocks": e["content"][:1],
            }
            for e in entries
        ]

    found = validate(chat(edited), "openai_chat", sent=chat(SENT))
    assert [violation.index for violation in found] == [1, 3, 5]
    assert validate(chat(AFTER), "openai_chat", sent=chat(SENT)) == []
