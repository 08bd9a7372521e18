"""Shared by RehydrateMiddleware and RehydrateEdit: an agent's adapter, scope and summaries."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Unpack

import anyio

from rehydrate import formats
from rehydrate._check import check_whole
from rehydrate.context import ContextStore
from rehydrate.context.compaction import BackgroundCompaction
from rehydrate.context.writers import (
    SummaryRequest,
    UnfinishedReplyError,
    summary_prompt,
)
from rehydrate.errors import InvalidArgumentError
from rehydrate.integrations.adapter import (
    Adapter,
    PassiveOptions,
    Scope,
    passing_through,
    shows_adapter_options,
)

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
    from langchain_core.runnables import Runnable, RunnableConfig

    Summarizer = (
        str
        | BaseChatModel
        | Runnable[list[AnyMessage], str]
        | Runnable[Any, AIMessage]
        | Callable[[list[AnyMessage]], str]
        | Callable[[list[AnyMessage]], Coroutine[Any, Any, str]]
    )
    """A writer of summaries, as in LangChain's SummarizationMiddleware."""

_CONFIG: RunnableConfig = {
    "callbacks": [],
    "tags": ["nostream"],  # the host's stream shows what its own model says
    "metadata": {"lc_source": "summarization"},
    "run_name": "rehydrate_summary",
}
_STOPS = ("finish_reason", "stop_reason", "stopReason", "done_reason", "status")
"""Where the clients of OpenAI, Anthropic, Bedrock, Ollama and the Responses API say why a reply
ended."""
_UNFINISHED = {
    *("length", "model_length", "max_tokens", "incomplete", "model_context_window_exceeded"),
    *("content_filter", "content_filtered", "refusal", "guardrail_intervened", "safety"),
    *("recitation", "blocklist", "prohibited_content", "spii"),
}
"""In small letters; Gemini's are in capitals."""


class ChatModelWriter:
    """A writer for `BackgroundCompaction`: a chat model of LangChain.

    >>> from langchain_core.language_models.fake_chat_models import FakeListChatModel
    >>> writer = ChatModelWriter(FakeListChatModel(responses=["The user moors at berth 4."]))
    >>> background = BackgroundCompaction(writer=writer)
    """

    def __init__(self, model: BaseChatModel | Runnable[Any, AIMessage]) -> None:
        """Take the model, or one that was bound to arguments."""
        self._model = model

    def write(self, request: SummaryRequest) -> str:
        """Return the model's summary; raises UnfinishedReplyError for one that is cut off."""
        return _finished_text(self._model.invoke(summary_prompt(request), _CONFIG))


def _finished_text(reply: Any) -> str:
    """Return a reply's text; raises UnfinishedReplyError for one that is cut off."""
    if isinstance(reply, str):
        return reply
    said = reply.response_metadata
    stops = (said.get(name) for name in _STOPS)
    cut = next((each for each in stops if str(each).lower() in _UNFINISHED), None)
    if cut is not None:
        raise UnfinishedReplyError(f"the model did not finish: {cut}")
    return str(reply.text)


class ExtractiveSummarizer:
    """A ``summarizer`` for LangChain's SummarizationMiddleware that needs no model.

    It returns decisions, files, the task's state and preferences in the conversation's own words.
    Pass ``trim_tokens_to_summarize=None`` to that middleware, so that it sees all messages.

    >>> from langchain_core.messages import HumanMessage
    >>> print(ExtractiveSummarizer()([HumanMessage("Always use tabs.")]))
    ## Task State
    - Always use tabs. (#0)
    ## User Preferences
    - Always use tabs. (#0)
    """

    def __init__(self, *, max_tokens: int = 1_000) -> None:
        """Take the most that a summary may have."""
        check_whole("max_tokens", max_tokens, 100)
        self._max_tokens = max_tokens

    def __call__(self, messages: Sequence[AnyMessage]) -> str:
        """Return the summary of some messages."""
        conversation = formats.parse(messages, "langchain")
        store = ContextStore()
        store.update(conversation.messages)
        return store.render(self._max_tokens, conversation=conversation)


def background_with(
    background: BackgroundCompaction | None, summarizer: Summarizer | None
) -> BackgroundCompaction | None:
    """Return how summaries are written, by what was given; raises InvalidArgumentError for two
    writers."""
    if summarizer is None:
        return background
    background = background or BackgroundCompaction()
    if background.writer is not None:
        raise InvalidArgumentError(
            "summarizer and background both name a writer; leave out summarizer, or the writer of "
            "BackgroundCompaction"
        )
    return replace(background, writer=_writer_of(summarizer))


def _writer_of(summarizer: Summarizer) -> Any:
    """Return the writer for `BackgroundCompaction`."""
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import Runnable
    from langchain_core.runnables.base import RunnableBindingBase

    if isinstance(summarizer, str):
        from langchain.chat_models import init_chat_model

        summarizer = init_chat_model(summarizer)
    if isinstance(summarizer, Runnable):
        runnable: Runnable[Any, Any] = summarizer
        inner = runnable
        while isinstance(inner, RunnableBindingBase):  # model.bind(...), model.with_retry()
            inner = inner.bound
        if isinstance(inner, BaseChatModel):
            return ChatModelWriter(runnable)
        return lambda messages: _finished_text(runnable.invoke(messages, _CONFIG))
    if iscoroutinefunction(summarizer):
        function: Any = summarizer
        return partial(anyio.run, function)  # in the writer's thread
    return summarizer


NODE_SEPARATOR, TASK_SEPARATOR = "|", ":"
"""They separate LangGraph's checkpoint namespaces: ``agent:<task>|model:<task>``."""


def scope_of(config: Mapping[str, Any]) -> Scope:
    """Return the scope of a run: its thread's id, and the agent's place in the graph.

    Ids of tasks are left out: they change in each run.

    >>> scope_of({"configurable": {"thread_id": "t-42", "checkpoint_ns": "agent:1f|model:2e"}})
    Scope(model='', thread='t-42', place='agent')
    """
    given = config.get("configurable") or {}
    nodes = str(given.get("checkpoint_ns") or "").split(NODE_SEPARATOR)[:-1]
    place = "/".join([node.partition(TASK_SEPARATOR)[0] for node in nodes])
    return Scope(thread=str(given.get("thread_id") or ""), place=place)


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
    names = _SENT_FIELDS.get(one.type, ())
    if any(getattr(one, name) != getattr(other, name) for name in names):
        return False
    return bool(one.additional_kwargs == other.additional_kwargs)


_SENT_FIELDS = {
    "ai": ("tool_calls", "invalid_tool_calls"),
    "tool": ("tool_call_id", "status"),
    "chat": ("role",),
}
"""What a client sends of each type of message besides its content and name."""


class AgentAdapter(Adapter):
    """An adapter of agents that LangGraph runs.

    A conversation is a list of messages that goes on, within the thread's id and the agent's place
    in a graph. So two agents that run in one thread have a context each, and so has each task of an
    agent that is a tool. Ids of messages do not count: a caller may pass them or not.
    """

    _fixed: Mapping[str, Any] = {"format": "langchain"}


class RehydrateEdit(AgentAdapter):
    """A `ContextEdit`: the messages of each conversation become its `Context`'s prompt.

    It is for agents that have a ContextEditingMiddleware already. An edit offers no tools, so the
    model cannot ask back; `RehydrateMiddleware` lets it. With ``token_count_method="model"`` the
    system text and the tools count too.

    Pass it as ``ContextEditingMiddleware(edits=[edit])``.

    >>> from rehydrate.prompt import Budget
    >>> edit = RehydrateEdit(budget=Budget(soft_tokens=60_000))
    >>> edit.report.compactions
    0
    """

    @shows_adapter_options(PassiveOptions)
    def __init__(self, **options: Unpack[PassiveOptions]) -> None:
        """Take the options of each `Context`; raises InvalidArgumentError as it does."""
        given = {"provider": "openai_chat", **options}
        self._set_up(given, can_ask=False, same=is_same_message)

    def apply(
        self, messages: list[AnyMessage], *, count_tokens: Callable[[Sequence[BaseMessage]], int]
    ) -> None:
        """Replace the messages, in place, by the prompt of their conversation."""
        reserved = 0
        with suppress(Exception):  # a counter of the host's, for a list without messages
            reserved = count_tokens([])
        with passing_through():
            scope = scope_of(running_config())
            messages[:] = self._threads.prompt(messages, scope, reserved_tokens=reserved).messages
