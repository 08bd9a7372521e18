"""A thread that never ends: `python -m benches.python.endless [--turns N]`.

One stored thread with background compaction: the time of its prompts at the beginning and at the
end, of those that swap a summary in, the size of prompts, and what a turn leaves on the disk and in
memory. Beside it the same thread without a store.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

from benches.report.rows import Part, Row, number
from benches.report.size import SIZE
from rehydrate.context import BackgroundCompaction, Context, Threads
from rehydrate.prompt import Budget

BUDGET = Budget(soft_tokens=24_000, hard_tokens=48_000)
WANT_SWAP_MS, WANT_HALF = 10.0, 0.5
_RESULT = "the berth was looked at, and a ferry lies there until noon. " * 20


class Endless:
    """One thread, and the milliseconds of its calls."""

    def __init__(self, threads: Threads | None) -> None:
        """Begin it, stored or not."""
        self.events: list[str] = []
        self.context = Context(
            threads=threads,
            thread="endless" if threads else "",
            budget=BUDGET,
            background=BackgroundCompaction(on_event=lambda event: self.events.append(event.kind)),
        )
        self.prompts: list[float] = []
        self.swaps: list[float] = []
        self.adds: list[float] = []
        self.fullest = 0

    def turn(self, number: int) -> None:
        """Do one turn of a call and an answer."""
        swapped = self.events.count("swapped")
        began = time.perf_counter()
        self.context.prompt(f"What is at berth {number}? Write it to notes/berth{number % 500}.md.")
        took = (time.perf_counter() - began) * 1e3
        is_swap = self.events.count("swapped") > swapped
        (self.swaps if is_swap else self.prompts).append(took)
        path = f"notes/berth{number % 500}.md"
        use = {"type": "tool_use", "id": f"t{number}", "name": "Write", "input": {"path": path}}
        self._add({"role": "assistant", "content": [use]})
        result = {
            "type": "tool_result",
            "tool_use_id": use["id"],
            "content": f"{number}: {_RESULT}",
        }
        self._add({"role": "user", "content": [result]})
        self.context.prompt()
        self.fullest = max(self.fullest, self.context.usage.upper_bound_tokens)
        self._add({"role": "assistant", "content": f"A ferry lies at berth {number}."})

    def _add(self, entry: object) -> None:
        began = time.perf_counter()
        self.context.add(entry)
        self.adds.append((time.perf_counter() - began) * 1e3)


def rows(turns: int) -> list[Row]:
    """Run the threads, and return the rows."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "threads.db"
        with (
            Threads.open(file, namespace="bench") as entries,
            Threads.open(Path(folder) / "turns.db", namespace="bench", durability="turn") as each,
        ):
            stored, by_turn, alone = Endless(entries), Endless(each), Endless(None)
            few = turns // 10
            for number_ in range(few):
                for one in (stored, by_turn, alone):
                    one.turn(number_)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for number_ in range(few, turns):
                stored.turn(number_)
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
            began = time.perf_counter()
            again = Context(threads=entries, thread="endless", budget=BUDGET)
            opened = (time.perf_counter() - began) * 1e3
            assert len(again.history) == 4 * turns
        size = file.stat().st_size
    first, last = stored.prompts[:few], stored.prompts[-few:]
    percentiles = quantiles(stored.swaps, n=100, method="inclusive")
    text = f"{turns:,} turns of 4 entries, {len(stored.swaps):,} summaries swapped in"
    return [
        Row(
            "a prompt that swaps a summary in, p99",
            percentiles[98],
            "ms",
            WANT_SWAP_MS,
            beside=f"p50 {number(percentiles[49])} ms; others p50 {number(median(last))} ms",
            limit="The whole prompt is laid out anew, since its prefix is another one",
        ),
        Row(
            "a prompt of the last tenth of the turns, p50, by one of the first tenth",
            median(last) / median(first),
            "",
            beside=f"{number(median(first))} and {number(median(last))} ms; {text}",
            limit="What the prompt shows does not grow; the list of all entries does",
        ),
        Row(
            "the fullest prompt's upper bound, by the hard limit",
            stored.fullest / BUDGET.hard_tokens,
            "",
            WANT_HALF,
            limit="A summary begins at 70% of the soft limit, half of the hard one",
        ),
        Row(
            "add of an entry that is on disk when it returns, p50",
            median(stored.adds),
            "ms",
            beside=f"with the turn {number(median(by_turn.adds))} ms, without a store "
            f"{number(median(alone.adds))} ms",
            limit="The disk's sync",
        ),
        Row("on disk for a turn", size / turns, "bytes", limit=f"Its texts are {_text_bytes()}"),
        Row("in memory for a turn", grown / (turns - few), "bytes", limit="All entries are held"),
        Row("open a thread", opened, "ms", beside=f"{4 * turns:,} entries", limit="Read, counted"),
    ]


def _text_bytes() -> str:
    return f"{len(_RESULT) + 300:,} bytes"


def main() -> None:
    """Print the part as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benches.python.endless", description=__doc__)
    parser.add_argument("--turns", type=int, default=10_000 if SIZE.name == "full" else 400)
    about = "A stored thread of one process, with the context store as the writer of summaries."
    print(Part("Endless threads", about, rows(parser.parse_args().turns)).to_json())


if __name__ == "__main__":
    main()
