"""TextIndex: texts that the engine has analysed, scored against one query after another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from rehydrate import _engine
from rehydrate.compact.scoring import Scoring
from rehydrate.messages import Conversation, Message, Piece, PieceKind, Unit
from rehydrate.prompt.counting import COUNTER

if TYPE_CHECKING:
    from rehydrate import _native

_PROFILE = Scoring.named("balanced")


class TextIndex:
    """Texts, each scored as a message of one conversation; they are analysed once.

    >>> index = TextIndex(["Staging listens on 8443.", "The crew is back at noon."])
    >>> staging, crew = index.signals("Which port does staging use?")
    >>> staging.semantic > crew.semantic
    True
    """

    def __init__(self, texts: Iterable[str], *, embed: bool = True) -> None:
        """Analyse the texts; without `embed` they are compared by words alone."""
        messages = [
            Message(index, "user", (Piece(text, PieceKind.TEXT),))
            for index, text in enumerate(texts)
        ]
        units = [Unit((message.index,), (message,)) for message in messages]
        self._prepared = prepare(Conversation("", tuple(messages), tuple(units)), embed=embed)

    def signals(self, query: str) -> list[_engine.Signals]:
        """Return the signals of each text, in the order of the texts."""
        return query_signals(self._prepared, query)


def prepare(conversation: Conversation, *, embed: bool) -> _native.Prepared:
    """Analyse a conversation whose messages will be compared with queries."""
    return _engine.prepare(
        conversation,
        weight_of=_PROFILE.weight_of,
        pinned=[False] * len(conversation.units),
        counter=COUNTER,
        embed=embed,
        calibrated=True,
        coverage=False,
        asked=True,
    )


def query_signals(
    prepared: _native.Prepared,
    query: str,
    *,
    vectors: Any = None,
    places: Any = None,
    query_vector: Any = None,
) -> list[_engine.Signals]:
    """Return the signals of each message; the vectors are those of the caller's own model."""
    selection = prepared.select(
        query=query,
        query_weight=1.0,
        vectors=vectors,
        places=places,
        query_vector=query_vector,
        memory_coverage=None,
        weights=(_PROFILE.recency, _PROFILE.semantic, _PROFILE.novelty),
        calibrated=True,
        coverage=False,
        target_tokens=0,
    )
    return _engine.signals(selection)


MIN_CONFIDENCE = 0.15
"""With a lower confidence nothing is found. Of questions about their own conversation 1% have less
than 0.18; of questions about other conversations half have less than 0.21."""


def confidence_of(signals: Sequence[_engine.Signals]) -> float:
    """Return the share of the query that the best message matches, from 0 to 1.

    The least relevant message gives it: ``odds = exp(-SHARPNESS * confidence * (1 - relevance))``
    (DESIGN.md, relevance).
    """
    least = min(signals, key=attrgetter("semantic", "odds"))
    if least.semantic >= 1.0:
        return 1.0 if least.odds > 0 else 0.0
    return -math.log(max(least.odds, 1e-300)) / (_engine.SHARPNESS * (1.0 - least.semantic))
