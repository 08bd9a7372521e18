"""The hooks with broken input, huge transcripts, secrets, and stores that cannot be used: exit code
0, nothing on standard error, and nothing that should not be there."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rehydrate.integrations.claude_code import EVENTS, Home, Records, answer
from tests.integrations.claude_hooks import (
    MODULE,
    PROJECT,
    SECRET,
    called,
    context_of,
    environment,
    everything_in,
    hook,
    payload,
    resulted,
    run_hook,
    user,
    write_lines,
)
from tests.sizes import PATIENCE_SECONDS

HAS_SHELL = sys.platform != "win32" and shutil.which("sh") is not None
LONG = {"stdout": "a line of the log\n" * 20_000}


def is_quiet(done: subprocess.CompletedProcess[bytes]) -> bool:
    return (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("given", [b"", b"{", b"[1]", b"\xff\xfe", b"null", b"[" * 100_000, None])
def test_what_is_no_input_is_answered_with_nothing(given: bytes | None, tmp_path: Path) -> None:
    assert is_quiet(run_hook(tmp_path, "PreCompact", given))


@pytest.mark.parametrize("event", [*EVENTS, "Nonsense", ""])
def test_an_input_of_other_types_is_answered_with_nothing(event: str, tmp_path: Path) -> None:
    odd = {"session_id": 3, "transcript_path": ["x"], "cwd": {}, "prompt": 1, "source": "compact"}
    for given in (odd, {"transcript_path": "/dev/zero", "tool_response": {"a": [{}]}}):
        assert is_quiet(run_hook(tmp_path, event, json.dumps(given).encode()))


@pytest.mark.parametrize("session", ["a\0b", "\ud800", "s" * 100_000])
def test_a_session_that_no_store_takes_is_refused_and_the_status_says_so(
    session: str, tmp_path: Path
) -> None:
    home = Home.of(environment(tmp_path))
    home.make()
    given = payload(tool_name="Bash", tool_response=LONG) | {"session_id": session}
    assert is_quiet(run_hook(tmp_path, "PostToolUse", json.dumps(given).encode()))
    said = home.failure.read_text("utf-8")
    assert said.startswith("InvalidArgumentError: ")
    assert len(said.splitlines()) == 1


_STUCK = """
import re, time
from rehydrate.integrations.claude_code import events, hook

def answer(*_given, **_named):
    re.match("(a+)+$", "a" * 60 + "b")  # for longer than the world has, without a look at a clock

events.answer = answer
hook.main(["PreCompact"], time.monotonic())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there a thread is what ends in time")
def test_a_call_that_holds_the_interpreter_does_not_hold_the_session(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _STUCK],
        input=b"{}",
        capture_output=True,
        check=False,
        env=environment(tmp_path, REHYDRATE_HOOK_SECONDS="1"),
        timeout=PATIENCE_SECONDS,
    )
    assert is_quiet(done)


@pytest.mark.skipif(not HAS_SHELL, reason="closes standard input by a shell")
def test_closed_standard_streams_are_no_failure(tmp_path: Path) -> None:
    for redirection in ("<&-", "<&- >&-", "2>&-"):
        line = f'"$0" -P -m {MODULE} PreCompact {redirection}'
        done = subprocess.run(
            ["sh", "-c", line, sys.executable],
            input=b"{}",
            capture_output=True,
            check=False,
            env=environment(tmp_path),
            timeout=PATIENCE_SECONDS,
        )
        assert is_quiet(done)


def test_a_broken_transcript_is_read_around_and_no_secret_of_it_is_stored(tmp_path: Path) -> None:
    lines = [
        resulted(900, "a result whose call is in a broken line"),
        "{",
        '{"type":"user","message":3}',
        {"type": "user", "message": {"role": "user", "content": [7, {"type": None}]}},
        {"type": "assistant", "message": {"content": [{"type": "tool_use"}]}},
        {"type": 7},
        [1, 2],
        user(f"Deploy with token {SECRET} and password=hunter2hunter2 to src/deploy.py.", 1),
        called(1, f"export GITHUB_TOKEN={SECRET}; make deploy_all"),
        resulted(1, f"ok, used {SECRET}"),
        called(2, "make never_answered"),
        user("\ud800 half a character, name it half_name.", 2),
        "x" * 9_000_000,
        "\0" * 100,
        user("Then write docs/deploy.md about it.", 3),
        '{"type":"user","message":{"role":"user","content":"cut o',
    ]
    transcript = write_lines(tmp_path / "t.jsonl", [])
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    transcript.write_text("\n".join(texts), "utf-8")
    hook(tmp_path, "PreCompact", payload(transcript, trigger="auto"))
    text = context_of(hook(tmp_path, "SessionStart", payload(transcript, source="compact")))
    hook(tmp_path, "PostCompact", payload(transcript, compact_summary="Done."))
    hook(tmp_path, "SessionEnd", payload(transcript))
    said = f"the secret is {SECRET}\n"
    response = {"stdout": said + LONG["stdout"]}
    hook(tmp_path, "PostToolUse", payload(tool_name="Bash", tool_response=response))
    assert "docs/deploy.md" in text
    assert "make deploy_all" in text
    assert "a result whose call" not in text
    stored = everything_in(tmp_path / "data")
    assert b"docs/deploy.md" in stored
    assert b"kept whole" not in stored
    for secret in (SECRET, "hunter2hunter2"):
        assert secret.encode() not in stored
        assert secret not in text
    with Records(Home.of(environment(tmp_path))) as records:
        (row,) = records.list()
    assert not row.compacted.problems
    assert "src/deploy.py" in row.compacted.put_back
    assert not any("redacted" in name for name in row.compacted.names)


def stored_by_a_hook(home: Path, transcript: Path) -> list[Any]:
    """End the session, and return the ids of what is stored of it."""
    environ = environment(home)
    deadline = time.monotonic() + PATIENCE_SECONDS
    answer("SessionEnd", payload(transcript), environ=environ, deadline=deadline)
    with Home.of(environ).open_threads(PROJECT) as threads:
        return [entry["uuid"] for entry in threads.read("s-1").entries]


def test_a_line_is_stored_once_however_often_its_transcript_is_read(tmp_path: Path) -> None:
    lines = [user(f"Ship part_{number} of the catalogue.", number) for number in range(4)]
    names = [line["uuid"] for line in lines]
    transcript = write_lines(tmp_path / "t.jsonl", lines)
    assert stored_by_a_hook(tmp_path, transcript) == names
    write_lines(transcript, lines[:2])  # it was written again
    assert stored_by_a_hook(tmp_path, transcript) == names
    write_lines(transcript, lines)
    forgetting = sqlite3.connect(tmp_path / "data" / "hooks.db", isolation_level=None)
    forgetting.execute("DELETE FROM transcripts")  # the hook was ended before it noted the offset
    forgetting.close()
    assert stored_by_a_hook(tmp_path, transcript) == names
    elsewhere = write_lines(tmp_path / "moved.jsonl", [*lines, user("And part_9.", 9)])
    assert stored_by_a_hook(tmp_path, elsewhere) == [*names, "u-9"]


def test_a_line_that_cannot_be_stored_keeps_no_other_from_it(tmp_path: Path) -> None:
    odd = called(1, "make")
    odd["message"]["content"][0]["input"] = {"seconds": float("nan")}
    lines = [user("Ship part_1.", 1), odd, user("Ship part_2.", 2)]
    transcript = write_lines(tmp_path / "t.jsonl", lines)
    assert stored_by_a_hook(tmp_path, transcript) == ["u-1", "u-2"]


def test_of_a_huge_transcript_only_the_end_is_read(tmp_path: Path) -> None:
    transcript = tmp_path / "t.jsonl"
    with transcript.open("wb") as file:
        file.truncate(200_000_000)  # one line of zeros, which takes no room on most disks
        file.seek(0, 2)
        file.write(
            b"\n" + json.dumps(user("Finish the index of catalogue_v9.", 1)).encode() + b"\n"
        )
    hook(tmp_path, "PreCompact", payload(transcript, trigger="auto"))
    text = context_of(hook(tmp_path, "SessionStart", payload(transcript, source="compact")))
    assert "catalogue_v9" in text


def test_a_link_and_a_pipe_are_no_transcripts(tmp_path: Path) -> None:
    real = write_lines(tmp_path / "real.jsonl", [user("Read link_target_7.", 1)])
    link = tmp_path / "link.jsonl"
    try:
        link.symlink_to(real)
    except OSError:
        pytest.skip("links cannot be made here")
    for path in (link, tmp_path, tmp_path / "missing.jsonl", tmp_path / "x.txt"):
        given = json.dumps(payload(path, trigger="auto")).encode()
        assert is_quiet(run_hook(tmp_path, "PreCompact", given))
    assert not (tmp_path / "data" / "hooks.db").exists()


@pytest.mark.parametrize("store", ["memory.db", "threads.db", "hooks.db"])
def test_a_locked_store_makes_no_hook_fail(store: str, tmp_path: Path) -> None:
    transcript = write_lines(tmp_path / "t.jsonl", [user("Ship the index of catalogue_v9.", 1)])
    hook(tmp_path, "PreCompact", payload(transcript, trigger="auto"))
    response = payload(transcript, tool_name="Bash", tool_response=LONG)
    assert hook(tmp_path, "PostToolUse", response) is not None
    holder = sqlite3.connect(tmp_path / "data" / store, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    holder.execute("CREATE TABLE locked_by_a_test (x)")
    other = payload(transcript, session="s-2", trigger="auto")
    in_time = {"REHYDRATE_HOOK_SECONDS": "1.6"}

    def ask(*given: Any) -> Any:
        return hook(tmp_path, *given, **in_time)

    def back() -> Any:
        assert ask("PreCompact", other) is None
        return ask("SessionStart", payload(transcript, "s-2", source="compact"))

    def comes(reply: Callable[[], Any], wanted: bool) -> bool:
        """Ask again where a busy machine made an answer late."""
        return any(reply() is not None for _ in range(30 if wanted else 1))

    try:
        is_back = comes(back, store != "hooks.db")
        assert ask("PostCompact", payload(transcript, compact_summary="x")) is None
        ask("UserPromptSubmit", payload(transcript, prompt="Where is catalogue_v9?"))
        assert ask("SessionEnd", payload(transcript, "s-2")) is None
        # A text that can't be kept whole isn't cut.
        is_cut = comes(lambda: ask("PostToolUse", response), store != "threads.db")
    finally:
        holder.execute("ROLLBACK")
        holder.close()
    # A memory that is locked costs no more than itself.
    assert (is_cut, is_back) == (store != "threads.db", store != "hooks.db")


def test_a_folder_that_cannot_be_made_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    transcript = write_lines(tmp_path / "t.jsonl", [user("Ship it.", 1)])
    given = payload(transcript, source="compact", trigger="auto", prompt="Ship it to port 8443?")
    given |= {"tool_name": "Bash", "tool_response": LONG, "compact_summary": "x"}
    for event in EVENTS:
        for home in (str(tmp_path / "file"), str(tmp_path / "file" / "x")):
            done = run_hook(tmp_path, event, json.dumps(given).encode(), REHYDRATE_HOME=home)
            assert is_quiet(done)


@pytest.mark.skipif(not HAS_SHELL, reason="limits the size of files by a shell")
def test_a_full_disk_is_no_failure(tmp_path: Path) -> None:
    lines = [user(f"Ship part_{number} of the catalogue.", number) for number in range(200)]
    transcript = write_lines(tmp_path / "t.jsonl", lines)
    given = payload(transcript, trigger="auto", tool_name="Bash", tool_response=LONG)
    for event in ("PreCompact", "SessionEnd", "PostToolUse"):
        for blocks in (1, 64):
            line = f'ulimit -f {blocks}; exec "$0" -P -m {MODULE} {event}'
            done = subprocess.run(
                ["sh", "-c", line, sys.executable],
                input=json.dumps(given).encode(),
                capture_output=True,
                check=False,
                env=environment(tmp_path),
                timeout=PATIENCE_SECONDS,
            )
            assert is_quiet(done)
    hook(tmp_path, "PreCompact", payload(transcript, trigger="auto"))
    text = context_of(hook(tmp_path, "SessionStart", payload(transcript, source="compact")))
    assert "part_199" in text
