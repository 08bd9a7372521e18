"""`python -m benches.report`: measure, unless told not to, and write benches/RESULTS.md."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benches.report import figures, running
from benches.report.sections import SECTIONS

RESULTS = Path(__file__).resolve().parents[1] / "RESULTS.md"


def main() -> None:
    """Measure, unless told not to, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data",
        default=os.environ.get("REHYDRATE_DATA"),
        help="folder of the conversations for retention",
    )
    parser.add_argument(
        "--build-wheel",
        action="store_true",
        help="build a wheel to weigh; else the newest in dist/",
    )
    parser.add_argument(
        "--render-only", action="store_true", help="write the report from the last run's figures"
    )
    parser.add_argument("--output", type=Path, default=RESULTS)
    asked = parser.parse_args()
    data = asked.data or figures.ROOT.parent / "shared" / "data"
    went_well = True
    if not asked.render_only:
        if not Path(data).is_dir():
            print(f"report: no conversations in {data}: retention is left out", file=sys.stderr)
        went_well = running.run_python_benches(
            str(data) if Path(data).is_dir() else None, asked.build_wheel
        )
    of = figures.read(running.PARTS)
    lines = [line for section in SECTIONS for line in section(of)]
    asked.output.write_text("\n".join(lines), encoding="utf-8")
    print(f"wrote {asked.output}")
    sys.exit(not went_well)


if __name__ == "__main__":
    main()
