"""Two threads against one, over different conversations: `python -m benches.python.threads`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from statistics import median
from typing import Any

import rehydrate
from benches.python.inputs import QUERY, RATIO, Message, generated_session
from rehydrate import _native

THREADS = (1, 2)
ROUNDS = 7
SECONDS = 0.5
COLD_SESSIONS = 24
"""Sessions for each thread and round: more than it compacts in a round."""


def measure(rounds: int = ROUNDS, seconds: float = SECONDS) -> list[dict[str, Any]]:
    """Measure compactions a second by case and threads, medians of rounds that take turns."""
    sessions = [
        [generated_session(number=1 + thread * COLD_SESSIONS + n) for n in range(COLD_SESSIONS)]
        for thread in range(max(THREADS))
    ]
    rows = []
    for case, query in (
        ("cold", None),
        ("cold, query", QUERY),
        ("warm", None),
        ("warm, query", QUERY),
    ):
        is_cold = case.startswith("cold")
        rates: dict[int, list[float]] = {threads: [] for threads in THREADS}
        for _ in range(rounds):
            for threads in THREADS:
                rates[threads].append(_rate(sessions[:threads], query, is_cold, seconds))
        one = median(rates[1])
        rows += [
            {
                "case": case,
                "threads": threads,
                "per_second": median(found),
                "speedup": median(found) / one,
            }
            for threads, found in rates.items()
        ]
    return rows


def _rate(
    sessions: list[list[list[Message]]], query: str | None, is_cold: bool, seconds: float
) -> float:
    _native.clear_cache()
    if not is_cold:
        for own in sessions:
            rehydrate.compact_context(own[0], query, RATIO)

    def work(own: list[list[Message]]) -> Callable[[], float]:
        # Cold: a session is used once. Warm: the same one again and again, as in a long turn.
        each: Iterator[list[Message]] = iter(own) if is_cold else cycle(own[:1])

        def run() -> float:
            done, started = 0, time.perf_counter()
            for session in each:
                rehydrate.compact_context(session, query, RATIO)
                done += 1
                if time.perf_counter() - started >= seconds:
                    break
            return done / (time.perf_counter() - started)

        return run

    with ThreadPoolExecutor(len(sessions)) as pool:
        return sum(future.result() for future in [pool.submit(work(own)) for own in sessions])


def main() -> None:
    """Print the rows as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="a round and a row")
    asked = parser.parse_args()
    json.dump(measure(asked.rounds, asked.seconds), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
