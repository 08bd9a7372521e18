"""Clients of a provider: the official SDKs, trying once, closed when they are done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import openai

from tests.provider.provider import StrictProvider
from tests.provider.says import Brain


@contextmanager
def anthropic_client(provider: StrictProvider, **options: Any) -> Iterator[anthropic.Anthropic]:
    # Loading the certificates of the world takes longer than a test, which needs none of them.
    http = anthropic.DefaultHttpxClient(verify=False)
    given = {"api_key": "key", "base_url": provider.url, "max_retries": 0, **options}
    with anthropic.Anthropic(http_client=http, **given) as client:
        yield client


@contextmanager
def openai_client(provider: StrictProvider, **options: Any) -> Iterator[openai.OpenAI]:
    http = openai.DefaultHttpxClient(verify=False)
    given = {"api_key": "key", "base_url": provider.openai_url, "max_retries": 0, **options}
    with openai.OpenAI(http_client=http, **given) as client:
        yield client


def refusal_of(client: Any, path: str, request: dict[str, Any]) -> str | None:
    """The words in which a request is refused; None: it is not."""
    sdk = anthropic if isinstance(client, anthropic.Anthropic) else openai
    try:
        client.post(path, cast_to=object, body=request)
    except sdk.APIStatusError as error:
        assert error.status_code in (400, 404), error
        body: Any = error.body
        words: str = body["error"]["message"] if "error" in body else body["message"]
        return words
    return None


@contextmanager
def anthropic_served(
    brain: Brain, **settings: Any
) -> Iterator[tuple[StrictProvider, anthropic.Anthropic]]:
    with StrictProvider(brain, **settings) as provider, anthropic_client(provider) as client:
        yield provider, client


@contextmanager
def openai_served(brain: Brain, **settings: Any) -> Iterator[tuple[StrictProvider, openai.OpenAI]]:
    with StrictProvider(brain, **settings) as provider, openai_client(provider) as client:
        yield provider, client
