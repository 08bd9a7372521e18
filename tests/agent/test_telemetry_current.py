"""Telemetry: which span is the current one, turns within others, and what fails."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from contextvars import copy_context
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter

from rehydrate.agent import (
    Telemetry,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from tests.agent.recorded import (
    MODEL,
    REQUEST,
    TOOL,
    Recorder,
    built,
    ended,
    nothing_stays_current,  # noqa: F401  for every test
    replied,
    started,
    whole_turn,
)
from tests.sizes import PATIENCE_SECONDS


def test_a_turn_is_within_the_span_that_was_current_and_leaves_it_current() -> None:
    recorder = Recorder()
    tracer = recorder.tracers.get_tracer("a web server")
    with tracer.start_as_current_span("POST /chat") as request:
        recorder.send(*whole_turn())
        assert trace.get_current_span() is request
    assert recorder.span("invoke_agent").parent.span_id == request.get_span_context().span_id


def test_what_a_client_or_a_tool_traces_is_within_the_span_of_the_call() -> None:
    recorder = Recorder()
    tracer = recorder.tracers.get_tracer("an http client")

    def request(name: str) -> None:
        tracer.start_span(name).end()

    recorder.send(started(), built())
    request("to the model")
    recorder.send(replied(stop="calls"))
    request("between")
    recorder.send(TOOL[0])
    request("of the tool")
    recorder.send(TOOL[1], ended())
    parents = {
        name: recorder.span(parent).context.span_id
        for name, parent in {
            "to the model": f"chat {MODEL}",
            "between": "invoke_agent",
            "of the tool": "execute_tool berths",
        }.items()
    }
    assert {name: recorder.span(name).parent.span_id for name in parents} == parents


async def turn_with_parallel_tools(telemetry: Telemetry, thread: str, tools: int) -> None:
    """Send the events as the loop does, each tool in a task of its own, all at the same time."""
    telemetry(started(thread))
    await anyio.lowlevel.checkpoint()
    telemetry(built())
    await anyio.lowlevel.checkpoint()
    telemetry(replied(stop="calls", calls=tools))

    async def tool(number: int) -> None:
        call, name = f"{thread}:{number}", f"{thread} {number}"
        telemetry(ToolStarted(1, call, name))
        await anyio.lowlevel.checkpoint()
        span = trace.get_current_span()
        assert span.attributes["gen_ai.tool.call.id"] == call  # type: ignore[attr-defined]
        telemetry(ToolEnded(1, call, name, False, 0, 0.0))

    async with anyio.create_task_group() as group:
        for number in range(tools):
            group.start_soon(tool, number)
    telemetry(built(2))
    await anyio.lowlevel.checkpoint()
    telemetry(replied(2))
    telemetry(ended())


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.sampled_from(["asyncio", "trio"]))
def test_turns_at_the_same_time_keep_their_spans_apart(tools: list[int], backend: str) -> None:
    recorder = Recorder()

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for number, count in enumerate(tools):
                group.start_soon(turn_with_parallel_tools, recorder.telemetry, f"t{number}", count)

    anyio.run(main, backend=backend)
    turns = {
        span.context.span_id: span.attributes["gen_ai.conversation.id"]
        for span in recorder.spans
        if span.name == "invoke_agent"
    }
    assert sorted(turns.values()) == sorted(f"t{number}" for number in range(len(tools)))
    for span in recorder.spans:
        if span.name.startswith("execute_tool"):
            thread = span.attributes["gen_ai.tool.name"].split()[0]
            assert turns[span.parent.span_id] == thread
        elif span.name.startswith("chat"):
            assert turns[span.parent.span_id] == span.attributes["gen_ai.conversation.id"]
    assert len(recorder.spans) == sum(3 + count for count in tools)
    assert len({span.context.trace_id for span in recorder.spans}) == len(tools)


def test_an_agent_that_is_a_tool_of_another_has_its_turn_within_the_call() -> None:
    recorder = Recorder()
    recorder.send(started("outer"), built(), replied(stop="calls", calls=1), TOOL[0])
    inner = threading.Thread(
        target=copy_context().run, args=(lambda: recorder.send(started("inner"), built(), ended()),)
    )
    inner.start()
    inner.join()
    recorder.send(started("inner again"), ended())
    recorder.send(TOOL[1], built(2), replied(2), ended())
    tool = recorder.span("execute_tool berths")
    turns = {
        span.attributes["gen_ai.conversation.id"]: span
        for span in recorder.spans
        if span.name == "invoke_agent"
    }
    assert turns["inner"].parent.span_id == tool.context.span_id
    assert turns["inner again"].parent.span_id == tool.context.span_id
    assert tool.parent.span_id == turns["outer"].context.span_id
    assert turns["outer"].attributes["rehydrate.stopped"] == "answer"


def test_an_agent_within_another_may_have_a_listener_of_its_own() -> None:
    outer, inner = Recorder(), Recorder()
    outer.send(started("outer"), TOOL[0])
    inner.send(*whole_turn("inner"))
    outer.send(TOOL[1], ended())
    assert len(inner.spans) == 5
    tool = outer.span("execute_tool berths")
    assert inner.span("invoke_agent").parent.span_id == tool.context.span_id
    assert len(outer.spans) == 2


class Broken(SpanExporter):
    def export(self, spans: Any) -> Any:
        raise OSError("the collector is down")

    def shutdown(self) -> None:
        pass


class BrokenProcessor(SpanProcessor):
    """Fails at the start or at the end of a span."""

    def __init__(self, where: str) -> None:
        self.where = where

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if self.where == "start":
            raise OSError("the collector is down")

    def on_end(self, span: Any) -> None:
        if self.where == "end":
            raise OSError("the collector is down")


@pytest.mark.parametrize("where", ["export", "start", "end"])
def test_what_an_exporter_throws_breaks_no_turn_and_is_said(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder()
    broken: Any = SimpleSpanProcessor(Broken()) if where == "export" else BrokenProcessor(where)
    recorder.tracers.add_span_processor(broken)
    with caplog.at_level(logging.WARNING):
        recorder.send(*whole_turn(), *whole_turn())
    ours = [record for record in caplog.records if record.name.startswith("rehydrate")]
    assert len(ours) == (0 if where == "export" else 1)  # the SDK logs it itself
    if where != "start":
        assert [span.name for span in recorder.spans].count("invoke_agent") == 2


def test_events_of_a_turn_that_did_not_begin_are_left_alone() -> None:
    recorder = Recorder().send(built(), replied(), *TOOL, *REQUEST, ended())
    assert recorder.spans == []


def test_events_out_of_order_make_no_exception(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder().send(started(), replied(), TOOL[1], TextDelta(1, "x"), built(), built())
    recorder.send(TOOL[0], ended(), ended())
    assert not [record for record in caplog.records if record.name.startswith("rehydrate")]
    assert recorder.span("invoke_agent").attributes["rehydrate.stopped"] == "answer"


def test_without_providers_it_is_the_programs_that_are_used() -> None:
    telemetry = Telemetry()
    for event in whole_turn():  # there are none: nothing is recorded, and nothing fails
        telemetry(event)
    assert not telemetry._has_failed


def test_importing_it_needs_no_opentelemetry_and_making_one_names_the_extra() -> None:
    code = (
        "import sys\n"
        "import rehydrate.agent.telemetry as telemetry\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
        "sys.modules['opentelemetry'] = None\n"
        "try:\n    telemetry.Telemetry()\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    assert "pip install 'rehydrate[telemetry]'" in done.stdout
