"""What the provider would say of a request, without a server: for tests that make very many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.provider.chat import Chat
from tests.provider.ids import Ids
from tests.provider.messages import Anthropic
from tests.provider.openai_cache import PrefixCache
from tests.provider.refused import Refused
from tests.provider.responses import Responses
from tests.provider.says import Wire
from tests.provider.settings import Settings
from tests.provider.weights import Weights

Api = Anthropic | Chat | Responses


def apis(settings: Settings) -> dict[Wire, Api]:
    """A provider's side of each wire; both of OpenAI's have one cache."""
    weights, ids = Weights(settings.counter), Ids()
    cache = PrefixCache(settings.clock, bills_writes=settings.openai_bills_writes)
    return {
        "anthropic": Anthropic(settings, weights, ids),
        "openai_chat": Chat(settings, weights, ids, cache),
        "openai_responses": Responses(settings, weights, ids, cache),
    }


def refusal(wire: Wire, request: Mapping[str, Any], **settings: Any) -> str | None:
    """The words in which the request would be refused; None where it would be taken.

    >>> refusal("openai_chat", {"model": "gpt-5.2", "messages": [{"role": "user"}]})
    "Missing required parameter: 'messages[0].content'."
    """
    try:
        apis(Settings(**settings))[wire].check(request)
    except Refused as refused:
        return refused.message
    return None
