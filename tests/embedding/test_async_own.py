"""Async embedders: on the caller's loop inside acompact_context, on one of ours elsewhere."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import anyio
import pytest

from rehydrate import Embedder, acompact_context, compact_context
from tests.compact.cases import talk
from tests.embedding.doubles import lengths
from tests.sizes import PATIENCE_SECONDS

TALK = talk(*(f"user: note number {n} about src/part_{n}.py" for n in range(20)))


async def gives(texts: list[str]) -> Any:
    await anyio.sleep(0)
    return lengths(texts)


class Service:
    async def __call__(self, texts: list[str]) -> Any:
        return await gives(texts)


def returns_an_awaitable(texts: list[str]) -> Any:
    return gives(texts)


@pytest.mark.parametrize(
    "embed", [gives, Service(), returns_an_awaitable], ids=["function", "object", "awaitable"]
)
def test_an_async_embedder_gives_what_a_sync_one_gives(embed: Any):
    awaited = compact_context(TALK, "part 7", 0.2, embedder=embed)
    called = compact_context(TALK, "part 7", 0.2, embedder=lengths)
    assert awaited.stats.degraded == ()
    assert awaited.stats.embedding
    assert awaited.explain().to_dict() == called.explain().to_dict()


@pytest.mark.anyio
async def test_inside_acompact_context_it_runs_on_the_callers_loop():
    here = threading.get_ident()
    ran_on = []

    async def embed(texts: list[str]) -> Any:
        await anyio.sleep(0)  # of the library in use, whichever it is
        ran_on.append(threading.get_ident())
        return lengths(texts)

    compaction = await acompact_context(TALK, "part 7", embedder=embed)
    assert compaction.stats.degraded == ()
    assert ran_on == [here]


@pytest.mark.anyio
async def test_a_sync_call_while_a_loop_runs_in_this_thread_works_too():
    compaction = compact_context(TALK, "part 7", embedder=Service())
    assert compaction.stats.degraded == ()
    assert compaction.stats.embedding


def test_calls_without_a_loop_share_one_so_that_clients_live_on():
    loops = set()

    async def embed(texts: list[str]) -> Any:
        loops.add(id(asyncio.get_running_loop()))
        return lengths(texts)

    for n in range(3):
        assert Embedder(embed).embed([f"text {n}"]).all()
    assert len(loops) == 1


@pytest.mark.anyio
async def test_an_async_embedder_that_compacts_by_itself_does_not_wait_for_itself():
    inner = []

    async def embed(texts: list[str]) -> Any:
        inner.append(compact_context(TALK[:3], "part 1", embedder=Service()).stats)
        return lengths(texts)

    compaction = await acompact_context(TALK, "part 7", embedder=embed)
    assert compaction.stats.degraded == ()
    assert inner[0].embedding


@pytest.mark.anyio
async def test_an_async_embedder_that_takes_too_long_is_cancelled():
    ended = []

    async def embed(texts: list[str]) -> Any:
        try:
            await anyio.sleep(PATIENCE_SECONDS)
        finally:
            ended.append(True)

    embedder = Embedder(embed, timeout=0.01)
    compaction = await acompact_context(TALK, embedder=embedder)
    assert not compaction.stats.embedding
    assert "Error" in compaction.stats.degraded[0]
    with anyio.fail_after(PATIENCE_SECONDS):
        while not ended:
            await anyio.sleep(0.001)


@pytest.mark.anyio
async def test_cancelling_the_compaction_cancels_the_embedder():
    started, ended = anyio.Event(), []

    async def embed(texts: list[str]) -> Any:
        started.set()
        try:
            await anyio.sleep(PATIENCE_SECONDS)
        finally:
            ended.append(True)

    embedder = Embedder(embed, failures_to_open=1)
    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: acompact_context(TALK, embedder=embedder))
            await started.wait()
            tasks.cancel_scope.cancel()
        while not ended:
            await anyio.sleep(0.001)
    assert embedder.state == "closed", "a caller who left is no failure of the embedder"


@pytest.mark.anyio
async def test_an_async_embedder_that_raises_is_done_without():
    async def embed(texts: list[str]) -> Any:
        raise ConnectionError("no route to host")

    (said,) = (await acompact_context(TALK, embedder=embed)).stats.degraded
    assert "ConnectionError;" in said
