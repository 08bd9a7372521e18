"""hand_over and the async wrappers: results, errors, cancellation, and the wrappers' docs."""

from __future__ import annotations

import contextvars
import inspect
import threading

import anyio
import anyio.lowlevel
import pytest

import rehydrate
from rehydrate import Context, ContextJIT, Interpreter, Memory, prompt
from rehydrate._concurrency.async_wrappers import HybridLock, hand_over, run_locked
from rehydrate._concurrency.workers import WorkerPool
from rehydrate.memory import LoadMemory
from tests.sizes import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

VALUE = contextvars.ContextVar("VALUE", default="unset")


async def until(is_true) -> None:
    with anyio.fail_after(PATIENCE_SECONDS):
        while not is_true():
            await anyio.sleep(0.001)


async def test_it_returns_and_raises_what_the_work_does_in_another_thread():
    VALUE.set("set")
    assert await hand_over(VALUE.get) == "set"
    assert await hand_over(threading.get_ident) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await hand_over(lambda: 1 / 0)


async def test_cancelled_before_its_turn_the_work_never_begins():
    pool, release, ran, after = WorkerPool(1), threading.Event(), [], []
    pool.start(lambda: release.wait(PATIENCE_SECONDS))

    async def asked() -> None:
        await hand_over(lambda: ran.append(1), pool, after=lambda: after.append(1))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(asked)
        await until(lambda: pool._queued)
        tasks.cancel_scope.cancel()
    assert after == [1]
    assert not pool._queued
    release.set()
    await hand_over(lambda: None, pool)
    assert (ran, after) == ([], [1])


async def test_cancelled_in_the_midst_the_work_goes_on_and_lets_go_at_its_end():
    begun, release, after = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        release.wait(PATIENCE_SECONDS)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: hand_over(work, after=after.set))
        await until(begun.is_set)
        tasks.cancel_scope.cancel()
    assert not after.is_set()
    release.set()
    await until(after.is_set)


@pytest.mark.parametrize("is_short", [True, False])
async def test_the_lock_is_held_while_the_work_runs_and_free_afterwards(
    is_short,
):
    lock = HybridLock()
    held = await run_locked(lock, lambda: lock.is_held, lambda: is_short)
    assert held
    assert not lock.is_held
    with pytest.raises(ZeroDivisionError):
        await run_locked(lock, lambda: 1 / 0, lambda: is_short)
    assert not lock.is_held
    with pytest.raises(ZeroDivisionError):
        await run_locked(lock, lambda: None, lambda: 1 / 0)
    assert not lock.is_held


async def test_short_work_runs_on_the_loops_own_thread_and_long_work_does_not():
    lock, here = HybridLock(), threading.get_ident()
    assert await run_locked(lock, threading.get_ident, lambda: True) == here
    assert await run_locked(lock, threading.get_ident, lambda: False) != here


@pytest.mark.parametrize("locks", [1, 30])
async def test_short_work_after_short_work_lets_others_run_in_between(locks: int):
    held, ticks = [HybridLock() for _ in range(locks)], 0

    async def tick() -> None:
        nonlocal ticks
        while ticks < 20:
            ticks += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        for number in range(30):
            await run_locked(held[number % locks], lambda: None, lambda: True)
    assert ticks == 20


async def test_one_short_piece_of_work_waits_for_no_turn_of_the_loop():
    await anyio.sleep(0.001)
    order: list[str] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.lowlevel.checkpoint)
        await anyio.lowlevel.checkpoint()
        tasks.start_soon(_noting, order)
        await run_locked(HybridLock(), lambda: order.append("work"), lambda: True)
        assert order == ["work"]
    assert order == ["work", "other"]


async def _noting(order: list[str]) -> None:
    order.append("other")


ASYNC_METHODS = [
    *((Memory, name) for name in vars(Memory) if f"a{name}" in vars(Memory)),
    *((ContextJIT, name) for name in ("handle", "answer")),
    (Interpreter, "run"),
    *((Context, name) for name in ("add", "prompt", "compact")),
    (LoadMemory, "handle"),
    *((rehydrate, name) for name in ("compact_context", "compile", "hydrate")),
    (prompt, "hydrate_source"),
]


@pytest.mark.parametrize(
    ("owner", "name"),
    ASYNC_METHODS,
    ids=[f"{owner.__name__}.{name}" for owner, name in ASYNC_METHODS],
)
def test_a_twin_has_a_name_a_signature_and_words_of_its_own(owner: object, name: str):
    function = getattr(owner, name)
    own = f"a{name}"
    wrapper = getattr(owner, own)
    assert inspect.iscoroutinefunction(wrapper)
    assert wrapper.__name__ == own
    assert wrapper.__qualname__ == f"{function.__qualname__.removesuffix(name)}{own}"
    assert wrapper.__module__ == function.__module__
    ours = inspect.signature(function).replace(return_annotation=inspect.Signature.empty)
    theirs = inspect.signature(wrapper).replace(return_annotation=inspect.Signature.empty)
    assert theirs == ours
    assert f"`{name}`" in wrapper.__doc__
    assert wrapper.__doc__ != function.__doc__
