"""OpenAIModel: the base of both OpenAI clients, for OpenAI and for servers that speak its APIs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rehydrate.agent.models.sdk import SdkModel
from rehydrate.agent.models.streams import EventStream, ResponseStream

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class OpenAIModel(SdkModel):
    """A model that is asked through an AsyncOpenAI client."""

    _package = "openai"

    def __init__(
        self,
        name: str,
        *,
        client: AsyncOpenAI | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> None:
        """Take the model's name; raises MissingPackageError without the SDK."""
        super().__init__(
            name,
            client=client,
            api_key=api_key,
            base_url=base_url,
            timeout=timeout,
            options=self._with_defaults(options),
        )

    def _with_defaults(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of each request."""
        return options

    def _make_client(self) -> Any:
        """Return a client. A server of your own may need no key, but the SDK insists on one."""
        from openai import AsyncOpenAI

        api_key, base_url = self._api_key, self._base_url
        if api_key is None and base_url is not None and not os.environ.get("OPENAI_API_KEY"):
            api_key = "none"
        return AsyncOpenAI(api_key=api_key, base_url=base_url, max_retries=0)

    async def _open_stream(self, resource: Any, arguments: Mapping[str, Any]) -> EventStream:
        raw = await resource.with_raw_response.create(**arguments)
        return ResponseStream(self._provider, raw.http_response)


def is_json(text: str) -> bool:
    """Return whether a text is JSON; the arguments of a call that was cut off are none.

    >>> is_json('{"berth": 4}'), is_json('{"ber')
    (True, False)
    """
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
