"""Summaries: a writer is asked, and what it wrote is verified in code. It raises nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rehydrate._text import safe_error_text
from rehydrate.context.background.writers import ExtractiveWriter, SummaryRequest, Writer, tokens_of
from rehydrate.context.context_store.operations import PERMANENT, Item, Status
from rehydrate.context.context_store.rendering import WORD_FOR_WORD, is_changed, within
from rehydrate.context.context_store.tool_table import CHANGES
from rehydrate.prompt.ir import ProviderSummary

LEAST_CHARACTERS = 40
"""A shorter text is not a summary of a conversation that was worth one."""
MAX_MARKED = 20

_NO_SUMMARY = re.compile(
    r"""\A \W* (?: (?:\w+\.)* \w*(?:Error|Exception)\b | error\b | traceback\b
    | [45]\d\d\b | HTTP\b
    | (?:rate \s limit|too \s many \s requests|service \s unavailable|internal \s server)
    | \{ \s* "(?:error|detail|message)" | <!?(?:doctype|html)
    | (?:i'm|i \s am) \s (?:sorry|unable|not \s able) | sorry\b
    | i \s (?:can't|cannot|can \s not|won't)
    | as \s an \s ai | unfortunately,? \s i \b )""",
    re.IGNORECASE | re.VERBOSE,
)
_TOO_MANY = re.compile(r"too many requests|rate.?limit|quota exceeded|overloaded", re.IGNORECASE)
_SHORT = 400
"""Characters. A text so short that speaks of limits is an error's."""
_NAME = re.compile(
    r"""(?<![\w/]) (?: (?<![.~@-]) [\w.~@-]* (?:/[\w.@-]+)+ /?   # paths
    | (?<!-) [A-Za-z_][\w-]* (?:\.\w+)+               # files, dotted names
    | [A-Za-z]+_\w+ | [a-z]+[A-Z]\w+                   # identifiers
    | \d[\d.,:]*\d | \d{2,} )""",
    re.VERBOSE,
)


class Verified(NamedTuple):
    """A summary that may be sent."""

    text: str
    """With what was added."""
    invented: tuple[str, ...]
    """Names, paths and numbers in it that its source does not have."""
    appended: tuple[Item, ...]
    """What it did not hold and must not be lost."""
    added: str
    """The mark of what is invented, and what was appended."""


def refusal(summary: object) -> str:
    """Return why a text is not a summary; "" where it may be one.

    >>> refusal("429 Too Many Requests"), refusal("")
    ('it is the text of an error or a refusal', 'it is empty')
    """
    if not isinstance(summary, str):
        return f"it is of type {type(summary).__name__}"
    text = summary.strip()
    if not text:
        return "it is empty"
    if _NO_SUMMARY.search(text) or (len(text) < _SHORT and _TOO_MANY.search(text)):
        return "it is the text of an error or a refusal"
    if len(text) < LEAST_CHARACTERS:
        return f"it has {len(text)} characters"
    return ""


def verified(
    summary: str, sources: Iterable[str], items: Sequence[Item], max_tokens: int
) -> Verified:
    """Return the summary with invented names marked and with what must not be lost.

    ``sources`` are the texts that it is of; ``items`` those of the context store. What it does not
    hold is appended in at most ``max_tokens``, the strongest first; the rest becomes one line with
    handles.
    """
    source = "\n".join(sources)
    flat = " ".join(source.split())
    invented = tuple(
        dict.fromkeys(
            name
            for match in _NAME.finditer(summary)
            if (name := match[0].rstrip(".,:")) and name not in source and name not in flat
        )
    )
    told = " ".join(summary.split())
    missing = tuple(item for item in items if _must_stay(item) and not _holds(told, item))
    parts = []
    if invented:
        names = ", ".join(invented[:MAX_MARKED])
        more = len(invented) - MAX_MARKED
        rest = f" and {more} more" if more > 0 else ""
        parts.append(f"[Not found in the conversation, do not rely on: {names}{rest}]")
    if missing:
        parts.append(WORD_FOR_WORD)
        strongest = sorted(missing, key=lambda item: (item.strength, item.last_entry), reverse=True)
        parts += within(max_tokens, [(item, _line(item)) for item in strongest])
    text = "\n".join([summary.strip(), *parts])
    return Verified(text, invented, missing, "\n".join(parts))


def _must_stay(item: Item) -> bool:
    if item.status is not Status.LIVE:
        return False
    if item.kind == "file":
        return is_changed(item)
    return item.heading in PERMANENT


def _holds(summary: str, item: Item) -> bool:
    return " ".join(item.text.split()) in summary


def _line(item: Item) -> str:
    uses = "".join(f" {use} #{entry}" for use, entry in item.uses if use in CHANGES)
    text = " ".join(item.text.split())
    return f"- {item.kind}: {text}{uses or f' ({item.span.handle})'}"


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
