"""An agent of LangChain's `create_agent`: nothing, what LangChain has, RehydrateMiddleware.

All of them act at the same number of tokens, by the same counter.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    SummarizationMiddleware,
)
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import PrivateAttr

from benches.python.hosts import script
from benches.python.hosts.table import WRITTEN, Row, as_texts
from rehydrate import compact_context, count_tokens
from rehydrate.context import BackgroundCompaction
from rehydrate.integrations.langchain import (
    ExtractiveSummarizer,
    RehydrateEdit,
    RehydrateMiddleware,
)

CONFIG: Any = {"configurable": {"thread_id": "bench"}}
SUMMARY_WORDS = 400
TRIGGER = script.BUDGET.soft_tokens
KEEP = int(TRIGGER * script.BUDGET.compact_to)


async def rows() -> list[Row]:
    """Return the rows of this host."""
    clear = ContextEditingMiddleware(
        edits=[ClearToolUsesEdit(trigger=TRIGGER)], token_counter=tokens_of
    )
    extractive = _summarising(
        _Summarises(), summarizer=ExtractiveSummarizer(), trim_tokens_to_summarize=None
    )
    edit = ContextEditingMiddleware(edits=[RehydrateEdit(budget=script.BUDGET)])
    stored = RehydrateMiddleware(budget=script.BUDGET, background=BackgroundCompaction())
    summarises = _Summarises()
    summarised = await _run("LangChain, `SummarizationMiddleware`", _summarising(summarises))
    asked = WRITTEN * sum(map(tokens_of, summarises.sent))
    return [
        await _run("LangChain, nothing"),
        await _run("LangChain, `compact_context` in each call", _PlainHook()),
        await _run("LangChain, `ClearToolUsesEdit`", clear),
        summarised._replace(other_units=asked),
        await _run("LangChain, `SummarizationMiddleware`, `ExtractiveSummarizer`", extractive),
        await _run("LangChain, `RehydrateEdit`", edit),
        await _run("LangChain, `RehydrateMiddleware`", RehydrateMiddleware(budget=script.BUDGET)),
        await _run("LangChain, `RehydrateMiddleware`, background", stored),
    ]


@tool
def lookup(query: str) -> str:
    """Look something up."""
    return script.looked_up(query)


def tokens_of(messages: Any) -> int:
    """Return the tokens of messages."""
    return count_tokens(list(messages), format="langchain")


class _Scripted(BaseChatModel):
    _sent: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def sent(self) -> list[list[BaseMessage]]:
        return self._sent

    def bind_tools(self, *_given: Any, **_options: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_args: Any, **_more: Any) -> ChatResult:
        call = len(self._sent)
        self._sent.append(list(messages))
        return ChatResult(generations=[ChatGeneration(message=self.reply(call))])

    def reply(self, call: int) -> AIMessage:
        if not script.is_tool_call(call):
            return AIMessage(script.answer(call))
        asked = {"name": "lookup", "args": {"query": script.query_of(call)}, "id": f"c{call}"}
        return AIMessage("", tool_calls=[asked])


class _Summarises(_Scripted):
    def reply(self, call: int) -> AIMessage:
        return AIMessage(script.words(f"summary {call}", SUMMARY_WORDS))


class _PlainHook(AgentMiddleware[Any, Any, Any]):
    """What is written first: compact the state's messages whenever they are too many."""

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        messages = request.messages
        if tokens_of(messages) > TRIGGER:
            messages = compact_context(messages, budget_tokens=KEEP, format="langchain").messages
        return handler(request.override(messages=messages))


def _summarising(model: _Scripted, **options: Any) -> SummarizationMiddleware:
    return SummarizationMiddleware(
        model,
        trigger=("tokens", TRIGGER),
        keep=("tokens", KEEP),
        token_counter=tokens_of,
        **options,
    )


async def _run(name: str, middleware: Any = None) -> Row:
    model, seconds = _Scripted(), list[float]()
    if isinstance(middleware, (ContextEditingMiddleware, RehydrateMiddleware)):
        _time(middleware, seconds)
    agent = create_agent(
        model,
        [lookup],
        system_prompt=script.INSTRUCTIONS,
        middleware=[] if middleware is None else [middleware],
        checkpointer=InMemorySaver(),
    )
    for turn in range(script.TURNS):
        state = agent.invoke({"messages": [HumanMessage(script.question(turn))]}, CONFIG)
    is_ours = isinstance(middleware, RehydrateMiddleware)
    thread = middleware.thread(CONFIG, state["messages"]) if is_ours else None
    return Row(name, [as_texts(map(_as_dict, sent)) for sent in model.sent], seconds, thread)


def _time(middleware: Any, seconds: list[float]) -> None:
    """Note how long a middleware takes to make each request, without the model's call."""
    wrap = middleware.wrap_model_call

    def run(request: Any, handler: Callable[[Any], Any]) -> Any:
        made: list[Any] = []
        started = time.perf_counter()
        wrap(request, made.append)
        seconds.append(time.perf_counter() - started)
        return handler(made[0])

    middleware.wrap_model_call = run


def _as_dict(message: BaseMessage) -> dict[str, Any]:
    """Return what of a message is sent."""
    sent: dict[str, Any] = {"role": message.type, "content": message.content}
    for name in ("tool_calls", "tool_call_id"):
        if value := getattr(message, name, None):
            sent[name] = value
    return sent
