"""OpenAIApi: the base of both OpenAI APIs, which check the key alike and share one cache."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from tests.provider.errors import RefusedError
from tests.provider.ids import Ids
from tests.provider.openai_cache import PrefixCache
from tests.provider.settings import Settings
from tests.provider.token_counter import TokenCounter


class OpenAIApi:
    """Holds what an API needs; a subclass checks a request, replies to it and bills it."""

    _shape: type[BaseModel]

    def __init__(
        self, settings: Settings, token_counter: TokenCounter, ids: Ids, cache: PrefixCache
    ) -> None:
        self._settings = settings
        self._token_counter = token_counter
        self._ids = ids
        self._cache = cache

    def check_headers(self, headers: Mapping[str, str]) -> None:
        if not headers.get("authorization", "").startswith("Bearer "):
            words = (
                "You didn't provide an API key. You need to provide your API key in an "
                "Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY)."
            )
            raise RefusedError(words, status=401)
