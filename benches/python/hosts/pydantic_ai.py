"""A Pydantic AI agent: nothing, RehydrateCapability."""

from __future__ import annotations

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from benches.python.hosts import script
from benches.python.hosts.table import Row, as_texts, timed
from rehydrate.context import BackgroundCompaction
from rehydrate.integrations.pydantic_ai import RehydrateCapability

_FIELDS = ("content", "args", "tool_call_id", "part_kind")


async def rows() -> list[Row]:
    """Return the rows of this host."""
    capability = RehydrateCapability(budget=script.BUDGET)
    stored = RehydrateCapability(budget=script.BUDGET, background=BackgroundCompaction())
    return [
        await _run("Pydantic AI, nothing"),
        await _run("Pydantic AI, `RehydrateCapability`", capability),
        await _run("Pydantic AI, `RehydrateCapability`, background", stored),
    ]


def lookup(query: str) -> str:
    """Look something up."""
    return script.looked_up(query)


async def _run(name: str, capability: RehydrateCapability | None = None) -> Row:
    sent: list[list[str]] = []

    def scripted(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        call = len(sent)
        parts = [part for message in messages for part in message.parts]
        sent.append(
            as_texts(
                [{field: repr(getattr(part, field, "")) for field in _FIELDS} for part in parts]
            )
        )
        if script.is_tool_call(call):
            asked = {"query": script.query_of(call)}
            return ModelResponse([ToolCallPart("lookup", asked, tool_call_id=f"c{call}")])
        return ModelResponse([TextPart(script.answer(call))])

    seconds: list[float] = []
    if capability is not None:
        send = timed(seconds, capability.prepare_model_request)
        capability.prepare_model_request = send  # type: ignore[method-assign]
    agent = Agent(
        FunctionModel(scripted),
        capabilities=[] if capability is None else [capability],
        instructions=script.INSTRUCTIONS,
        tools=[lookup],
    )
    history: list[ModelMessage] = []
    for turn in range(script.TURNS):
        done = await agent.run(script.question(turn), message_history=history)
        history = done.all_messages()
    return Row(name, sent, seconds, None if capability is None else capability._threads.last)
