"""ProviderSummary: what a provider's own compaction returns, and the section that holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rehydrate.messages import Provider
from rehydrate.prompt.section import CompositionMode, Priority, Provenance, Section, Stability

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

    Thinking in entries with an index from ``valid_until`` on may be refused behind it: it was made
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
    """Return the index of the first entry whose thinking is refused behind this summary."""
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
