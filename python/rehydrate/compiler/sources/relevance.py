"""Relevance: whether what a search of a memory found is about the question, by an absolute measure.

A search always finds something, and its scores compare hits of one search only. What goes into a
prompt without the model having asked for it must be about the turn, so it is judged by what means
the same in every search: the share of the query's words that a hit holds (words that no item holds
count as missing, the rarer the more) and the cosine of the meanings, together 0 to 2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rehydrate.errors import InvalidArgumentError

if TYPE_CHECKING:
    from rehydrate.memory.items import Hit

MIN_RELEVANCE = 0.55
"""The best hit of a search must have so much, or nothing of it is brought. Four of five LoCoMo
conversations choose 0.6 for the fifth; the pieces of notes are longer and match less. Nothing is
brought for 83% of general questions and 77% of those that another conversation answers (0% without
a threshold), and for its own 0.65 of the evidence instead of 0.71: what is missing the model can
ask for (`benches/python/relevance.py`)."""
LEAST_OF_A_HIT = 0.1
"""What has less shares next to nothing with the question, and is not brought beside the best."""

OF_IDEOGRAPHS = 0.5
"""So much of the threshold holds for a query in ideographs: its characters and their pairs are its
words, of which a paraphrase shares fewer (eight questions and their answers in Chinese: 0.29 to
1.29, ten unrelated ones at most 0.25)."""

_SMALL_WORDS = (
    "a again alright and bye cheers continue cool day do evening fine go good goodbye great hello "
    "hey hi how i is it k let me morning much next night nice no nope of ok okay on one perfect "
    "please right so sounds sure thank thanks that the then there this thx to well what yeah yep "
    "yes you your ahead are for now s"
)
_SMALL_TALK = frozenset(_SMALL_WORDS.split())
"""A message of nothing but such words asks for nothing that a memory holds."""
_WORD = re.compile(r"\w+")
_IDEOGRAPH = re.compile(r"[\u3400-\u9fff]")


def relevant(hits: Sequence[Hit], query: str, least: float = MIN_RELEVANCE) -> list[Hit]:
    """The hits that are about the query, in their order; none where the best is below ``least``.

    >>> relevant([], "Which port?")
    []
    """
    if least <= 0:
        return list(hits)
    words = _WORD.findall(query.lower())
    if _SMALL_TALK.issuperset(words):
        return []
    if 2 * len(_IDEOGRAPH.findall(query)) > sum(map(len, words)):
        least *= OF_IDEOGRAPHS
    worth = [relevance(hit) for hit in hits]
    if max(worth, default=0.0) < least:
        return []
    floor = min(LEAST_OF_A_HIT, least)
    return [hit for hit, each in zip(hits, worth, strict=True) if each >= floor]


def relevance(hit: Hit) -> float:
    """How much a hit has to do with the query, 0 to 2, whatever else was found."""
    if hit.cosine is None:  # no vector: its words stand for the meaning too
        return 2 * hit.trigram
    return hit.trigram + max(hit.cosine, 0.0)


def checked_relevance(value: object) -> float:
    """A relevance from 0 to 2."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 2:  # type: ignore[operator]
        raise InvalidArgumentError(
            f"min_relevance is {value!r}; pass a number from 0 (whatever is found) to 2"
        )
    return float(value)  # type: ignore[arg-type]
