"""Cancelled: what nobody got to see does not count as seen."""

from __future__ import annotations

import threading
from functools import partial

import anyio
import pytest

from rehydrate import Context, ContextJIT
from rehydrate.context.retriever import Retriever
from rehydrate.prompt import HydrationSource
from tests.context.jit.test_jit import BILLING, answer_of, call


class Gate:
    """A source that answers a call once it is let to."""

    def __init__(self) -> None:
        self.is_asked, self.opened = threading.Event(), threading.Event()

    def __call__(self, request):
        if request.query == "hello":
            return None
        self.is_asked.set()
        assert self.opened.wait(600)
        return BILLING


async def cancel_a_call(jit: ContextJIT, gate: Gate) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(jit.ahandle, call("billing", "t1"))
        await anyio.to_thread.run_sync(gate.is_asked.wait)
        group.cancel_scope.cancel()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_what_a_cancelled_call_finds_later_is_found_by_the_next(backend, monkeypatch):
    gate = Gate()
    context = Context([HydrationSource("gate", gate)], timeout=None)
    jit = ContextJIT(context, timeout=None)
    context.prompt("hello")
    taken_back = threading.Event()
    unsplice = Retriever.unsplice

    def noted(*arguments):
        unsplice(*arguments)
        taken_back.set()

    monkeypatch.setattr(Retriever, "unsplice", noted)
    anyio.run(partial(cancel_a_call, jit, gate), backend=backend)
    gate.opened.set()
    assert taken_back.wait(600)
    assert BILLING in jit.handle(call("billing", "t2"))["content"]


def test_a_turn_that_is_tried_again_without_a_result_finds_it_again():
    gate = Gate()
    gate.opened.set()
    context = Context([gate], timeout=None)
    jit = ContextJIT(context, timeout=None)
    context.prompt("hello")
    jit.handle(call("billing", "t1"))  # and the loop fails before it adds the result
    context.prompt()
    assert BILLING in answer_of(context, jit, call("billing", "t2"))
    context.prompt()
    assert [section.tool_call_id for section in context.ir.late_bound] == ["t2"]


def test_a_compaction_between_a_call_and_its_result_loses_nothing():
    gate = Gate()
    gate.opened.set()
    context = Context([gate], timeout=None)
    jit = ContextJIT(context, timeout=None)
    context.prompt("hello")
    asked = call("billing", "t1")
    result = jit.handle(asked)
    context.compact(100_000)
    context.add({"role": "assistant", "content": [asked]}, {"role": "user", "content": [result]})
    context.prompt()
    assert [section.tool_call_id for section in context.ir.late_bound] == ["t1"]


def test_what_an_interrupted_call_took_in_is_given_back(monkeypatch):
    gate = Gate()
    gate.opened.set()
    context = Context([gate], timeout=None)
    jit = ContextJIT(context, timeout=None)
    context.prompt("hello")
    splice = Retriever.splice

    def interrupted(*arguments):
        splice(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Retriever, "splice", interrupted)
        with pytest.raises(KeyboardInterrupt):
            jit.handle(call("billing", "t1"))
    assert BILLING in jit.handle(call("billing", "t1"))["content"]


class PanicError(BaseException):
    """As an extension raises it, and one that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_what_is_no_exception_is_an_answer_too():
    def panics(request):
        if request.query != "hello":
            raise PanicError

    context = Context([panics], timeout=None)
    jit = ContextJIT(context, timeout=None)
    context.prompt("hello")
    answered = jit.answer(call("billing"))
    assert answered.is_error
    assert "PanicError" in answered.content
