"""Growth of a cold compaction's time with its input: `python -m benches.python.growth`."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import rehydrate
from benches.python import peers
from benches.python.inputs import RATIO, Message, generated_chat, generated_session
from benches.report.growing import exponent, of_n_log_n
from benches.report.rows import Part, Row, number
from benches.report.size import SIZE
from rehydrate import _native
from rehydrate.retention.baselines import to_langchain, trim

MESSAGES, BYTES = SIZE.growth_messages, SIZE.growth_bytes
PEER_MESSAGES, PEER_BYTES = MESSAGES[:2], BYTES[:3]
"""Sizes that LangChain's trim_messages finishes in a few seconds."""
ROUNDS, ROUNDS_OF_A_MILLION = 5, 3
LINEAR = 1.05
"""The exponent wanted: linear growth, plus the effect of the processor's caches."""

Seconds = dict[int, float]


def measure() -> Part:
    """Measure messages of one size, then one number of messages with ever more text."""
    # Tables are built at first use: not measured here.
    rehydrate.compact_context(generated_chat(100))
    _trim(generated_chat(100))
    by_messages: Seconds = {}
    peer_by_messages: Seconds = {}
    for size in MESSAGES:
        chat = generated_chat(size)
        by_messages[size] = _ours(chat, rounds=ROUNDS if size < 1_000_000 else ROUNDS_OF_A_MILLION)
        if size in PEER_MESSAGES:
            peer_by_messages[size] = _trim(chat)
        del chat
    by_bytes: Seconds = {}
    peer_by_bytes: Seconds = {}
    for size in BYTES:
        session = generated_session(size_bytes=size)
        by_bytes[size] = _ours(session, rounds=ROUNDS)
        if size in PEER_BYTES:
            peer_by_bytes[size] = _trim(session)
    n_log_n = of_n_log_n(MESSAGES[0], MESSAGES[-1])
    rows = [
        Row(
            f"exponent in messages, {MESSAGES[0]:,} to {MESSAGES[-1]:,}",
            exponent(by_messages),
            "",
            LINEAR,
            beside=f"{_told(by_messages, ' messages')}; trim_messages "
            f"{_power(peer_by_messages)} up to {PEER_MESSAGES[-1]:,}: "
            f"{_told(peer_by_messages, '')}",
            limit=f"n log n has {n_log_n:.2f} between these sizes; tables that outgrow the "
            "processor's caches add to it, the fixed cost of a call takes from it",
        ),
        Row(
            f"exponent in bytes of text, 305 units, {BYTES[0] / 1e6:g} to {BYTES[-1] / 1e6:g} MB",
            exponent(by_bytes),
            "",
            LINEAR,
            beside=f"{_told(by_bytes, ' bytes')}; trim_messages {_power(peer_by_bytes)} up to "
            f"{PEER_BYTES[-1]:,}: {_told(peer_by_bytes, '')}",
            limit="Every text is read from end to end",
        ),
        Row(
            f"a message among {MESSAGES[-1]:,}",
            by_messages[MESSAGES[-1]] / MESSAGES[-1] * 1e6,
            "us",
            beside=f"among {MESSAGES[0]:,}: {by_messages[MESSAGES[0]] / MESSAGES[0] * 1e6:.2f} us",
        ),
    ]
    about = (
        f"`compact_context`, cold, balanced, no query, a ratio of {RATIO}, parsing included. "
        "Short chat messages, each a unit; and a coding session whose results grow. An exponent "
        "is that of the power of the size that fits the times best; 1 is a straight line. "
        f"Medians of {ROUNDS}, of a million messages {ROUNDS_OF_A_MILLION}; trim_messages "
        "(tiktoken) runs once."
    )
    return Part("Growth, from Python", about, rows)


def _ours(messages: Sequence[Message], rounds: int) -> float:
    def run() -> Any:
        return rehydrate.compact_context(messages, None, RATIO)

    return median(_seconds(run) for _ in range(rounds))


def _trim(messages: Sequence[Message]) -> float:
    turns, counter = to_langchain(messages), peers.o200k_counter()
    budget = int(counter(turns) * RATIO)
    return _seconds(lambda: trim(turns, budget, counter))


def _seconds(run: Callable[[], Any]) -> float:
    _native.clear_cache()
    gc.collect()
    started = time.perf_counter()
    run()
    taken = time.perf_counter() - started
    print(f"  {taken:.3f} s", file=sys.stderr, flush=True)
    return taken


def _power(seconds: Seconds) -> str:
    return f"{exponent(seconds):.2f}"


def _told(seconds: Seconds, unit: str) -> str:
    return ", ".join(
        f"{size:,}{unit} in {number(taken * 1e3)} ms" for size, taken in seconds.items()
    )


if __name__ == "__main__":
    print(measure().to_json())
