"""RehydrateProxyHook, RehydrateHook: chat requests of LiteLLM extend one another.

The client keeps its messages. What the model gets is made from them before the request is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rehydrate._text import safe_error_text
from rehydrate.context.background.compactor import BackgroundCompaction
from rehydrate.errors import MissingPackageError
from rehydrate.integrations.host_thread import (
    MAX_THREADS,
    HostReport,
    warn_passed_through,
)
from rehydrate.integrations.litellm.conversations import CALL_TYPES, Conversations
from rehydrate.prompt.caps import Caps
from rehydrate.prompt.request import Budget

try:
    from litellm.integrations.custom_logger import CustomLogger
except ImportError:
    raise MissingPackageError("rehydrate[litellm]", "brings LiteLLM's hooks") from None

if TYPE_CHECKING:
    from rehydrate.prompt.sources.arguments import Given


class _Hook(CustomLogger):
    """What both hooks share."""

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
        """Check the arguments; raises InvalidArgumentError as `Context` does."""
        super().__init__()
        given = {"budget": budget, "sources": sources, "background": background, **options}
        self._conversations = Conversations(given, caps=caps, max_threads=max_threads)

    @property
    def report(self) -> HostReport:
        """What became of the last request's messages, of any conversation."""
        return self._conversations.threads.report

    async def _prepare(self, request: dict[str, Any], call_type: Any, caller: str = "") -> None:
        """Put the thread's prompt into a chat request."""
        messages = request.get("messages")
        kind = getattr(call_type, "value", call_type)
        if kind not in CALL_TYPES or not isinstance(messages, list) or not messages:
            return
        try:
            prompted = await self._conversations.prompt(request, caller)
        except Exception as error:
            warn_passed_through(safe_error_text(error, "rehydrate"))
            return
        request["messages"] = prompted.messages


class RehydrateProxyHook(_Hook):
    """Keep the requests of a gateway's clients within a budget, without breaking caches."""

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: Any
    ) -> dict[str, Any]:
        """Return the request with the thread's prompt; the proxy calls it before each request."""
        del cache
        await self._prepare(data, call_type, _caller(user_api_key_dict))
        return data


class RehydrateHook(_Hook):
    """The same for a program's own calls of ``litellm.acompletion``."""

    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: Any
    ) -> dict[str, Any]:
        """Return the call's arguments with the thread's prompt; LiteLLM calls it before each."""
        await self._prepare(kwargs, call_type)
        return kwargs


def _caller(key: Any) -> str:
    """Return what the proxy knows a client by: its key's hash, else its user."""
    for name in ("token", "api_key", "user_id"):
        known = getattr(key, name, None)
        if known:
            return str(known)
    return ""
