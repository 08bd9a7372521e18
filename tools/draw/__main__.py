"""Draw docs/pictures: `python -m tools.draw --terminal --page --inspector --rss F --threads F`.

The pages of the example session need chromium, the terminal nothing. The others need `pip install
-r tools/draw/requirements.txt`, and figures from the benches: `make bench` leaves
target/bench/threads.json, and

    python -m benches.python.memory_loop --seconds 3600 --out target/bench/rss.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"


def main() -> None:
    """Draw the pictures for which figures were given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rss", type=Path, help="rows of t_seconds, rss_bytes, compactions")
    parser.add_argument("--threads", type=Path, help="rows of threads, per_second and maybe case")
    parser.add_argument(
        "--page", action="store_true", help="the page of the example session before and after"
    )
    parser.add_argument(
        "--inspector", action="store_true", help="the prompt of the example session's next turn"
    )
    parser.add_argument("--terminal", action="store_true", help="the pictures of README.md")
    parser.add_argument("--out", type=Path, default=PICTURES, help="folder of the pictures")
    asked = parser.parse_args()
    if not any((asked.rss, asked.threads, asked.page, asked.inspector, asked.terminal)):
        parser.error("nothing to draw; pass --page, --inspector, --terminal, --rss or --threads")
    asked.out.mkdir(parents=True, exist_ok=True)
    # Imported late: --help and the pages need no matplotlib.
    if asked.page:
        from tools.draw.page import draw_page

        draw_page(asked.out)
    if asked.inspector:
        from tools.draw.page import draw_inspector

        draw_inspector(asked.out)
    if asked.terminal:
        from tools.draw.terminal import draw_before_after, draw_terminal

        draw_before_after(asked.out / "before_after.svg")
        draw_terminal(asked.out / "ask_back.svg")
    if asked.rss is not None:
        from tools.draw.rss import draw_rss

        draw_rss(_rows(asked.rss), asked.out / "rss.png")
    if asked.threads is not None:
        from tools.draw.threads import draw_threads

        draw_threads(_rows(asked.threads), asked.out / "threads.png")


def _rows(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return rows


if __name__ == "__main__":
    main()
