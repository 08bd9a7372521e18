"""Calls of one reply run at the same time; each gets a result, whatever the tool does."""

import threading
from functools import partial, wraps
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from rehydrate import Context, validate
from rehydrate._text import NOTHING
from rehydrate.agent import Interpreter, Tool, ToolError, TurnLimits
from rehydrate.agent.tool_calls import ToolRunner, run_tool
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats.calls import ToolCall
from tests.agent import clocks
from tests.agent.script import BACKENDS, Script, call_reply, results, text_reply
from tests.sizes import PATIENCE_SECONDS

both = pytest.mark.parametrize("backend", BACKENDS)
USER = {"role": "user", "content": "and then?"}


def results_of(*made, tools, backend="asyncio", **options):
    """Run the calls of one reply and return their results by id."""
    context = Context()
    interpreter = Interpreter(
        Script(call_reply(*made), text_reply("Done.")), tools, jit=False, **options
    )
    turn = clocks.run(partial(interpreter.arun, context, "Go."), backend)
    assert turn.answer == "Done."
    assert validate(context.history, "anthropic") == []
    return results(turn.history)


@both
@pytest.mark.parametrize("is_async", [False, True])
def test_calls_of_one_reply_run_at_the_same_time(backend, is_async):
    barrier = threading.Barrier(3, timeout=PATIENCE_SECONDS)
    arrived, everybody = [], anyio.Event()

    def meet() -> str:
        """Waits for the others in a thread."""
        barrier.wait()
        return "met"

    async def ameet() -> str:
        """Waits for the others on the loop."""
        arrived.append(1)
        if len(arrived) == 3:
            everybody.set()
        await everybody.wait()
        return "met"

    tool = ameet if is_async else meet
    made = [(f"c{number}", tool.__name__, {}) for number in range(3)]
    found = results_of(*made, tools=[tool], backend=backend)
    assert found == {"c0": "met", "c1": "met", "c2": "met"}


@both
def test_so_many_run_at_once_and_no_more(backend):
    running, most = [], []

    async def work(number: int) -> str:
        """Work."""
        running.append(number)
        most.append(len(running))
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        running.remove(number)
        return str(number)

    made = [(f"c{number}", "work", {"number": number}) for number in range(20)]
    found = results_of(*made, tools=[work], backend=backend, limits=TurnLimits(parallel_calls=3))
    assert list(found.items()) == [(f"c{number}", str(number)) for number in range(20)]
    assert max(most) == 3


@both
def test_async_tools_run_on_the_loop_and_sync_ones_do_not(backend):
    def sync() -> str:
        """Where."""
        return str(threading.get_ident())

    async def on_loop() -> str:
        """Where."""
        return str(threading.get_ident())

    class Called:
        __name__ = "called"

        async def __call__(self) -> str:
            """Where."""
            return str(threading.get_ident())

    async def partly(word: str) -> str:
        """Where."""
        return str(threading.get_ident())

    tools = [
        *(sync, on_loop, Called()),
        Tool.of(partial(partly, word="x"), name="partly"),
        Tool("gives", "", {"type": "object"}, lambda **given: on_loop()),
    ]
    made = [(name, name, {}) for name in ("sync", "on_loop", "called", "partly", "gives")]
    found = results_of(*made, tools=tools, backend=backend)
    here = str(threading.get_ident())
    assert found.pop("sync") != here
    assert found == dict.fromkeys(found, here)


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError


WRONG = {
    "an error": (ValueError("no such berth"), "{tool} failed (ValueError)"),
    "an error of its own words": (ToolError("the crane is down"), "the crane is down"),
    "an error without words": (KeyError(), "{tool} failed (KeyError)"),
    "an error that cannot be read": (
        UnprintableError(),
        "{tool} failed (UnprintableError)",
    ),
    "several errors": (
        ExceptionGroup("several", [ValueError("one")]),
        "{tool} failed (ExceptionGroup)",
    ),
    "a timeout of its own": (TimeoutError("the crane"), "{tool} failed (TimeoutError)"),
    "an end of iteration": (StopAsyncIteration("x"), "{tool} failed (StopAsyncIteration)"),
}


@both
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(("error", "expected"), WRONG.values(), ids=WRONG)
def test_a_tool_that_raises_is_answered_with_its_type(backend, is_async, error, expected):
    def sync() -> str:
        """Fails."""
        raise error

    async def on_loop() -> str:
        """Fails."""
        raise error

    tool = on_loop if is_async else sync
    found = results_of(("a", tool.__name__, {}), tools=[tool], backend=backend)
    assert found == {"a": expected.format(tool=tool.__name__)}


def test_errors_are_marked_as_such_where_the_provider_has_a_mark():
    context = Context()
    model = Script(call_reply(("a", "nope", {})), text_reply("Done."))
    Interpreter(model, jit=False).run(context, "Go.")
    (block,) = context.history[2]["content"]
    assert block["is_error"] is True
    assert block["content"] == "there is no tool 'nope'; there are no tools here"


RETURNED = {
    "nothing": (None, NOTHING),
    "an empty string": ("", ""),
    "a number": (7, "7"),
    "a list": ([1, "a", None], '[1,"a",null]'),
    "half a surrogate pair": ("caf\udce9", "caf\ufffd"),
    "bytes": (b"\xff\x00", '"/wA="'),
    "a set": ({3}, "[3]"),
    "odd keys": ({1: 2, None: 3}, '{"1":2,"null":3}'),
    "an object": (type("Berth", (), {"__str__": lambda self: "berth 4"})(), '"berth 4"'),
}


@pytest.mark.parametrize(("value", "expected"), RETURNED.values(), ids=RETURNED)
def test_a_tools_result_is_sent_as_text(value, expected):
    tool = Tool("get", "", {"type": "object"}, lambda: value)
    assert results_of(("a", "get", {}), tools=[tool]) == {"a": expected}


def test_a_result_that_holds_itself_is_an_error():
    itself = []
    itself.append(itself)
    tool = Tool("get", "", {"type": "object"}, lambda: itself)
    found = results_of(("a", "get", {}), tools=[tool])
    assert found == {"a": "get failed: the result holds itself, or is nested too deeply"}


def test_a_huge_result_is_in_the_history_as_a_whole_and_capped_in_the_prompt():
    text = "\n".join(f"line {number} of the log" for number in range(200_000))
    model = Script(call_reply(("a", "log", {})), text_reply("Done."))
    context = Context()
    tool = Tool("log", "", {"type": "object"}, lambda: text)
    turn = Interpreter(model, [tool], jit=False).run(context, "Go.")
    assert results(turn.history) == {"a": text}
    assert model.prompts[-1].tokens < 50_000


BAD = {
    "a wrong type": ({"berth": "four"}, "berth: Input should be a valid integer"),
    "a missing one": ({}, "berth: Field required"),
    "an unknown one": ({"berth": 4, "colour": "red"}, "colour: there is no such parameter"),
    "no JSON": ('{"berth": 4', "aren't JSON"),
    "no object": ("[4]", "send an object"),
}


@pytest.mark.parametrize(("given", "expected"), BAD.values(), ids=BAD)
def test_bad_arguments_are_answered_with_what_is_wrong_with_them(given, expected):
    def book(berth: int) -> str:
        """Book a berth."""
        raise AssertionError("it must not be called")

    model = Script(
        call_reply(("a", "book", given), provider="openai_chat"),
        text_reply("Done.", "openai_chat"),
        provider="openai_chat",
    )
    context = Context(provider="openai_chat")
    turn = Interpreter(model, [book], jit=False).run(context, "Go.")
    assert expected in results(turn.history)["a"]
    assert validate(context.history, "openai_chat") == []


def test_an_unknown_tool_is_answered_with_the_names_of_the_known_ones():
    def book() -> None:
        """Book."""

    found = results_of(("a", "bock", {}), tools=[book])
    assert found == {"a": "there is no tool 'bock'; the tools are book"}


def test_a_tool_whose_name_converse_refuses_is_called_by_the_one_that_it_is_sent():
    tool = Tool("harbour.pilot/book", "", {"type": "object"}, lambda: "booked")
    sent = tool.definition.render("bedrock")["toolSpec"]["name"]
    call = ToolCall("bedrock", "tooluse_1", sent, {})
    found = clocks.run(partial(run_tool, {tool.name: tool}, call, 20, ToolRunner()), "asyncio")
    assert found.content == "booked"


@both
@pytest.mark.parametrize("is_async", [False, True])
def test_a_tool_that_hangs_is_abandoned_and_the_turn_goes_on(backend, is_async):
    release = threading.Event()
    loop_jumps = anyio.Event()

    def hangs() -> str:
        """Hangs in a thread."""
        anyio_from_elsewhere.append(1)
        release.wait(60)
        return "too late"

    async def ahangs() -> str:
        """Hangs on the loop."""
        loop_jumps.set()
        await anyio.sleep_forever()

    async def clock() -> str:
        """Lets the time pass once the other hangs."""
        if is_async:
            await loop_jumps.wait()
        else:
            while not anyio_from_elsewhere:
                await anyio.lowlevel.checkpoint()
        clocks.jump(5)
        return "tick"

    anyio_from_elsewhere = []
    tool = Tool.of(ahangs if is_async else hangs, name="hangs", timeout=5)
    made = [("a", "hangs", {}), ("b", "clock", {})]
    tools = [tool, Tool.of(clock, timeout=1_000)]
    try:
        found = results_of(*made, tools=tools, backend=backend)
    finally:
        release.set()
    assert found == {
        "a": "hangs took longer than 5 s; whether it took effect is unknown",
        "b": "tick",
    }


def test_a_tool_that_cancels_itself_ends_nobody_else():
    import asyncio

    async def cancels() -> str:
        """Cancels itself."""
        raise asyncio.CancelledError

    async def stays() -> str:
        """Stays."""
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        return "here"

    found = results_of(("a", "cancels", {}), ("b", "stays", {}), tools=[cancels, stays])
    assert found == {
        "a": "cancels was cancelled; whether it took effect is unknown",
        "b": "here",
    }


@both
@pytest.mark.parametrize("is_async", [False, True])
def test_what_must_not_be_caught_is_raised_and_every_call_still_has_its_result(backend, is_async):
    def leaves() -> str:
        """Leaves."""
        raise SystemExit(3)

    async def aleaves() -> str:
        """Leaves."""
        raise SystemExit(3)

    async def waits() -> str:
        """Waits."""
        await anyio.sleep_forever()

    tool = Tool.of(aleaves if is_async else leaves, name="leaves")
    context = Context()
    model = Script(call_reply(("a", "leaves", {}), ("b", "waits", {})))
    interpreter = Interpreter(model, [tool, waits], jit=False)
    with pytest.raises(SystemExit):
        anyio.run(partial(interpreter.arun, context, "Go."), backend=backend)
    assert results(context.history).keys() == {"a", "b"}
    assert validate([*context.history, USER], "anthropic") == []


@both
def test_a_cancelled_turn_of_sync_tools_does_not_wait_for_them(backend):
    release, begun = threading.Event(), threading.Event()

    def hangs() -> str:
        """Hangs."""
        begun.set()
        release.wait(60)
        return "too late"

    async def main():
        context = Context()
        model = Script(call_reply(("a", "hangs", {}), ("b", "hangs", {})))
        interpreter = Interpreter(model, [hangs], jit=False, limits=TurnLimits(parallel_calls=1))
        async with anyio.create_task_group() as group:
            group.start_soon(interpreter.arun, context, "Go.")
            while not begun.is_set():
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        return context.history

    try:
        history = anyio.run(main, backend=backend)
    finally:
        release.set()
    assert results(history) == {
        "a": "hangs was cancelled; whether it took effect is unknown",
        "b": "hangs was cancelled before it began; nothing was done",
    }


def test_a_limit_says_what_is_wrong_with_it():
    with pytest.raises(InvalidArgumentError, match="parallel_calls is 0"):
        TurnLimits(parallel_calls=0)


@both
def test_a_sync_wrapper_of_an_async_function_runs_in_a_thread(backend):
    async def berth() -> str:
        """Its berth."""
        await anyio.sleep(0)
        return "4"

    @wraps(berth)
    def at_once() -> str:
        return anyio.run(berth)  # not on a loop that runs

    @wraps(berth)
    def later() -> Any:
        return berth()

    tools = [Tool.of(at_once, name="at_once"), Tool.of(later, name="later")]
    made = [("c0", "at_once", {}), ("c1", "later", {})]
    assert results_of(*made, tools=tools, backend=backend) == {"c0": "4", "c1": "4"}
