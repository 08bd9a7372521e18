"""RehydrateEdit: an edit for LangChain's own ContextEditingMiddleware."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rehydrate._text import safe_error_text
from rehydrate.context.background.compactor import BackgroundCompaction
from rehydrate.integrations.host_thread import (
    MAX_THREADS,
    HostReport,
    warn_passed_through,
)
from rehydrate.integrations.langchain.threads import AgentThreads, running_config
from rehydrate.prompt.caps import Caps
from rehydrate.prompt.request import Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.messages import AnyMessage, BaseMessage

    from rehydrate.prompt.sources.arguments import Given


class RehydrateEdit:
    """A `ContextEdit`: the messages of each conversation become its `Context`'s prompt.

    It is for agents that have a ContextEditingMiddleware already. An edit offers no tools, so the
    model cannot ask back; `RehydrateMiddleware` lets it. With ``token_count_method="model"`` the
    system text and the tools count too.

    Pass it as ``ContextEditingMiddleware(edits=[edit])``.

    >>> edit = RehydrateEdit(budget=Budget(soft_tokens=60_000))
    >>> edit.report.compactions
    0
    """

    def __init__(
        self,
        *,
        budget: Budget = Budget(),  # noqa: B008  it is frozen
        sources: Given = (),
        background: BackgroundCompaction | None = None,
        caps: Caps | None = None,
        max_threads: int = MAX_THREADS,
        **options: Any,
    ) -> None:
        """Take the options of each `Context`; raises InvalidArgumentError as it does."""
        given = {"budget": budget, "sources": sources, "background": background, **options}
        self._threads = AgentThreads(
            {"provider": "openai_chat", **given},
            caps=caps,
            asks_back=False,
            max_threads=max_threads,
        )

    @property
    def report(self) -> HostReport:
        """What became of the last list of messages."""
        return self._threads.report

    def apply(
        self, messages: list[AnyMessage], *, count_tokens: Callable[[Sequence[BaseMessage]], int]
    ) -> None:
        """Replace the messages, in place, by the prompt of their conversation."""
        reserved = 0
        with suppress(Exception):  # a counter of the host's, for a list without messages
            reserved = count_tokens([])
        try:
            config = running_config()
            prompted = self._threads.prompt(config, messages, reserved_tokens=reserved)
        except Exception as error:
            warn_passed_through(safe_error_text(error, "rehydrate"))
            return
        messages[:] = prompted.messages
