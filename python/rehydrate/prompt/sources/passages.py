"""Excerpts of long texts: the windows that match a query, with the lines around them.

The engine finds the windows (`_native.Passages`): it cuts a text into windows of whole lines, and
scores them as it scores the messages of a conversation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from rehydrate import _native
from rehydrate.prompt.counting import COUNTER
from rehydrate.prompt.splicing import SHORTEST_QUOTE

Span = tuple[int, int]
"""The begin and the end of a part of a text, in characters."""


class Match(NamedTuple):
    """A window that matches a query.

    >>> log = "\\n".join(f"record {n}: all is well" for n in range(900))
    >>> text = f"{log}\\nthe pilot's phone is 7788"
    >>> best, *_ = _native.Passages([(text, "")]).best("pilot's phone")
    >>> text[slice(*best.span)].splitlines()[-1]
    "the pilot's phone is 7788"
    """

    text: int
    """Index of its text."""
    span: Span
    relevance: float


def excerpt(
    text: str, matches: Iterable[Match], max_tokens: int, visible_lines: Collection[str] = ()
) -> tuple[str, list[Span]]:
    """Return the best matches with the lines around them, each gap marked, and their spans.

    The excerpt has as many matches as fit in ``max_tokens``, and at least the best one. Visible
    lines at the begin and the end of a match are left out, so that they are not repeated. Returns
    ("", []) if no line is left.
    """
    spans = [match.span for match in matches]
    return _native.passage_excerpt(text, spans, max_tokens, COUNTER, visible_lines, SHORTEST_QUOTE)


def line_count(text: str) -> int:
    """Return the number of lines; a line break at the end starts no further line.

    >>> line_count("a\\nb\\n"), line_count("a\\nb")
    (2, 2)
    """
    return text.count("\n") + (not text.endswith("\n") and text != "")
