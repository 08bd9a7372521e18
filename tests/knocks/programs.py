"""Programs that a test runs in a process of their own, and how they end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 120
"""A hang is told from a busy machine by this."""


class Ended(NamedTuple):
    """How a program ended."""

    code: int
    out: str
    err: str


def run_python(program: str, *arguments: str) -> Ended:
    """Run a program with this package importable; a hang fails the test."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", dedent(program), *arguments],
        env={**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)
