"""docs/model-clients.md tells the truth: its examples run, in order, and print what it says."""

import re
import subprocess
import sys

import pytest

from rehydrate.agent.models import anthropic
from tests.stress.programs import ROOT

PAGE = (ROOT / "docs" / "model-clients.md").read_text(encoding="utf-8")


def test_the_examples_print_what_the_page_says():
    pytest.importorskip("anthropic")
    pytest.importorskip("openai")
    blocks = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", PAGE, re.S)
    assert len(blocks) == 3
    code = "".join(code for code, _ in blocks)
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert run.stdout == "".join(printed for _, printed in blocks)


def test_its_figures_are_those_of_the_code():
    assert f"{anthropic.MAX_TOKENS:,} unless named" in PAGE
