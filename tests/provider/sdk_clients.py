"""Clients of the official SDKs for a StrictProvider, without retries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import openai

from tests.provider.provider import StrictProvider
from tests.provider.replies import Responder


@contextmanager
def anthropic_client(provider: StrictProvider, **options: Any) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(**_options(anthropic, provider.url, options)) as client:
        yield client


@contextmanager
def openai_client(provider: StrictProvider, **options: Any) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(**_options(openai, provider.openai_url, options)) as client:
        yield client


def _options(sdk: Any, url: str, options: dict[str, Any]) -> dict[str, Any]:
    # Loading the CA certificates takes longer than a test; loopback needs none.
    http = sdk.DefaultHttpxClient(verify=False)
    return {"api_key": "key", "base_url": url, "max_retries": 0, "http_client": http, **options}


def refusal_of(
    client: Any, path: str, request: dict[str, Any], headers: dict[str, str] | None = None
) -> str | None:
    """Return the message of the error response; None if the request is accepted."""
    sdk = anthropic if isinstance(client, anthropic.Anthropic) else openai
    try:
        client.post(path, cast_to=object, body=request, options={"headers": headers or {}})
    except sdk.APIStatusError as error:
        assert error.status_code in (400, 404), error
        body: Any = error.body
        message: str = body["error"]["message"] if "error" in body else body["message"]
        return message
    return None


@contextmanager
def anthropic_served(
    respond: Responder, **settings: Any
) -> Iterator[tuple[StrictProvider, anthropic.Anthropic]]:
    with StrictProvider(respond, **settings) as provider, anthropic_client(provider) as client:
        yield provider, client


@contextmanager
def openai_served(
    respond: Responder, **settings: Any
) -> Iterator[tuple[StrictProvider, openai.OpenAI]]:
    with StrictProvider(respond, **settings) as provider, openai_client(provider) as client:
        yield provider, client
