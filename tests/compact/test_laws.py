"""The laws of compact_context: true of every format, profile, budget, query and pin."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings

import rehydrate
from rehydrate import _native, compact_context, formats, validate
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats import openai_to_langchain
from rehydrate.messages import Message, problems_of
from tests.compact.cases import Case, cases, figures
from tests.linting.conftest import prose
from tests.strategies import BY_FORMAT


def survivors_are_the_callers_objects_in_their_order_and_nothing_is_changed(
    case: Case, compaction: rehydrate.Compaction
):
    kept = case.kept(compaction)
    assert kept == sorted(set(kept))
    for entry, place in zip(compaction.messages, kept, strict=True):
        assert entry is case.entries[place] or place in case.cut()


def units_are_kept_or_dropped_whole(case: Case, compaction: rehydrate.Compaction):
    kept = set(case.kept(compaction))
    cut, wanted = case.cut(), []
    for row, unit in zip(compaction.explain(), case.read().units, strict=True):
        members = set(case.origins(unit.members))
        assert set(row.messages) == members
        assert kept.issuperset(members) if row.kept else kept.isdisjoint(members - cut)
        wanted += unit.messages if row.kept else ()
    assert _paired(formats.parse(compaction.messages, case.format).messages) == _paired(wanted)


def _paired(messages: Iterable[Message]) -> tuple[list[str], list[str]]:
    """The ids of all calls, and of all results."""
    found = [*messages]
    calls = sorted(call for message in found for call in message.calls)
    return calls, sorted(answer for message in found for answer in message.answers)


def the_budget_is_kept_or_only_pins_and_their_leader_are(
    case: Case, compaction: rehydrate.Compaction
):
    stats = compaction.stats
    assert stats.over_budget == (stats.after_tokens > stats.target_tokens)
    if stats.over_budget:
        assert _needless(case, compaction) == []


def _needless(case: Case, compaction: rehydrate.Compaction) -> list[str]:
    """The reasons of units kept although they are neither pinned nor the leader."""
    pins = case.pins()
    rows = [row for row in compaction.explain() if row.kept and row.unit not in pins]
    return [row.reason for row in rows if row.reason != "a user turn must come first"]


def system_last_user_turn_open_tool_loop_and_pins_are_always_kept(
    case: Case, compaction: rehydrate.Compaction
):
    conversation = case.read()
    kept = set(case.kept(compaction))
    for unit in case.pins():
        assert kept.issuperset(case.origins(conversation.units[unit].members))
    for message in conversation.messages:
        assert message.role != "system" or case.origins([message.index])[0] in kept


@given(cases())
def test_the_same_call_gives_the_same_result_with_a_warm_and_a_cold_cache(case: Case):
    first = case.compact()
    warm = case.compact()
    _native.clear_cache()
    cold = case.compact()
    for again in (warm, cold):
        assert case.kept(again) == case.kept(first)
        assert figures(again) == figures(first)
        assert again.explain().to_dict() == first.explain().to_dict()


def compacting_the_result_at_the_same_budget_changes_nothing(
    case: Case, compaction: rehydrate.Compaction
):
    # A pinned message is pinned again if it is one that a model sees.
    survivors = {id(message) for message in compaction.messages}
    pinned = [case.entries[place] for place in case.pinned]
    options = case.options | {"pin": [entry for entry in pinned if id(entry) in survivors]}
    options.pop("target_ratio", None)
    options["budget_tokens"] = compaction.stats.target_tokens
    twice = rehydrate.compact_context(compaction.messages, **options)
    assert list(map(id, twice.messages)) == list(map(id, compaction.messages))
    assert not twice.stats.changed
    assert twice.stats.before_tokens == twice.stats.after_tokens == compaction.stats.after_tokens


def a_valid_conversation_stays_valid(case: Case, compaction: rehydrate.Compaction):
    assert validate(compaction.messages, case.format) == []


@given(cases())
def test_a_valid_conversation_stays_valid_when_its_format_is_detected(case: Case):
    compaction = case.compact(format="auto")
    found = compaction.stats.format
    assert found == rehydrate.detect_format(case.entries)
    # Texts alone are plain, where a system message may be anywhere.
    assert validate(compaction.messages, found if found == "plain" else case.format) == []


@settings(max_examples=2 * settings().max_examples)
@given(cases(broken=True))
def test_a_damaged_conversation_comes_back_verbatim_in_the_budget_with_no_more_violations(
    case: Case,
):
    before = copy.deepcopy(case.entries)
    compaction = case.compact()
    kept = case.kept(compaction)
    assert kept == sorted(set(kept))
    assert case.entries == before
    if compaction.stats.after_tokens > compaction.stats.target_tokens:
        assert compaction.stats.over_budget
        assert _needless(case, compaction) == []
    violations = validate(compaction.messages, case.format)
    assert len(violations) <= len(validate(case.entries, case.format))


@given(cases())
def test_a_target_at_or_above_the_total_changes_nothing(case: Case):
    total = case.compact().stats.before_tokens
    for roomy in ({"budget_tokens": total}, {"budget_tokens": total + 1}):
        options = {k: v for k, v in case.options.items() if k != "target_ratio"} | roomy
        compaction = rehydrate.compact_context(case.entries, **options)
        _assert_unchanged(case, compaction)
    options = {k: v for k, v in case.options.items() if k != "budget_tokens"}
    _assert_unchanged(
        case, rehydrate.compact_context(case.entries, **(options | {"target_ratio": 1.0}))
    )


def _assert_unchanged(case: Case, compaction: rehydrate.Compaction) -> None:
    """All entries are there, also those that no model sees, in a list of its own."""
    assert list(map(id, compaction.messages)) == list(map(id, case.entries))
    assert compaction.messages is not case.entries
    stats = compaction.stats
    assert not stats.changed
    assert not stats.over_budget
    assert (stats.dropped, stats.dropped_pct, stats.dropped_messages_pct) == (0, 0.0, 0.0)
    assert compaction.dropped == ()


def the_target_is_the_floor_of_the_share_or_the_budget(
    case: Case, compaction: rehydrate.Compaction
):
    stats = compaction.stats
    if "target_ratio" in case.options:
        share = stats.before_tokens * case.options["target_ratio"]
        assert stats.target_tokens == math.floor(share + 1e-9)
    else:
        # Beyond any conversation a budget may be reported as what the core counts with.
        assert stats.target_tokens == min(case.options["budget_tokens"], 2**63)


def the_figures_add_up(case: Case, compaction: rehydrate.Compaction):
    conversation = case.read()
    stats, rows = compaction.stats, list(compaction.explain())
    # Some counters round up for each message, and so for each part of one.
    places = len(case.cut()) and len(conversation.messages)
    assert 0 <= sum(row.tokens for row in rows) - stats.before_tokens <= places
    assert 0 <= sum(row.tokens for row in rows if row.kept) - stats.after_tokens <= places
    assert stats.units == len(rows) == len(conversation.units)
    assert stats.ignored == len(conversation.ignored)
    spoken = {index for row in rows for index in row.messages}
    assert stats.dropped == len(spoken - {i for row in rows if row.kept for i in row.messages})
    pairs = zip(compaction.indices, compaction.messages, strict=True)
    assert stats.excerpted == sum(entry is not case.entries[index] for index, entry in pairs)
    assert stats.changed == (stats.dropped + stats.excerpted > 0)
    if stats.changed:
        assert stats.dropped + len(compaction.messages) == len(spoken)
    assert stats.dropped_pct == _percent(stats.before_tokens - stats.after_tokens, stats)
    if conversation.messages:
        share = 100 * stats.dropped / len(spoken)
        assert stats.dropped_messages_pct == round(share, 1)
    assert stats.pinned_tokens <= stats.after_tokens
    unknown = problems_of(formats.parse(case.entries, case.format).unknown)
    assert stats.degraded == unknown or case.options["embedder"] is None
    assert stats.format == case.format
    assert stats.elapsed_ms > 0


def _percent(part: int, stats: rehydrate.compact.Stats) -> float:
    return round(100 * part / stats.before_tokens, 1) if stats.before_tokens else 0.0


def a_changed_result_leaves_out_what_no_model_sees(case: Case, compaction: rehydrate.Compaction):
    ignored = set(case.read().ignored)
    kept = case.kept(compaction)
    assert ignored.isdisjoint(kept) if compaction.stats.changed else ignored.issubset(kept)


def every_dropped_message_has_one_record(case: Case, compaction: rehydrate.Compaction):
    messages = {case.origins([each.index])[0]: each for each in case.read().messages}
    gone = sorted(messages.keys() - set(case.kept(compaction)))
    assert [record.index for record in compaction.dropped] == gone
    rows = list(compaction.explain())
    for record in compaction.dropped:
        row = rows[record.unit]
        assert record.index in row.messages
        assert not row.kept
        assert record.reason == row.reason
        assert record.role == messages[record.index].role
    lost = sum(record.tokens for record in compaction.dropped)
    if not case.cut():
        assert lost == compaction.stats.before_tokens - compaction.stats.after_tokens


def the_wire_shape_is_json_for_json(case: Case, compaction: rehydrate.Compaction):
    wire = compaction.to_dict()
    assert set(wire) == {"messages", "stats"}
    assert wire["messages"] == compaction.messages
    if compaction.stats.format in ("bedrock", "langchain"):  # objects and bytes stay what they are
        return
    again = json.loads(json.dumps(wire))
    assert again["messages"] == compaction.messages
    assert again["stats"]["before_tokens"] == compaction.stats.before_tokens
    json.dumps(compaction.explain().to_dict())


LAWS = (
    survivors_are_the_callers_objects_in_their_order_and_nothing_is_changed,
    units_are_kept_or_dropped_whole,
    the_budget_is_kept_or_only_pins_and_their_leader_are,
    system_last_user_turn_open_tool_loop_and_pins_are_always_kept,
    compacting_the_result_at_the_same_budget_changes_nothing,
    a_valid_conversation_stays_valid,
    the_target_is_the_floor_of_the_share_or_the_budget,
    the_figures_add_up,
    a_changed_result_leaves_out_what_no_model_sees,
    every_dropped_message_has_one_record,
    the_wire_shape_is_json_for_json,
)


@settings(max_examples=2 * settings().max_examples)
@given(cases())
def test_the_laws_of_a_compaction_hold(case: Case):
    before = copy.deepcopy(case.entries)
    compaction = case.compact()
    for law in LAWS:
        law(case, compaction)
    assert case.entries == before


@given(cases())
def test_a_bigger_ratio_never_means_a_smaller_target(case: Case):
    options = {k: v for k, v in case.options.items() if k != "budget_tokens"}
    targets = [
        rehydrate.compact_context(case.entries, **(options | {"target_ratio": r})).stats
        for r in (0.05, 0.3, 0.9)
    ]
    assert [stats.target_tokens for stats in targets] == sorted(s.target_tokens for s in targets)


@given(cases(only="openai_chat"))
def test_greedy_packing_is_the_walk_best_score_first(case: Case):
    greedy = {"scoring": rehydrate.Scoring(packing="greedy")}
    case = case._replace(options=case.options | greedy)
    compaction = case.compact()
    rows = list(compaction.explain())
    kept = case.pins()
    left = compaction.stats.target_tokens - sum(rows[unit].tokens for unit in kept)
    for row in sorted(rows, key=lambda row: (max(row.score, 0.0), row.unit), reverse=True):
        if row.unit not in kept and row.tokens <= left:
            kept.add(row.unit)
            left -= row.tokens
    assert {row.unit for row in rows if row.kept} == kept


@pytest.mark.parametrize("name", [*sorted(BY_FORMAT), "auto"])
def test_nothing_comes_of_nothing(name: str):
    compaction = rehydrate.compact_context([], "a query", format=name)
    assert compaction.messages == []
    assert compaction.dropped == ()
    assert list(compaction.explain()) == []
    stats = figures(compaction)
    texts = {key: stats.pop(key) for key in ("counter", "format", "degraded")}
    assert not any(stats.values())
    assert texts == {
        "counter": "o200k_base",
        "format": "plain" if name == "auto" else name,
        "degraded": (),
    }


def test_every_format_is_under_the_laws():
    assert set(BY_FORMAT) == set(formats.FORMATS)


# Lists of a shape that gateways send to anyone: for a Claude they begin with the user.


USER = {"role": "user", "content": "hi"}


def session(seed: int) -> list[dict[str, Any]]:
    """Turns of short questions, long results and answers."""
    dice = random.Random(seed)
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
    for number in range(12):
        call = {"id": f"c{number}", "type": "function"}
        call["function"] = {"name": "look", "arguments": "{}"}
        messages += [
            {"role": "user", "content": prose(dice.randint(20, 120), seed * 100 + number)},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {
                "role": "tool",
                "tool_call_id": f"c{number}",
                "content": prose(dice.randint(100, 900), number),
            },
            {"role": "assistant", "content": prose(dice.randint(20, 120), number + 50)},
        ]
    return [*messages, {"role": "user", "content": "now?"}]


def firsts(messages: list[Any], **options: Any) -> str:
    """Who speaks first in what is kept, after the system."""
    kept = compact_context(messages, target_ratio=0.15, **options).messages
    assert validate(kept) == []
    roles = [one["role"] if isinstance(one, dict) else one.type for one in kept]
    return next(role for role in roles if role != "system")


def test_a_chat_list_for_a_claude_begins_with_the_user():
    sessions = [session(seed) for seed in range(25)]
    plain = {firsts(one) for one in sessions}
    assert plain != {"user"}  # OpenAI does not ask for it
    assert {firsts(one, provider="anthropic") for one in sessions} == {"user"}
    assert {firsts(one, model="openrouter/anthropic/claude-sonnet-4.5") for one in sessions} == {
        "user"
    }
    assert {firsts(one, model="gpt-5") for one in sessions} == plain
    assert {firsts(one, provider="anthropic", thinking="strip") for one in sessions[:5]} == {"user"}


def test_langchains_list_begins_with_the_user_unless_it_is_for_openai():
    pytest.importorskip("langchain_core")
    lists = [openai_to_langchain(session(seed)[1:]) for seed in range(25)]
    assert {firsts(one) for one in lists} == {"human"}
    assert {firsts(one, provider="anthropic") for one in lists} == {"human"}
    assert {firsts(one, provider="openai_chat") for one in lists} != {"human"}


def test_a_list_of_one_provider_is_for_no_other():
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    messages = [USER, {"role": "assistant", "content": [use]}]
    assert compact_context(messages, provider="anthropic").messages
    with pytest.raises(InvalidArgumentError, match="the messages are anthropic's"):
        compact_context(messages, provider="openai_chat")
    with pytest.raises(InvalidArgumentError, match="did you mean 'openai_chat'"):
        compact_context([USER], provider="openai")
