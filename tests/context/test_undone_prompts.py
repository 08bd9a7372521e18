"""A prompt that nobody received is undone, in memory and on disk, and nothing else with it."""

import asyncio
import json
import re
import threading

import anyio
import pytest

from rehydrate.context import Context, ContextJIT, Threads
from rehydrate.prompt import Budget
from tests.context.test_stored_threads import assistant, call, result, user

SMALL = Budget(soft_tokens=4_000, hard_tokens=60_000)
REGISTRY = "\n\n".join(f"{n}: crane {n * 17 % 1009} lifts {n * 13 % 777} tons" for n in range(900))


class Gate:
    """A source that answers a question with a "?" once it is let to."""

    def __init__(self, answer=""):
        self.answer = answer
        self.is_asked, self.opened = threading.Event(), threading.Event()

    def __call__(self, request):
        if "?" in request.query:
            self.is_asked.set()
            assert self.opened.wait(600)
        return self.answer


def opened(folder, *sources, **options):
    options = {"budget": SMALL, "timeout": None, **options}
    return Context.open(folder / "t.db", sources, thread="t", namespace="alice", **options)


def give_up(context, gate, query):
    """Ask, and cancel that while the prompt is made."""

    async def ask():
        async with anyio.create_task_group() as group:
            group.start_soon(context.aprompt, query)
            await anyio.to_thread.run_sync(gate.is_asked.wait)
            group.cancel_scope.cancel()

    anyio.run(ask)
    gate.opened.set()


def handles_in(shown):
    return set(re.findall(r"(?:orig|rest)_\w+", json.dumps(shown)))


def test_an_original_of_it_is_there_for_the_next_prompt_after_a_restart(tmp_path):
    gate = Gate(REGISTRY)
    with opened(tmp_path, gate) as context:
        context.add(user("Hello."), assistant("Hello."))
        give_up(context, gate, "Which crane lifts 400 tons?")
        (handle,) = handles_in(context.prompt("Which crane lifts 400 tons?").messages)
    with opened(tmp_path, gate) as context:
        assert "crane 17 lifts 13 tons" in context.originals.get(handle)


def test_a_remainder_that_was_written_with_it_is_there_after_a_restart(tmp_path):
    gate = Gate()
    asked = call("q1", "request_context", query="crane of the pier lifts tons")
    with opened(tmp_path, gate, durability="turn") as context:
        jit = ContextJIT(context, budget_tokens=400)
        for turn in range(40):
            said = f"The crane number {turn} of the pier lifts {turn * 13} tons. " * 8
            context.add(user(said), assistant("Noted."))
        context.prompt("Go on.")
        context.add(asked)
        answer = jit.handle(asked["content"][0])
        (handle,) = handles_in(answer["content"])
        context.add({"role": "user", "content": [answer]}, assistant("Noted."))
        give_up(context, gate, "What now?")
        context.prompt("What now?")
    with opened(tmp_path) as context:
        fetched = call("q2", "fetch_whole", handle=handle)["content"][0]
        assert "of the pier lifts" in ContextJIT(context).handle(fetched)["content"]


def test_a_handle_never_leads_to_another_text_in_the_place_of_one_that_was_undone(tmp_path):
    gate = Gate()
    listing = "\n".join(f"{n}: port {n * 7919 % 65536} is open" for n in range(3_000))
    question = "Which ports are open?\n\n" + listing
    with opened(tmp_path, gate) as context:
        context.add(call("t1"), result("t1", listing.upper()))
        give_up(context, gate, question)
        context.prompt("Something else, which is long enough to be shown in part. " * 4)
        context.add(assistant("Yes."))
        context.prompt(question)
        context.add(assistant("Port 7919."))
        context.compact(2_000)
        handles = handles_in(context.prompt("And now?").messages)
        assert question in {context.originals.get(handle) for handle in handles}


def test_another_process_never_sees_it(tmp_path):
    gate = Gate()
    with opened(tmp_path, gate) as context:
        give_up(context, gate, "Which crane?")
        with context._thread.lock:  # its worker is done
            pass
        with Threads.open(tmp_path / "t.db", namespace="alice") as threads:
            assert threads.history("t") == []


def test_another_process_does_not_see_it_for_long_if_it_was_given_up_when_it_was_made(tmp_path):
    gate = Gate()
    gate.opened.set()

    async def give_up_late(context, threads):
        asked = asyncio.create_task(context.aprompt("Which crane?"))
        while not gate.is_asked.is_set():
            await asyncio.sleep(0.001)
        with context._thread.lock:  # the loop waits until the worker is done
            assert threads.history("t")
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        async with asyncio.timeout(60):
            while threads.history("t"):
                await asyncio.sleep(0.001)

    with (
        opened(tmp_path, gate) as context,
        Threads.open(tmp_path / "t.db", namespace="alice") as threads,
    ):
        asyncio.run(give_up_late(context, threads))
