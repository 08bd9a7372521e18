"""Measure, and print a Part, or lines: see `benches/python/postgres/__init__.py`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benches.python.inputs import ROOT
from benches.python.postgres import quality, speed, writers
from benches.report.rows import Part, Row
from benches.report.size import SIZE

URL = "REHYDRATE_POSTGRES_URL"
MEASURES = ("quality", "speed", "writers")


def main() -> None:
    """Measure on the server of the environment; without one, start one and run again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, nargs="+", default=[SIZE.postgres_items])
    parser.add_argument("--only", choices=MEASURES, nargs="+", default=MEASURES)
    parser.add_argument("--table", action="store_true", help="print lines")
    options = parser.parse_args()
    if URL not in os.environ:
        command = [str(ROOT / "tools" / "postgres"), sys.executable, "-m", __spec__.parent or ""]
        os.execv(command[0], [*command, *sys.argv[1:]])
    rows: list[Row] = []
    data = os.environ.get("REHYDRATE_DATA")
    if "quality" in options.only and data:
        rows += quality.rows(os.environ[URL], Path(data) / "locomo_dev.json")
    if "speed" in options.only:
        rows += speed.rows(os.environ[URL], options.items)
    if "writers" in options.only:
        rows += writers.rows(os.environ[URL])
    if options.table:
        for row in rows:
            print(" | ".join(row.cells()))
        return
    about = (
        "A memory on a server of this machine, by `tools/postgres` (Debian's PostgreSQL, without "
        "pgvector), fsync on. Texts and questions as in the file's rows above."
    )
    print(Part("PostgreSQL", about, rows).to_json())


if __name__ == "__main__":
    main()
