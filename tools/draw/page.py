"""The example session before and after, as the page shows it: photographs by chromium."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import rehydrate
from rehydrate.page import side_by_side

SESSION = Path("examples") / "session.jsonl"
QUERY = "which house rules did the user give?"
RATIO = 0.1
SCHEMES = {"light": 1, "dark": 0}
"""As chromium numbers them."""
WIDTH, HEIGHT, DENSITY = 1200, 1040, 1.25


def draw_page(folder: Path) -> None:
    """Write side-by-side.png and side-by-side-dark.png."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("chromium is not installed; apt-get install chromium")
    lines = (Path(__file__).parents[2] / SESSION).read_text(encoding="utf-8").splitlines()
    session = [json.loads(line) for line in lines]
    compaction = rehydrate.compact_context(session, QUERY, RATIO, granularity="excerpt")
    with tempfile.TemporaryDirectory() as drafts:
        page = Path(drafts) / "page.html"
        page.write_text(
            side_by_side(session, compaction, query=QUERY, title=SESSION.as_posix()),
            encoding="utf-8",
        )
        for scheme, number in SCHEMES.items():
            name = "side-by-side.png" if scheme == "light" else f"side-by-side-{scheme}.png"
            subprocess.run(
                [
                    *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                    f"--blink-settings=preferredColorScheme={number}",
                    f"--force-device-scale-factor={DENSITY}",
                    f"--window-size={WIDTH},{HEIGHT}",
                    f"--screenshot={(folder / name).resolve()}",
                    page.as_uri(),
                ],
                check=True,
                capture_output=True,
            )
