"""`rehydrate batch`: a folder of transcripts, or a table of them, to one Parquet file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rehydrate._text import plural
from rehydrate.cli.options import (
    JUDGING,
    SHAPE,
    SIZE,
    Commands,
    compact_options,
    group,
    one_of,
    option,
    whole_number,
)
from rehydrate.cli.terminal import Failure, Progress, Terminal, answer, size
from rehydrate.compact.options import OPTIONS

if TYPE_CHECKING:
    from rehydrate.batch.run import BatchReport

INTERRUPTED = 128 + 2
_WORKERS = whole_number(1, 1_024, "isn't a number of processes from 1 to 1,024")


command = Commands()


@command(
    "compact a folder or a table of conversations, on all cores",
    option("INPUT", "a folder, or a table of conversations"),
    option("-o --output FILE", "the Parquet file to write", Path, required=True),
    group(
        "what to do with each conversation (default: compact it)",
        one_of(
            option("--messages", "write the kept messages too, as JSON"),
            option("--count", "only count its tokens"),
            option("--retention", "measure what is used later, and what of that it keeps"),
        ),
    ),
    group("what to keep", *SIZE, *SHAPE),
    group("how to judge", *JUDGING),
    group(
        "how to run",
        option("--workers N", "processes (default: one for each core)", _WORKERS),
        option("--restart", "forget the finished parts of an earlier run"),
        option("--json", "print what was done as JSON"),
    ),
    epilog="""\
INPUT is a folder, which is searched for .jsonl, .json, .ndjson and .traj (a conversation each, in
any shape that `rehydrate compact` reads) and for tables; or a single table. A table is .parquet,
.arrow or .feather with the columns id, messages (the JSON of a list of messages) and, if rows have
one, query; or JSON Lines with these keys. docs/batches.md lists the columns of the result.

Each worker is a process. One that is killed is replaced; a run that is killed goes on where it was
when the same command is given again: finished parts are in FILE.parts until all is done.

example:
  rehydrate batch transcripts.parquet -o kept.parquet --ratio 0.3 --messages
""",
)
def _batch(options: argparse.Namespace) -> None:
    from rehydrate.batch.run import run_batch

    if not str(options.input):
        raise Failure("INPUT is empty; name a folder or a table")
    job, passed = _job(options)
    watcher = _Watcher("batch", "rows", shows_rate=True)
    try:
        report = run_batch(
            Path(options.input),
            options.output,
            job,
            passed,
            workers=options.workers,
            restart=options.restart,
            watcher=watcher,
        )
    except KeyboardInterrupt:
        of = f" of {watcher.rows:,}" if watcher.rows is not None else ""
        raise Failure(
            f"interrupted: {watcher.done:,}{of} rows are done, in {options.output}.parts; the "
            "same command goes on from there",
            INTERRUPTED,
        ) from None
    finally:
        watcher.__exit__()
    answer(options, report.to_dict(), lambda terminal: _lines(report, options.input, terminal))


def _job(options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """Return the job and its options; raises Failure for an option that it does not take."""
    from rehydrate.batch import worker

    every = compact_options(options)
    if not (options.count or options.retention):
        return worker.COMPACT, {**every, "messages": options.messages}
    if options.count:
        job, name, takes = worker.COUNT, "--count", {"format"}
    else:
        job, name = worker.RETENTION, "--retention"
        takes = every.keys() - {"query", "budget_tokens", "model", "provider"}
    passed = {key: value for key, value in every.items() if value != OPTIONS[key].default}
    for key in passed:
        if key not in takes:
            raise Failure(f"{name} takes no {_OPTION.get(key, '--' + key.replace('_', '-'))}")
    if options.count:
        passed["encoding"] = "o200k_base"
    return job, passed


_OPTION = {"target_ratio": "--ratio", "budget_tokens": "--budget", "embedder": "--embedder"}


class _Watcher(Progress):
    """Shows the progress of a batch, once it has begun, and counts its rows."""

    rows: int | None = None
    done = 0

    def begin(self, rows: int | None) -> None:
        """Start the bar."""
        self.rows = self._total = rows
        self.__enter__()

    def take(self, rows: int) -> None:
        """Count rows that were finished before."""
        self.done += rows
        self.skip(rows)

    def advance(self, rows: int) -> None:
        """Count rows that are finished now."""
        self.done += rows
        super().advance(rows)


def _lines(report: BatchReport, name: str, terminal: Terminal) -> Iterator[str]:
    """Yield the outcome, in lines."""
    yield terminal.paint(
        f"{plural(report.rows, 'row')} of {terminal.safe(name)} in "
        f"{terminal.safe(str(report.output))}, {size(report.output_bytes)}",
        "bold",
    )
    sums, means = report.sums, report.means
    if "before_tokens" in sums:
        before, after = sums["before_tokens"], sums["after_tokens"]
        less = f" (-{1 - after / before:.1%})" if before else ""
        arrow = terminal.glyph("→", "->")
        yield f"  tokens     {before:,} {arrow} {after:,}{less}"
    if "tokens" in sums:
        yield f"  tokens     {sums['tokens']:,}"
    if "cuts" in sums:
        yield f"  measured   {plural(sums['cuts'], 'cut')}, {sums['needed']:,} names used later"
    if "used_later" in means:
        yield f"  used later {means['used_later']:.2f} of the names kept, the mean over rows"
        yield f"  size       {means['cost_ratio']:.1%} of the tokens kept"
    if report.errors:
        yield f"  errors     {plural(report.errors, 'row')} without a result, in the column error:"
        for error in report.first_errors:
            line = f"             {terminal.safe(error.id)}: {terminal.safe(error.error)}"
            yield terminal.cut(line, terminal.width)
        if report.errors > len(report.first_errors):
            yield f"             and {report.errors - len(report.first_errors):,} more"
    if report.taken_rows:
        yield f"  taken      {plural(report.taken_rows, 'row')} finished by an earlier run"
    if report.lost_parts:
        parts = plural(report.lost_parts, "part")
        yield f"  made anew  {parts} of an earlier run: the files have changed since"
    if report.use.ended:
        ended = plural(report.use.ended, "worker process", "worker processes")
        yield f"  replaced   {ended} that ended in the middle of a part"
    yield (
        f"  time       {report.seconds:,.1f} s, {report.rows_per_second:,.0f} rows/s, "
        f"{report.cores:.2f} cores by {plural(report.workers, 'worker')}"
    )
    if report.use.peak_bytes:
        yield f"  memory     {size(report.use.peak_bytes)} at most in a worker"
