"""RehydrateEdit: an edit for LangChain's own ContextEditingMiddleware."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Unpack

from rehydrate._text import safe_error_text
from rehydrate.integrations.adapter import Adapter, PassiveOptions
from rehydrate.integrations.host_thread import warn_passed_through
from rehydrate.integrations.langchain.threads import AgentThreads, running_config, scope_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.messages import AnyMessage, BaseMessage


class RehydrateEdit(Adapter):
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

    def __init__(self, **options: Unpack[PassiveOptions]) -> None:
        """Take the options of each `Context`; raises InvalidArgumentError as it does."""
        self._threads = AgentThreads({"provider": "openai_chat", **options}, can_ask=False)

    def apply(
        self, messages: list[AnyMessage], *, count_tokens: Callable[[Sequence[BaseMessage]], int]
    ) -> None:
        """Replace the messages, in place, by the prompt of their conversation."""
        reserved = 0
        with suppress(Exception):  # a counter of the host's, for a list without messages
            reserved = count_tokens([])
        try:
            scope = scope_of(running_config())
            prompted = self._threads.prompt(messages, scope, reserved_tokens=reserved)
        except Exception as error:
            warn_passed_through(safe_error_text(error, "rehydrate"))
            return
        messages[:] = prompted.messages
