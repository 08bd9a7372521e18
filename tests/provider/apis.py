"""The APIs of the strict provider, and `refusal`: a check without a server, for many requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.provider.chat import Chat
from tests.provider.errors import RefusedError
from tests.provider.ids import Ids
from tests.provider.messages import Anthropic
from tests.provider.openai_cache import PrefixCache
from tests.provider.replies import Wire
from tests.provider.responses import Responses
from tests.provider.settings import Settings
from tests.provider.token_counter import TokenCounter

Api = Anthropic | Chat | Responses


def apis(settings: Settings) -> dict[Wire, Api]:
    """Return the API for each wire format; both of OpenAI's share one cache."""
    token_counter, ids = TokenCounter(settings.counter), Ids()
    cache = PrefixCache(settings.clock, bills_writes=settings.openai_bills_writes)
    return {
        "anthropic": Anthropic(settings, token_counter, ids),
        "openai_chat": Chat(settings, token_counter, ids, cache),
        "openai_responses": Responses(settings, token_counter, ids, cache),
    }


def refusal(wire: Wire, request: Mapping[str, Any], **settings: Any) -> str | None:
    """Return the message with which the request would be refused; None if it would be accepted.

    >>> refusal("openai_chat", {"model": "gpt-5.2", "messages": [{"role": "user"}]})
    "Missing required parameter: 'messages[0].content'."
    """
    try:
        apis(Settings(**settings))[wire].check(request)
    except RefusedError as error:
        return error.message
    return None
