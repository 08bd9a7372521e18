"""The hooks of Claude Code, each as the process that Claude Code starts."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rehydrate.integrations.claude_code import Installation, Records

SESSION = Path(__file__).parents[2] / "examples" / "session.jsonl"
MODULE = "rehydrate.integrations.claude_code.hook"


def hook(event: str, payload: object, home: Path) -> Any:
    """Run a hook, and return what it printed, read as JSON; None: nothing."""
    text = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-P", "-m", MODULE, event],
        input=text,
        capture_output=True,
        check=False,
        env={**os.environ, "REHYDRATE_HOME": str(home)},
    )
    print(f"{event}: {1_000 * (time.perf_counter() - started):.0f} ms")
    assert done.returncode == 0
    return json.loads(done.stdout) if done.stdout else None


def payload_of(transcript: Path = SESSION, **fields: object) -> dict[str, object]:
    common = {"session_id": "s-1", "transcript_path": str(transcript), "cwd": "/work/shop"}
    return {**common, "permission_mode": "default", "an_unknown_field": [1], **fields}


def test_a_session_comes_back_after_its_compaction(tmp_path: Path) -> None:
    assert hook("PreCompact", payload_of(trigger="auto"), tmp_path) is None
    assert hook("PostCompact", payload_of(compact_summary="We worked."), tmp_path) is None
    back = hook("SessionStart", payload_of(source="compact"), tmp_path)
    text = back["hookSpecificOutput"]["additionalContext"]
    assert "## Task State" in text
    assert len(text) <= 9_500
    assert hook("SessionStart", payload_of(source="startup"), tmp_path) is None
    with Records(tmp_path) as records:
        (row,) = records.list("s-1")
    assert row.compacted.lost
    assert row.compacted.put_back
    assert row.compacted.returned_chars == len(text)


def test_a_long_result_is_capped_in_its_own_shape_and_kept_whole(tmp_path: Path) -> None:
    whole = "\n".join(f"line {n} of the log" for n in range(20_000))
    response = {"stdout": whole, "stderr": "", "interrupted": False}
    reply = hook("PostToolUse", payload_of(tool_name="Bash", tool_response=response), tmp_path)
    new = reply["hookSpecificOutput"]["updatedToolOutput"]
    assert new.keys() == response.keys()
    handle = new["stdout"].rsplit(" ", 1)[1].rstrip("]")
    with Records(tmp_path) as records:
        assert records.whole(handle) == whole


@pytest.mark.parametrize("event", ["PreCompact", "SessionStart", "UserPromptSubmit", "Nonsense"])
@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b"\xff\xfe", b"null"])
def test_garbage_is_answered_with_nothing(event: str, text: bytes, tmp_path: Path) -> None:
    assert hook(event, text, tmp_path) is None


def test_a_broken_transcript_is_read_around_and_its_secrets_stay_out(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    said = {"type": "user", "uuid": "u", "message": {"role": "user", "content": f"Use {secret}."}}
    broken = tmp_path / "broken.jsonl"
    lines = ["{", json.dumps(said), '{"type":"user","message":3}', "x" * 3_000_000]
    broken.write_text("\n".join(lines) + "\n" + SESSION.read_text("utf-8"), "utf-8")
    short = tmp_path / "short.jsonl"
    short.write_text("\n".join(lines), "utf-8")
    for transcript in (broken, short, tmp_path / "missing.jsonl"):
        hook("PreCompact", payload_of(transcript), tmp_path)
    for file in tmp_path.glob("*.db*"):
        assert secret.encode() not in file.read_bytes()


def test_a_locked_store_makes_no_hook_fail(tmp_path: Path) -> None:
    with Records(tmp_path):
        pass
    holder = sqlite3.connect(tmp_path / "claude_code.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    assert hook("SessionStart", payload_of(source="compact"), tmp_path) is None
    holder.close()


@pytest.mark.parametrize("before", [None, b"{}", b'{ "model":"opus" ,\n"hooks": {"Stop": []}}\r\n'])
def test_uninstall_leaves_the_settings_byte_for_byte(before: bytes | None, tmp_path: Path) -> None:
    settings = tmp_path / "claude" / "settings.json"
    settings.parent.mkdir()
    if before is not None:
        settings.write_bytes(before)
    environ = {"CLAUDE_CONFIG_DIR": str(settings.parent), "REHYDRATE_HOME": str(tmp_path / "data")}
    installation = Installation(environ)
    installation.install()
    assert "PreCompact" in installation.installed
    installation.uninstall()
    assert not installation.installed
    assert (settings.read_bytes() if settings.exists() else None) == before
