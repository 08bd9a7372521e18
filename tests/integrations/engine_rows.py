"""Rows for the tests of Ray Data and Spark, and what `compact_context` alone makes of each."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pyarrow as pa

import rehydrate
from benches.python.batch.transcripts import Transcript, as_batch, generated
from benches.python.inputs import recorded_session
from rehydrate import _native
from rehydrate.batch import compaction

OPTIONS: dict[str, Any] = {"target_ratio": 0.3, "outline": True}
STATS = (
    *("before_tokens", "after_tokens", "target_tokens", "dropped", "excerpted", "stripped"),
    *("changed", "over_budget", "format"),
)


@cache
def _generated(number: int) -> Transcript:
    return generated(number)


def transcripts(rows: int = 120) -> list[Transcript]:
    """Return generated rows, one of them bad, the example session, a megabyte, and nulls."""
    long = [{"role": "user", "content": "The ferry leaves at seven from berth four. " * 25_000}]
    return [
        *map(_generated, range(60, 60 + rows)),
        Transcript("session", json.dumps(recorded_session()), "how are units packed?"),
        Transcript("long", json.dumps(long), None),
        Transcript(None, json.dumps(long[:1]), None),  # type: ignore[arg-type]
        Transcript("null", None, None),
        Transcript("no messages", "[1, 2]", None),
    ]


def table(rows: Iterable[Transcript]) -> Any:
    """Return rows as a pyarrow.Table, with a column ``day`` to keep and one to leave out."""
    made = pa.Table.from_batches([as_batch(list(rows))])
    days = pa.array(range(made.num_rows), pa.int32())
    return made.append_column("day", days).append_column("other", days)


def check_compacted(found: Iterable[dict[str, Any]], rows: list[Transcript]) -> None:
    """Check that each row is there once, and is what `compact_context` returns."""
    results = sorted(found, key=lambda result: result["day"])
    assert [result["day"] for result in results] == list(range(len(rows)))
    for row, result in zip(rows, results, strict=True):
        assert result["id"] == row.id
        alone = _alone(row)
        if alone is None:
            assert result["error"], row
            assert result["kept"] is None
            continue
        assert result["error"] is None, result
        assert list(result["kept"]) == list(alone.indices)
        assert json.loads(result["messages"]) == alone.messages
        assert {name: result[name] for name in STATS} == {
            name: getattr(alone.stats, name) for name in STATS
        }


@cache
def _alone(row: Transcript) -> rehydrate.Compaction | None:
    """Return the result of `compact_context` for a row; None if it refuses the row."""
    try:
        assert row.messages is not None
        return rehydrate.compact_context(json.loads(row.messages), row.query, **OPTIONS)
    except (AssertionError, ValueError, rehydrate.RehydrateError):
        return None


def die_once(folder: Path, calls: int) -> None:
    """Kill this process without a word in its `calls`-th call, if none was killed before."""
    (folder / f"{os.getpid()}-{uuid4()}").touch()
    if len(list(folder.glob(f"{os.getpid()}-*"))) == calls:
        try:
            (folder / "killed").touch(exist_ok=False)
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


def is_alone(work: Callable[[], object]) -> bool:
    """Return whether all compactions of the work ran on this thread, with the engine's helper off.

    That a thread without helpers starts none is tested where they are: `interrupt.rs`.
    """
    found = set()
    compact = compaction.compact_context

    def watched(messages: Any, *arguments: Any, **options: Any) -> rehydrate.Compaction:
        if messages:  # without any, the options are checked
            was_alone = _native.set_alone(True)
            _native.set_alone(was_alone)
            found.add((threading.get_ident(), was_alone))
        return compact(messages, *arguments, **options)

    with patch.object(compaction, "compact_context", watched):
        work()
    return found == {(threading.get_ident(), True)}
