"""What keeping a LangChain agent short costs: `python -m benches.python.host_langchain`.

A real agent of `create_agent` with the script, the limits and the table of `host_agents`: nothing
in it, `compact_context` in each call, LangChain's own ContextEditingMiddleware with
ClearToolUsesEdit, its SummarizationMiddleware with a scripted model and with ours, our edit, and
our middleware. All of them act at the same number of tokens, by the same counter. What the calls
for summaries cost is in the row's name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
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

from benches.python.host_agents import (
    BUDGET,
    CALLS,
    STEPS,
    WRITTEN,
    Row,
    line_of,
    looked_up,
    query_of,
    question,
    words,
)
from rehydrate import compact_context, count_tokens
from rehydrate.integrations import HostThread
from rehydrate.integrations.langchain import (
    ExtractiveSummarizer,
    RehydrateEdit,
    RehydrateMiddleware,
)

CONFIG: Any = {"configurable": {"thread_id": "bench"}}
SUMMARY_WORDS = 400
TRIGGER, KEEP = BUDGET.soft_tokens, int(BUDGET.soft_tokens * 0.6)


@tool
def lookup(query: str) -> str:
    """Look something up."""
    return looked_up(query)


class Scripted(BaseChatModel):
    """A model of three calls and an answer a turn, which keeps what it was sent."""

    _sent: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def sent(self) -> list[list[BaseMessage]]:
        """The lists of messages that it was called with."""
        return self._sent

    def bind_tools(self, *_given: Any, **_options: Any) -> Any:
        """Return itself."""
        return self

    def _generate(self, messages: list[BaseMessage], *_args: Any, **_more: Any) -> ChatResult:
        call = len(self._sent)
        self._sent.append(list(messages))
        return ChatResult(generations=[ChatGeneration(message=self.reply(call))])

    def reply(self, call: int) -> AIMessage:
        """Return the reply to a call."""
        if call % STEPS == STEPS - 1:
            return AIMessage(words(f"answer {call}", 120))
        ask = {"name": "lookup", "args": {"query": query_of(call)}, "id": f"c{call}"}
        return AIMessage("", tool_calls=[ask])


class Summarises(Scripted):
    """A model that answers with a summary of the usual length."""

    def reply(self, call: int) -> AIMessage:
        """Return a summary."""
        return AIMessage(words(f"summary {call}", SUMMARY_WORDS))


class PlainHook(AgentMiddleware[Any, Any, Any]):
    """What is written first: compact the state's messages whenever they are too many."""

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Call the model with fewer messages."""
        messages = request.messages
        if tokens_of(messages) > TRIGGER:
            messages = compact_context(messages, budget_tokens=KEEP, format="langchain").messages
        return handler(request.override(messages=messages))


def as_dict(message: BaseMessage) -> dict[str, Any]:
    """Return what of a message is sent."""
    sent: dict[str, Any] = {"role": message.type, "content": message.content}
    for name in ("tool_calls", "tool_call_id"):
        if value := getattr(message, name, None):
            sent[name] = value
    return sent


def tokens_of(messages: Any) -> int:
    """Return the tokens of messages."""
    return count_tokens(list(messages), format="langchain")


def timed(middleware: Any, seconds: list[float]) -> None:
    """Note how long a middleware takes to make each request."""
    wrap = middleware.wrap_model_call

    def run(request: Any, handler: Callable[[Any], Any]) -> Any:
        made: list[Any] = []
        started = time.perf_counter()
        wrap(request, made.append)
        seconds.append(time.perf_counter() - started)
        return handler(made[0])

    middleware.wrap_model_call = run


def row_of(name: str, middleware: AgentMiddleware[Any, Any, Any] | None) -> Row:
    """Run an agent with a middleware, or None."""
    model, seconds = Scripted(), list[float]()
    is_wrapping = middleware is not None and not isinstance(middleware, SummarizationMiddleware)
    if is_wrapping:
        timed(middleware, seconds)
    agent = create_agent(
        model,
        [lookup],
        system_prompt="Be brief.",
        middleware=[] if middleware is None else [middleware],
        checkpointer=InMemorySaver(),
    )
    for turn in range(CALLS // STEPS):
        state = agent.invoke({"messages": [HumanMessage(question(turn))]}, CONFIG)
    thread: HostThread | None = None
    if isinstance(middleware, RehydrateMiddleware):
        thread = middleware.thread(CONFIG, state["messages"])
    return Row(name, [[*map(as_dict, messages)] for messages in model.sent], seconds, thread)


def rows() -> Sequence[Row]:
    """Return all rows."""
    summarises = Summarises()
    limits: dict[str, Any] = {
        "trigger": ("tokens", TRIGGER),
        "keep": ("tokens", KEEP),
        "token_counter": tokens_of,
    }
    clear = ContextEditingMiddleware(
        edits=[ClearToolUsesEdit(trigger=TRIGGER)], token_counter=tokens_of
    )
    by_model = row_of("", SummarizationMiddleware(summarises, **limits))
    asked = WRITTEN * sum(map(tokens_of, summarises.sent)) / 1e3
    extractive = SummarizationMiddleware(
        summarises, **limits, summarizer=ExtractiveSummarizer(), trim_tokens_to_summarize=None
    )
    edit = ContextEditingMiddleware(edits=[RehydrateEdit(budget=BUDGET)])
    return [
        row_of("nothing", None),
        row_of("compact_context in each call", PlainHook()),
        row_of("ContextEditingMiddleware, ClearToolUsesEdit", clear),
        by_model._replace(
            name=f"SummarizationMiddleware (and {asked:.0f}k for {len(summarises.sent)} summaries)"
        ),
        row_of("SummarizationMiddleware, ExtractiveSummarizer", extractive),
        row_of("ContextEditingMiddleware, RehydrateEdit", edit),
        row_of("RehydrateMiddleware", RehydrateMiddleware(budget=BUDGET)),
    ]


def main() -> None:
    """Print the table."""
    print("| | input units | largest | breaks | shown | found | added, p50 / p99 |")
    print("|---|---|---|---|---|---|---|")
    for row in rows():
        print(line_of(row))


if __name__ == "__main__":
    main()
