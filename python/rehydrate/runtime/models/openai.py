"""OpenAIModel: what models of both of OpenAI's APIs, and of servers that speak them, share."""

from __future__ import annotations

import os
from typing import Any

from rehydrate.runtime.models.sdk import SdkModel


class OpenAIModel(SdkModel):
    """A model that is asked through an AsyncOpenAI."""

    _package = "openai"

    def _client(self) -> Any:
        """A server of one's own often asks for no key, where the SDK insists on one."""
        from openai import AsyncOpenAI

        api_key, base_url = self._api_key, self._base_url
        if api_key is None and base_url is not None and not os.environ.get("OPENAI_API_KEY"):
            api_key = "none"
        return AsyncOpenAI(api_key=api_key, base_url=base_url, max_retries=0)
