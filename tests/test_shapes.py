"""The generated sessions of other shapes: the same each time, valid, and with true needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from benches.python.shapes import SHAPES, sessions
from benches.python.shapes.__main__ import before, measure, weaker, with_query
from benches.python.shapes.log import Log
from benches.report.sections.shapes import HEADER, lines
from rehydrate import formats
from rehydrate._native import text_of, user_text
from rehydrate.retention import Cut, Kept, compacted, estimate_cost, keep_last, measure_cuts

ROOT = Path(__file__).resolve().parents[1]
every_shape = pytest.mark.parametrize("shape", SHAPES)
WRITE = """
import json, sys
from benches.python.shapes import SHAPES
print(json.dumps([make(1).messages for make, _ in SHAPES.values()]))
"""


@cache
def logs(shape: str) -> list[Log]:
    return sessions(shape)


def cases(log: Log) -> list[Cut]:
    return [*log.cuts(), *(cut for cut, _ in log.questions())]


@every_shape
def test_a_session_is_made_the_same_each_time_and_no_two_are_alike(shape: str) -> None:
    again = sessions(shape)
    assert [log.messages for log in again] == [log.messages for log in logs(shape)]
    assert [log.uses for log in again] == [log.uses for log in logs(shape)]
    assert len({json.dumps(log.messages) for log in again}) == len(again) >= 6


@every_shape
def test_as_many_fresh_sessions_as_one_wants_can_be_made_and_are_valid(shape: str) -> None:
    usual = {json.dumps(log.messages) for log in logs(shape)}
    fresh = sessions(shape, 3, first=len(usual))
    assert len({json.dumps(log.messages) for log in fresh} - usual) == 3
    assert all(formats.validate(log.messages, log.format) == [] for log in fresh)
    assert [log.name for log in sessions(shape, len(usual) + 1)][-1] == fresh[0].name


def test_another_process_makes_the_same_sessions() -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    run = [sys.executable, "-c", WRITE]
    made = subprocess.run(
        run, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(made.stdout) == [make(1).messages for make, _ in SHAPES.values()]


@every_shape
def test_every_session_is_valid_in_its_format_and_long_enough(shape: str) -> None:
    for log in logs(shape):
        assert formats.validate(log.messages, log.format) == []
        assert formats.detect_format(log.messages) in (log.format, "plain")
        assert 60 <= len(log.messages) <= 330, log.name


@every_shape
def test_what_is_needed_is_before_and_not_in_the_last_user_turn(shape: str) -> None:
    for log in logs(shape):
        found = cases(log)
        assert found, log.name
        for cut in found:
            said = [text for message in cut.messages if (text := user_text(message))]
            assert cut.needed, cut.name
            assert cut.needed == cut.mentioned(cut.messages), cut.name
            assert not any(value in said[-1] for value in cut.needed), cut.name


@every_shape
def test_a_value_used_after_a_cut_is_used_there_to_the_letter(shape: str) -> None:
    for log in logs(shape):
        for cut in log.cuts():
            ahead = "\n".join(map(text_of, cut.ahead))
            assert all(value in ahead for value in cut.needed), cut.name


@every_shape
def test_questions_name_the_messages_that_answer_them(shape: str) -> None:
    for log in logs(shape):
        conversation = log.conversation()
        for question, (cut, text) in zip(conversation.questions, log.questions(), strict=True):
            evidence = [conversation.messages[i] for i in question.evidence]
            assert question.text == text
            assert cut.mentioned(evidence) == cut.needed


@every_shape
def test_everything_needed_survives_at_full_size(shape: str) -> None:
    for cut in cases(logs(shape)[0]):
        (score,) = measure_cuts([cut], compacted(), (1.0,)).scores
        assert score.retained == 1.0


@every_shape
def test_the_measure_falls_when_the_evidence_is_removed(shape: str) -> None:
    for log in logs(shape)[:2]:
        for cut in cases(log):
            value = min(cut.needed)
            without = [message for message in cut.messages if value not in text_of(message)]
            (score,) = measure_cuts([cut], lambda _m, _q, _r, kept=without: kept, (1.0,)).scores
            assert score.retained < 1.0


@every_shape
def test_some_values_were_mentioned_long_ago_and_some_lately(shape: str) -> None:
    """If keeping the end did all or nothing, the measure would tell nothing."""
    found = [cut for log in logs(shape) for cut in cases(log)]
    retained = measure_cuts(found, keep_last(), (0.3,), cost=estimate_cost).means()[0.3]
    assert 0.03 < retained < 0.9


def test_a_question_is_asked_as_last_turn_or_as_query() -> None:
    log = logs("chats")[0]
    cut, text = log.questions()[0]
    seen: list[str | None] = []

    def compact(messages: list[dict], query: str | None, _ratio: float) -> list[dict]:
        seen.append(query)
        return messages

    assert text_of(cut.messages[-1]) == text
    assert before(cut).messages == log.messages
    measure_cuts([before(cut)], with_query(compact, text), (1.0,))
    assert seen == [text]


def test_the_table_has_a_line_for_each_measure_and_each_way_to_compact() -> None:
    found = measure("support", logs("support")[:2], estimate_cost)
    assert (found["sessions"], found["questions"]) == (2, 8)
    named = {measure: set(strategies) for measure, strategies in found["measures"].items()}
    common = {"keep last", "compact_context", "excerpts", "knows the future"}
    assert named["used later"] >= common
    assert named["asked"] >= common | {"compact_context, query", "excerpts, query"}
    table = list(lines([found]))
    assert len(table) == sum(map(len, named.values()))
    assert all(len(line) == len(HEADER) and "(" in line[3] for line in table)


def test_where_a_peer_keeps_more_is_said_with_what_was_lost() -> None:
    def keep_nothing(messages: list[dict], _query: str | None, _ratio: float) -> list[dict]:
        return Kept([], [], lambda: dict.fromkeys(range(len(messages)), "nothing is kept"))

    first = logs("support")[:1]
    shown = list(weaker(first, keep_nothing, estimate_cost))
    assert any(": 0 of " in line and "keep last" in line for line in shown)
    assert any(" in message " in line and line.endswith("nothing is kept") for line in shown)
    own = keep_last(estimate_cost)
    assert not [line for line in weaker(first, own, estimate_cost) if "keep last" in line]
