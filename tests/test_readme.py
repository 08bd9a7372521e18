"""The README is true: its examples print what it says, and the names in it exist."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rehydrate import cli

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


EXAMPLES = re.findall(r"```python\n((?:(?!```).)*)```\n```text\n(.*?)```", README, re.S)
COMMANDS = re.findall(r"^rehydrate .*|(?<=\| )rehydrate .*", README.replace("\\\n", ""), re.M)


@pytest.mark.parametrize(("code", "printed"), EXAMPLES)
def test_an_example_prints_what_the_readme_says(code: str, printed: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout == printed


def test_there_is_an_example_of_messages_of_excerpts_and_of_an_embedder() -> None:
    code = "\n".join(code for code, _ in EXAMPLES)
    for name in ("compact_context(", 'granularity="excerpt"', "Embedder("):
        assert name in code


def test_code_that_prints_nothing_is_python_all_the_same() -> None:
    for code in re.findall(r"```python\n(.*?)```", README, re.S):
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        compile(code, "README.md", "exec", flags=flags)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_is_one_that_the_command_line_knows(command: str) -> None:
    _, *arguments = shlex.split(command, comments=True)
    assert arguments
    cli._parser().parse_args(arguments)  # exits where it does not know them


def test_every_file_that_the_readme_links_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README) + re.findall(r'src(?:set)?="([^"]+)"', README)
    assert any(link.endswith(".md") for link in links) and any("pictures" in link for link in links)
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
