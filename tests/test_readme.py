"""The README names what exists: commands, and targets of make."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from rehydrate import cli

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

COMMANDS = re.findall(r"^rehydrate .*|(?<=\| )rehydrate .*", README.replace("\\\n", ""), re.M)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_is_one_that_the_command_line_knows(command: str) -> None:
    _, *arguments = shlex.split(command, comments=True)
    assert arguments
    cli._parser().parse_args(arguments)  # exits where it does not know them


def test_every_make_target_that_the_readme_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^make (\w+)", README, re.M)
    assert {"demo", "test"} <= set(targets)
    assert [target for target in targets if f"\n{target}:" not in makefile] == []
