"""The table of a quick run: each figure with a target, next to its peers and the quick run before.

`make bench QUICK=1` prints it and writes it to `target/bench/quick/QUICK.md`. RESULTS.md holds
figures of full runs only, and says what limits each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from benches.report.figures import KEPT, Figures, moment
from benches.report.markdown import table
from benches.report.rows import Row, number
from benches.report.sections.compaction import rows as compaction_rows
from benches.report.sections.footprint import rows as footprint_rows
from benches.report.sections.preamble import environment
from benches.report.sections.retention import rows as retention_rows
from benches.report.sections.threads import rows as threads_rows
from benches.report.sections.tokens import rows as tokens_rows
from benches.report.size import SIZE

FILE = KEPT / "QUICK.md"
BEFORE = KEPT / "before.jsonl"
HEADER = ["case", "want", "measured", "", "before", "compared in the same run"]

Headlines = Mapping[str, Sequence[Row]]
"""Rows with a target, by section."""


@dataclass(frozen=True, slots=True)
class Before:
    """The quick run before: what it was made on, and its values by section and case."""

    about: str = ""
    values: dict[tuple[str, str], float] = field(default_factory=dict)

    def beside(self, title: str, row: Row) -> str:
        """Return its value of the row, and how many times that ours is now."""
        value = self.values.get((title, row.case))
        if value is None or row.value is None:
            return ""
        return f"{number(value)} ({number(row.value / value)} x)" if value else number(value)


def headlines(of: Figures) -> Headlines:
    """Return all rows that were measured and have a target, by section."""
    sections = {
        "One compaction, from Python": compaction_rows(of),
        "Tokens": tokens_rows(of),
        "Threads": threads_rows(of),
        "Retention": retention_rows(of),
        **{part.title: part.rows for part in of.parts.values() if part},
        "Footprint": footprint_rows(of),
    }
    found = {
        title: [row for row in rows if row.is_wanted and row.value is not None]
        for title, rows in sections.items()
    }
    return {title: rows for title, rows in found.items() if rows}


def report(of: Figures, before: Before) -> Iterable[str]:
    """Yield the lines of the report."""
    yield from ("# A quick run", "", SIZE.made_smaller, "")
    yield f"Written by `make bench QUICK=1` on {datetime.now().astimezone():%Y-%m-%d %H:%M}."
    yield "Medians. Times depend on the machine and its load; ratios are from one run."
    yield f"Before: {before.about or 'this is the first quick run here'}."
    yield ""
    yield from environment(of)
    for step, why in of.run.get("failed", {}).items():
        yield f"- **not measured: {step}: {why}**"
    yield ""
    yield from table(HEADER, _lines(headlines(of), before))


def read_before(file: Path = BEFORE) -> Before:
    """Return the quick run before; an empty one if there is none."""
    if not file.exists():
        return Before()
    about, *rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return Before(about, {(title, case): value for title, case, value in rows})


def keep(of: Figures, file: Path = BEFORE) -> None:
    """Keep the values for the next quick run to compare with."""
    commit = of.run.get("about", {}).get("commit", "?")
    about = f"commit {commit}, {moment(of.run.get('began', 0)):%Y-%m-%d %H:%M}"
    rows = [(title, row.case, row.value) for title, rows in headlines(of).items() for row in rows]
    lines = map(json.dumps, [about, *rows])
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _lines(found: Headlines, before: Before) -> Iterator[list[str]]:
    for title, rows in found.items():
        yield [f"**{title}**", *[""] * (len(HEADER) - 1)]
        for row in rows:
            case, want, beyond, measured, verdict, beside, _ = row.cells()
            yield [case, want or beyond, measured, verdict, before.beside(title, row), beside]
