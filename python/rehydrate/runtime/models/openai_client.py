"""OpenAI's client, for both of its APIs and for the servers that speak them."""

from __future__ import annotations

import os
from typing import Any


def openai_client(api_key: str | None, base_url: str | None) -> Any:
    """An AsyncOpenAI; a server of one's own often asks for no key, where the SDK insists on one."""
    from openai import AsyncOpenAI

    if api_key is None and base_url is not None and not os.environ.get("OPENAI_API_KEY"):
        api_key = "none"
    return AsyncOpenAI(api_key=api_key, base_url=base_url, max_retries=0)
