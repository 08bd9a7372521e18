"""HybridLock: threads and coroutines exclude each other; a waiting coroutine holds nothing."""

from __future__ import annotations

import asyncio
import sys
import threading

import anyio
import anyio.lowlevel
import pytest

from rehydrate._concurrency.async_wrappers import HybridLock
from tests.sizes import PATIENCE_SECONDS
from tests.stress.programs import needs_fork, run_python

pytestmark = pytest.mark.anyio


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(20):
        await anyio.lowlevel.checkpoint()


async def take(lock: HybridLock, name: object, order: list[object]) -> None:
    await lock.acquire()
    order.append(name)
    lock.release()


async def test_coroutines_come_in_the_order_in_which_they_asked():
    lock, order = HybridLock(), []
    async with anyio.create_task_group() as tasks:
        with lock:
            for number in range(10):
                tasks.start_soon(take, lock, number, order)
                await settle()  # trio starts tasks in no order
            assert order == []
    assert order == list(range(10))


async def test_a_coroutine_that_waits_holds_no_thread():
    lock, before = HybridLock(), threading.active_count()
    async with anyio.create_task_group() as tasks:
        with lock:
            for number in range(100):
                tasks.start_soon(take, lock, number, [])
            await settle()
            assert len(lock._waiters) == 100
            assert threading.active_count() == before


async def test_a_thread_wakes_the_coroutine_that_waits_for_it():
    lock, held, over = HybridLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            over.wait(PATIENCE_SECONDS)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(PATIENCE_SECONDS)
    order: list[object] = []
    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take, lock, "coroutine", order)
            await settle()
            assert lock.is_held
            assert order == []
            over.set()
    thread.join()
    assert order == ["coroutine"]


async def test_threads_and_coroutines_exclude_each_other():
    lock, inside, most = HybridLock(), 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(300):
            with lock:
                inside += 1
                most = max(most, inside)
                inside -= 1

    async def awork() -> None:
        nonlocal inside, most
        for _ in range(100):
            await lock.acquire()
            inside += 1
            most = max(most, inside)
            inside -= 1
            lock.release()

    threads = [threading.Thread(target=work) for _ in range(4)]
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        with anyio.fail_after(PATIENCE_SECONDS):
            async with anyio.create_task_group() as tasks:
                for _ in range(8):
                    tasks.start_soon(awork)
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch)
    assert most == 1
    assert not lock.is_held
    assert not lock._waiters


async def test_a_blocking_caller_on_the_loop_does_not_wait_for_a_coroutine_of_that_loop():
    lock, order = HybridLock(), []
    async with anyio.create_task_group() as tasks:
        with lock:
            tasks.start_soon(take, lock, "coroutine", order)
            await settle()
        # Woken, and not yet run: if the coroutine owned the lock now, this would wait forever.
        with lock:
            order.append("thread")
    assert order == ["thread", "coroutine"]


async def test_who_is_cancelled_in_line_leaves_nothing_and_the_others_go_on():
    lock, order = HybridLock(), []
    async with anyio.create_task_group() as tasks:
        with lock:
            scopes = [anyio.CancelScope() for _ in range(6)]

            async def wait(number: int) -> None:
                with scopes[number]:
                    await take(lock, number, order)

            for number in range(6):
                tasks.start_soon(wait, number)
                await settle()
            for number in (0, 3, 5):
                scopes[number].cancel()
            await settle()
            assert len(lock._waiters) == 3
    assert order == [1, 2, 4]
    assert not lock.is_held


async def test_who_is_cancelled_just_when_woken_hands_the_wake_on():
    lock, order = HybridLock(), []
    async with anyio.create_task_group() as tasks:
        with lock:
            scope = anyio.CancelScope()

            async def wait() -> None:
                with scope:
                    await take(lock, "cancelled", order)

            tasks.start_soon(wait)
            await settle()
            tasks.start_soon(take, lock, "next", order)
            await settle()
        scope.cancel()  # after the release, before the loop ran
    assert order == ["next"]


async def test_who_is_cancelled_does_not_get_it_even_where_it_is_free():
    lock = HybridLock()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await lock.acquire()
    assert scope.cancelled_caught
    assert not lock.is_held


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_one_whose_loop_has_ended_keeps_nobody_waiting(anyio_backend: str):
    lock, order = HybridLock(), []
    lock._lock.acquire()

    def wait_and_end() -> None:
        other = asyncio.new_event_loop()
        task = other.create_task(lock.acquire())
        for _ in range(5):
            other.run_until_complete(asyncio.sleep(0))
        other.close()
        task._log_destroy_pending = False
        left.append(task)

    left: list[object] = []
    thread = threading.Thread(target=wait_and_end)
    thread.start()
    thread.join()
    assert len(lock._waiters) == 1
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take, lock, "here", order)
        await settle()
        lock.release()
    assert order == ["here"]


@needs_fork
def test_a_child_finds_it_free_and_nobody_in_line():
    ended = run_python(
        """
        import asyncio, os, signal
        from rehydrate._concurrency.async_wrappers import HybridLock

        async def main():
            lock = HybridLock()
            lock._lock.acquire()
            task = asyncio.create_task(lock.acquire())
            for _ in range(5):
                await asyncio.sleep(0)
            if (child := os.fork()) == 0:
                signal.alarm(60)  # a child that waits for ever is killed by it
                with lock:
                    os._exit(7 if not lock._waiters else 8)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(lock._waiters))
            lock.release()
            await task
            print("mine")

        asyncio.run(main())
        """
    )
    assert (ended.code, ended.out, ended.err) == (0, "7 1\nmine\n", "")
