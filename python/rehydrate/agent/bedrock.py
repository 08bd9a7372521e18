"""BedrockModel: a model of Amazon Bedrock, through boto3's Converse, which is asked in threads."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from threading import Event
from typing import Any

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._native import unicode_inside
from rehydrate.agent.sdk import SdkModel
from rehydrate.agent.sdk_answers import (
    EventStream,
    malformed_as_provider_errors,
)
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.ir import CompiledPrompt

_TIMEOUT_SECONDS = 600.0
_MAX_CONNECTIONS = 64


class BedrockModel(SdkModel):
    """A model of Amazon Bedrock's Converse API, by its id, its profile or its ARN.

    ``client`` is boto3's client of ``bedrock-runtime``; make it with
    ``Config(retries={"total_max_attempts": 1})``, since the agent loop retries. Without one, a
    client is made on first use, from AWS's environment, profiles and roles, for ``region`` and
    ``base_url``; AWS_BEARER_TOKEN_BEDROCK holds an API key. ``timeout`` is the seconds that such a
    client waits while the server is silent. ``options`` are passed to ``converse``:
    ``inferenceConfig``, ``additionalModelRequestFields``, ``guardrailConfig``, ``toolConfig`` with
    a ``toolChoice``.

    boto3 is sync, so each request has a thread. One that is cancelled gives its thread back when
    the server sends something, or after the timeout. Reasoning with its signatures is in
    `Reply.entries` unchanged; redacted reasoning is bytes, as boto3 has it.

    >>> BedrockModel("us.anthropic.claude-opus-4-6-v1", inferenceConfig={"maxTokens": 4_096})
    BedrockModel('us.anthropic.claude-opus-4-6-v1')
    """

    _provider = "bedrock"
    _package = "boto3"
    _extra = "bedrock"

    def __init__(
        self,
        name: str,
        *,
        client: Any = None,
        region: str | None = None,
        base_url: str | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> None:
        """Take the model's id; raises MissingPackageError without the SDK."""
        if client is not None and not (region is None and timeout is None):
            raise InvalidArgumentError(
                "a client was passed, which has its own region and timeout (Config(read_timeout=))"
            )
        self._region = region
        super().__init__(name, client=client, base_url=base_url, timeout=timeout, **options)

    def _make_client(self) -> Any:
        import boto3
        from botocore.config import Config

        config = Config(
            read_timeout=_TIMEOUT_SECONDS if self._timeout is None else self._timeout,
            retries={"total_max_attempts": 1},
            max_pool_connections=_MAX_CONNECTIONS,
        )
        session = boto3.session.Session(region_name=self._region)
        return _AsyncClient(
            session.client("bedrock-runtime", endpoint_url=self._base_url, config=config)
        )

    def _own_client(self, client: Any) -> Any:
        if not hasattr(client, "converse_stream"):
            kind = type(client).__name__
            raise InvalidArgumentError(
                f"client is of type {kind}; pass boto3.client('bedrock-runtime')"
            )
        return _AsyncClient(client)

    def _resource(self, client: Any, arguments: Mapping[str, Any]) -> Any:
        del arguments
        return client

    def _arguments(self, prompt: CompiledPrompt) -> dict[str, Any]:
        arguments = {"modelId": self._name, **self._options, **prompt.request}
        if "toolConfig" in prompt.request:
            chosen = self._options.get("toolConfig") or {}
            arguments["toolConfig"] = {**chosen, **prompt.request["toolConfig"]}
        # boto3 would send half a surrogate pair as an escape, which the service refuses.
        sendable: dict[str, Any] = unicode_inside(arguments)
        return sendable

    async def _whole(self, resource: Any, arguments: Mapping[str, Any]) -> Any:
        with malformed_as_provider_errors(self._provider):  # boto3 reads a body of no object
            return await resource.ask("converse", arguments)

    async def _open_stream(self, resource: Any, arguments: Mapping[str, Any]) -> EventStream:
        stream = await resource.opened(arguments)
        events = iter(stream)
        # Both in a thread: where another one still reads, closing waits for that.
        return EventStream(
            self._provider,
            lambda: hand_over(partial(next, events, None), None),
            lambda: hand_over(stream.close, None),
        )


class _AsyncClient:
    """A client of boto3, whose methods run in threads."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def ask(self, method: str, arguments: Mapping[str, Any]) -> Any:
        return await hand_over(partial(getattr(self._client, method), **arguments), None)

    async def opened(self, arguments: Mapping[str, Any]) -> Any:
        """Return the stream of an answer; one that comes after a cancellation is closed."""
        streams: list[Any] = []
        is_cancelled = Event()

        def open_stream() -> None:
            streams.append(self._client.converse_stream(**arguments)["stream"])
            if is_cancelled.is_set():
                streams[0].close()

        try:
            await hand_over(open_stream, None)
        except BaseException:
            is_cancelled.set()
            for stream in streams:  # it came at the same moment
                stream.close()
            raise
        return streams[0]

    async def close(self) -> None:
        self._client.close()
