"""Conversations: the one that a request of LiteLLM is of, and the threads of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from rehydrate.formats._reading import compact_json
from rehydrate.integrations.chat_threads import ChatThreads
from rehydrate.integrations.host_thread import MAX_THREADS
from rehydrate.integrations.prefix_threads import Prompted
from rehydrate.prompt.caps import Caps
from rehydrate.prompt.counting import text_tokens

CALL_TYPES = frozenset({"completion", "acompletion"})
"""The calls whose messages are chat's."""
_NAMES = ("session_id", "conversation_id", "thread_id")
"""Of a conversation, in a request's metadata. A trace's id is another one in each request."""


class Conversation(NamedTuple):
    """What tells a conversation from others, beside its messages.

    >>> request = {"model": "gpt-5.1", "metadata": {"session_id": "t-42"}, "user": "alice"}
    >>> Conversation.of(request, "key")
    Conversation(caller='key', thread='t-42', model='gpt-5.1')
    """

    caller: str
    """The key or user that the gateway knows the client by."""
    thread: str
    model: str

    @classmethod
    def of(cls, request: Mapping[str, Any], caller: str = "") -> Self:
        """Read it from a request: a session's id, else the user; "" where the messages alone
        decide."""
        model = str(request.get("model") or "")
        metadata = [request.get(name) for name in ("metadata", "litellm_metadata")]
        named = [
            place.get(name) for place in metadata if isinstance(place, Mapping) for name in _NAMES
        ]
        named += [request.get("litellm_session_id"), request.get("user")]
        return cls(caller, next((str(name) for name in named if name), ""), model)


class Conversations:
    """The threads of a gateway's conversations."""

    def __init__(
        self,
        options: Mapping[str, Any],
        *,
        caps: Caps | None = None,
        max_threads: int = MAX_THREADS,
    ) -> None:
        """Take the options of each `Context`; raises InvalidArgumentError as it does."""
        self.threads = ChatThreads(
            options,
            Conversation("", "", ""),
            named=("thread", "model"),
            caps=caps,
            asks_back=False,
            max_threads=max_threads,
        )

    async def prompt(self, request: Mapping[str, Any], caller: str = "") -> Prompted:
        """Return what to send for a request with chat's messages."""
        tools = [compact_json(tool) for tool in request.get("tools") or ()]
        return await self.threads.aprompt(
            request["messages"],
            Conversation.of(request, caller),
            reserved_tokens=sum(text_tokens(tools)),
        )
