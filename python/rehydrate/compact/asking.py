"""What the next turn asks for: the query that was given, or what the user said last."""

from __future__ import annotations

from typing import NamedTuple

from rehydrate.messages import Conversation

LONGEST_CHARS = 2_000
"""Of a longer turn its beginning and its end are read: that is where people ask."""
_HALF_WEIGHT_UNITS = 4
"""So many units after a user turn, what it asks for counts half: the work has gone on."""
_STATEMENT_WEIGHT = 0.25
"""A user turn without a question mark tells more than it asks."""
_QUESTION_MARKS = frozenset("?\uff1f\u061f\u2e2e\u055e\u1367")
"""Of Latin, Chinese and Japanese, Arabic, Syriac, Armenian and Ethiopic."""
_LEAST_WEIGHT = 0.1
"""What counts less is not worth the time that comparing takes."""


class Asked(NamedTuple):
    """A query, and how much it counts."""

    text: str
    weight: float = 1.0
    """1 for a query that was given, and for a question that nothing follows."""


def what_is_asked(
    conversation: Conversation, query: str | None, *, reads: bool = True
) -> Asked | None:
    """The query, or, if it `reads`, what the user said last; None for "", or for long ago.

    >>> from rehydrate import formats
    >>> read, _ = formats.read([{"role": "user", "content": "Which port is it?"}], "plain")
    >>> what_is_asked(read, None)
    Asked(text='Which port is it?', weight=1.0)
    """
    if query is not None:
        return Asked(query) if query else None
    unit = conversation.last_user_turn() if reads else None
    if unit is None:
        return None
    since = len(conversation.units) - 1 - unit
    weight = 1 / (1 + since / _HALF_WEIGHT_UNITS)
    text = _ends_of(last_said(conversation))
    if _QUESTION_MARKS.isdisjoint(text):
        weight *= _STATEMENT_WEIGHT
    return Asked(text, weight) if text and weight >= _LEAST_WEIGHT else None


def last_said(conversation: Conversation) -> str:
    """What the user said last; empty where nobody spoke."""
    turns = (message.text for message in reversed(conversation.messages) if message.is_user_turn)
    return next(turns, "").strip()


def _ends_of(text: str) -> str:
    half = LONGEST_CHARS // 2
    return text if len(text) <= LONGEST_CHARS else f"{text[:half]}\n{text[-half:]}"
