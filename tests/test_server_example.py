"""examples/server.py, driven over loopback: conversations, streams, limits, and its end."""

from __future__ import annotations

import importlib.util
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest

pytest.importorskip("fastapi", reason="the server of the example is in the group `test`")
uvicorn = pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")

from rehydrate.testing import ScriptedModel  # noqa: E402  after what may be missing
from tests.sizes import PATIENCE_SECONDS  # noqa: E402

EXAMPLE = Path(__file__).parents[1] / "examples" / "server.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("server_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["server_example"] = module  # pydantic looks its annotations up there
    spec.loader.exec_module(module)
    return module


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Yield the address of the app, on a loop of its own; it is shut down afterwards."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(
            uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=PATIENCE_SECONDS)
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        until = time.monotonic() + PATIENCE_SECONDS
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < until
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()


@pytest.fixture
def at(example: ModuleType, tmp_path: Path) -> Iterator[str]:
    with served(example.make_app(folder=str(tmp_path))) as address:
        yield address


def client(address: str) -> Any:
    return httpx.Client(base_url=address, timeout=PATIENCE_SECONDS)


def says(text: str, **options: Any) -> dict[str, Any]:
    return {"text": text, **options}


def test_a_conversation_goes_on_from_request_to_request(at: str):
    with client(at) as http:
        first = http.post("/conversations/a/messages", json=says("We draw 7.5 m."))
        assert first.json() == {"answer": "Noted.", "steps": 1, "stopped": "answer"}
        second = http.post("/conversations/a/messages", json=says("Find us a berth."))
        assert second.json() == {"answer": "You can have berth 4.", "steps": 2, "stopped": "answer"}
        other = http.post("/conversations/b/messages", json=says("Find us a berth."))
        assert other.json()["answer"] == "What do you draw?"
        about = http.get("/conversations/a").json()
        assert len(about["history"]) == 6
        assert about["usage"]["prompts"] == 3


def test_a_conversation_goes_on_after_a_restart_until_it_is_deleted(
    example: ModuleType, tmp_path: Path
):
    def ask(text: str) -> Any:
        with served(example.make_app(folder=str(tmp_path))) as at, client(at) as http:
            return http.post("/conversations/a/messages", json=says(text)).json()["answer"]

    assert ask("We draw 7.5 m.") == "Noted."
    assert ask("Find us a berth.") == "You can have berth 4."
    with served(example.make_app(folder=str(tmp_path))) as at, client(at) as http:
        assert len(http.get("/conversations/a").json()["history"]) == 6
        assert http.delete("/conversations/a").json() == {"deleted": True}
        assert http.delete("/conversations/a").json() == {"deleted": False}
        assert http.get("/conversations/a").status_code == 404
    assert ask("Find us a berth.") == "What do you draw?"


def test_a_reply_can_be_streamed(at: str):
    with client(at) as http:
        http.post("/conversations/a/messages", json=says("We draw 5 m."))
        asked = says("Find us a berth.", stream=True)
        with http.stream("POST", "/conversations/a/messages", json=asked) as reply:
            events = [
                json.loads(line.removeprefix("data: "))
                for line in reply.iter_lines()
                if line.startswith("data: ")
            ]
    assert "".join(event.get("text", "") for event in events) == "You can have berth 4."
    assert events[-1] == {"stopped": "answer"}


def test_what_is_remembered_is_found_by_the_next_conversation_of_that_id_and_no_other(
    at: str,
):
    with client(at) as http:
        reported = says("Our mast is 24.5 m high, we draw 7.5 m.", remember=True)
        http.post("/conversations/a/messages", json=reported)
        assert http.delete("/conversations/a").json() == {"deleted": True}
        assert http.get("/conversations/a").status_code == 404
        asked = says("Which berth is deep enough for what we draw, with our mast?")
        answers = [
            http.post(f"/conversations/{id_}/messages", json=asked).json()["answer"] for id_ in "ab"
        ]
    assert answers == ["You can have berth 4.", "What do you draw?"]


def test_many_clients_at_once_each_get_their_own_answers(at: str):
    async def talk(number: int, answers: dict[int, str]) -> None:
        async with httpx.AsyncClient(base_url=at, timeout=PATIENCE_SECONDS) as http:
            path = f"/conversations/{number}/messages"
            await http.post(path, json=says(f"We draw {5 if number % 2 else 7}.5 m."))
            for _ in range(3):
                reply = await http.post(path, json=says("Find us a berth."))
                answers[number] = reply.json()["answer"]

    async def main() -> dict[int, str]:
        answers: dict[int, str] = {}
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(talk, number, answers)
        return answers

    assert anyio.run(main) == dict.fromkeys(range(20), "You can have berth 4.")
    with client(at) as http:
        health = http.get("/health").json()
    assert health["conversations"] == 20
    assert 0 < health["cached_bytes"] <= health["cache_limit"] == 128 << 20


def test_turns_of_one_conversation_wait_for_each_other(at: str):
    async def main() -> list[int]:
        async with httpx.AsyncClient(base_url=at, timeout=PATIENCE_SECONDS) as http:
            codes: list[int] = []

            async def say(number: int) -> None:
                asked = says(f"Note {number}.", stream=bool(number % 2))
                codes.append((await http.post("/conversations/a/messages", json=asked)).status_code)

            async with anyio.create_task_group() as tasks:
                for number in range(10):
                    tasks.start_soon(say, number)
            return codes

    assert anyio.run(main) == [200] * 10
    with client(at) as http:
        history = http.get("/conversations/a").json()["history"]
    assert [entry["role"] for entry in history] == ["user", "assistant"] * 10


def test_a_client_that_goes_away_cancels_its_turn_and_the_conversation_goes_on(
    example: ModuleType, tmp_path: Path
):
    begun, cancelled = threading.Event(), threading.Event()

    async def hangs(_: Any) -> str:
        begun.set()
        try:
            await anyio.sleep(PATIENCE_SECONDS)
        finally:
            cancelled.set()
        return "never"

    app = example.make_app(ScriptedModel([hangs, "Here I am."]), str(tmp_path))
    with served(app) as address, client(address) as http:
        asked = says("Are you there?", stream=True)

        def leave() -> None:
            assert begun.wait(PATIENCE_SECONDS)
            sock.shutdown(socket.SHUT_RDWR)

        body = json.dumps(asked).encode()
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), PATIENCE_SECONDS) as sock:
            sock.sendall(
                b"POST /conversations/a/messages HTTP/1.1\r\nhost: x\r\n"
                b"content-type: application/json\r\n"
                b"content-length: %d\r\n\r\n%b" % (len(body), body)
            )
            leave()
        assert cancelled.wait(PATIENCE_SECONDS)
        answer = http.post("/conversations/a/messages", json=says("Hello?")).json()
        assert answer["answer"] == "Here I am."
        history = http.get("/conversations/a").json()["history"]
    assert history[0]["content"] == "Are you there?"


def test_only_so_many_conversations_are_kept_and_none_that_speaks_is_given_up(
    example: ModuleType, tmp_path: Path
):
    async def main() -> None:
        with (
            example.Memory.open(tmp_path / "memory.db") as memory,
            example.Threads.open(tmp_path / "threads.db", namespace="server") as threads,
        ):
            kept = example.Conversations(memory, threads, most=3)
            async with kept.turn("speaks"):
                for number in range(10):
                    async with kept.turn(str(number)):
                        pass
                assert kept.get("speaks") is not None
                assert len(kept) == 3
            async with kept.turn("last"):
                pass
            assert kept.get("speaks") is None

    anyio.run(main)


def test_a_conversation_that_is_deleted_in_the_middle_of_a_turn_begins_again(
    example: ModuleType, tmp_path: Path
):
    """Turns that wait, and those that come later, find a context that is stored."""

    async def main() -> None:
        with (
            example.Memory.open(tmp_path / "memory.db") as memory,
            example.Threads.open(tmp_path / "threads.db", namespace="server") as threads,
        ):
            kept = example.Conversations(memory, threads)
            deleted: list[bool] = []

            async def say(text: str) -> None:
                async with kept.turn("a") as context:
                    await context.aadd({"role": "user", "content": text})

            async def delete() -> None:
                deleted.append(await kept.delete("a"))

            async with anyio.create_task_group() as group, kept.turn("a") as context:
                await context.aadd({"role": "user", "content": "before"})
                group.start_soon(say, "waits")
                group.start_soon(delete)
                await anyio.wait_all_tasks_blocked()
                group.start_soon(say, "later")
                await anyio.wait_all_tasks_blocked()
            assert deleted == [True]
            await say("after")
            stored = [entry["content"] for _, entry in await threads.ahistory("a")]
            assert stored[-1] == "after"
            assert "before" not in stored

    anyio.run(main)
