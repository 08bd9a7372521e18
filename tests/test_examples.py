"""The examples run offline, and print what they should."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from tests.sizes import PATIENCE_SECONDS

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def printed(name: str) -> str:
    run = subprocess.run(
        [sys.executable, EXAMPLES / name],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    assert run.stderr == ""
    return run.stdout


def test_the_agent_gets_last_tuesdays_messages_and_goes_on_in_the_same_turn():
    said = printed("ask_back.py")
    assert "Tue 13:08  user: Five times, with 2, 4, 8, 16 and 32 seconds between" in said
    assert "RetryRule(attempts=5, first_seconds=2.0)" in said
    assert "Refunds are left out of it" in said
    assert "fares" not in said  # Wednesday's
    assert "the prompt extends the one before it" in said


def test_three_lines_in_a_loop_of_ones_own_bring_back_what_was_compacted_away():
    said = printed("own_loop.py")
    assert "the height of the mast is not among them" in said
    assert "user: Our boat is 14 m long and its mast is 24.5 m high." in said
    assert said.rstrip().endswith("I took berth 7, which has no crane above it.")


@pytest.mark.parametrize("line", ["jit = ContextJIT(context)", "if jit.handles(call)"])
def test_the_three_lines_are_three(line):
    assert (EXAMPLES / "own_loop.py").read_text(encoding="utf-8").count(line) == 1


def test_a_killed_server_goes_on_where_it_was():
    said = printed("killed_server.py")
    assert "answered 3 questions and ended with -9" in said and "answered 3 more" in said
    assert "begins with the last one before: True" in said and "all 12 messages: True" in said


def test_after_three_days_the_first_rule_is_there():
    said = printed("three_days.py")
    assert said.count("True; the decision too: True") == 3 and "False" not in said
    assert "day 3: 725 entries" in said and " 0 summaries" not in said


def test_the_notebook_prints_what_it_shows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(EXAMPLES)
    cells = json.loads((EXAMPLES / "first_minute.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        body = ast.parse("".join(cell["source"])).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        with redirect_stdout(StringIO()) as out:
            exec(compile(ast.Module(body, []), "cell", "exec"), names)
            shown = last and eval(compile(ast.Expression(last.value), "cell", "eval"), names)
        said = [out.getvalue()] * bool(out.getvalue()) + [repr(shown)] * (shown is not None)
        stored = [o["text"] if "text" in o else o["data"]["text/plain"] for o in cell["outputs"]]
        assert said == ["".join(lines) for lines in stored]
