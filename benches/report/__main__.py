"""`python -m benches.report`: measure, unless asked not to, and write the report.

A full run writes benches/RESULTS.md; a quick one (`REHYDRATE_BENCH_SIZE=quick`) prints its table.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from benches.report import figures, quick, running
from benches.report.sections import SECTIONS
from benches.report.size import FULL, SIZE

RESULTS = Path(__file__).resolve().parents[1] / "RESULTS.md"
OUTPUT = RESULTS if SIZE is FULL else quick.FILE
BLEMISHES = ("**stale", "**noisy", "not installed", "not measured")
"""Words that a report of record does not contain."""


def main() -> None:
    """Measure, unless asked not to, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data",
        default=os.environ.get("REHYDRATE_DATA"),
        help="folder of the conversations for retention",
    )
    parser.add_argument(
        "--render-only", action="store_true", help="write the report from the last run's figures"
    )
    parser.add_argument(
        "--again", nargs="+", metavar="STEP", help="measure these steps only; the others stay"
    )
    parser.add_argument("--output", type=Path, default=OUTPUT)
    asked = parser.parse_args()
    data = Path(asked.data or figures.ROOT.parent / "shared" / "data")
    went_well = True
    if not asked.render_only:
        if not data.is_dir():
            print(f"report: no conversations in {data}: retention is left out", file=sys.stderr)
        given = data if data.is_dir() else None
        went_well = running.again(asked.again, given) if asked.again else running.run(given)
    of = figures.read(running.PARTS)
    if SIZE is FULL:
        lines = [line for section in SECTIONS for line in section(of)]
    else:
        lines = list(quick.report(of, quick.read_before()))
        print("\n".join(lines))
        if not asked.render_only:
            quick.keep(of)
    asked.output.write_text("\n".join(lines), encoding="utf-8")
    print(f"wrote {asked.output}", file=sys.stderr)
    for line in blemishes(lines) if SIZE is FULL else ():
        print(f"report: {line}", file=sys.stderr)
    sys.exit(not went_well)


def blemishes(lines: Iterable[str]) -> list[str]:
    """Return the lines with one of `BLEMISHES`, and missed targets that say no limit.

    >>> blemishes(["| growth | <= 1 |  | not measured |  |  |  |", "| import | <= 60 ms | met |"])
    ['| growth | <= 1 |  | not measured |  |  |  |']
    """
    return [
        line
        for line in lines
        if any(word in line.lower() for word in BLEMISHES)
        or ("| NOT MET |" in line and line.endswith("|  |"))
    ]


if __name__ == "__main__":
    main()
