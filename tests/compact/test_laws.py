"""The laws of compact_context: true of every format, profile, budget, query and pin."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterable

import pytest
from hypothesis import given

import rehydrate
from rehydrate import _native, formats, validate
from rehydrate.messages import Message, problems_of
from tests.compact.cases import Case, cases, figures
from tests.strategies import BY_FORMAT


@given(cases())
def test_survivors_are_the_callers_objects_in_their_order_and_nothing_is_changed(case: Case):
    before = copy.deepcopy(case.entries)
    compaction = case.compact()
    kept = case.kept(compaction)
    assert kept == sorted(set(kept))
    assert case.entries == before
    for entry, place in zip(compaction.messages, kept, strict=True):
        assert entry == before[place] if entry is case.entries[place] else place in case.cut()


@given(cases(broken=True))
def test_damaged_conversations_come_back_verbatim_too(case: Case):
    before = copy.deepcopy(case.entries)
    kept = case.kept(case.compact())
    assert kept == sorted(set(kept))
    assert case.entries == before


@given(cases())
def test_units_are_kept_or_dropped_whole(case: Case):
    compaction = case.compact()
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


@given(cases())
def test_the_budget_is_kept_or_only_pins_and_their_leader_are(case: Case):
    compaction = case.compact()
    stats = compaction.stats
    assert stats.over_budget == (stats.after_tokens > stats.target_tokens)
    if stats.over_budget:
        assert _needless(case, compaction) == []


@given(cases(broken=True))
def test_the_budget_is_kept_for_damaged_conversations_too(case: Case):
    compaction = case.compact()
    if compaction.stats.after_tokens > compaction.stats.target_tokens:
        assert compaction.stats.over_budget
        assert _needless(case, compaction) == []


def _needless(case: Case, compaction: rehydrate.Compaction) -> list[str]:
    """The reasons of units kept although they are neither pinned nor the leader."""
    pins = case.pins()
    rows = [row for row in compaction.explain() if row.kept and row.unit not in pins]
    return [row.reason for row in rows if row.reason != "a user turn must come first"]


@given(cases())
def test_system_last_user_turn_open_tool_loop_and_pins_are_always_kept(case: Case):
    conversation = case.read()
    kept = set(case.kept(case.compact()))
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


@given(cases())
def test_compacting_the_result_at_the_same_budget_changes_nothing(case: Case):
    once = case.compact()
    # What was pinned is pinned again, as far as it is a message that a model sees.
    survivors = {id(message) for message in once.messages}
    pinned = [case.entries[place] for place in case.pinned]
    options = case.options | {"pin": [entry for entry in pinned if id(entry) in survivors]}
    options.pop("target_ratio", None)
    options["budget_tokens"] = once.stats.target_tokens
    twice = rehydrate.compact_context(once.messages, **options)
    assert list(map(id, twice.messages)) == list(map(id, once.messages))
    assert not twice.stats.changed
    assert twice.stats.before_tokens == twice.stats.after_tokens == once.stats.after_tokens


@given(cases())
def test_a_valid_conversation_stays_valid(case: Case):
    assert validate(case.compact().messages, case.format) == []


@given(cases())
def test_a_valid_conversation_stays_valid_when_its_format_is_detected(case: Case):
    compaction = case.compact(format="auto")
    assert compaction.stats.format == rehydrate.detect_format(case.entries)
    assert validate(compaction.messages, case.format) == []


@given(cases(broken=True))
def test_a_damaged_conversation_gets_no_more_violations(case: Case):
    before = validate(case.entries, case.format)
    after = validate(case.compact().messages, case.format)
    assert len(after) <= len(before)


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


@given(cases())
def test_the_target_is_the_floor_of_the_share_or_the_budget(case: Case):
    stats = case.compact().stats
    if "target_ratio" in case.options:
        share = stats.before_tokens * case.options["target_ratio"]
        assert stats.target_tokens == math.floor(share + 1e-9)
    else:
        # Beyond any conversation a budget may be reported as what the core counts with.
        assert stats.target_tokens == min(case.options["budget_tokens"], 2**63)


@given(cases())
def test_the_figures_add_up(case: Case):
    conversation = case.read()
    compaction = case.compact()
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


@given(cases())
def test_a_changed_result_leaves_out_what_no_model_sees(case: Case):
    compaction = case.compact()
    ignored = set(case.read().ignored)
    kept = case.kept(compaction)
    assert ignored.isdisjoint(kept) if compaction.stats.changed else ignored.issubset(kept)


@given(cases())
def test_every_dropped_message_has_one_record(case: Case):
    compaction = case.compact()
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


@given(cases())
def test_the_wire_shape_is_json_for_json(case: Case):
    compaction = case.compact()
    wire = compaction.to_dict()
    assert set(wire) == {"messages", "stats"}
    assert wire["messages"] == compaction.messages
    if compaction.stats.format in ("bedrock", "langchain"):  # objects and bytes stay what they are
        return
    again = json.loads(json.dumps(wire))
    assert again["messages"] == compaction.messages
    assert again["stats"]["before_tokens"] == compaction.stats.before_tokens
    json.dumps(compaction.explain().to_dict())


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
