"""A command line to run, and small sessions to run it on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.started import Started
from tests.sizes import PATIENCE_SECONDS

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]

_TERMINAL_VARIABLES = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM", "PYTHONIOENCODING")


@pytest.fixture(scope="session")
def started() -> Iterator[Started | None]:
    """A command line to fork from, where that is known to work."""
    if sys.platform != "linux":
        yield None
        return
    with Started() as started:
        yield started


@pytest.fixture
def run(started: Started | None, tmp_path: Path) -> Run:
    """`run("compact", "x.json", stdin=b"...", env={...})`, in a directory of its own."""

    def run(
        *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        base = {key: value for key, value in os.environ.items() if key not in _TERMINAL_VARIABLES}
        every = {**base, "PYTHONUTF8": "1", **(env or {})}
        if started and "PYTHONPATH" not in (env or {}):
            return started.run(arguments, stdin=stdin, env=every, cwd=tmp_path)
        return subprocess.run(  # what is imported already would not be looked for there
            [sys.executable, "-m", "rehydrate", *arguments],
            input=stdin,
            env=every,
            cwd=tmp_path,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    return run


@pytest.fixture
def chat() -> list[dict[str, Any]]:
    """A long enough conversation, with a beginning and an end."""
    topics = ["the parser of dates", "flights to Lisbon", "the login test", "a recipe for soup"]
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are brief."}]
    for turn in range(12):
        topic = topics[turn % 4]
        messages += [
            {"role": "user", "content": f"Question {turn}: what do you know about {topic}?"},
            {"role": "assistant", "content": f"Answer {turn}: {topic} has number 4{turn}7. " * 4},
        ]
    return [*messages, {"role": "user", "content": "And what was the number of Lisbon?"}]


@pytest.fixture
def transcript() -> list[str]:
    """Lines of a coding agent's transcript, spelled as no serializer would write them."""
    lines = ['{"type": "summary",  "summary": "A talk", "leafUuid": "l-1"}']
    for turn in range(8):
        call = {"type": "tool_use", "id": f"t{turn}", "name": "Read", "input": {"path": f"f{turn}"}}
        result = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": "word " * 80}
        for kind, uuid, message in (
            ("user", "u", {"role": "user", "content": f"Read f{turn}, pl\u00e9ase"}),
            ("assistant", "a", {"id": f"m{turn}", "role": "assistant", "content": [call]}),
            ("user", "r", {"role": "user", "content": [result]}),
            ("assistant", "b", {"id": f"n{turn}", "role": "assistant", "content": "Done."}),
        ):
            line = {"type": kind, "uuid": f"{uuid}{turn}", "n": 1.50, "message": message}
            lines.append(json.dumps(line).replace("1.5,", "1.50 ,"))
        lines.append(f'{{"type":"progress","uuid":"p{turn}","sessionId":"s"}}')
    return lines


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, object], Path]:
    """`write("x.json", value)`: bytes and text unchanged, lists of text as lines, else JSON."""

    def write(name: str, value: object) -> Path:
        path = tmp_path / name
        if isinstance(value, bytes):
            path.write_bytes(value)
        elif isinstance(value, str):
            path.write_bytes(value.encode())
        elif isinstance(value, list) and value and isinstance(value[0], str):
            path.write_bytes("".join([line + "\n" for line in value]).encode())
        else:
            path.write_text(json.dumps(value), encoding="utf-8")
        return path

    return write
