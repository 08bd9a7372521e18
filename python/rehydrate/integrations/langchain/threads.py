"""Threads of LangChain's agents: the one that a run is of, and the tools that ask it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._text import safe_error_text
from rehydrate.context.context import Context
from rehydrate.errors import MissingPackageError
from rehydrate.integrations.adapter import AdapterThreads, context_of
from rehydrate.messages import Provider

MISSING = MissingPackageError("rehydrate[langchain]", "brings LangChain's agents")

try:
    from langchain.tools import ToolRuntime
    from langchain_core.tools import BaseTool, StructuredTool
except ImportError:
    raise MISSING from None


NODE_SEPARATOR, TASK_SEPARATOR = "|", ":"
"""Of LangGraph's checkpoint namespaces: ``agent:<task>|model:<task>``."""


class AgentThreads(AdapterThreads):
    """The threads of an agent's conversations.

    A conversation is a list of messages that goes on, within the thread's id and the agent's place
    in a graph. So two agents that run in one thread have a context each, and so has each task of an
    agent that is a tool. Ids of messages do not count: a caller may pass them or not.
    """

    def __init__(self, options: Mapping[str, Any], *, can_ask: bool = True) -> None:
        """Take the options of each `Context`; raises InvalidArgumentError as it does."""
        super().__init__(options, "", can_ask=can_ask, same=is_same_message)

    def suit(self, model: Any) -> None:
        """Take provider and model of the first model that is asked, where none was named."""
        if "provider" not in self._options:
            name = _model_name(model)
            self._options.setdefault("model", name)
            self._options["provider"] = _provider_of(model, name)

    def answer_in(
        self,
        config: Mapping[str, Any],
        messages: Sequence[Any],
        name: str,
        arguments: Mapping[str, Any],
        call_id: str,
    ) -> str:
        """Return the answer to a call of the last message, from what this run's messages say.

        A run may go on in another process than the one that called the model.
        """
        scope = scope_of(config)
        asking = self.asking(messages, scope)
        if asking is None:
            asking = self.prompt(_before_reply(messages), scope)
        return self.answer(asking, name, arguments, call_id)

    def _context(self, scope: str) -> Context:
        thread = {"thread": scope.partition("\n")[0]}
        return context_of({**thread, **self._options, "format": "langchain"})


def _before_reply(messages: Sequence[Any]) -> Sequence[Any]:
    """Return the messages before the model's last one."""
    last = max((n for n, each in enumerate(messages) if each.type == "ai"), default=len(messages))
    return messages[:last]


def scope_of(config: Mapping[str, Any]) -> str:
    r"""Return the scope of a run: its thread's id, and the agent's place in the graph.

    Ids of tasks are left out: they change in each run.

    >>> scope_of({"configurable": {"thread_id": "t-42", "checkpoint_ns": "agent:1f|model:2e"}})
    't-42\nagent'
    """
    given = config.get("configurable") or {}
    nodes = str(given.get("checkpoint_ns") or "").split(NODE_SEPARATOR)[:-1]
    place = "/".join([node.partition(TASK_SEPARATOR)[0] for node in nodes])
    return f"{given.get('thread_id') or ''}\n{place}"


def running_config() -> Mapping[str, Any]:
    """Return the config of the run that is under way; empty outside of one."""
    from langgraph.config import get_config

    try:
        config: Mapping[str, Any] = get_config()
    except RuntimeError:
        return {}
    return config


def is_same_message(one: Any, other: Any) -> bool:
    """Return whether two messages say the same. Artifacts are not sent, and may not compare."""
    if one.type != other.type or one.content != other.content or one.name != other.name:
        return False
    # Asking a message for a field that it does not have is slow.
    if one.type == "ai" and one.tool_calls != other.tool_calls:
        return False
    if one.type == "tool" and one.tool_call_id != other.tool_call_id:
        return False
    return bool(one.additional_kwargs == other.additional_kwargs)


def _model_name(model: Any) -> str:
    for attribute in ("model_name", "model"):
        name = getattr(model, attribute, None)
        if isinstance(name, str):
            return name
    return ""


def _provider_of(model: Any, name: str) -> Provider:
    """Return the provider whose counts and rules hold for a model; OpenAI's where it is unknown."""
    kind = f"{type(model).__name__} {getattr(model, '_llm_type', '')} {name}".lower()
    return "anthropic" if "anthropic" in kind or "claude" in kind else "openai_chat"


def tools_for(threads: AgentThreads) -> list[BaseTool]:
    """Return the tools of a context's JIT, answered by the thread of the run that calls them."""
    return [_tool(definition, threads) for definition in threads.definitions]


def _tool(definition: Mapping[str, Any], threads: AgentThreads) -> BaseTool:
    name = definition["name"]

    def run(runtime: ToolRuntime[Any, Any], **arguments: Any) -> str:
        return _answer(name, arguments, runtime, threads)

    async def arun(runtime: ToolRuntime[Any, Any], **arguments: Any) -> str:
        return await hand_over(partial(_answer, name, arguments, runtime, threads))

    return StructuredTool(
        name=name,
        description=definition["description"],
        args_schema=dict(definition["input_schema"]),
        func=run,
        coroutine=arun,
    )


def _answer(
    name: str, arguments: Mapping[str, Any], runtime: ToolRuntime[Any, Any], threads: AgentThreads
) -> str:
    messages, call_id = runtime.state["messages"], runtime.tool_call_id or name
    try:
        return threads.answer_in(runtime.config, messages, name, arguments, call_id)
    except Exception as error:  # it must not end the agent's run
        return f"{name}: {safe_error_text(error, name)}; answer with what you have"
