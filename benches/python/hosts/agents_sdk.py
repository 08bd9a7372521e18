"""The OpenAI Agents SDK's runner: nothing, its ToolOutputTrimmer, RehydrateFilter."""

from __future__ import annotations

import json
from typing import Any

from agents import Agent, RunConfig, Runner, SQLiteSession, function_tool
from agents.extensions import ToolOutputTrimmer
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from benches.python.hosts import script
from benches.python.hosts.table import Row, as_texts, timed
from rehydrate.context import BackgroundCompaction
from rehydrate.integrations.openai_agents import RehydrateFilter


async def rows() -> list[Row]:
    """Return the rows of this host."""
    return [
        await _run("Agents SDK, nothing"),
        await _run("Agents SDK, `ToolOutputTrimmer()`", ToolOutputTrimmer()),
        await _run("Agents SDK, `RehydrateFilter`", RehydrateFilter(budget=script.BUDGET)),
        await _run(
            "Agents SDK, `RehydrateFilter`, background",
            RehydrateFilter(budget=script.BUDGET, background=BackgroundCompaction()),
        ),
    ]


@function_tool
def lookup(query: str) -> str:
    """Look something up."""
    return script.looked_up(query)


class _Scripted(Model):
    def __init__(self) -> None:
        self.sent: list[list[str]] = []

    async def get_response(self, *_: Any, **given: Any) -> ModelResponse:
        call = len(self.sent)
        self.sent.append(as_texts(given["input"]))
        made = _tool_call(call) if script.is_tool_call(call) else _answer(call)
        return ModelResponse(output=[made], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **_more: Any) -> Any:
        raise NotImplementedError


async def _run(name: str, filtering: Any = None) -> Row:
    model, seconds = _Scripted(), list[float]()
    config = RunConfig(tracing_disabled=True)
    is_ours = isinstance(filtering, RehydrateFilter)
    if filtering is not None:
        config.call_model_input_filter = timed(seconds, filtering) if is_ours else filtering
    agent = Agent(name="harbour", instructions=script.INSTRUCTIONS, model=model, tools=[lookup])
    session = SQLiteSession("bench")
    for turn in range(script.TURNS):
        await Runner.run(agent, script.question(turn), session=session, run_config=config)
    items = await session.get_items()
    session.close()
    return Row(name, model.sent, seconds, filtering.thread(items) if is_ours else None)


def _tool_call(call: int) -> ResponseFunctionToolCall:
    arguments = json.dumps({"query": script.query_of(call)})
    return ResponseFunctionToolCall(
        type="function_call", call_id=f"c{call}", name="lookup", arguments=arguments
    )


def _answer(call: int) -> ResponseOutputMessage:
    text = ResponseOutputText(type="output_text", text=script.answer(call), annotations=[])
    return ResponseOutputMessage(
        id=f"msg_{call}", type="message", role="assistant", status="completed", content=[text]
    )
