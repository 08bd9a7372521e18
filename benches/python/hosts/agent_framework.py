"""An agent of Agent Framework: nothing, two strategies of its own, RehydrateProvider."""

from __future__ import annotations

import warnings
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what is experimental
    from agent_framework import (
        Agent,
        BaseChatClient,
        ChatMiddlewareLayer,
        ChatResponse,
        Content,
        FunctionInvocationLayer,
        Message,
        SlidingWindowStrategy,
        ToolResultCompactionStrategy,
        tool,
    )

from benches.python.hosts import script
from benches.python.hosts.table import Row, as_texts, timed
from rehydrate.context import BackgroundCompaction
from rehydrate.integrations.agent_framework import RehydrateProvider

WINDOW = 16
"""Turns that the window keeps: its prompts are about as large as ours. A turn has three groups."""
_FIELDS = ("text", "call_id", "name", "arguments", "result")


async def rows() -> list[Row]:
    """Return the rows of this host."""
    window = SlidingWindowStrategy(keep_last_groups=3 * WINDOW)
    results = ToolResultCompactionStrategy(keep_last_tool_call_groups=WINDOW)
    keeper = RehydrateProvider(budget=script.BUDGET)
    stored = RehydrateProvider(budget=script.BUDGET, background=BackgroundCompaction())
    return [
        await _run("Agent Framework, nothing"),
        await _run("Agent Framework, `SlidingWindowStrategy`", strategy=window),
        await _run("Agent Framework, `ToolResultCompactionStrategy`", strategy=results),
        await _run("Agent Framework, `RehydrateProvider`", keeper),
        await _run("Agent Framework, `RehydrateProvider`, background", stored),
    ]


class _Scripted(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.sent: list[list[str]] = []

    def _inner_get_response(self, *, messages: Any, **_: Any) -> Any:
        async def respond() -> ChatResponse:
            call = len(self.sent)
            self.sent.append(as_texts([_as_sent(each) for each in messages]))
            if script.is_tool_call(call):
                asked = {"query": script.query_of(call)}
                made = Content.from_function_call(f"c{call}", "lookup", arguments=asked)
            else:
                made = Content.from_text(script.answer(call))
            return ChatResponse(messages=[Message("assistant", [made])])

        return respond()


def _as_sent(message: Message) -> dict[str, Any]:
    contents = [{field: getattr(each, field) for field in _FIELDS} for each in message.contents]
    return {"role": message.role, "contents": contents}


@tool
def lookup(query: str) -> str:
    """Look something up."""
    return script.looked_up(query)


async def _run(name: str, keeper: RehydrateProvider | None = None, strategy: Any = None) -> Row:
    seconds: list[float] = []
    if keeper is not None:
        keeper._aprompted = timed(seconds, keeper._aprompted)  # type: ignore[method-assign]
    client = _Scripted()
    agent = Agent(
        client=client,
        name="harbour",
        instructions=script.INSTRUCTIONS,
        tools=[lookup],
        context_providers=[] if keeper is None else [keeper],
        compaction_strategy=strategy,
    )
    session = agent.create_session()
    for turn in range(script.TURNS):
        await agent.run(script.question(turn), session=session)
    return Row(name, client.sent, seconds, None if keeper is None else keeper._threads.last)
