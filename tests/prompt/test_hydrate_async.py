"""ahydrate, on asyncio and trio: the same prompt, off the event loop, cancellable."""

from __future__ import annotations

import inspect
import threading

import anyio
import pytest

from rehydrate import Memory
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt import SourceRequest, ahydrate, ahydrate_source, hydrate, hydrate_source
from rehydrate.prompt.sources import function
from rehydrate.prompt.sources.memory import semantic
from tests.prompt.test_hydrate import TALK
from tests.prompt.test_hydrate_failing import hanging, report_of
from tests.sizes import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio


async def test_it_brings_what_hydrate_brings(memory: Memory):
    here = hydrate("staging port", memory, messages=TALK, system="x", timeout=None)
    there = await ahydrate("staging port", memory, messages=TALK, system="x", timeout=None)
    assert there.sections == here.sections
    assert there.history == here.history


async def test_one_source_alone_has_its_twin(memory: Memory):
    here = hydrate_source("staging port", semantic(memory), timeout=None)
    there = await ahydrate_source("staging port", semantic(memory), timeout=None)
    assert there.sections == here.sections


def test_the_twins_take_the_same_arguments():
    assert inspect.signature(ahydrate) == inspect.signature(hydrate)
    assert inspect.signature(ahydrate_source) == inspect.signature(hydrate_source)


async def test_it_raises_what_hydrate_raises():
    with pytest.raises(InvalidArgumentError, match="a source is of type int"):
        await ahydrate("x", 17)


async def test_async_sources_run_at_once_on_the_callers_own_loop():
    loop_thread = threading.get_ident()
    met = [anyio.Event(), anyio.Event()]

    def meeting(mine: int):
        async def meet(_: SourceRequest) -> str:
            assert threading.get_ident() == loop_thread
            met[mine].set()
            with anyio.fail_after(PATIENCE_SECONDS):
                await met[1 - mine].wait()
            return "met"

        return meet

    sources = [function(f"s{n}", meeting(n), timeout=None) for n in range(2)]
    ir = await ahydrate("x", sources)
    assert [section.content for section in ir.sections] == ["met", "met"]


async def test_the_event_loop_goes_on_while_a_source_waits():
    loop_went_on = threading.Event()

    def wait(_: SourceRequest) -> str:
        assert loop_went_on.wait(PATIENCE_SECONDS)
        return "heard"

    async def go_on() -> None:
        loop_went_on.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(go_on)
        ir = await ahydrate("x", function("s", wait, timeout=None))
    assert ir.sections[0].content == "heard"


async def test_a_late_async_source_is_left_out_and_cancelled():
    has_begun, was_cancelled = anyio.Event(), anyio.Event()

    async def slow(_: SourceRequest) -> None:
        has_begun.set()
        try:
            await anyio.sleep(PATIENCE_SECONDS)
        finally:
            was_cancelled.set()

    while not has_begun.is_set():  # a busy machine may not come to it in time
        ir = await ahydrate("x", function("slow", slow, timeout=0.1))
        assert report_of(ir, "slow").status == "late"
    with anyio.fail_after(PATIENCE_SECONDS):
        await was_cancelled.wait()


async def test_cancelling_the_caller_cancels_its_async_sources():
    has_begun, was_cancelled = anyio.Event(), anyio.Event()

    async def slow(_: SourceRequest) -> None:
        has_begun.set()
        try:
            await anyio.sleep(PATIENCE_SECONDS)
        finally:
            was_cancelled.set()

    async def run() -> None:
        await ahydrate("x", function("slow", slow, timeout=None))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        with anyio.fail_after(PATIENCE_SECONDS):
            await has_begun.wait()
        tasks.cancel_scope.cancel()
    with anyio.fail_after(PATIENCE_SECONDS):
        await was_cancelled.wait()


async def test_cancelling_the_caller_does_not_wait_for_a_sync_source():
    has_begun = threading.Event()
    with hanging() as (is_back, hang):

        def slow(request: SourceRequest) -> str:
            has_begun.set()
            return hang(request)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ahydrate, "x", function("slow", slow, timeout=None))
            while not has_begun.is_set():
                await anyio.sleep(0.001)
            tasks.cancel_scope.cancel()
        assert not is_back.is_set()
    assert is_back.wait(PATIENCE_SECONDS)


async def test_hydrate_itself_may_be_called_on_a_running_loop(memory: Memory):
    async def good(request: SourceRequest) -> str:
        await anyio.sleep(0)
        return request.query

    ir = hydrate("staging", good, timeout=None)
    assert [section.content for section in ir.sections] == ["staging"]


async def test_many_conversations_hydrate_at_once(memory: Memory):
    contents = {}

    async def run(number: int) -> None:
        async def own(request: SourceRequest) -> str:
            await anyio.sleep(0)
            return f"{number} {request.query}"

        ir = await ahydrate(f"staging {number}", [memory, own], timeout=None)
        contents[number] = ir.sections[-1].content

    async with anyio.create_task_group() as tasks:
        for number in range(60):
            tasks.start_soon(run, number)
    assert contents == {number: f"{number} staging {number}" for number in range(60)}
