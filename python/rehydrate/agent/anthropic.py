"""AnthropicModel: Claude through the official SDK; its reply goes into the history unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from rehydrate.agent.model import Reply, check_compiled_for
from rehydrate.agent.sdk import SdkModel
from rehydrate.agent.sdk_answers import EventStream, malformed_as_provider_errors, unreadable_answer
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.ir import COMPACTION_BETA, CompiledPrompt, ProviderSummary

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncAnthropicBedrock, AsyncAnthropicVertex


MAX_TOKENS = 8_192
_MAX_UNSTREAMED_TOKENS = 8_192

_REMOVED = frozenset({"temperature", "top_p", "top_k"})
"""Parameters for which the API's version 2026-10-21, which the SDK sends from 2.0 on, returns 400:
https://platform.claude.com/docs/en/api/migration-2026-10-21"""
_BINDING_BETA = "thinking-binding-controls-2026-08-01"
"""The beta in which the API accepts ``block_binding`` and reports the blocks that it dropped."""

PrefixMismatch = Literal["error", "drop_block"]


class AnthropicModel(SdkModel):
    """A model of Anthropic's Messages API, or of a server that speaks it (``base_url``).

    ``client`` is an AsyncAnthropic, or the one for Bedrock or Vertex; without one, a client is made
    from ``api_key`` or the environment on first use. ``max_tokens`` limits the answer. ``timeout``
    and ``options`` are passed to ``messages.create``: ``thinking``, ``tool_choice``, ``betas``. The
    SDK's retries are off. ``temperature``, ``top_p`` and ``top_k`` are refused: the API has none
    since 2026-10-21. Another server may take them in ``extra_body``.

    ``prefix_mismatch`` is for newer models, which bind a thinking block to its prefix. If the
    prefix has changed, "error" makes the API refuse the request, "drop_block" makes it drop the
    block. Both request adaptive thinking, unless ``thinking`` is given, and a beta of the API; then
    `Reply.input_transformations` lists the dropped blocks. None leaves the choice to the API, which
    reports nothing. A `Context` never sends such a block. If your own history might, store the
    choice with it.

    Thinking blocks with their signatures, server tools and unknown blocks are in `Reply.entries`
    unchanged. A call or a thinking block that was cut off is left out, because the API would refuse
    it.

    >>> AnthropicModel("claude-opus-4-6", api_key="...", max_tokens=4_096)
    AnthropicModel('claude-opus-4-6')
    """

    _provider = "anthropic"
    _package = _extra = "anthropic"

    def __init__(
        self,
        name: str,
        *,
        client: AsyncAnthropic | AsyncAnthropicBedrock | AsyncAnthropicVertex | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        max_tokens: int = MAX_TOKENS,
        timeout: float | None = None,
        prefix_mismatch: PrefixMismatch | None = None,
        **options: Any,
    ) -> None:
        """Take the model's name; raises MissingPackageError without the SDK."""
        if removed := sorted(_REMOVED & options.keys()):
            raise InvalidArgumentError(
                f"{', '.join(removed)}: the API takes no such parameter since its version "
                "2026-10-21; leave it out, or pass extra_body for a server that takes it"
            )
        if prefix_mismatch is not None:
            options = _with_binding(prefix_mismatch, options)
        super().__init__(
            name,
            client=client,
            api_key=api_key,
            base_url=base_url,
            timeout=timeout,
            **{"max_tokens": max_tokens, **options},
        )
        # Of a longer answer from any model the SDK demands a stream.
        self._must_stream = max_tokens > _MAX_UNSTREAMED_TOKENS

    def _make_client(self) -> Any:
        """Return a client. A server of your own may need no key, but the SDK insists on one."""
        from anthropic import AsyncAnthropic

        client = AsyncAnthropic(api_key=self._api_key, base_url=self._base_url, max_retries=0)
        given = client.api_key or client.auth_token or getattr(client, "credentials", None)
        if self._base_url and not given:
            client.api_key = "none"
        return client

    def _resource(self, client: Any, arguments: Mapping[str, Any]) -> Any:
        return client.beta.messages if "betas" in arguments else client.messages

    def _arguments(self, prompt: CompiledPrompt) -> dict[str, Any]:
        return _with_betas(super()._arguments(prompt), prompt.betas)

    async def compact(self, prompt: CompiledPrompt) -> ProviderSummary:
        """Have the API summarise the messages of a prompt.

        It needs a model of the beta ``compact-2026-09-04``. What it returns is sent back as it is,
        in place of these messages. Raises ProviderError if there is no summary.
        """
        check_compiled_for(self, prompt)
        arguments = _with_betas(self._arguments(prompt), [COMPACTION_BETA])
        if (arguments.get("thinking") or {}).get("type") == "enabled":
            # It demands that the last turn begins with thinking, which a cut conversation may not.
            del arguments["thinking"]
        extra = {**arguments.get("extra_body", {}), "compaction": {"type": "summarize"}}
        body = await self._body({**arguments, "extra_body": extra})
        with malformed_as_provider_errors(self._provider):
            self._check_body(body)
            blocks = [each for each in body["content"] if each.get("type") == "compaction"]
            if len(blocks) != 1 or not blocks[0].get("content"):
                stop = body.get("stop_reason")
                raise unreadable_answer(self._provider, f"no summary; it stopped with {stop!r}")
            message = {"role": "assistant", "content": blocks}
            return ProviderSummary((message,), str(blocks[0]["content"]))

    async def _open_stream(self, resource: Any, arguments: Mapping[str, Any]) -> EventStream:
        stream = await resource.create(**arguments, stream=True)

        async def advance() -> dict[str, Any]:
            event: dict[str, Any] = (await anext(stream)).to_dict(mode="json", warnings=False)
            return event

        return EventStream(self._provider, advance, stream.close)

    def _read_reply(self, body: Any, prompt: CompiledPrompt) -> Reply:
        changed = tuple(body.get("input_transformations") or ())
        return replace(super()._read_reply(body, prompt), input_transformations=changed)


def _with_betas(arguments: dict[str, Any], betas: Sequence[str]) -> dict[str, Any]:
    """Return the arguments with these betas too."""
    known = arguments.get("betas") or ()
    new = [beta for beta in betas if beta not in known]
    return {**arguments, "betas": [*known, *new]} if new else arguments


def _with_binding(prefix_mismatch: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with those that request this behaviour."""
    if prefix_mismatch not in ("error", "drop_block"):
        raise InvalidArgumentError(
            f"prefix_mismatch is {prefix_mismatch!r}; choose 'error' or 'drop_block', or None"
        )
    thinking = options.get("thinking") or {"type": "adaptive"}
    if thinking.get("type") not in ("adaptive", "enabled"):
        raise InvalidArgumentError(
            f"prefix_mismatch goes with adaptive thinking, and thinking is {thinking!r}; leave one "
            "of them out"
        )
    binding = {**(thinking.get("block_binding") or {}), "prefix_mismatch_behavior": prefix_mismatch}
    return _with_betas(
        {**options, "thinking": {**thinking, "block_binding": binding}}, [_BINDING_BETA]
    )
