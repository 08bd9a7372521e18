"""What the next turn asks for: the query that was given, or what the user said last."""

from __future__ import annotations

import re
from typing import NamedTuple

from rehydrate.messages import Conversation

LONGEST_CHARS = 2_000
"""Of a longer turn its beginning and its end are read: that is where people ask."""
_HALF_WEIGHT_UNITS = 4
"""So many units after a user turn, what it asks for counts half: the work has gone on."""
_STATEMENT_WEIGHT = 0.25
"""A user turn without a question tells more than it asks: what to do, mostly."""
_QUESTION_MARKS = frozenset("?\uff1f\u061f\u2e2e\u055e\u1367")
"""Of Latin, Chinese and Japanese, Arabic, Syriac, Armenian and Ethiopic."""
_REQUEST = re.compile(
    r"""\b(?: (?: can | could | would | will ) \s (?: you | we ) | please
    | (?: kannst | könntest | würdest ) \s du | (?: können | könnten | würden ) \s sie | bitte
    | (?: peux | pourrais ) [ -] tu | (?: pouvez | pourriez ) [ -] vous
    | puedes? | pod[rí]+as? | por \s favor | pode (?: s | ria | rias )? \s (?: me | tu | você )
    | puoi | potresti | può | kun \s je | kunt \s u | можешь | можете | мог (?: ла | ли )? \s бы )\b
    | 请 | 能不能 | 可以 | 帮我 | ください | くれ | もらえ | いただけ
    | 주세요 | 줄래 | 주시 | 줄 \s 수""",
    re.IGNORECASE | re.VERBOSE,
)
"""Asks for something to be done."""
_TO_KNOW = re.compile(
    r"""\b(?: what | which | when | where | who | whom | whose | how | why | tell | remind | recall
    | was | welche[rsnm]? | wann | wo | wer | wen | wem | wie | warum | wieso
    | quel (?: le )? s? | quoi | quand | où | comment | combien | pourquoi
    | qué | cuál (?: es )? | cuándo | dónde | quién | cómo | cuánt[oa]s?
    | qual | quais | quando | onde | quem | quant[oaie]s? | cosa | quale | dove | perché
    | wat | welke? | wanneer | waar | wie | hoe | waarom
    | что | како[йе] | какая | какие | когда | где | кто | как | почему | сколько )\b
    | 什么 | 哪 | 谁 | 怎么 | 多少 | 几 | 为什么 | 何 | どこ | いつ | 誰 | どの | どれ | なぜ | どう
    | 무엇 | 뭐 | 어디 | 언제 | 누구 | 어느 | 어떤 | 왜 | 어떻게 | 얼마 | 몇""",
    re.IGNORECASE | re.VERBOSE,
)
"""Asks for something to be said, whatever else."""
_SENTENCE_ENDS = re.compile(r"(?<=[.!?\u061f])\s+|(?<=[\u3002\uff01\uff1f])|\n+")
_LEAST_WEIGHT = 0.1
"""What counts less is not worth the time that comparing takes."""


class Asked(NamedTuple):
    """A query, and how much it counts."""

    text: str
    weight: float = 1.0
    """1 for a query that was given, and for a question that nothing follows."""
    is_question: bool = True
    """What was told, not asked, brings back what mentions its names, and nothing is compared."""


def what_is_asked(
    conversation: Conversation, query: str | None, *, reads: bool = True
) -> Asked | None:
    """The query, or, if it `reads`, what the user said last; None for "", or for long ago.

    >>> from rehydrate import formats
    >>> read, _ = formats.read([{"role": "user", "content": "Which port is it?"}], "plain")
    >>> what_is_asked(read, None)
    Asked(text='Which port is it?', weight=1.0, is_question=True)
    """
    if query is not None:
        return Asked(query) if query else None
    unit = conversation.last_user_turn() if reads else None
    if unit is None:
        return None
    since = conversation.unit_count - 1 - unit
    weight = 1 / (1 + since / _HALF_WEIGHT_UNITS)
    text = _ends_of(last_said(conversation))
    asking = _asking(text)
    weight *= _STATEMENT_WEIGHT + (1 - _STATEMENT_WEIGHT) * asking
    return Asked(text, weight, asking > 0) if text and weight >= _LEAST_WEIGHT else None


def last_said(conversation: Conversation) -> str:
    """What the user said last; empty where nobody spoke."""
    message = conversation.last_user_message()
    return "" if message is None else message.text.strip()


def _asking(text: str) -> float:
    """The share of a text that stands in its questions, 0 to 1."""
    sentences = _SENTENCE_ENDS.split(text)
    asking = sum(len(each) for each in sentences if _asks(each))
    return asking / max(1, sum(map(len, sentences)))


def _asks(sentence: str) -> bool:
    """Whether a sentence asks for what was said or found, not only for something to be done.

    >>> [_asks(each) for each in ("Was it 80?", "Can you tell me the port?", "which port was it")]
    [True, True, True]
    >>> [_asks(each) for each in ("Can you fix it?", "When it is fixed, commit.", "Go on.")]
    [False, False, False]
    """
    if sentence[-1:] not in _QUESTION_MARKS:
        return bool(_TO_KNOW.match(sentence)) and "," not in sentence
    return not _REQUEST.search(sentence) or bool(_TO_KNOW.search(sentence))


def _ends_of(text: str) -> str:
    half = LONGEST_CHARS // 2
    return text if len(text) <= LONGEST_CHARS else f"{text[:half]}\n{text[-half:]}"
