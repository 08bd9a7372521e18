"""Two threads against one, over different conversations: `python -m benches.python.threads`.

A call reads new texts on a second thread where there is a second processor. So one thread works in
a process that has one processor, and two threads in a process that has two.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import cycle
from multiprocessing import get_context
from statistics import median
from typing import Any

import rehydrate
from benches.python.inputs import QUERY, RATIO, Message, generated_session
from benches.report.load import pin
from benches.report.size import SIZE
from rehydrate import _native

THREADS = (1, 2)
SECONDS = 0.5
COLD_SESSIONS = 48
"""Sessions for each thread and round: more than it compacts in a round."""
CASES = {"cold": None, "cold, query": QUERY, "warm": None, "warm, query": QUERY}

Sessions = list[list[Message]]


def measure(rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Measure compactions a second by case and threads, medians of rounds that take turns."""
    spawn = get_context("spawn")
    workers = {threads: spawn.Pool(1, pin, (threads,)) for threads in THREADS}
    rows = []
    for case in CASES:
        rates: dict[int, list[float]] = {threads: [] for threads in THREADS}
        for _ in range(rounds):
            for threads, worker in workers.items():
                rates[threads].append(worker.apply(_rate, (threads, case, seconds)))
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
    for worker in workers.values():
        worker.close()
        worker.join()
    return rows


@cache
def _sessions(thread: int) -> Sessions:
    """Return conversations that no other thread has."""
    first = 1 + thread * COLD_SESSIONS
    return [generated_session(number=first + more) for more in range(COLD_SESSIONS)]


def _rate(threads: int, case: str, seconds: float) -> float:
    """Return compactions a second of so many threads at once."""
    sessions, query = [_sessions(thread) for thread in range(threads)], CASES[case]
    is_cold = case.startswith("cold")
    _native.clear_cache()
    if not is_cold:
        for own in sessions:
            rehydrate.compact_context(own[0], query, RATIO)

    def work(own: Sessions) -> Callable[[], float]:
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
    parser.add_argument("--rounds", type=int, default=SIZE.thread_rounds)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="a round and a row")
    asked = parser.parse_args()
    json.dump(measure(asked.rounds, asked.seconds), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
