"""Summaries in LangChain: its chat models write ours, and ours go into its own middleware."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

import anyio

from rehydrate import formats
from rehydrate._check import check_whole
from rehydrate.context.compaction import BackgroundCompaction
from rehydrate.context.context_store.store import ContextStore
from rehydrate.context.writers import (
    SummaryRequest,
    UnfinishedReplyError,
    summary_prompt,
)
from rehydrate.errors import InvalidArgumentError, MissingPackageError

MISSING = MissingPackageError("rehydrate[langchain]", "brings LangChain's agents")

try:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import Runnable, RunnableConfig
except ImportError:
    raise MISSING from None

if TYPE_CHECKING:
    from langchain_core.messages import AnyMessage

Summarizer = (
    str
    | BaseChatModel
    | Runnable[list["AnyMessage"], str]
    | Callable[[list["AnyMessage"]], str]
    | Callable[[list["AnyMessage"]], Coroutine[Any, Any, str]]
)
"""What writes summaries, as in LangChain's SummarizationMiddleware."""
_CONFIG: RunnableConfig = {
    "callbacks": [],
    "tags": ["nostream"],  # the host's stream shows what its own model says
    "metadata": {"lc_source": "summarization"},
    "run_name": "rehydrate_summary",
}
_UNFINISHED = {"length", "max_tokens", "content_filter", "refusal"}


class ChatModelWriter:
    """A writer for `BackgroundCompaction`: a chat model of LangChain.

    >>> from langchain_core.language_models.fake_chat_models import FakeListChatModel
    >>> writer = ChatModelWriter(FakeListChatModel(responses=["The user moors at berth 4."]))
    >>> background = BackgroundCompaction(writer=writer)
    """

    def __init__(self, model: BaseChatModel) -> None:
        """Take the model."""
        self._model = model

    def write(self, request: SummaryRequest) -> str:
        """Return the model's summary; raises UnfinishedReplyError for one that is cut off."""
        message = self._model.invoke(summary_prompt(request), _CONFIG)
        said = message.response_metadata
        stop = said.get("finish_reason") or said.get("stop_reason") or ""
        if stop in _UNFINISHED:
            raise UnfinishedReplyError(f"the model did not finish: {stop}")
        return str(message.text)


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
    """Return what `BackgroundCompaction` takes as a writer."""
    if isinstance(summarizer, str):
        from langchain.chat_models import init_chat_model

        summarizer = init_chat_model(summarizer)
    if isinstance(summarizer, BaseChatModel):
        return ChatModelWriter(summarizer)
    if isinstance(summarizer, Runnable):
        runnable = summarizer
        return lambda messages: runnable.invoke(messages, _CONFIG)
    if iscoroutinefunction(summarizer):
        function: Any = summarizer
        return partial(anyio.run, function)  # in the writer's thread
    return summarizer
