"""acompact_context on asyncio and trio: the same answers, off the event loop, cancellable."""

from __future__ import annotations

import threading

import anyio
import pytest

from rehydrate import acompact_context, compact_context
from tests.compact.cases import FixedMemory, HashEmbedder, figures, talk
from tests.sizes import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

TALK = talk(*(f"user: note number {n} about src/part_{n}.py" for n in range(20)))

# How long a test waits for what must happen, on however busy a machine.


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"query": "part 7"},
        {"query": "part 7", "target_ratio": 0.2, "scoring": "chitta", "embedder": HashEmbedder()},
        {"budget_tokens": 50, "pin": [3, TALK[5]], "memory": FixedMemory([0.5] * 20)},
        {"counter": len, "format": "anthropic", "granularity": "message"},
    ],
)
async def test_it_gives_what_compact_context_gives(options: dict):
    awaited = await acompact_context(TALK, **options)
    called = compact_context(TALK, **options)
    assert list(map(id, awaited.messages)) == list(map(id, called.messages))
    assert figures(awaited) == figures(called)
    assert awaited.explain().to_dict() == called.explain().to_dict()


async def test_query_and_ratio_may_be_given_by_position():
    awaited = await acompact_context(TALK, "part 7", 0.2)
    assert awaited.messages == compact_context(TALK, "part 7", 0.2).messages


async def test_the_event_loop_goes_on_meanwhile():
    loop_went_on = threading.Event()
    heard: list[bool] = []

    def embed(texts: list[str]) -> list[list[float]]:
        # Blocks until the event loop gets its turn; on the loop itself this could only time out.
        heard.append(loop_went_on.wait(PATIENCE_SECONDS))
        return [[1.0]] * len(texts)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: acompact_context(TALK, embedder=embed))
        await anyio.sleep(0)
        loop_went_on.set()
    assert heard == [True]


async def test_it_can_be_cancelled_while_it_works():
    started, release = threading.Event(), threading.Event()

    def embed(texts: list[str]) -> list[list[float]]:
        started.set()
        release.wait(PATIENCE_SECONDS)
        return [[1.0]] * len(texts)

    results = []

    async def compact() -> None:
        results.append(await acompact_context(TALK, embedder=embed))

    try:
        with anyio.fail_after(PATIENCE_SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(compact)
                while not started.is_set():
                    await anyio.sleep(0.001)
                tasks.cancel_scope.cancel()
        # The task is over although the thread still waits.
        assert not release.is_set()
        assert results == []
    finally:
        release.set()


async def test_many_at_once_give_what_each_gives_alone():
    results = {}

    async def compact(number: int) -> None:
        results[number] = await acompact_context(TALK, f"part {number}", 0.3)

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(compact, number)
    for number in range(20):
        assert results[number].messages == compact_context(TALK, f"part {number}", 0.3).messages
