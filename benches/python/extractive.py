"""An extractive bundle: the sentences of a conversation with the highest TF-IDF, in its order.

What tools return is left out: with it the bundle holds a third to a half as many of the names used
next. LexRank, the nearness to the centroid and the first sentences were tried too: all hold fewer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import log

from benches.python.inputs import Message
from rehydrate import count_tokens, formats
from rehydrate._native import text_of

_END = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD = re.compile(r"\w[\w./@-]*\w")
MIN_WORD_CHARS = 3
SMOOTHING = 3
"""Words added to the length of a sentence, so that one of a single rare word is not the best."""


def bundle(messages: Sequence[Message], budget_tokens: int) -> str:
    """Return the best sentences that fit, one a line; what was said twice counts once.

    >>> said = ["Go on.", "The log names src/rows.py.", "Go on.", "Go on, go on."]
    >>> bundle([{"role": "user", "content": text} for text in said], 10)
    'The log names src/rows.py.'
    """
    parsed = formats.parse(messages).messages
    texts = [text_of(messages[each.index]) for each in parsed if not each.answers]
    parts = [part.strip() for text in texts for part in _END.split(text)]
    sentences = list(dict.fromkeys(filter(None, parts)))
    worth = _tf_idf(sentences)
    left, kept = budget_tokens, []
    for place in sorted(range(len(sentences)), key=lambda place: -worth[place]):
        tokens = count_tokens(sentences[place]) + 1  # the end of its line
        if tokens <= left:
            left -= tokens
            kept.append(place)
    return "\n".join(sentences[place] for place in sorted(kept))


def _tf_idf(sentences: Sequence[str]) -> list[float]:
    """Return the mean weight of each sentence's words."""
    bags = [Counter(_words(sentence)) for sentence in sentences]
    found_in = Counter(word for bag in bags for word in bag)
    return [
        sum(count * log(len(bags) / found_in[word]) for word, count in bag.items())
        / (bag.total() + SMOOTHING)
        for bag in bags
    ]


def _words(sentence: str) -> list[str]:
    found = [word.lower() for word in _WORD.findall(sentence)]
    return [word for word in found if len(word) >= MIN_WORD_CHARS]
