"""Validators find a violation inserted into any valid conversation, and only that one."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from rehydrate.formats import openai_to_langchain, parse, validate
from tests.strategies import (
    anthropic_conversations,
    openai_chat_conversations,
    openai_responses_items,
)

Round = list[dict[str, Any]]
Mutation = tuple[Callable[[Round], None], list[tuple[int, str]]]

# Each mutation changes a round and lists the violations it causes, by index in the round.

ANTHROPIC_ROUND: Round = [
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "planted_1", "name": "Read", "input": {}},
            {"type": "tool_use", "id": "planted_2", "name": "Read", "input": {}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "planted_2", "content": "two"},
            {"type": "tool_result", "tool_use_id": "planted_1", "content": "one"},
            {"type": "text", "text": "and now?"},
        ],
    },
    {"role": "assistant", "content": "Done."},
]
ANTHROPIC: dict[str, Mutation] = {
    "drop one result": (lambda r: r[1]["content"].pop(0), [(0, "unanswered_tool_call")]),
    "drop all results": (
        lambda r: r[1].update(content="never mind"),
        [(0, "unanswered_tool_call"), (0, "unanswered_tool_call")],
    ),
    "drop one call": (lambda r: r[0]["content"].pop(), [(1, "tool_result_without_call")]),
    "swap call and results": (
        lambda r: r.insert(0, r.pop(1)),
        [
            *[(0, "tool_result_without_call")] * 2,
            *[(1, "unanswered_tool_call")] * 2,
        ],
    ),
    "use an id twice": (
        lambda r: r[0]["content"][2].update(id="planted_1"),
        [(0, "duplicate_id"), (1, "tool_result_without_call"), (0, "unanswered_tool_call")],
    ),
    "answer twice": (
        lambda r: r[1]["content"].insert(0, copy.deepcopy(r[1]["content"][0])),
        [(1, "duplicate_result")],
    ),
    "put the text first": (
        lambda r: r[1]["content"].insert(0, r[1]["content"].pop()),
        [(1, "results_not_first"), (1, "results_not_first")],
    ),
    "split the results": (
        lambda r: r.insert(1, {"role": "user", "content": [r[1]["content"].pop(0)]}),
        [(2, "results_not_together")],
    ),
    "empty a text": (lambda r: r[0]["content"][0].update(text=""), [(0, "empty_text")]),
    "blank a message": (lambda r: r[2].update(content=" \n"), [(2, "empty_text")]),
    "empty a message": (lambda r: r[2].update(content=[]), [(2, "empty_content")]),
    "rename the role": (lambda r: r[2].update(role="critic"), [(2, "unknown_role")]),
}

OPENAI_ROUND: Round = [
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "planted_1", "type": "function", "function": {"name": "f", "arguments": ""}},
            {"id": "planted_2", "type": "function", "function": {"name": "f", "arguments": ""}},
        ],
    },
    {"role": "tool", "tool_call_id": "planted_2", "content": "two"},
    {"role": "tool", "tool_call_id": "planted_1", "content": "one"},
    {"role": "assistant", "content": "Done."},
]
OPENAI: dict[str, Mutation] = {
    "drop one result": (lambda r: r.pop(1), [(0, "unanswered_tool_call")]),
    "drop one call": (lambda r: r[0]["tool_calls"].pop(), [(1, "tool_message_without_call")]),
    "drop the calls": (
        lambda r: r[0].pop("tool_calls"),
        [
            (0, "null_content_without_calls"),
            (1, "tool_message_without_call"),
            (2, "tool_message_without_call"),
        ],
    ),
    "swap a result and what follows": (
        lambda r: r.insert(2, r.pop()),
        [(0, "unanswered_tool_call"), (3, "tool_message_without_call")],
    ),
    "use an id twice": (
        lambda r: r[0]["tool_calls"][1].update(id="planted_1"),
        [(0, "duplicate_id"), (1, "tool_message_without_call")],
    ),
    "answer twice": (lambda r: r.insert(1, dict(r[1])), [(2, "duplicate_result")]),
    "lose an id": (
        lambda r: r[1].update(tool_call_id=None),
        [(1, "tool_message_without_call"), (0, "unanswered_tool_call")],
    ),
    "null a message": (lambda r: r[3].update(content=None), [(3, "null_content_without_calls")]),
    "empty the calls": (lambda r: r[3].update(tool_calls=[]), [(3, "empty_tool_calls")]),
    "rename the role": (lambda r: r[3].update(role="critic"), [(3, "unknown_role")]),
}

RESPONSES_ROUND: Round = [
    {"type": "reasoning", "id": "planted_rs", "summary": [], "encrypted_content": "b3BhcXVl"},
    {"type": "function_call", "call_id": "planted_1", "name": "f", "arguments": "{}"},
    {"type": "custom_tool_call", "call_id": "planted_2", "name": "f", "input": "x"},
    {"type": "custom_tool_call_output", "call_id": "planted_2", "output": "two"},
    {"type": "function_call_output", "call_id": "planted_1", "output": "one"},
    {"role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
]
RESPONSES: dict[str, Mutation] = {
    "drop one output": (lambda r: r.pop(3), [(2, "unanswered_tool_call")]),
    "drop one call": (lambda r: r.pop(1), [(3, "tool_result_without_call")]),
    "drop the calls": (
        lambda r: r.__delitem__(slice(1, 3)),
        [
            (0, "reasoning_without_item"),
            (1, "tool_result_without_call"),
            (2, "tool_result_without_call"),
        ],
    ),
    "put an output before its call": (
        lambda r: r.insert(1, r.pop(4)),
        [
            (0, "reasoning_without_item"),
            (1, "tool_result_without_call"),
            (2, "unanswered_tool_call"),
        ],
    ),
    "pair by the item's id": (
        lambda r: (r[1].update(id="fc_1"), r[4].update(call_id="fc_1")),
        [(1, "unanswered_tool_call"), (4, "tool_result_without_call")],
    ),
    "use a call id twice": (
        lambda r: r[2].update(call_id="planted_1"),
        [(2, "duplicate_id"), (3, "tool_result_without_call"), (1, "unanswered_tool_call")],
    ),
    "repeat an item": (
        lambda r: r.insert(1, dict(r[0])),
        [(1, "duplicate_id")],
    ),
    "answer twice": (lambda r: r.insert(4, dict(r[3])), [(4, "duplicate_result")]),
    "lose the id of an output": (
        lambda r: r[3].pop("call_id"),
        [(3, "missing_id"), (2, "unanswered_tool_call")],
    ),
    "lose the id of a call": (
        lambda r: r[2].update(call_id=None),
        [(2, "missing_id"), (3, "tool_result_without_call")],
    ),
    "lose the summary": (lambda r: r[0].pop("summary"), [(0, "reasoning_without_summary")]),
    "speak with the user's part": (
        lambda r: r[5]["content"][0].update(type="input_text"),
        [(5, "misplaced_block")],
    ),
    "null a message": (lambda r: r[5].update(content=None), [(5, "null_content_without_calls")]),
    "rename the role": (
        lambda r: r[5].update(role="critic"),
        [(5, "misplaced_block"), (5, "unknown_role")],
    ),
}


def planted(conversation: Round, round_: Round, mutation: Mutation) -> tuple[Round, list[Any]]:
    """Return the mutated round near the start of the conversation, and the broken indices."""
    mutate, violations = mutation
    round_ = copy.deepcopy(round_)
    mutate(round_)
    head = conversation[:1] if conversation[0].get("role") in ("system", "developer") else []
    rest = conversation[len(head) :]
    head = [*head, {"role": "user", "content": "hi"}]
    expected = sorted((len(head) + place, rule) for place, rule in violations)
    return [*head, *round_, {"role": "user", "content": "go on"}, *rest], expected


PLANTED = {
    "anthropic": (anthropic_conversations, ANTHROPIC_ROUND, ANTHROPIC),
    "openai_chat": (openai_chat_conversations, OPENAI_ROUND, OPENAI),
    "openai_responses": (openai_responses_items, RESPONSES_ROUND, RESPONSES),
}


@pytest.mark.parametrize("format", PLANTED)
@settings(max_examples=20)
@given(data=st.data())
def test_validation_finds_what_a_mutation_broke(format, data):
    strategy, round_, mutations = PLANTED[format]
    conversation = data.draw(strategy(max_turns=3))
    for name, mutation in mutations.items():
        entries, expected = planted(conversation, round_, mutation)
        found = [(violation.index, violation.rule) for violation in validate(entries, format)]
        assert sorted(found) == expected, name


# Every single deletion and doubling in a round, and every subset of the units that remain.


@pytest.mark.parametrize("doubled", [False, True], ids=["deleted", "doubled"])
@pytest.mark.parametrize(
    ("name", "place"),
    [
        *(("anthropic", place) for place in range(len(ANTHROPIC_ROUND))),
        *(("openai_chat", place) for place in range(len(OPENAI_ROUND))),
        *(("langchain", place) for place in range(len(OPENAI_ROUND))),
        *(("openai_responses", place) for place in range(len(RESPONSES_ROUND))),
    ],
)
def test_whole_units_of_a_damaged_round_can_go_without_new_violations(name, place, doubled):
    rounds = {"anthropic": ANTHROPIC_ROUND, "openai_responses": RESPONSES_ROUND}
    entries: list[Any] = [
        {"role": "user", "content": "hi"},
        *copy.deepcopy(rounds.get(name, OPENAI_ROUND)),
        {"role": "user", "content": "go on"},
    ]
    if name == "langchain":
        entries = openai_to_langchain(entries)
    if doubled:
        entries.insert(place + 1, copy.deepcopy(entries[place + 1]))
    else:
        del entries[place + 1]
    units = parse(entries, name).units
    before = _violations(entries, name)
    for kept in product([False, True], repeat=len(units)):
        indices = sorted(
            index for unit, keep in zip(units, kept, strict=True) if keep for index in unit.members
        )
        after = _violations([entries[index] for index in indices], name)
        assert Counter(indices[index] for index in after.elements()) <= before


def _violations(entries: Round, name: str) -> Counter[int]:
    """Count the rules that each entry breaks; the rule about the first message is about no unit."""
    found = validate(entries, name)
    return Counter(broken.index for broken in found if broken.rule != "first_not_user")
