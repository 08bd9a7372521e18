"""The async methods, on asyncio and trio: the same answers, off the event loop, cancellable."""

from __future__ import annotations

import inspect
import secrets
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from rehydrate import Embedder, Memory
from rehydrate.errors import InvalidArgumentError, StoreClosedError
from tests.memory.plain import PlainStore
from tests.sizes import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio


WITHOUT_A_TWIN = {"open", "within", "as_stored"}


async def test_every_operation_has_a_twin_that_says_so():
    for name, method in inspect.getmembers(Memory, inspect.isfunction):
        if name.startswith(("_", "a")) and name not in {"add"}:
            continue
        if name in WITHOUT_A_TWIN:
            continue
        wrapper = getattr(Memory, f"a{name}")
        assert inspect.iscoroutinefunction(wrapper), name
        assert inspect.signature(wrapper) == inspect.signature(method)
        assert f"`{name}`" in (wrapper.__doc__ or "")


async def test_they_answer_as_the_methods_do(memory: Memory, tmp_path: Path):
    old, new = await memory.aadd(["the zebra house", "the apple tree"], source="s")
    assert await memory.aget(old.handle) == memory.get(old.handle)
    assert await memory.alist(limit=1) == memory.list(limit=1)
    found = await memory.asearch("zebra", 3, sources=["s"])
    assert found[0].handle == old.handle
    assert await memory.arecall(["zebra"], k=1) == memory.recall(["zebra"], k=1)
    assert await memory.alink(new.handle, "supersedes", old.handle)
    assert await memory.aset_tier(old.handle, "hot") == 1
    assert (await memory.ahot()).text == "the zebra house"
    assert (await memory.astats()).items == 2
    assert (await memory.averify()).ok
    assert await memory.aexport_items(tmp_path / "x.jsonl") == 2
    assert (await memory.aimport_items(tmp_path / "x.jsonl")).unchanged == 2
    assert await memory.anamespaces() == ["alice"]
    assert await memory.arebuild() == 2
    (tmp_path / "notes").mkdir()
    assert (await memory.async_folder(tmp_path / "notes")).added == ()
    assert await memory.aforget([old.handle]) == 1
    assert await memory.apurge(everything=True) == 1


async def test_leaving_the_context_closes_the_memory(opened: Any):
    async with opened(namespace="a") as memory:
        await memory.aadd("x")
    with pytest.raises(StoreClosedError):
        await memory.asearch("x")


async def test_opening_has_a_twin_that_takes_the_same(tmp_path: Path):
    assert inspect.signature(Memory.aopen) == inspect.signature(Memory.open)
    async with await Memory.aopen(tmp_path / "m.db", namespace="a", redact=False) as memory:
        assert memory.redactor is None
        await memory.aadd("x")
    with pytest.raises(InvalidArgumentError, match="index_bytes"):
        await Memory.aopen(tmp_path / "m.db", index_bytes=0)


async def test_leaving_the_context_in_a_cancelled_task_closes_it_too(opened: Any):
    memory = opened(namespace="a")
    with anyio.CancelScope() as scope:
        async with memory:
            await memory.aadd("x")
            scope.cancel()
            await anyio.sleep(0)
    assert scope.cancelled_caught
    with pytest.raises(StoreClosedError):
        memory.search("x")


async def test_the_event_loop_goes_on_meanwhile():
    loop_went_on = threading.Event()
    heard: list[bool] = []

    class Waiting(PlainStore):
        def search(self, *args: Any, **options: Any) -> Any:
            heard.append(loop_went_on.wait(PATIENCE_SECONDS))
            return []

    memory = Memory(Waiting(), namespace="a")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(memory.asearch, "x")
        await anyio.sleep(0)
        loop_went_on.set()
    assert heard == [True]


async def test_an_async_embedder_runs_on_the_callers_loop():
    threads: list[int] = []

    async def embed(texts: list[str]) -> list[list[float]]:
        await anyio.sleep(0)
        threads.append(threading.get_ident())
        return [[1.0, float(len(text))] for text in texts]

    memory = Memory(PlainStore(), namespace="a", embedder=Embedder(embed, space="async-v1"))
    (added,) = await memory.aadd(f"text {secrets.token_hex(8)}")  # one that is not cached
    assert added.embedded
    assert threads == [threading.get_ident()]


async def test_many_at_once_lose_nothing(memory: Memory):
    async with anyio.create_task_group() as tasks:
        for number in range(40):
            tasks.start_soon(memory.aadd, f"note {number}")
    assert {item.text for item in memory.list(limit=None)} == {f"note {n}" for n in range(40)}


async def test_a_call_can_be_cancelled_while_it_works():
    started, release = threading.Event(), threading.Event()

    class Waiting(PlainStore):
        def search(self, *args: Any, **options: Any) -> Any:
            started.set()
            release.wait(PATIENCE_SECONDS)
            return []

    memory = Memory(Waiting(), namespace="a")
    answers = []

    async def search() -> None:
        answers.append(await memory.asearch("x"))

    try:
        with anyio.fail_after(PATIENCE_SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(search)
                while not started.is_set():
                    await anyio.sleep(0.001)
                tasks.cancel_scope.cancel()
        assert not release.is_set()
        assert answers == []
    finally:
        release.set()
