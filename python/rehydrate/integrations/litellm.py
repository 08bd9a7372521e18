"""Rehydrate inside LiteLLM: ``pip install rehydrate[litellm]``.

RehydrateProxyHook    for the proxy's ``litellm_settings: callbacks``: any client of the gateway
RehydrateHook         for ``litellm.callbacks`` of a program that calls ``litellm.acompletion``
HostReport            the outcome of the last list of messages
RehydrateWarning      something failed, and the messages were sent as they are

The client keeps its messages. What the model gets is made from them before the request is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from rehydrate.errors import MissingPackageError
from rehydrate.formats._reading import compact_json
from rehydrate.integrations.adapter import (
    Adapter,
    PassiveOptions,
    Scope,
    passing_through,
    shows_adapter_options,
)
from rehydrate.integrations.host_thread import HostReport, RehydrateWarning

try:
    from litellm.integrations.custom_logger import CustomLogger
except ImportError:
    raise MissingPackageError("rehydrate[litellm]", "brings LiteLLM's hooks") from None

__all__ = ["HostReport", "RehydrateHook", "RehydrateProxyHook", "RehydrateWarning"]

CALL_TYPES = frozenset({"completion", "acompletion"})
"""The calls whose messages are chat's."""
_BESIDE = ("tools", "functions", "response_format")
"""What a model reads of a request besides its messages."""
_NAMES = ("session_id", "conversation_id", "thread_id")
"""A conversation's names in a request's metadata. A trace's id is a new one in each request."""


def scope_of(request: Mapping[str, Any], caller: str = "") -> Scope:
    """Return the scope of a request: its model; a session's id, else the user, else "", if the
    messages alone decide; and the ``caller``, the key or user that the gateway knows the client by.

    Where the gateway made the session's id of the trace's, it is another one in each request.

    >>> request = {"model": "gpt-5.1", "metadata": {"session_id": "t-42"}, "user": "alice"}
    >>> scope_of(request, "key")
    Scope(model='gpt-5.1', thread='t-42', place='key')
    """
    metadata = [request.get(name) for name in ("metadata", "litellm_metadata")]
    named = [place.get(name) for place in metadata if isinstance(place, Mapping) for name in _NAMES]
    named += [request.get("litellm_session_id"), request.get("user")]
    trace = request.get("litellm_trace_id")
    thread = next((str(name) for name in named if name and name != trace), "")
    return Scope(str(request.get("model") or ""), thread, caller)


class _Hook(Adapter, CustomLogger):
    """The part that both hooks share."""

    @shows_adapter_options(PassiveOptions)
    def __init__(self, **options: Unpack[PassiveOptions]) -> None:
        """Check the arguments; raises InvalidArgumentError as `Context` does."""
        super().__init__()
        self._set_up(options, can_ask=False)

    async def _prepare(self, request: dict[str, Any], call_type: Any, caller: str = "") -> None:
        """Put the thread's prompt into a chat request."""
        messages = request.get("messages")
        kind = getattr(call_type, "value", call_type)
        if kind not in CALL_TYPES or not isinstance(messages, list) or not messages:
            return
        with passing_through():
            beside = [request.get(name) for name in _BESIDE]
            sent = [compact_json(_plain(each)) for each in beside if each]
            scope = scope_of(request, caller)
            _, request["messages"] = await self._aprompted(messages, scope, sent)


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
    """Return the proxy's name for a client: its key's hash, or else its user."""
    names = [getattr(key, name, None) for name in ("token", "api_key", "user_id")]
    return next((str(name) for name in names if name), "")


def _plain(value: Any) -> Any:
    """Return a value as JSON holds it: a class that is the answer's form as its schema."""
    return value.model_json_schema() if hasattr(value, "model_json_schema") else value
