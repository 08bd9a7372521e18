"""Summaries: a writer is asked, and what it wrote is verified. It raises nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rehydrate._text import safe_error_text
from rehydrate.context.background.verification import refusal, verified
from rehydrate.context.background.writers import (
    ExtractiveWriter,
    SummaryRequest,
    Writer,
    tokens_of,
)
from rehydrate.context.context_store.operations import Item
from rehydrate.prompt.provider_summary import ProviderSummary

LONGEST = 4
"""A summary may have so many times the tokens that were asked for."""


class Summary(NamedTuple):
    """What takes the place of the beginning of a conversation."""

    text: str
    """Beside a summary of the provider's own: what is added to it."""
    degraded: str = ""
    """What was wrong with what the writer wrote."""
    native: ProviderSummary | None = None

    @property
    def tokens(self) -> int:
        """The tokens of all of it."""
        if self.native is None:
            return tokens_of([self.text])
        own = self.native.tokens
        return tokens_of([self.text, *([self.native.text] if own is None else [])]) + (own or 0)


def summarised(
    writer: Writer, request: SummaryRequest, items: Sequence[Item], sources: Sequence[str]
) -> Summary:
    """Return the writer's summary, verified; the context store where there is none to be used.

    ``items`` are those of the context store, ``sources`` the texts that the summary is of.
    """
    if isinstance(writer, ExtractiveWriter):
        return Summary(request.store)
    try:
        written = writer.write(request)
    except BaseException as error:
        why = safe_error_text(error, "the writer of summaries")
        return _store(request, f"the writer failed ({why})")
    native = written if isinstance(written, ProviderSummary) else None
    text = native.text if native is not None else written
    is_encrypted = native is not None and not text
    why = "" if is_encrypted else refusal(text)
    if not isinstance(text, str) or why:
        return _store(request, f"refused, {why}")
    if native is None and tokens_of([text]) > LONGEST * request.max_tokens:
        return _store(
            request, f"refused, it has {tokens_of([text]):,} tokens for {request.max_tokens:,}"
        )
    found = verified(text, [*sources, request.store], items, request.max_tokens)
    degraded = ""
    if found.invented:
        names = ", ".join(found.invented[:5])
        degraded = f"summary: it names what the conversation does not: {names}"
    return Summary(found.text if native is None else found.added, degraded, native)


def _store(request: SummaryRequest, why: str) -> Summary:
    return Summary(request.store, f"summary: {why}; the store takes its place")
