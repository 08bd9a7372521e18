"""explain(), dropped, stats and to_dict(): the reasons and the figures."""

from __future__ import annotations

import copy
import json
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from hypothesis import given, strategies as st

from rehydrate import compact_context
from tests.compact.cases import Case, FixedMemory, HashEmbedder, cases, talk, words
from tests.formats import turns


@given(cases())
def test_every_unit_has_a_row_and_every_row_is_a_unit(case: Case):
    explanation = case.compact().explain()
    units = case.read().units
    assert len(explanation) == len(units)
    assert [row.messages for row in explanation] == [case.origins(each.members) for each in units]
    assert [row.unit for row in explanation] == list(range(len(units)))
    assert len(str(explanation).splitlines()) == 1 + len(units)


@given(cases())
def test_the_score_is_the_formula_of_the_signals_shown(case: Case):
    scoring = case.scoring
    for row in case.compact().explain():
        signals = (
            scoring.recency * row.recency
            + scoring.semantic * row.semantic
            + scoring.novelty * (1 - row.coverage)
        )
        score = row.structural * signals * row.odds
        assert row.score == pytest.approx(score, rel=1e-9, abs=1e-9)


@given(cases())
def test_the_signals_shown_are_those_of_the_units_best_message(case: Case):
    scoring = case.scoring
    compaction = case.compact()
    rows = list(compaction.explain())
    for row, unit in zip(rows, case.read().units, strict=True):
        weights = {scoring.structural.get(message.role, 0.6) for message in unit.messages}
        assert row.structural in weights
    for record in compaction.dropped:
        assert record.score <= rows[record.unit].score


@given(cases())
def test_signals_stay_in_their_ranges(case: Case):
    is_raw = case.scoring.signals == "raw"
    for row in case.compact().explain():
        assert 0.1 <= row.recency <= 1.0 + 1e-9  # rounding
        assert (-1.0 - 1e-6 if is_raw else 0.0) <= row.semantic <= 1.0 + 1e-6
        assert 0.0 <= row.coverage <= 1.0
        assert row.odds == 1.0 if is_raw else 0.0 <= row.odds <= 1.0
        assert row.gain >= 0.0


@given(cases())
def test_kept_reasons_name_the_pin(case: Case):
    conversation = case.read()
    pins = case.pins()
    named = {"pinned by the caller", "bound to what the provider holds"}
    for row in case.compact().explain():
        if any(message.role == "system" for message in conversation.units[row.unit].messages):
            assert row.reason == "system"  # among others it is bound to the user's turn before it
        elif row.unit in (
            turns.last_user_turn(conversation),
            turns.turn_of_open_loop(conversation),
        ):
            assert row.reason == "last user turn"
        elif row.unit in (
            turns.open_tool_loop(conversation),
            turns.thoughts_of_open_loop(conversation),
        ):
            assert row.reason == "open tool loop"
        elif row.kept and case.scoring.keeps_reply and row.unit == conversation.answered_reply():
            assert row.reason in ("reply that the user answers", *named)
        else:
            assert (row.reason in named) == (row.unit in pins)


def test_the_share_that_went_is_in_percent_of_tokens_with_one_decimal():
    # The example of the contract: (48200 - 18600) / 48200 = 61.4 %.
    messages = talk("user: 10000", "user: 19600", "user: 18600")
    compaction = compact_context(messages, counter=int, budget_tokens=18600)
    stats = compaction.stats
    assert (stats.before_tokens, stats.after_tokens, stats.dropped) == (48200, 18600, 2)
    assert stats.dropped_pct == 61.4
    assert stats.dropped_messages_pct == 66.7
    assert stats.counter == "int"
    assert repr(compaction) == "<Compaction 48,200 -> 18,600 tokens, 2 of 3 messages dropped>"


def test_a_dropped_message_is_recorded_with_place_tokens_and_reason():
    messages = talk("user: 50", "user: 3", "user: 1")
    compaction = compact_context(messages, counter=int, budget_tokens=10)
    (record,) = compaction.dropped
    assert (record.index, record.role, record.tokens, record.unit) == (0, "user", 50, 0)
    assert record.reason == "needs 50 tokens where 9 are free"


def test_a_drop_that_memory_makes_good_says_so():
    messages = talk("user: one two", "user: three four", "user: five six")
    memory = FixedMemory([0.9, 0.0, 0.0])
    compaction = compact_context(messages, memory=memory, counter=words, budget_tokens=4)
    assert [record.reason for record in compaction.dropped] == ["memory covers 90% of it"]


def test_a_drop_of_what_is_said_elsewhere_says_so():
    messages = talk(
        "user: see src/app.py", "user: see lib/other_part.py", "user: see src/app.py now"
    )
    compaction = compact_context(messages, "", counter=words, budget_tokens=5)
    assert [record.index for record in compaction.dropped] == [0]
    assert compaction.dropped[0].reason == "most of what it mentions is kept elsewhere"


def test_under_greedy_packing_the_reasons_are_scores():
    messages = talk(*(f"user: number {n}" for n in range(6)))
    rows = list(compact_context(messages, scoring="chitta", target_ratio=0.5).explain())
    reasons = {row.reason for row in rows}
    assert reasons == {"last user turn", "among the best scores", "others score higher"}


def test_the_table_shows_a_line_a_unit_with_all_signals():
    messages = talk("system: be brief", "user: hello there", "assistant: hi", "user: bye now")
    table = str(compact_context(messages, "hello", budget_tokens=8).explain())
    header, *lines = table.splitlines()
    for column in ("unit", "messages", "role", "tokens", "score", "recency", "semantic"):
        assert column in header
    assert len(lines) == 4
    assert "system" in lines[0]
    assert "keep" in lines[3]


def test_a_preview_is_the_beginning_of_the_text_on_one_line():
    long = "first line\n\n  second line " + "x" * 400
    (row,) = compact_context([{"role": "user", "content": long}]).explain()
    assert row.preview.startswith("first line second line xxx")
    assert len(row.preview) == 160


def test_the_wire_shape_is_a_copy_of_the_list_around_the_same_messages():
    messages = talk("user: one", "user: two", "user: three")
    compaction = compact_context(messages, budget_tokens=1, embedder=HashEmbedder())
    wire = compaction.to_dict()
    assert wire["messages"] == compaction.messages
    assert wire["messages"] is not compaction.messages
    assert wire["messages"][0] is messages[2]
    assert json.loads(json.dumps(wire))["stats"]["dropped"] == 2


def test_explanations_are_worked_out_once():
    compaction = compact_context(talk("user: one", "assistant: two", "user: three"))
    assert compaction.explain() is compaction.explain()
    assert compaction.dropped is compaction.dropped


@given(cases(), st.booleans())
def test_a_compaction_is_the_same_after_pickling_and_copying(case: Case, has_outline: bool):
    compaction = case.compact(outline=has_outline)
    copies = [pickle.loads(pickle.dumps(compaction)), copy.deepcopy(compaction)]
    copies += [copy.copy(compaction), pickle.loads(pickle.dumps(copies[0]))]
    for again in copies:
        assert again.messages == compaction.messages
        assert list(again.indices) == list(compaction.indices)
        assert (again.stats, again.outline) == (compaction.stats, compaction.outline)
        assert (again.dropped, again.replaced) == (compaction.dropped, compaction.replaced)
        assert again.explain().to_dict() == compaction.explain().to_dict()
        assert again.to_dict()["stats"] == compaction.to_dict()["stats"]


def test_a_process_of_a_pool_compacts():
    messages = talk(*[f"{role}: {role} says much " * 9 for role in ("user", "assistant") * 5])
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        made = pool.submit(compact_context, messages, target_ratio=0.4).result()
    own = compact_context(messages, target_ratio=0.4)
    assert made.messages == own.messages != messages
    assert made.dropped == own.dropped
