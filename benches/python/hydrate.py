"""How fast a prompt comes together: `python -m benches.python.hydrate [--items N]`.

A conversation of 100,000 tokens (of `REHYDRATE_DATA`, else a generated one) beside a memory of
100,000 items, as much of both as a day's work leaves behind.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benches.python.inputs import ROOT, Message, generated_session
from benches.python.memory_texts import queries, texts
from benches.python.retention import data_folder
from benches.report.rows import Part, Row, number
from rehydrate import Memory, count_tokens
from rehydrate.compiler import hydrate, hydrate_source
from rehydrate.compiler.sources import semantic

ITEMS = 100_000
TOKENS = 100_000
BATCH = 1_000
ASKED, WARM_UP = 300, 20
NAMESPACE = "bench"
NOTES = ROOT / "examples" / "notes"


class Spread(NamedTuple):
    """Milliseconds of one call over many; busy: of all threads of the process, on the processor."""

    p50: float
    p99: float
    busy_p50: float

    @property
    def busy(self) -> str:
        """Beside a row."""
        return f"on the processor {number(self.busy_p50)} ms, the rest waits for one"


def conversation() -> list[Message]:
    """The first 100,000 tokens of the longest real session there is, or of a generated one."""
    folder = data_folder()
    sessions = sorted((folder / "claude_code").glob("*.jsonl")) if folder else []
    if sessions:
        longest = max(sessions, key=lambda path: path.stat().st_size)
        lines = longest.read_text(encoding="utf-8").splitlines()
        messages = [json.loads(line) for line in lines if line.strip()]
    else:
        messages = generated_session(400)
    least, most = 0, len(messages)
    while most - least > 1:
        middle = (least + most) // 2
        is_more = count_tokens(messages[:middle]) > TOKENS
        least, most = (least, middle) if is_more else (middle, most)
    return messages[:least]


def filled(path: Path, items: Sequence[str]) -> Memory:
    """A memory of these, indexed."""
    with Memory.open(path, namespace=NAMESPACE) as memory:
        for start in range(0, len(items), BATCH):
            memory.add(items[start : start + BATCH], source=f"source {start // BATCH}")
        memory.add("Answer in one sentence, and name the file.", tier="hot")
    return Memory.open(path, namespace=NAMESPACE)  # closing waits for the index


def measure(items: int) -> Part:
    """Every row."""
    load = os.getloadavg()[0]
    held = list(texts(items))
    asked = queries(held, ASKED)
    messages = conversation()
    tokens = count_tokens(messages)
    with tempfile.TemporaryDirectory() as folder:
        memory = filled(Path(folder) / "memory.db", held)
        rows = _rows(memory, messages, asked, f"{tokens:,} tokens, {items:,} items")
        memory.close()
    return Part(
        "Hydrate",
        f"A conversation of {len(messages):,} entries and {tokens:,} tokens, a memory of {items:,} "
        f"items with a hot one; hot, temporal and semantic run at once. {ASKED} different "
        "questions, sources as they come but for the deadline (none). Load "
        f"{load:.1f} before, {os.getloadavg()[0]:.1f} after.",
        rows,
    )


def _rows(memory: Memory, messages: list[Message], asked: Sequence[str], size: str) -> list[Row]:
    search = _spread("search", memory.search, asked)
    hot = _spread("hot", lambda _: memory.hot(), asked)
    of_it = (
        f"memory.search {number(search.p50)} ({number(search.busy_p50)} on the processor), "
        f"memory.hot {number(hot.p50)} ({number(hot.busy_p50)})"
    )
    whole = _spread(
        "hydrate", lambda query: hydrate(query, memory, messages=messages, deadline_ms=None), asked
    )
    counted = hydrate(messages=messages).history
    turn = _spread(
        "a turn", lambda query: hydrate(query, memory, messages=counted, deadline_ms=None), asked
    )
    alone = _spread("history", lambda query: hydrate(query, messages=messages), asked)
    source = semantic(memory, deadline_ms=None)
    one = _spread("one source", lambda query: hydrate_source(query, source), asked)
    notes = _spread("notes", lambda query: hydrate(query, NOTES, deadline_ms=None), asked)
    return [
        Row(f"hydrate, {size}, p50", whole.p50, "ms", 10, beside=of_it, limit=whole.busy),
        Row(f"hydrate, {size}, p99", whole.p99, "ms"),
        Row(
            "the same, history counted before (`Context`), p50", turn.p50, "ms", 3, limit=turn.busy
        ),
        Row("history alone: read and counted, p50", alone.p50, "ms", limit=alone.busy),
        Row("hydrate_source(semantic), p50", one.p50, "ms", 5, beside=of_it, limit=one.busy),
        Row("hydrate_source(semantic), p99", one.p99, "ms", 20),
        Row("knowledge of the ten notes in examples, p50", notes.p50, "ms", limit=notes.busy),
    ]


def _spread(name: str, call: Callable[[str], Any], asked: Sequence[str]) -> Spread:
    for query in asked[:WARM_UP]:
        call(query)
    taken, busy = [], []
    for query in asked[WARM_UP:]:
        before, busy_before = time.perf_counter(), time.process_time()
        call(query)
        taken.append(time.perf_counter() - before)
        busy.append(time.process_time() - busy_before)
    p50, p99 = np.percentile(taken, (50, 99)) * 1e3
    told = Spread(float(p50), float(p99), float(np.median(busy)) * 1e3)
    print(f"  {name}: {told}", file=sys.stderr, flush=True)
    return told


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=ITEMS)
    print(measure(parser.parse_args().items).to_json())
