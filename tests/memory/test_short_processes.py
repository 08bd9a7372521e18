"""Short processes: an index grows from one to the next, however each of them ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from rehydrate import Context, Memory
from tests.stress.programs import run_python

ITEMS = 12_000
FILED = 2_048
"""With fewer items than this, a search indexes them at once."""

ADD = """
    import os, sys
    from rehydrate import Memory

    memory = Memory.open(sys.argv[1], namespace="a")
    note = "Note {0}: the crane of quay {1} was moved on day {0}"
    memory.add([note.format(n, n % 97) for n in range(int(sys.argv[2]))])
    ending = sys.argv[3]
    if ending == "closes":
        memory.close()
    elif ending == "is killed":
        os.kill(os.getpid(), 9)
"""
PROMPT = """
    import sys
    from rehydrate import Context, Memory

    memory = Memory.open(sys.argv[1], namespace="a")
    Context(memory, system="You help.").prompt("which crane was moved on day 77?")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def pending(path: Path) -> int:
    """Return the number of items that no index file holds."""
    with Memory.open(path, namespace="a", read_only=True) as memory:
        return memory.stats().pending


def status_of_recall(path: Path) -> str:
    """Return the status of a memory search for a prompt without a deadline."""
    with Memory.open(path, namespace="a") as memory:
        prompt = Context(memory, system="You help.", timeout=60).prompt(
            "which crane was moved on day 77?"
        )
    assert "on day 77" in str(prompt.request)
    return next(report.status for report in prompt.ir.meta.sources if report.name == "semantic")


def test_processes_that_prompt_once_index_what_a_killed_one_added(path: Path):
    assert run_python(ADD, str(path), str(ITEMS), "is killed").code == -9
    left = [pending(path)]
    while left[-1] >= FILED:
        assert run_python(PROMPT, str(path)).code == 0
        left.append(pending(path))
        assert len(left) < 20, left
    assert left == sorted(left, reverse=True)
    assert status_of_recall(path) == "ok"


@pytest.mark.parametrize("ending", ["closes", "exits"])
def test_who_adds_leaves_an_index(path: Path, ending: str):
    assert run_python(ADD, str(path), "3000", ending).code == 0
    assert pending(path) < FILED
    assert status_of_recall(path) == "ok"
