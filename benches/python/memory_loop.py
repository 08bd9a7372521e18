"""Memory over a long loop of conversations that grow: `python -m benches.python.memory_loop`.

Every conversation is new, so the cache fills up; from then on memory must stay flat. A full cache
drops its older half at a time, and resident memory falls and rises with it. With a smaller cache
(`--cache-mib`) that is little and often, so that a growth shows in minutes.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import NamedTuple

import rehydrate
from benches.python.inputs import QUERY, RATIO, Message, generated_chat, generated_session
from benches.python.resident import resident_bytes
from rehydrate.process import cache_limit

STEPS = 4
"""Number of compactions of a conversation while it grows."""
SAMPLES = 1_000


class Sample(NamedTuple):
    """Resident memory at a moment."""

    t_seconds: float
    rss_bytes: int
    compactions: int


def measure(seconds: float) -> Iterator[Sample]:
    """Compact for this time, and measure resident memory now and then, what is free given back."""
    started = time.perf_counter()
    next_sample, compactions = 0.0, 0
    for number in count(1):
        for query, messages in _turns(number):
            rehydrate.compact_context(messages, query, RATIO)
            compactions += 1
        elapsed = time.perf_counter() - started
        if elapsed >= next_sample:
            _trim()
            yield Sample(round(elapsed, 3), resident_bytes(), compactions)
            next_sample = elapsed + seconds / SAMPLES
        if elapsed >= seconds:
            return


def _turns(number: int) -> Iterator[tuple[str | None, list[Message]]]:
    """Yield one conversation at several lengths: every third a chat, every second with a query."""
    if number % 3:
        messages = generated_session(units=60, size_bytes=100_000, number=number)
    else:
        chat = generated_chat(300)
        messages = [{**entry, "content": f"{number}: {entry['content']}"} for entry in chat]
    for step in range(1, STEPS + 1):
        yield (QUERY if step % 2 else None), messages[: len(messages) * step // STEPS]


def _trim() -> None:
    """Give free memory back: what the allocator keeps for later comes and goes by the minute."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def main() -> None:
    """Write the samples, as CSV where the file's name says so, else as a JSON list of rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--cache-mib", type=int, help="limit of the cache; 320 by default")
    parser.add_argument("--out", type=Path, help="a file ending in .csv or .json")
    asked = parser.parse_args()
    if asked.cache_mib is not None:
        cache_limit(asked.cache_mib << 20)
    with asked.out.open("w", encoding="utf-8") if asked.out else nullcontext(sys.stdout) as stream:
        is_csv = asked.out is not None and asked.out.suffix == ".csv"
        for part in (_csv if is_csv else _json)(measure(asked.seconds)):
            stream.write(part)


def _csv(samples: Iterator[Sample]) -> Iterator[str]:
    yield ",".join(Sample._fields) + "\n"
    yield from (",".join(map(str, sample)) + "\n" for sample in samples)


def _json(samples: Iterator[Sample]) -> Iterator[str]:
    """Yield each sample as it is made: kept ones would be a growth of memory themselves."""
    for number, sample in enumerate(samples):
        yield f"{',' if number else '['}\n {json.dumps(sample._asdict())}"
    yield "\n]\n"


if __name__ == "__main__":
    main()
