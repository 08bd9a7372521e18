"""Programs that a test runs in a process of their own, and how they end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

from tests.sizes import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]


class Ended(NamedTuple):
    """How a program ended."""

    code: int
    out: str
    err: str


def run_python(program: str, *arguments: str) -> Ended:
    """Run a program with this package importable; a hang fails the test."""
    return _run(PATIENCE_SECONDS, "-c", dedent(program), *arguments)


def run_module(module: str, *arguments: str) -> Ended:
    """The same of a module that is a command, and may take longer."""
    return _run(2 * PATIENCE_SECONDS, "-m", module, *arguments)


def _run(patience_seconds: float, *arguments: str) -> Ended:
    path = os.pathsep.join([str(ROOT), str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=patience_seconds,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)
