"""Whole turns, traced: Interpreter, ContextJIT, a real MCP server and Telemetry together."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import anyio
import mcp
import pytest
from opentelemetry import trace

from rehydrate import Budget, Context, validate
from rehydrate.agent import Interpreter, Reply, TurnLimits, mcp_tools
from rehydrate.context import ContextJIT
from rehydrate.errors import RateLimitError
from rehydrate.testing import ScriptedModel, call
from tests.agent import clocks
from tests.agent.recorded import Recorder
from tests.agent.script import BACKENDS, Script
from tests.agent.test_mcp import harbour
from tests.context.jit.test_jit import BILLING, NOON, long_conversation

both = pytest.mark.parametrize("backend", BACKENDS)


def conversation() -> Context:
    """Return a conversation whose beginning does not fit into its prompt."""
    budget = Budget(soft_tokens=3_000, hard_tokens=10**7, compact_to=0.5)
    context = Context(budget=budget, clock=NOON.timestamp, thread="harbour-7")
    context.add(*long_conversation())
    return context


@both
def test_a_turn_with_context_and_an_mcp_server_is_one_trace(backend: str) -> None:
    recorder, context = Recorder(), conversation()

    async def main():
        async with mcp.Client(harbour()) as client:
            model = ScriptedModel(
                [
                    [
                        call("request_context", query="billing webhook retries"),
                        call("harbour_berths", quay="A"),
                        call("harbour_sink"),
                    ],
                    "Five times.",
                ],
                name="claude-sonnet-4-5",
            )
            interpreter = Interpreter(
                model,
                await mcp_tools(client, prefix="harbour_"),
                jit=lambda context: ContextJIT(context, clock=NOON.timestamp),
                on_event=recorder.telemetry,
            )
            turn = await interpreter.arun(context, "Which of the last berths is the widest?")
            assert not trace.get_current_span().get_span_context().is_valid
            return turn

    turn = anyio.run(main, backend=backend)
    assert turn.answer == "Five times."
    assert turn.notes == ()
    assert BILLING in str(context.history[-2])
    assert validate(context.history, "anthropic") == []
    root = recorder.span("invoke_agent")
    ours = [span for span in recorder.spans if span.instrumentation_scope.name == "rehydrate"]
    assert Counter(span.name for span in ours) == {
        "invoke_agent": 1,
        "chat claude-sonnet-4-5": 2,
        "execute_tool request_context": 1,
        "execute_tool harbour_berths": 1,
        "execute_tool harbour_sink": 1,
    }
    assert {span.context.trace_id for span in ours} == {root.context.trace_id}
    assert {span.parent.span_id for span in ours if span is not root} == {root.context.span_id}
    assert recorder.span("execute_tool harbour_sink").attributes["error.type"] == "tool_error"
    attributes = root.attributes
    assert attributes["gen_ai.conversation.id"] == "harbour-7"
    assert attributes["rehydrate.late_bound.tokens"] > 0
    assert attributes["rehydrate.context_requests"] == 1
    assert "rehydrate.prefix.breaks" not in attributes
    assert attributes["gen_ai.usage.input_tokens"] == turn.usage.input
    chats = [span.attributes for span in ours if span.name.startswith("chat")]
    assert chats[1]["gen_ai.usage.cache_read.input_tokens"] > 0
    assert sum(chat["gen_ai.usage.output_tokens"] for chat in chats) == turn.usage.output


def chats_of(recorder: Recorder) -> list[dict[str, Any]]:
    spans = [span for span in recorder.spans if span.name.startswith("chat")]
    return [dict(span.attributes or {}) for span in spans]


def test_every_turn_after_a_compaction_sends_a_compacted_view_and_its_outline() -> None:
    recorder = Recorder(content=True)
    budget = Budget(soft_tokens=3_000, hard_tokens=10**7, compact_to=0.5)
    context = Context(budget=budget, outline=True)
    model = ScriptedModel(["One.", "Two.", "Three."], name="claude-sonnet-4-5")
    interpreter = Interpreter(model, jit=False, on_event=recorder.telemetry)
    interpreter.run(context, "Which berth is free?")
    context.add(*long_conversation())
    interpreter.run(context, "And now?")
    interpreter.run(context, "And tomorrow?")
    assert context.usage.compactions == 1
    first, second, third = chats_of(recorder)
    assert "gen_ai.conversation.compacted" not in first
    assert "gen_ai.input.messages" not in first
    for chat in (second, third):
        assert chat["gen_ai.conversation.compacted"] is True
        (message,) = json.loads(chat["gen_ai.input.messages"])
        (part,) = message["parts"]
        assert (message["role"], part["type"]) == ("user", "compaction")
        assert "left out" in part["content"]


def test_a_summary_of_the_providers_own_is_a_compaction_part() -> None:
    block = {"type": "compaction", "content": "All was well."}
    text = {"type": "text", "text": "Four."}
    answered = Reply(({"role": "assistant", "content": [block, text]},), "Four.")
    recorder, context = Recorder(content=True), Context(provider="anthropic")
    plain = Reply(({"role": "assistant", "content": "Five."},), "Five.")
    interpreter = Interpreter(Script(answered, plain), jit=False, on_event=recorder.telemetry)
    interpreter.run(context, "Which berth?")
    interpreter.run(context, "And now?")
    first, second = chats_of(recorder)
    (reply,) = json.loads(first["gen_ai.output.messages"])
    assert reply["parts"] == [block, {"type": "text", "content": "Four."}]
    assert "gen_ai.conversation.compacted" not in first
    assert second["gen_ai.conversation.compacted"] is True
    assert json.loads(second["gen_ai.input.messages"]) == [{"role": "assistant", "parts": [block]}]


@both
def test_turns_of_many_conversations_at_once_have_a_trace_each(backend: str) -> None:
    recorder = Recorder()

    async def echo(number: int) -> int:
        """Returns the number, a little later."""
        await anyio.sleep(0)
        return number

    def reply(prompt):
        number = prompt.request["messages"][0]["content"]
        number = number if isinstance(number, str) else number[0]["text"]
        is_first = len(prompt.request["messages"]) == 1
        return call("echo", number=int(number)) if is_first else f"It was {number}."

    async def main() -> None:
        interpreter = Interpreter(
            ScriptedModel(reply), [echo], on_event=recorder.telemetry, jit=False
        )
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(interpreter.arun, Context(thread=f"t{number}"), str(number))

    anyio.run(main, backend=backend)
    threads = {
        span.context.span_id: span.attributes["gen_ai.conversation.id"]
        for span in recorder.spans
        if span.name == "invoke_agent"
    }
    assert len(threads) == 20
    within = Counter(threads[span.parent.span_id] for span in recorder.spans if span.parent)
    assert within == {f"t{number}": 3 for number in range(20)}
    for span in recorder.spans:
        if span.name.startswith("chat"):
            assert threads[span.parent.span_id] == span.attributes["gen_ai.conversation.id"]


@both
def test_a_turn_that_is_cancelled_in_a_tool_ends_every_span(backend: str) -> None:
    recorder, begun = Recorder(), []

    async def hang() -> None:
        """Never comes back."""
        begun.append(True)
        if len(begun) == 2:
            clocks.jump(60)
        await anyio.sleep_forever()

    async def main() -> None:
        model = ScriptedModel([[call("hang"), call("hang")], "never"])
        interpreter = Interpreter(
            model, [hang], on_event=recorder.telemetry, jit=False, limits=TurnLimits(timeout=60)
        )
        turn = await interpreter.arun(Context(), "Go.")
        assert turn.stopped == "time_limit"
        assert not trace.get_current_span().get_span_context().is_valid

    clocks.run(main, backend)
    assert Counter(span.name for span in recorder.spans)["execute_tool hang"] == 2
    root = recorder.span("invoke_agent")
    assert root.attributes["error.type"] == "time_limit"
    for span in recorder.spans:
        if span.name == "execute_tool hang":
            assert span.attributes["error.type"] == "tool_error"
            assert span.parent.span_id == root.context.span_id


@both
def test_a_tool_that_runs_an_agent_has_its_turn_within_it(backend: str) -> None:
    recorder = Recorder()
    inner = Interpreter(ScriptedModel(lambda _: "Four."), on_event=recorder.telemetry, jit=False)

    def ask_sync(question: str) -> str:
        """In a thread, with a loop of its own."""
        return inner.run(Context(thread="sync"), question).answer

    async def ask(question: str) -> str:
        """On the same loop."""
        return (await inner.arun(Context(thread="async"), question)).answer

    script = [[call("ask_sync", question="?"), call("ask", question="?")], "Four."]
    outer = Interpreter(
        ScriptedModel(script), [ask_sync, ask], on_event=recorder.telemetry, jit=False
    )

    async def main() -> None:
        turn = await outer.arun(Context(thread="outer"), "Which berth?")
        assert turn.answer == "Four."

    anyio.run(main, backend=backend)
    turns = {
        span.attributes["gen_ai.conversation.id"]: span
        for span in recorder.spans
        if span.name == "invoke_agent"
    }
    tools = {span.name: span.context.span_id for span in recorder.spans}
    assert turns["sync"].parent.span_id == tools["execute_tool ask_sync"]
    assert turns["async"].parent.span_id == tools["execute_tool ask"]
    assert turns["outer"].parent is None
    assert len({span.context.trace_id for span in recorder.spans}) == 1
    assert len(recorder.spans) == 3 + 4 + 2


@both
def test_a_provider_that_fails_at_first_is_an_attempt_with_its_error(backend: str) -> None:
    recorder = Recorder()

    async def no_wait(seconds: float) -> None:
        await anyio.sleep(0)

    async def main() -> None:
        model = ScriptedModel([RateLimitError("anthropic", 429, "slow down", 0.0), "Four."])
        interpreter = Interpreter(model, on_event=recorder.telemetry, jit=False, sleep=no_wait)
        assert (await interpreter.arun(Context(), "Which berth?")).answer == "Four."

    anyio.run(main, backend=backend)
    chats = [span for span in recorder.spans if span.name.startswith("chat")]
    errors = [span.attributes.get("error.type") for span in chats]
    assert errors == ["rehydrate.errors.RateLimitError", None]
    assert recorder.span("invoke_agent").attributes["rehydrate.retries"] == 1


def test_a_turn_whose_events_are_read_is_traced_within_its_readers_span() -> None:
    recorder = Recorder()

    async def main() -> None:
        interpreter = Interpreter(ScriptedModel(["Four."]), on_event=recorder.telemetry, jit=False)
        tracer = recorder.tracers.get_tracer("a web server")
        with tracer.start_as_current_span("POST /chat") as request:
            async for _ in interpreter.astream(Context(), "Which berth?"):
                assert trace.get_current_span() is request

    anyio.run(main)
    request = recorder.span("POST /chat")
    assert recorder.span("invoke_agent").parent.span_id == request.context.span_id
