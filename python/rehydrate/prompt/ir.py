"""A prompt in its two forms: PromptIR, before it has any provider's shape, and CompiledPrompt.

The segments of a compiled prompt state the source and the cost of each of its parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, count
from operator import is_not, itemgetter
from typing import Any, Literal, NamedTuple, Self

from rehydrate.errors import Violation
from rehydrate.messages import Provider
from rehydrate.prompt import explain, laws, serialize
from rehydrate.prompt.explain import IRDiff, PromptExplanation
from rehydrate.prompt.section import (
    CompositionMode,
    Priority,
    PromptContent,
    Provenance,
    Section,
    Stability,
)


@dataclass(frozen=True, slots=True)
class PromptIR(PromptContent):
    """The content of one prompt: sections, tools, history, budget, and the record of its making.

    It is frozen: a pass returns a new one.
    """

    def verify(self, *, violations: Sequence[Violation] | None = None) -> list[laws.BrokenLaw]:
        """Return the laws that it breaks; empty for a prompt that may be sent.

        ``violations`` are those of the history, where the caller has validated it already.

        >>> from rehydrate.prompt import Provenance, Section
        >>> twice = Section("notes", "Port 8443.", Provenance("hot"), tokens=4)
        >>> print(PromptIR(sections=(twice, twice)).verify()[0])
        two sections have the id 'notes' (once)
        """
        return laws.verify(self, violations=violations)

    def explain(self) -> PromptExplanation:
        """Return a table: where each part is, its cost and source, what was left out and why.

        >>> from rehydrate.prompt import Provenance, Section
        >>> notes = Section("notes", "Port 8443.", Provenance("hot"), tokens=4)
        >>> [(row.id, row.tokens) for row in PromptIR(sections=(notes,)).explain().rows]
        [('notes', 4)]
        """
        return explain.explain(self)

    def diff(self, other: PromptIR) -> IRDiff:
        """Return the changes from this one to the other.

        >>> from rehydrate.prompt import Provenance, Section
        >>> notes = Section("notes", "Port 8443.", Provenance("hot"), tokens=4)
        >>> print(PromptIR().diff(PromptIR(sections=(notes,))))
        0 -> 4 tokens
          + notes added: +4 tokens
        """
        return explain.diff(self, other)

    def to_dict(self) -> dict[str, Any]:
        """Return the IR as JSON values; message objects become dicts.

        Raises UnreadableIRError, with the path in the IR, for a value that JSON cannot hold.
        """
        return serialize.ir_to_dict(self)

    def to_json(self, indent: int | None = None) -> str:
        """Return `to_dict` as JSON text.

        >>> PromptIR.from_json(PromptIR().to_json()) == PromptIR()
        True
        """
        return serialize.as_json(self.to_dict(), indent)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_dict` returned; the result equals the IR it was called on.

        Raises UnreadableIRError, with the path in the document, for an unknown or missing field, a
        value of another type, and a document of a newer version.
        """
        return serialize.ir_from_dict(cls, document)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` wrote; raises as `from_dict` does."""
        return cls.from_dict(serialize.from_json(text))


COMPACTION_BETA = "compact-2026-09-04"
"""The beta of Anthropic's API that each request with a signed compaction block must name
(https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand)."""

_VALID_UNTIL = "thinking_valid_until"


class ProviderSummary(NamedTuple):
    """A summary that a provider wrote, in its own form.

    It is sent back as it is, first, in place of the messages that it is of.
    """

    messages: tuple[Any, ...]
    """Anthropic: an assistant message with a signed compaction block. OpenAI Responses: the items
    of the compacted window, one of them encrypted."""
    text: str = ""
    """What it says; "" where it is encrypted."""
    tokens: int | None = None
    """Its size as the provider counts it; None: it is counted here."""


def section_of(
    summary: ProviderSummary, id_: str, provider: Provider, trust: float, valid_until: int
) -> Section:
    """Return the section that holds a summary.

    Thinking in entries with an index from ``valid_until`` on may be refused after it: it was made
    when the summary was there and not in the prompt
    (https://platform.claude.com/docs/en/build-with-claude/compaction-background).
    """
    return Section(
        id_,
        summary.messages,
        Provenance(id_, trust=trust),
        tokens=summary.tokens,
        priority=Priority.CRITICAL,
        mode=CompositionMode.ADDITIVE,
        stability=Stability.STATIC,
        native_to=provider,
        metadata={_VALID_UNTIL: valid_until},
    )


def valid_until(section: Section) -> int:
    """Return the index of the first entry whose thinking is refused after this summary."""
    return int(section.metadata.get(_VALID_UNTIL, 0))


def betas_of(provider: Provider, messages: Sequence[Any]) -> tuple[str, ...]:
    """Return the betas of Anthropic's API that a prompt of these messages needs."""
    if provider != "anthropic":
        return ()
    content = messages[0].get("content") if messages else None
    first = content[0] if isinstance(content, (list, tuple)) and content else None
    if not isinstance(first, Mapping) or first.get("type") != "compaction":
        return ()
    return () if first.get("signature") is None else (COMPACTION_BETA,)


USUAL_MINIMUM_PREFIX = 1_024
"""Tokens: the shortest prefix that a provider caches, for a model that no table of ours has."""


class Segment(NamedTuple):
    """One tool, system block or message of the prompt as it is sent.

    Segments are in the order in which a provider reads them: tools, system, messages.
    """

    id: str
    """``tools[0]``, a section's id, or ``history[12]``."""
    kind: Literal["tool", "system", "message"]
    tokens: int
    digest: str
    """128 bits, hexadecimal, of what is sent, without cache marks. Two prompts share a prefix as
    far as their digests are equal."""
    stability: str
    blocks: int = 1
    """Content blocks in it. A provider's cache looks back over a limited number of blocks."""
    breakpoint: bool = False
    """Whether the provider is told to cache the prefix that ends here."""


def tokens_of(segments: Iterable[Segment]) -> int:
    """Return the tokens of all these segments."""
    return sum(map(_tokens, segments))


def shared_segments(one: Sequence[Segment], other: Sequence[Segment]) -> int:
    """Return how many segments at the beginning of two prompts are the same, by their digests.

    >>> rules = Segment("rules", "system", 900, "a1", "static")
    >>> shared_segments([rules, rules._replace(digest="b2")], [rules._replace(breakpoint=True)])
    1
    """
    # Nearly all segments of the next prompt are the very same objects.
    for index in compress(count(), map(is_not, one, other)):
        if one[index].digest != other[index].digest:
            return index
    return min(len(one), len(other))


_tokens = itemgetter(2)


@dataclass(frozen=True, slots=True)
class CompiledPrompt:
    """A prompt ready to send.

    ``request`` holds the arguments of the provider's SDK: ``client.messages.create(model=...,
    max_tokens=..., **compiled.request)`` for Anthropic, ``client.chat.completions.create(...)`` and
    ``client.responses.create(...)`` for OpenAI.
    """

    provider: Provider
    request: dict[str, Any] = field(hash=False)
    ir: PromptIR = field(repr=False)
    """The IR after all passes, from which the request was rendered."""
    segments: tuple[Segment, ...] = field(repr=False)
    model: str = ""

    @property
    def tokens(self) -> int:
        """The tokens of the whole prompt, in the IR's counter."""
        return tokens_of(self.segments)

    @property
    def messages(self) -> list[Any]:
        """The messages, or OpenAI Responses' input items."""
        key = "input" if self.provider == "openai_responses" else "messages"
        messages: list[Any] = self.request[key]
        return messages

    @property
    def betas(self) -> tuple[str, ...]:
        """The betas of Anthropic's API that it needs: ``client.beta.messages.create(betas=...)``.

        Empty, unless it begins with a summary that the API wrote (docs/background.md).
        """
        return betas_of(self.provider, self.messages)

    def explain(self) -> PromptExplanation:
        """Return the table of its IR."""
        return self.ir.explain()

    def to_dict(self) -> dict[str, Any]:
        """Return the request, the segments and the IR as JSON values.

        Message objects in the IR become dicts. `PromptIR.from_dict` reads the IR from it too.
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
        """Return `to_dict` as JSON text."""
        return serialize.as_json(self.to_dict(), indent)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_dict` returned; raises UnreadableIRError as `PromptIR.from_dict` does."""
        return serialize.compiled_from_dict(cls, PromptIR, document)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` wrote; raises as `from_dict` does."""
        return cls.from_dict(serialize.from_json(text))
