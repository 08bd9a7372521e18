"""The query of a compaction: the one given, or else the last user turn."""

from __future__ import annotations

import re
from typing import NamedTuple

from rehydrate.messages import Conversation

MAX_QUERY_CHARS = 2_000
"""A longer turn is read at its beginning and its end: that is where people ask."""
_QUESTION_MARKS = frozenset("?\uff1f\u061f\u2e2e\u055e\u1367")
"""Question marks of Latin, Chinese and Japanese, Arabic, Syriac, Armenian and Ethiopic."""
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
"""Matches a request to do something."""
_QUESTION_WORD = re.compile(
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
"""Matches a request for information, even inside a request to do something."""
_SENTENCE_ENDS = re.compile(r"(?<=[.!?\u061f])\s+|(?<=[\u3002\uff01\uff1f])|\n+")
_MIN_WEIGHT = 0.1
"""A query that counts less is not worth the time of the comparison."""


class WeightedQuery(NamedTuple):
    """A query, and how much it counts."""

    text: str
    weight: float = 1.0
    """1 for a given query, and for a question that nothing has followed."""
    asks: bool = True
    """False for a topic or an order, which count only as far as few messages match them."""


def weighted_query(
    conversation: Conversation, query: str | None, *, infer: bool = True
) -> WeightedQuery | None:
    """Return the given query, or with `infer` the last user turn if it asks something.

    Returns None for ``""``, for a turn that asks nothing, and where work has followed the question.

    >>> from rehydrate import formats
    >>> read, _ = formats.read([{"role": "user", "content": "Which port is it?"}], "plain")
    >>> weighted_query(read, None)
    WeightedQuery(text='Which port is it?', weight=1.0, asks=True)
    """
    if query is not None:
        return WeightedQuery(query, asks=_question_share(query) > 0) if query else None
    unit = conversation.last_user_turn() if infer else None
    if unit is None:
        return None
    units_since = conversation.unit_count - 1 - unit
    text = _head_and_tail(last_user_text(conversation))
    weight = min(1.0, 2 * _question_share(text)) / (1 + units_since) ** 2
    return WeightedQuery(text, weight) if weight >= _MIN_WEIGHT else None


def last_user_text(conversation: Conversation) -> str:
    """Return the text of the last user turn; "" where there is none."""
    message = conversation.last_user_message()
    return "" if message is None else message.text.strip()


def _question_share(text: str) -> float:
    """Return the share of a text that stands in questions, 0 to 1."""
    sentences = _SENTENCE_ENDS.split(text)
    questions = sum(len(each) for each in sentences if _is_question(each))
    return questions / max(1, sum(map(len, sentences)))


def _is_question(sentence: str) -> bool:
    """Return whether a sentence asks for information, and not only for something to be done.

    >>> [_is_question(s) for s in ("Was it 80?", "Can you tell me the port?", "which port was it")]
    [True, True, True]
    >>> [_is_question(s) for s in ("Can you fix it?", "When it is fixed, commit.", "Go on.")]
    [False, False, False]
    """
    if sentence[-1:] not in _QUESTION_MARKS:
        return bool(_QUESTION_WORD.match(sentence)) and "," not in sentence
    return not _REQUEST.search(sentence) or bool(_QUESTION_WORD.search(sentence))


def _head_and_tail(text: str) -> str:
    half = MAX_QUERY_CHARS // 2
    return text if len(text) <= MAX_QUERY_CHARS else f"{text[:half]}\n{text[-half:]}"
