"""retention_batch: each row as `evaluate` measures the session alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benches.python.inputs import generated_session
from rehydrate.batch import retention_batch
from rehydrate.errors import InvalidArgumentError
from rehydrate.retention import Strategy, compacted, evaluate, read_session, sample_cases
from tests.batch.folders import SESSION, chat, table, tool_chat

pa = pytest.importorskip("pyarrow")


def rows(found: Any) -> list[dict[str, Any]]:
    return pa.table(found).to_pylist()


@pytest.mark.parametrize("granularity", ["message", "excerpt"])
def test_each_row_is_what_evaluate_finds(granularity: Any):
    lines = SESSION.read_text(encoding="utf-8").splitlines()
    sessions = [
        [json.loads(line) for line in lines if line.strip()],
        generated_session(40, 40_000, number=3),
        tool_chat(1) * 5,
    ]
    found = rows(retention_batch(table(sessions), target_ratio=0.2, granularity=granularity))
    measured = 0
    for session, row in zip(sessions, found, strict=True):
        own = Strategy("own", compacted(granularity=granularity, thinking="keep"))
        sample = sample_cases([read_session(session)])
        alone = evaluate(sample, [own], (0.2,))
        assert (row["cuts"], row["error"]) == (alone.cuts, None)
        assert row["needed"] == sum(len(cut.needed) for cut in sample.cuts)
        if alone.cuts:
            measured += 1
            expected = alone.row("own", 0.2)
            shares = ("used_later", "lines", "laid_down", "last_turn", "cost_ratio")
            for name in (*shares, "violations"):
                assert row[name] == getattr(expected, name), name
        else:
            assert row["used_later"] is row["cost_ratio"] is None
    assert measured >= 2


def test_bad_rows_have_an_error_and_short_ones_no_measure():
    bad, none, short = rows(retention_batch(table(["[{", None, chat(1, 2)])))
    assert "isn't a JSON list" in bad["error"]
    assert "is null" in none["error"]
    assert bad["cuts"] is none["used_later"] is None
    assert (short["cuts"], short["needed"], short["violations"]) == (0, 0, 0)
    assert short["used_later"] is short["error"] is None


@pytest.mark.parametrize(
    "options", [{"target_ratio": 0}, {"query": "x"}, {"threads": 0}, {"min_needed": 0}]
)
def test_options_outside_their_limits_are_refused_before_any_row(options: Any):
    with pytest.raises(InvalidArgumentError):
        retention_batch(table([]), **options)
