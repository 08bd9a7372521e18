"""Threads of LangChain's agents: the conversation that a run is of, and its HostThread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rehydrate.context.context import Context
from rehydrate.errors import MissingPackageError
from rehydrate.integrations.host_thread import MAX_THREADS, HostThread, HostThreads
from rehydrate.messages import Provider

MISSING = MissingPackageError("rehydrate[langchain]", "brings LangChain's agents")
NODE_SEPARATOR, TASK_SEPARATOR = "|", ":"
"""Of LangGraph's checkpoint namespaces: ``agent:<task>|model:<task>``."""


class AgentThreads:
    """The HostThreads of an agent's conversations.

    A conversation is that of a thread's id, of the agent's place in a graph, and of its first
    message. So two agents that run in one thread, and a tool's agent that is called for many tasks,
    have a context each. Without a thread's id the first message names the conversation: LangGraph
    gives every message an id, and a caller that passes the returned messages on keeps it.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        *,
        asks_back: bool = False,
        max_threads: int = MAX_THREADS,
    ) -> None:
        """Take the options of each `Context`."""
        self._options = dict(options)
        self._asks_back = asks_back
        self._threads = HostThreads(
            self.context, asks_back=asks_back, max_threads=max_threads, same=is_same_message
        )

    def context(self, name: str = "") -> Context:
        """Return an empty context."""
        thread = {"thread": name.partition("\n")[0]}
        return Context(**{**thread, **self._options, "format": "langchain"})

    def suit(self, model: Any) -> None:
        """Take provider and model of the first model that is asked, where none was named."""
        if "provider" not in self._options:
            name = _model_name(model)
            self._options.setdefault("model", name)
            self._options["provider"] = _provider_of(model, name)

    def of(self, config: Mapping[str, Any], messages: Sequence[Any]) -> HostThread:
        """Return the thread of a run's config and messages."""
        name = thread_name(config, messages)
        if not name:  # nothing tells it from another one
            return HostThread(self.context, asks_back=self._asks_back, same=is_same_message)
        return self._threads[name]


def thread_name(config: Mapping[str, Any], messages: Sequence[Any]) -> str:
    """Return the name of the conversation of a run; "" where nothing tells it from another one.

    >>> config = {"configurable": {"thread_id": "t-42", "checkpoint_ns": "agent:1f|model:2e"}}
    >>> thread_name(config, [])
    't-42\\nagent\\n'
    """
    given = config.get("configurable") or {}
    thread = str(given.get("thread_id") or "")
    nodes = str(given.get("checkpoint_ns") or "").split(NODE_SEPARATOR)[:-1]
    place = "/".join([node.partition(TASK_SEPARATOR)[0] for node in nodes])
    first = str(getattr(messages[0], "id", None) or "") if messages else ""
    return "\n".join((thread, place, first)) if thread or first else ""


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
    return all(read(one) == read(other) for read in _SAID)


_SAID: tuple[Callable[[Any], Any], ...] = (
    lambda message: message.id,
    lambda message: message.type,
    lambda message: message.content,
    lambda message: getattr(message, "tool_calls", None),
    lambda message: message.additional_kwargs,
)


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
