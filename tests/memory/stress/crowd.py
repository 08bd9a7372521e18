"""Many processes of many threads on one file: no item lost or doubled, no process locked out."""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rehydrate import Memory
from rehydrate.memory import store
from tests.memory.stress.truth import WORDS_ONLY, check_found, listed, name_of, text_of

PROCESSES = 4
THREADS = 16
SPACE = "all"
STRIDE = 1_000_000
"""Range of item numbers for one thread, so that a number tells its thread."""


def number_of(process: int, thread: int, serial: int) -> int:
    return (process * THREADS + thread + 1) * STRIDE + serial


def work(path: str, process: int, seconds: float, board: Any, out: Any) -> None:
    """Run all threads of a process; report how many items each added and what went wrong."""
    failures: list[str] = []
    counts = [0] * THREADS
    seen: set[int] = set()
    end = time.monotonic() + seconds

    def find(memory: Memory, number: int) -> None:
        word = name_of(SPACE, number)
        hits = memory.search(word, 3, namespace=SPACE, fusion=WORDS_ONLY)
        assert word in {hit.item.text.split()[-1] for hit in hits}, f"{number} is not found"

    def one(memory: Memory, thread: int) -> None:
        chance = random.Random(f"{process} {thread}")
        place = process * THREADS + thread
        try:
            while time.monotonic() < end:
                many = chance.choice([1, 1, 1, 5])
                numbers = [number_of(process, thread, counts[thread] + n) for n in range(many)]
                texts = [text_of(SPACE, number) for number in numbers]
                added = memory.add(texts, namespace=SPACE)
                assert all(one.created for one in added)
                counts[thread] += many
                board[place] = counts[thread]
                find(memory, chance.choice(numbers))
                # An item that another thread, mostly of another process, reports as added.
                other = chance.randrange(PROCESSES * THREADS)
                if there := board[other]:
                    find(memory, number_of(0, other, chance.randrange(there)))
                    seen.add(other // THREADS)
                memory.recall(texts[:1], 3, namespace=SPACE)
        except BaseException as error:
            failures.append(f"process {process} thread {thread}: {error!r}")

    # On a busy machine 64 threads wait long for each other; only one that waits on is locked out.
    patient = partial(store.LocalStore, busy_seconds=600)
    with patch.object(store, "LocalStore", patient), Memory.open(path) as memory:
        threads = [threading.Thread(target=one, args=(memory, n)) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    out.put((process, counts, sorted(seen), failures))


def run_trials(folder: Path, trials: int, seed: int, say: Callable[[str], None]) -> str:
    """Run for `trials` seconds; return what was seen, in a line."""
    path = folder / "memory.db"
    context = multiprocessing.get_context("spawn")
    board, out = context.RawArray("q", PROCESSES * THREADS), context.Queue()
    processes = [
        context.Process(target=work, args=(os.fspath(path), n, trials, board, out))
        for n in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    results = [out.get(timeout=trials + 1_000) for _ in processes]
    for process in processes:
        process.join()
    failures = [failure for *_, found in results for failure in found]
    assert not failures, failures[:5]
    wanted = {
        number_of(process, thread, serial)
        for process, counts, *_ in results
        for thread, count in enumerate(counts)
        for serial in range(count)
    }
    met = sum(len(seen) for _, _, seen, _ in results)
    with Memory.open(path) as memory:
        report = memory.verify()
        assert (report.ok, report.damaged_indexes) == (True, 0), report
        items = listed(memory, SPACE)
        assert items.keys() == wanted, f"{len(items)} items for {len(wanted)}"
        check_found(memory, SPACE, items, [], random.Random(seed))
        memory.rebuild()
        check_found(memory, SPACE, items, [], random.Random(seed))
    return (
        f"{PROCESSES} processes of {THREADS} threads for {trials} s: {len(wanted)} items, no "
        f"loss, none twice, no failure; {met} of {PROCESSES**2} pairs of processes met"
    )
