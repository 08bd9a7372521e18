"""Context awaited: short work on the loop, long work in threads; a slow one delays no other."""

from __future__ import annotations

import threading
import time
from itertools import pairwise

import anyio
import anyio.lowlevel
import pytest

from rehydrate import Budget, Context
from tests.sizes import PATIENCE_SECONDS
from tests.stress.programs import run_python

pytestmark = pytest.mark.anyio


class Clock:
    """Seconds since 1970, and in which threads they were asked for: a prompt's and an add's own."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def __call__(self) -> float:
        self.threads.append(threading.get_ident())
        return time.time()

    @property
    def was_on_the_loop(self) -> bool:
        return self.threads[-1] == threading.get_ident()


class Blocked:
    """A source that comes back when it is let."""

    def __init__(self) -> None:
        self.begun, self.release = threading.Event(), threading.Event()

    def __call__(self, request: object) -> str:
        self.begun.set()
        self.release.wait(PATIENCE_SECONDS)
        return "Berth 4 is free."

    async def asked(self) -> None:
        with anyio.fail_after(PATIENCE_SECONDS):
            while not self.begun.is_set():
                await anyio.sleep(0.001)


def talk(turns: int, words: int = 30) -> list[dict[str, str]]:
    return [
        {"role": role, "content": f"{role} {turn}: " + "the ferry leaves at seven " * (words // 5)}
        for turn in range(turns)
        for role in ("user", "assistant")
    ]


async def test_45_that_wait_for_one_slow_context_do_not_delay_another():
    blocked = Blocked()
    slow = Context(blocked, timeout=None)
    other = Context(lambda request: "The ferry leaves at seven.", timeout=None)
    before = threading.active_count()
    async with anyio.create_task_group() as tasks:
        for number in range(45):
            tasks.start_soon(slow.aprompt, f"asked by {number}")
        await blocked.asked()
        ticks = 0
        with anyio.fail_after(PATIENCE_SECONDS):
            for number in range(20):
                await other.aprompt(f"Question {number}?")
                await other.aadd({"role": "assistant", "content": "At seven."})
                await other.acompact()
                ticks += 1
        assert ticks == 20
        assert not blocked.release.is_set()
        assert slow.usage.prompts == 0
        # One for the prompt that is made, one for its source, and those of the other context.
        assert threading.active_count() - before < 12
        blocked.release.set()
    assert slow.usage.prompts == 45
    assert sorted(entry["content"] for entry in slow.history) == sorted(
        f"asked by {number}" for number in range(45)
    )


async def test_many_contexts_whose_sources_hang_do_not_delay_another():
    blocked = Blocked()
    other = Context(lambda request: "The ferry leaves at seven.", timeout=None)
    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(Context(blocked, timeout=None).aprompt, "Which berth?")
        await blocked.asked()
        with anyio.fail_after(PATIENCE_SECONDS):
            await other.aprompt("When?")
        assert not blocked.release.is_set()
        blocked.release.set()


async def test_short_work_is_done_on_the_loop():
    clock = Clock()
    context = Context(system="You are the harbour's assistant.", clock=clock)
    for number in range(5):
        await context.aprompt(f"Question {number}?")
        assert clock.was_on_the_loop
        await context.aadd({"role": "assistant", "content": "At seven."})
        assert clock.was_on_the_loop


async def test_a_prompt_that_asks_sources_is_made_off_the_loop():
    clock = Clock()
    context = Context(lambda request: "At seven.", timeout=None, clock=clock)
    await context.aprompt("When?")
    assert not clock.was_on_the_loop
    context.add({"role": "assistant", "content": "At seven."})
    threads = len(clock.threads)
    await context.aprompt()  # the same turn: nobody is asked, and nothing added
    assert len(clock.threads) == threads


async def test_a_prompt_over_a_long_history_is_made_off_the_loop():
    clock = Clock()
    context = Context(clock=clock)
    context.add(*talk(500))
    await context.aprompt("When?")
    assert not clock.was_on_the_loop


async def test_a_prompt_that_is_compacted_is_made_off_the_loop():
    clock = Clock()
    context = Context(clock=clock, budget=Budget(soft_tokens=2_000))
    context.add(*talk(8, words=300))
    await context.aprompt("When?")
    assert context.usage.compactions == 1
    assert not clock.was_on_the_loop


async def test_foreign_code_is_called_off_the_loop():
    def think(ir: object, target: object) -> object:
        threads.append(threading.get_ident())
        return ir

    threads: list[int] = []
    await Context(passes=[think]).aprompt("When?")
    assert threads[0] != threading.get_ident()


async def test_large_entries_are_counted_off_the_loop():
    clock = Clock()
    context = Context(clock=clock)
    await context.aadd({"role": "user", "content": "x " * 64_000})
    assert not clock.was_on_the_loop
    assert len(context.history) == 1


async def test_sync_and_async_callers_of_one_context_exclude_each_other():
    context = Context(lambda request: "At seven.", timeout=None, provider="openai_chat")
    context.add({"role": "user", "content": "start"})
    prompts = []

    def work(number: int) -> None:
        for turn in range(5):
            context.add({"role": "assistant", "content": f"thread {number}, {turn}"})
            prompts.append(context.prompt(f"asked by thread {number}, {turn}"))

    async def awork(number: int) -> None:
        for turn in range(5):
            await context.aadd({"role": "assistant", "content": f"task {number}, {turn}"})
            prompts.append(await context.aprompt(f"asked by task {number}, {turn}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(awork, number)
        while any(thread.is_alive() for thread in threads):
            await anyio.sleep(0.001)
    assert len(context.history) == 81
    assert context.usage.prompts == len(prompts) == 40
    sent = sorted([[each.digest for each in prompt.segments] for prompt in prompts], key=len)
    assert all(longer[: len(shorter)] == shorter for shorter, longer in pairwise(sent))


async def test_a_call_that_is_cancelled_while_it_waits_leaves_nothing():
    blocked = Blocked()
    context = Context(blocked, timeout=None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(context.aprompt, "first")
        await blocked.asked()
        async with anyio.create_task_group() as others:
            for call in (context.aprompt, context.aadd):
                others.start_soon(call, "never")
            others.start_soon(context.acompact)
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            others.cancel_scope.cancel()
        assert not blocked.release.is_set()
        blocked.release.set()
    assert [entry["content"] for entry in context.history] == ["first"]
    assert context.usage.prompts == 1
    assert not context.is_busy


async def test_a_sync_call_on_the_loop_while_others_await_their_turn_comes_through():
    blocked = Blocked()
    context = Context(blocked, timeout=None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(context.aprompt, "first")
        await blocked.asked()
        tasks.start_soon(context.aprompt, "second")
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        blocked.release.set()
        context.add({"role": "assistant", "content": "third, and it blocks the loop meanwhile"})
    assert len(context.history) == 3
    assert context.usage.prompts == 2


async def test_how_full_it_is_can_be_asked_while_a_prompt_is_made():
    blocked = Blocked()
    context = Context(blocked, timeout=None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(context.aprompt, "first")
        await blocked.asked()
        assert context.is_busy
        assert context.usage.prompts == 0
        assert len(context.history) == 1
        blocked.release.set()
    assert (context.is_busy, context.usage.prompts) == (False, 1)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_child_that_is_forked_in_the_midst_goes_on_with_its_context(backend: str):
    ended = run_python(_FORKING, backend)
    assert (ended.code, ended.out, ended.err) == (0, "7\n2\n", "")


_FORKING = """
import os, signal, sys, threading
import anyio
from rehydrate import Context

begun, release = threading.Event(), threading.Event()

def source(request):
    begun.set()
    release.wait(60)
    return "At seven."

async def main():
    context = Context(source, timeout=None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(context.aprompt, "first")
        tasks.start_soon(context.aprompt, "second")
        while not begun.is_set():
            await anyio.sleep(0.001)
        if (child := os.fork()) == 0:
            signal.alarm(60)
            release.set()
            context.prompt("the child's")
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        release.set()
    print(context.usage.prompts)

anyio.run(main, backend=sys.argv[1])
"""
