"""The README tells the truth: its example prints what it says, and what it names exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_prints_what_the_readme_says() -> None:
    found = re.search(r"```python\n(.*?)```\n```text\n(.*?)```", README, re.S)
    assert found is not None
    code, printed = found.groups()
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout == printed


def test_every_file_that_the_readme_links_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_place_on_the_map_exists() -> None:
    table = README[README.index("## The map") :]
    places = re.findall(r"^\| `([^`]+)` \|", table, re.M)
    assert places
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_every_make_target_that_the_readme_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^make (\w+)", README, re.M)
    assert {"demo", "test"} <= set(targets)
    assert [target for target in targets if f"\n{target}:" not in makefile] == []
