"""RunOnce: a history gets all entries together and exactly once, whoever is cancelled."""

import asyncio
import threading
from functools import partial

import anyio
import pytest

from rehydrate import Context
from rehydrate._concurrency.async_wrappers import RunOnce
from rehydrate._concurrency.workers import COMPUTING
from rehydrate.errors import InvalidMessageError
from tests.agent.script import BACKENDS

ENTRIES = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]


def addition(context):
    return RunOnce(partial(context.add, *ENTRIES))


class SlowContext(Context):
    """Its `add` sets `begun`, and then waits for `release`."""

    def __init__(self):
        super().__init__()
        self.begun, self.release = threading.Event(), threading.Event()

    def add(self, *entries):
        self.begun.set()
        self.release.wait(60)
        super().add(*entries)


def test_a_task_cancelled_by_asyncio_in_the_middle_has_added_everything_once():
    context = SlowContext()

    async def main():
        task = asyncio.create_task(addition(context).arun())
        while not context.begun.is_set():
            await asyncio.sleep(0)
        task.cancel()
        threading.Timer(0.01, context.release.set).start()
        with pytest.raises(asyncio.CancelledError):
            await task
        return context.history

    assert asyncio.run(main()) == ENTRIES
    assert context.history == ENTRIES


def test_a_task_cancelled_by_asyncio_before_it_got_a_thread_has_added_everything_too():
    context = Context()

    async def main():
        release = threading.Event()
        for _ in range(COMPUTING.size):
            COMPUTING.start(release.wait)
        task = asyncio.create_task(addition(context).arun())
        for _ in range(10):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        history = context.history
        release.set()
        return history

    assert asyncio.run(main()) == ENTRIES


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_cancelled_scope_waits_until_everything_is_added(backend):
    context = Context()

    async def main():
        with anyio.CancelScope() as scope:
            scope.cancel()
            await addition(context).arun()
            return context.history

    assert anyio.run(main, backend=backend) == ENTRIES


def test_twice_is_once():
    context = Context()
    once = addition(context)
    once.run()
    once.run()
    assert context.history == ENTRIES


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_no_message_is_refused(backend):
    async def main():
        await RunOnce(partial(Context().add, "no message")).arun()

    with pytest.raises(InvalidMessageError):
        anyio.run(main, backend=backend)
