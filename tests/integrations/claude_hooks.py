"""The hooks of Claude Code and Codex as processes, and transcripts for them to read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.sizes import PATIENCE_SECONDS

SESSION = Path(__file__).parents[2] / "examples" / "session.jsonl"
MODULE = "rehydrate.integrations.claude_code.hook"
PROJECT = "/work/shop"
SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"


def environment(home: Path, **more: str) -> dict[str, str]:
    """A machine whose home is this folder, and nobody's settings."""
    kept = ("PATH", "PYTHONPATH", "SYSTEMROOT", "LD_LIBRARY_PATH")
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "HOME": str(home),
        "REHYDRATE_HOME": str(home / "data"),
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "CODEX_HOME": str(home / "codex"),
        "REHYDRATE_HOOK_SECONDS": "200",  # a busy machine makes no hook late
        "PYTHONUTF8": "1",
        **more,
    }


def run_hook(
    home: Path, event: str, given: bytes | None, *agent: str, **env: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a hook with these bytes on standard input; None: a closed one."""
    return subprocess.run(
        [sys.executable, "-P", "-m", MODULE, event, *agent],
        stdin=subprocess.DEVNULL if given is None else None,
        **({} if given is None else {"input": given}),
        capture_output=True,
        check=False,
        env=environment(home, **env),
        timeout=PATIENCE_SECONDS,
    )


def hook(home: Path, event: str, given: Mapping[str, Any], *agent: str, **env: str) -> Any:
    """Run a hook as the agent does, and return what it printed, read as JSON; None: nothing."""
    done = run_hook(home, event, json.dumps(given).encode(), *agent, **env)
    assert done.returncode == 0
    assert not done.stderr
    return json.loads(done.stdout) if done.stdout else None


def context_of(reply: Any) -> str:
    """Return the text that a hook gives the model."""
    text = reply["hookSpecificOutput"]["additionalContext"]
    assert isinstance(text, str)
    return text


def payload(transcript: Path = SESSION, session: str = "s-1", **fields: object) -> dict[str, Any]:
    """Return a hook's input, with a field that nobody knows yet."""
    common = {"session_id": session, "transcript_path": str(transcript), "cwd": PROJECT}
    return {**common, "permission_mode": "default", "a_field_of_2030": [1], **fields}


def write_lines(path: Path, lines: Iterable[object]) -> Path:
    """Write a transcript; texts are lines as they are, anything else is JSON."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join([f"{text}\n" for text in texts]), encoding="utf-8")
    return path


def user(text: object, number: int = 0) -> dict[str, Any]:
    """Return a line of the user."""
    return {"type": "user", "uuid": f"u-{number}", "message": {"role": "user", "content": text}}


def called(number: int, command: str) -> dict[str, Any]:
    """Return a line with a call of Bash."""
    block = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": command}}
    message = {"role": "assistant", "id": f"m-{number}", "content": [block]}
    return {"type": "assistant", "uuid": f"c-{number}", "message": message}


def resulted(number: int, text: str) -> dict[str, Any]:
    """Return the line with the result of a call."""
    block = {"type": "tool_result", "tool_use_id": f"t{number}", "content": text}
    return {
        "type": "user",
        "uuid": f"r-{number}",
        "message": {"role": "user", "content": [block]},
        "toolUseResult": {"stdout": text},
    }


def everything_in(folder: Path) -> bytes:
    """Return the bytes of every file in a folder."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
