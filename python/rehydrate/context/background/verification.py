"""Verification of a summary, in code: what it must hold, and what it must not be.

A summary is refused where it is empty, an error or a refusal. What it mentions and its source does
not is marked. What must not be lost and is not in it is appended, word for word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rehydrate.context.context_store.operations import PERMANENT, Item, Status
from rehydrate.context.context_store.rendering import WORD_FOR_WORD, is_changed, within
from rehydrate.context.context_store.tool_table import CHANGES

LEAST_CHARACTERS = 40
"""A shorter text is no summary of a conversation that was worth one."""
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
    """Return why a text is no summary; "" where it may be one.

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
