"""CompiledPrompt: a prompt in a provider's shape, its cost and where each stretch came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self

from rehydrate.messages import Provider
from rehydrate.prompt import serialize
from rehydrate.prompt.explain import PromptExplanation
from rehydrate.prompt.ir import PromptIR

USUAL_MINIMUM_PREFIX = 1_024
"""Tokens that a prefix needs for a provider to keep it, where no table says otherwise."""


class Segment(NamedTuple):
    """A stretch of the prompt as it goes over the wire: a tool, a system block, a message, in the
    order in which a provider reads them (tools, system, messages)."""

    id: str
    """``tools[0]``, a section's id, or ``history[12]``."""
    kind: Literal["tool", "system", "message"]
    tokens: int
    digest: str
    """128 bits, hexadecimal, of what is sent, cache marks aside: two prompts share a prefix as far
    as their digests are equal."""
    stability: str
    blocks: int = 1
    """Content blocks in it: a cache looks back over so many at most."""
    breakpoint: bool = False
    """Whether the cache is told to keep the prefix that ends here."""


@dataclass(frozen=True, slots=True)
class CompiledPrompt:
    """What is sent.

    ``request`` holds the arguments of the provider's SDK: ``client.messages.create(model=...,
    max_tokens=..., **compiled.request)`` for Anthropic, ``client.chat.completions.create(...)`` and
    ``client.responses.create(...)`` for OpenAI.
    """

    provider: Provider
    request: dict[str, Any] = field(hash=False)
    ir: PromptIR = field(repr=False)
    """What it was rendered from, after all passes."""
    segments: tuple[Segment, ...] = field(repr=False)
    model: str = ""

    @property
    def tokens(self) -> int:
        """Of the whole prompt, in the IR's counter."""
        return sum(segment.tokens for segment in self.segments)

    @property
    def messages(self) -> list[Any]:
        """The messages, or OpenAI Responses' input items."""
        key = "input" if self.provider == "openai_responses" else "messages"
        messages: list[Any] = self.request[key]
        return messages

    def explain(self) -> PromptExplanation:
        """What stands where in it, as a table: that of its IR."""
        return self.ir.explain()

    def to_dict(self) -> dict[str, Any]:
        """The request, its segments and the IR as values that JSON has.

        Message objects in the IR become dicts; `PromptIR.from_dict` reads the IR in it too.
        """
        return serialize.document(
            serialize.COMPILED_KIND,
            provider=self.provider,
            model=self.model,
            request=serialize.plain(self.request, "request"),
            segments=serialize.plain(self.segments, "segments"),
            ir=self.ir.to_dict(),
        )

    def to_json(self, indent: int | None = None) -> str:
        """All of it as JSON."""
        return serialize.as_json(self.to_dict(), indent)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """What `to_dict` made; raises UnreadableIRError as `PromptIR.from_dict` does."""
        return serialize.compiled_from_dict(cls, PromptIR, document)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """What `to_json` wrote; raises as `from_dict` does."""
        return cls.from_dict(serialize.from_json(text))
