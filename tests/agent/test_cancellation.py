"""A turn that is cancelled anywhere leaves a valid history with every finished result in it."""

import asyncio
import json
import subprocess
import sys
from functools import partial

import anyio
import anyio.lowlevel
import pytest
import trio
from hypothesis import event, given, strategies as st

from rehydrate import Context, validate
from rehydrate.agent import Interpreter, TurnLimits
from tests.agent.script import PROVIDERS, Script, call_reply, results, text_reply
from tests.sizes import PATIENCE_SECONDS

USER = {"role": "user", "content": "Go."}


class CancelledTurn:
    """A turn that is cancelled at a numbered point: in a tool, in the model, or at an event."""

    def __init__(self, provider, steps, cancel_at):
        self.provider, self.cancel_at, self.points = provider, cancel_at, 0
        self.cancel = self.turn = None
        self.finished, self.events = set(), []
        self.context = Context(provider=provider)
        self.model = Script(*map(self.reply_at, range(len(steps) + 1), [*steps, None]))
        self.model.provider = provider

    def point(self):
        self.points += 1
        if self.points == self.cancel_at:
            self.cancel()

    def watch(self, event):
        self.events.append(event)
        self.point()

    def reply_at(self, number, names):
        if names is None:
            reply = text_reply("Done.", self.provider)
        elif names:
            ids = [f"{name}.{number}.{index}" for index, name in enumerate(names)]
            made = [(call, name, {"call": call}) for call, name in zip(ids, names, strict=True)]
            reply = call_reply(*made, provider=self.provider)
        else:
            reply = text_reply("hm", self.provider, stop="pause")

        async def answer(prompt):
            self.point()
            await anyio.lowlevel.checkpoint()
            return reply

        return answer

    @property
    def tools(self):
        def sync(call: str) -> str:
            """In a thread."""
            self.finished.add(call)
            return call

        async def short(call: str) -> str:
            """On the loop."""
            self.point()
            await anyio.lowlevel.checkpoint()
            self.finished.add(call)
            return call

        async def long(call: str) -> str:
            """On the loop for a while."""
            for _ in range(6):
                self.point()
                await anyio.lowlevel.checkpoint()
            self.finished.add(call)
            return call

        return [sync, short, long]

    async def run(self, parallel, is_native):
        """Run the turn to its end, or until it is cancelled."""
        interpreter = Interpreter(
            self.model,
            self.tools,
            jit=False,
            limits=TurnLimits(parallel_calls=parallel),
            on_event=self.watch,
        )
        with anyio.CancelScope() as scope:
            self.cancel = asyncio.current_task().cancel if is_native else scope.cancel
            try:
                self.turn = await interpreter.arun(self.context, "Go.")
                await anyio.lowlevel.checkpoint()  # a task.cancel() after the end comes here
            except asyncio.CancelledError:
                if not is_native:
                    raise
                asyncio.current_task().uncancel()


@pytest.mark.parametrize(
    ("backend", "is_native"), [("asyncio", False), ("asyncio", True), ("trio", False)]
)
@given(
    provider=st.sampled_from(PROVIDERS),
    steps=st.lists(st.lists(st.sampled_from(["sync", "short", "long"]), max_size=4), max_size=4),
    parallel=st.integers(1, 4),
    cancel_at=st.integers(1, 60),
)
def test_a_turn_cancelled_anywhere(backend, is_native, provider, steps, parallel, cancel_at):
    cancelled = CancelledTurn(provider, steps, cancel_at)
    context = cancelled.context
    anyio.run(partial(cancelled.run, parallel, is_native), backend=backend)
    history = context.history
    assert validate(history, provider) == []
    assert validate([*history, USER], provider) == []
    assert history[:1] == [USER]
    found = results(history)
    for call in cancelled.finished:
        # A thread may finish after the turn stopped waiting for it.
        assert found[call] == call or (call.startswith("sync") and "unknown" in found[call])
    last = cancelled.events[-1]
    assert last.name == "turn_ended"
    assert last.turn.history == tuple(history)
    assert last.turn.stopped == ("cancelled" if cancelled.turn is None else "answer")
    event("cancelled" if cancelled.turn is None else "ended")
    event(f"cut short: {sum('cancelled' in text for text in found.values())}")
    # And the conversation goes on.
    after = Interpreter(Script(text_reply("Aye.", provider), provider=provider), jit=False)
    assert anyio.run(partial(after.arun, context, "Again."), backend=backend).answer == "Aye."
    assert validate(context.history, provider) == []


@pytest.mark.parametrize("where", ["tool", "model"])
def test_trio_cancels_in_groups_too(where):
    """A nursery of several tasks raises one: so does whatever opens a connection."""

    async def run_two_tasks(scope):
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(trio.sleep_forever)
            await anyio.lowlevel.checkpoint()
            scope.cancel()

    async def main():
        with anyio.CancelScope() as scope:

            async def several() -> None:
                """Several tasks."""
                await run_two_tasks(scope)

            async def line(prompt):
                await run_two_tasks(scope)

            model = Script(call_reply(("t1", "several", {})) if where == "tool" else line)
            agent = Interpreter(model, [several], jit=False, on_event=events.append)
            await agent.arun(context, "Go.")

    context, events = Context(), []
    trio.run(main)
    assert events[-1].turn.stopped == "cancelled"
    assert events[-1].turn.error is None
    assert len(context.history) == (3 if where == "tool" else 1)
    assert validate(context.history) == []


PROGRAM = """
import json, os, signal, sys, threading, time
from rehydrate import Context
from rehydrate.agent.interpreter import Interpreter
from rehydrate.testing.scripted_model import ScriptedModel, call

def quick() -> str:
    "Quick."
    return "done"

def hangs() -> str:
    "Hangs for good, in a thread."
    os.kill(os.getpid(), signal.SIGINT)
    while True:
        time.sleep(60)

context = Context()
model = ScriptedModel([[call("quick"), call("hangs")], "never"])
try:
    Interpreter(model, [quick, hangs], jit=False).run(context, "Go.")
except KeyboardInterrupt:
    print(json.dumps([block["content"] for block in context.history[-1]["content"]]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends Ctrl-C to a whole console")
def test_ctrl_c_ends_a_turn_whose_tool_hangs_and_then_the_program():
    program = [sys.executable, "-c", PROGRAM]
    run = subprocess.run(
        program, capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS
    )
    quick, hangs = json.loads(run.stdout)
    assert quick in ("done", "quick was cancelled; whether it took effect is unknown")
    assert hangs == "hangs was cancelled; whether it took effect is unknown"
