"""RehydrateSessionStore: the SDK's conformance suite, many writers, kills, redaction."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from rehydrate.context import Threads
from rehydrate.errors import MissingPackageError

pytest.importorskip("trio", reason="trio is not installed")
pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")

from claude_agent_sdk import (
    ClaudeAgentOptions,
    fork_session_via_store,
    get_session_messages_from_store,
    list_sessions_from_store,
    list_subagents_from_store,
)
from claude_agent_sdk.testing import run_session_store_conformance

from rehydrate.integrations.claude_agent_sdk import RehydrateHooks, RehydrateSessionStore
from tests.sizes import PATIENCE_SECONDS

SESSION = "0b6e2c1e-3f6a-4f0e-9b1a-2f0f6a9d7c11"
FOLDER = "/work/app"
WRITER = """
import asyncio, sys
from rehydrate.integrations.claude_agent_sdk import RehydrateSessionStore


async def write(path, name, count):
    store = RehydrateSessionStore(path)
    key = {"project_key": "p", "session_id": "s"}
    for number in range(count):
        lines = [{"type": "user", "uuid": f"{name}-{number}-{part}"} for part in "ab"]
        await store.append(key, lines)
        print(number, flush=True)

asyncio.run(write(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def store_test(
    test: Callable[[RehydrateSessionStore, Path], Awaitable[None]],
) -> Callable[[Path], None]:
    def run_it(tmp_path: Path) -> None:
        path = tmp_path / "sessions.db"
        store = RehydrateSessionStore(path)
        try:
            asyncio.run(test(store, path))
        finally:
            store.close()

    run_it.__name__ = test.__name__
    return run_it


def key_of(session: str = "s", project: str = "p", **more: str) -> Any:
    return {"project_key": project, "session_id": session, **more}


def line(uuid: str, text: str = "Hello.", **more: object) -> Any:
    message = {"role": "user", "content": text}
    return {"type": "user", "uuid": uuid, "sessionId": SESSION, "message": message, **more}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_conformance_suite_of_the_sdk_passes(tmp_path: Path, backend: str) -> None:
    made: list[RehydrateSessionStore] = []
    number = itertools.count()

    def make() -> Any:
        made.append(RehydrateSessionStore(tmp_path / f"{next(number)}.db"))
        return made[-1]

    anyio.run(run_session_store_conformance, make, backend=backend)
    assert len(made) >= 14  # no contract was skipped
    for store in made:
        store.close()


def test_the_options_take_the_store(tmp_path: Path) -> None:
    store = RehydrateSessionStore(tmp_path / "sessions.db")
    options = ClaudeAgentOptions(session_store=store, continue_conversation=True)
    assert options.session_store is store
    store.close()


def test_without_the_sdk_the_error_names_the_extra(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)
    with pytest.raises(MissingPackageError, match="claude-agent-sdk"):
        RehydrateSessionStore(tmp_path / "sessions.db")
    with pytest.raises(MissingPackageError, match="claude-agent-sdk"):
        RehydrateHooks()


@store_test
async def test_lines_come_back_equal_whatever_is_in_them(store, path) -> None:
    odd: list[Any] = [
        {"type": "x", "half": "\ud83d", "long": "é" * 100_000, "big": 2**70, "nothing": None},
        {"type": "user", "message": 17, "deep": [[[[{"a": []}]]]], "": "", "float": -0.0},
        {"type": "summary", "nul": "a\0b", "uuid": None},
    ]
    await store.append(key_of(), odd)
    assert await store.load(key_of()) == odd
    again = RehydrateSessionStore(path)
    assert await again.load(key_of()) == odd
    again.close()


@store_test
async def test_a_line_that_is_sent_again_is_stored_once(store, path) -> None:
    lines = [line("a"), line("b"), {"type": "mode"}]
    await store.append(key_of(), lines)
    await store.append(key_of(), [*lines, line("c"), line("c")])
    kept = [lines[0], lines[1], {"type": "mode"}, {"type": "mode"}, line("c")]
    assert await store.load(key_of()) == kept
    again = RehydrateSessionStore(path)
    await again.append(key_of(), [line("b"), line("d")])
    again.close()
    await store.append(key_of(), [line("d"), line("e")])
    kept += [line("d"), line("e")]
    assert await store.load(key_of()) == kept
    await store.delete(key_of())
    await store.append(key_of(), [line("a")])
    assert await store.load(key_of()) == [line("a")]


@store_test
async def test_names_with_slashes_stay_apart(store, path) -> None:
    keys = [
        key_of("s", "a/b"),
        key_of("b/s", "a"),
        key_of("b", "a", subpath="s"),
        key_of("b%2Fs", "a"),
        key_of("s", "a", subpath="subagents/agent-1"),
    ]
    for number, key in enumerate(keys):
        await store.append(key, [line(str(number))])
    for number, key in enumerate(keys):
        assert await store.load(key) == [line(str(number))]
    listed = [each["session_id"] for each in await store.list_sessions("a")]
    assert sorted(listed) == ["b%2Fs", "b/s"]
    assert await store.list_subkeys(key_of("s", "a")) == ["subagents/agent-1"]


@store_test
async def test_the_sdks_own_readers_read_it(store, path) -> None:
    from claude_agent_sdk import project_key_for_directory

    project = project_key_for_directory(FOLDER)
    said = [
        line("11111111-1111-4111-8111-111111111111", "Fix the login.", parentUuid=None),
        {
            **line("22222222-2222-4222-8222-222222222222"),
            "type": "assistant",
            "parentUuid": "11111111-1111-4111-8111-111111111111",
            "message": {"role": "assistant", "content": [{"type": "text", "text": "Fixed."}]},
        },
    ]
    await store.append(key_of(SESSION, project), said)
    await store.append(key_of(SESSION, project, subpath="subagents/agent-a1"), said[:1])
    (listed,) = await list_sessions_from_store(store, directory=FOLDER)
    assert (listed.session_id, listed.first_prompt) == (SESSION, "Fix the login.")
    read = await get_session_messages_from_store(store, SESSION, directory=FOLDER)
    assert [each.type for each in read] == ["user", "assistant"]
    assert await list_subagents_from_store(store, SESSION, directory=FOLDER) == ["a1"]
    forked = await fork_session_via_store(store, SESSION, directory=FOLDER)
    copy = await get_session_messages_from_store(store, forked.session_id, directory=FOLDER)
    assert [each.message for each in copy] == [each.message for each in read]


@store_test
async def test_a_redacted_session_shows_the_secret_nowhere(store, path) -> None:
    said = [line("a", "The door opens with hunter2.", timestamp="2026-02-17T09:30:00.000Z")]
    await store.append(key_of(), said)
    (before,) = await store.list_session_summaries("p")
    assert "hunter2" in str(before)
    with Threads.open(path, namespace=store.namespace_of("p")) as threads:
        assert [thread.name for thread in threads.list()] == ["s"]
        assert threads.redact("s", "hunter2") == 1
    (after,) = await store.list_session_summaries("p")
    lines = await store.load(key_of())
    assert "hunter2" not in str(after) + str(lines)
    assert "[redacted]" in str(lines)


def test_threads_of_one_store_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    store = RehydrateSessionStore(tmp_path / "sessions.db")

    def write(part: int) -> None:
        async def append() -> None:
            for number in range(10):
                await store.append(key_of(), [line("same"), line(f"{part}-{number}")])

        asyncio.run(append())

    writers = [threading.Thread(target=write, args=(part,)) for part in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    kept = asyncio.run(store.load(key_of())) or []
    uuids = [each["uuid"] for each in kept]
    assert len(uuids) == len(set(uuids)) == 41
    for part in range(4):
        own = [uuid for uuid in uuids if uuid.startswith(f"{part}-")]
        assert own == [f"{part}-{number}" for number in range(10)]
    store.close()


def writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_processes_write_one_session_at_once(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    running = [writer(path, name, 15) for name in "xy"]
    for process in running:
        process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0
    store = RehydrateSessionStore(path)
    uuids = [each["uuid"] for each in asyncio.run(store.load(key_of())) or []]
    assert len(uuids) == 2 * 15 * 2
    for name in "xy":
        own = [uuid for uuid in uuids if uuid.startswith(name)]
        assert own == [f"{name}-{number}-{part}" for number in range(15) for part in "ab"]
    store.close()


def test_what_was_appended_survives_a_kill_and_a_batch_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    with writer(path, "k", 100_000) as process:
        assert process.stdout is not None
        reported = [process.stdout.readline() for _ in range(20)]
        process.kill()
        reported += process.stdout.read().splitlines()
    store = RehydrateSessionStore(path)
    uuids = [each["uuid"] for each in asyncio.run(store.load(key_of())) or []]
    store.close()
    last = int(reported[-1])
    assert len(uuids) >= 2 * (last + 1)
    assert uuids == [f"k-{number}-{part}" for number in range(len(uuids) // 2) for part in "ab"]
