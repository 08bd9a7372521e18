"""A LangChain agent for tests: scripted models that refuse invalid lists, and a tool.

It shares no reader with rehydrate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import PrivateAttr

from tests.integrations import harbour

Reply = Callable[[Sequence[BaseMessage], int], AIMessage]
"""The reply to a list of messages and the number of the call."""

STEPS = 4
"""Calls of the model in a user turn: three of a tool, and the answer."""


@tool
def lookup(query: str) -> str:
    """Look something up in the harbour's books."""
    return harbour.looked_up(query)


def query_of(call: int) -> str:
    """Return what is looked up in a call."""
    return f"berth {call} of quay {call * 7}"


def scripted(messages: Sequence[BaseMessage], call: int) -> AIMessage:
    """Look three things up, then answer."""
    if call % STEPS != STEPS - 1:
        ask = called("lookup", call, query=query_of(call))
        return AIMessage(f"I look at {call}.", tool_calls=[ask])
    return AIMessage(f"Answer {call}: {harbour.words(f'a{call}', 40)}")


def called(name: str, call: int, **arguments: Any) -> Any:
    """Return a tool call."""
    return {"name": name, "args": arguments, "id": f"call_{call}", "type": "tool_call"}


def question(turn: int) -> HumanMessage:
    """Return what the user says in a turn."""
    return HumanMessage(harbour.question(turn))


def asking(text: str) -> Any:
    """Return the input of a run in which the user says this."""
    return {"messages": [HumanMessage(text)]}


def config(thread: str = "t-1") -> Any:
    """Return the config of a run."""
    return {"configurable": {"thread_id": thread}, "recursion_limit": 100}


def agent_of(model: Any, *middleware: Any, tools: Sequence[Any] = (lookup,), **options: Any) -> Any:
    """Return an agent with a checkpointer."""
    return create_agent(
        model,
        [*tools],
        middleware=list(middleware),
        **{
            "system_prompt": harbour.INSTRUCTIONS,
            "checkpointer": InMemorySaver(),
            **options,
        },
    )


class CheckedModel(BaseChatModel):
    """A scripted model. It raises for a list of messages that a provider would refuse."""

    reply: Reply = scripted
    _seen: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _tools: list[str] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "checked"

    @property
    def seen(self) -> list[list[BaseMessage]]:
        """The lists that it was called with."""
        return self._seen

    @property
    def offered(self) -> list[str]:
        """The names of the tools that it was offered."""
        return self._tools

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        self._tools[:] = [getattr(each, "name", "") for each in tools]
        return self

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **more: Any
    ) -> ChatResult:
        assert faults(messages) == []
        self._seen.append(list(messages))
        message = self.reply(messages, len(self._seen) - 1)
        return ChatResult(generations=[ChatGeneration(message=message)])


def faults(messages: Sequence[BaseMessage]) -> list[str]:
    """Return what a provider would refuse: calls and results that aren't pairs, no user."""
    found = []
    open_calls: set[str] = set()
    spoken = [message for message in messages if message.type != "system"]
    if not spoken or not isinstance(spoken[0], HumanMessage):
        found.append("the first message is not the user's")
    for index, message in enumerate(spoken):
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in open_calls:
                found.append(f"message {index} answers no call")
            open_calls.discard(message.tool_call_id)
            continue
        if open_calls:
            found.append(f"message {index} is before the answers to {open_calls}")
        calls = message.tool_calls if isinstance(message, AIMessage) else []
        open_calls = {str(call["id"]) for call in calls}
    return found + [f"no answer to {open_calls}"] * bool(open_calls)


def as_sent(messages: Sequence[BaseMessage]) -> list[tuple[Any, ...]]:
    """Return what of the messages a provider gets."""
    return [
        (
            message.type,
            message.content,
            getattr(message, "tool_calls", None),
            getattr(message, "tool_call_id", None),
        )
        for message in messages
    ]


def text_of(messages: Sequence[BaseMessage]) -> str:
    """Return the texts of messages as one."""
    return "\n".join(str(message.content) for message in messages)


def prefix_breaks(lists: Sequence[Sequence[BaseMessage]]) -> int:
    """Return how many of the lists do not begin with the one before."""
    sent = [as_sent(messages) for messages in lists]
    return sum(later[: len(earlier)] != earlier for earlier, later in pairwise(sent))
