"""WorkerPool: few compute at once, a waiting task gives its slot away, none blocks the exit."""

from __future__ import annotations

import threading

import pytest

from rehydrate._concurrency.workers import WorkerPool, waiting
from tests.sizes import PATIENCE_SECONDS
from tests.stress.programs import needs_fork, run_python


class Gate:
    """Tasks that wait at a gate, and how many were inside at once."""

    def __init__(self) -> None:
        self.open, self.changed = threading.Event(), threading.Condition()
        self.inside, self.most, self.done = 0, 0, 0

    def task(self) -> None:
        with self.changed:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.changed.notify_all()
        self.open.wait(PATIENCE_SECONDS)
        with self.changed:
            self.inside -= 1
            self.done += 1
            self.changed.notify_all()

    def until(self, what) -> None:
        with self.changed:
            assert self.changed.wait_for(what, PATIENCE_SECONDS)


def test_no_more_than_its_size_run_at_once_and_all_of_them_do():
    pool, gate = WorkerPool(3), Gate()
    for _ in range(20):
        pool.start(gate.task)
    gate.until(lambda: gate.inside == 3)
    gate.open.set()
    gate.until(lambda: gate.done == 20)
    assert gate.most == 3


def test_they_run_in_the_order_in_which_they_came():
    pool, order, over = WorkerPool(1), [], threading.Event()
    for number in range(20):
        pool.start(lambda number=number: order.append(number))
    pool.start(over.set)
    assert over.wait(PATIENCE_SECONDS)
    assert order == list(range(20))


def test_who_waits_gives_its_place_to_another():
    pool, hang, gate = WorkerPool(2), threading.Event(), Gate()

    def waits() -> None:
        with waiting():
            hang.wait(PATIENCE_SECONDS)

    for _ in range(10):
        pool.start(waits)
    gate.open.set()
    pool.start(gate.task)
    gate.until(lambda: gate.done == 1)
    hang.set()


def test_who_comes_back_from_waiting_computes_in_a_place_again():
    pool, go, gate = WorkerPool(2), threading.Event(), Gate()

    def waits() -> None:
        with waiting():
            go.wait(PATIENCE_SECONDS)
        gate.task()

    for _ in range(10):
        pool.start(waits)
    go.set()
    gate.until(lambda: gate.inside == 2)
    gate.open.set()
    gate.until(lambda: gate.done == 10)
    assert gate.most == 2
    over = threading.Event()
    pool.start(over.set)
    assert over.wait(PATIENCE_SECONDS)


def test_what_has_not_begun_can_be_withdrawn():
    pool, gate, ran = WorkerPool(1), Gate(), []

    def task() -> None:
        ran.append(1)

    pool.start(gate.task)
    gate.until(lambda: gate.inside == 1)
    pool.start(task)
    assert pool.withdraw(task)
    assert not pool.withdraw(task)
    over = threading.Event()
    pool.start(over.set)
    gate.open.set()
    assert over.wait(PATIENCE_SECONDS)
    assert ran == []


def test_where_no_thread_can_be_started_it_says_so_and_no_place_is_lost(monkeypatch):
    from rehydrate._concurrency import workers as module

    pool, over = WorkerPool(1), threading.Event()
    run_in_thread = module.run_in_thread

    def refuse(task) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(module, "run_in_thread", refuse)
    with pytest.raises(RuntimeError, match="can't start"):
        pool.start(over.set)
    monkeypatch.setattr(module, "run_in_thread", run_in_thread)
    pool.start(over.set)
    assert over.wait(PATIENCE_SECONDS)


@needs_fork
def test_a_child_has_all_places_whatever_its_parent_was_at():
    ended = run_python(
        """
        import os, signal, threading
        from rehydrate._concurrency.workers import WorkerPool

        pool, hang = WorkerPool(1), threading.Event()
        begun = threading.Event()
        pool.start(lambda: (begun.set(), hang.wait(60)))
        begun.wait(60)
        pool.start(lambda: print("the parent's"))
        if (child := os.fork()) == 0:
            signal.alarm(60)
            over = threading.Event()
            pool.start(over.set)
            over.wait()
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        over = threading.Event()
        pool.start(over.set)
        hang.set()
        over.wait()
        """
    )
    assert (ended.code, ended.out, ended.err) == (0, "7\nthe parent's\n", "")


def test_work_that_hangs_does_not_keep_the_process_from_ending():
    ended = run_python(
        """
        import asyncio, threading
        from rehydrate._concurrency.async_wrappers import hand_over

        async def main():
            try:
                await asyncio.wait_for(hand_over(threading.Event().wait), 0.05)
            except TimeoutError:
                print("went on")

        asyncio.run(main())
        """
    )
    assert (ended.code, ended.out, ended.err) == (0, "went on\n", "")
