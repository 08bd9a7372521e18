"""Programs that a test runs in a process of their own, and how they end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent, indent
from typing import NamedTuple

import pytest

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


needs_fork = pytest.mark.skipif(not hasattr(sys, "getdlopenflags"), reason="needs os.fork")


def fork_amid(
    begin: str, work: str, child: str, end: str = "", *, threads: int, forks: int
) -> Ended:
    """Fork while threads do this work all the time; each child must end, and the parent go on."""
    return run_python(
        f"""
import os, signal, threading
{begin}
over = threading.Event()

def work():
    while not over.is_set():
        {work}

threads = [threading.Thread(target=work, daemon=True) for _ in range({threads})]
for thread in threads:
    thread.start()
for _ in range({forks}):
    if (child := os.fork()) == 0:
        signal.alarm(60)  # a child that waits for ever is killed by it
{indent(child, " " * 8)}
        os._exit(7)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 7, code
over.set()
for thread in threads:
    thread.join()
{end}
print("done")
"""
    )


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
