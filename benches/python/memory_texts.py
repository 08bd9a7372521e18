"""Texts for a memory in any number, and queries about them, always the same ones.

Sentences of real conversations (`REHYDRATE_DATA`, else generated ones) and lines of the example
session, with names, files and numbers inserted. New names get ever rarer, as in real text, while
the vocabulary keeps growing: by a Pitman-Yor process.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from benches.python.inputs import generated_session, recorded_session, texts_of
from benches.python.mixed_texts import mixed_texts

_POOL = 4_000
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_WORD = re.compile(r"[^\W\d_]{3,}")
_CONSONANTS = "bcdfghjklmnprstvwz"
_VOWELS = "aeiou"
_DISCOUNT, _STRENGTH = 0.6, 50
"""Parameters of the process: after n draws there are about n ** 0.6 names."""
_ASKING = (
    "what did {name} say about {words}?",
    "when did {name} mention {words}",
    "{words}",
    "where is {words} in {file}",
    "why does {file} have {words}?",
    "which {words} did we decide on",
)


def texts(count: int, seed: int = 7) -> Iterator[str]:
    """Yield items: a few sentences that somebody said, or some lines of a file, 5 to 200 words."""
    draw = random.Random(seed)
    said, lines = _sentences(), _lines()
    names, files = _Names(draw), _Names(draw)
    for number in range(count):
        size = min(2 + int(draw.expovariate(1 / 3)), 24)
        if draw.random() < 0.7:
            parts = [draw.choice(said) for _ in range(1 + size // 2)]
            who, other = names.next().title(), names.next().title()
            parts.insert(draw.randrange(len(parts) + 1), f"{other} has {number * 7919 % 10_007}.")
            yield f"{who}: {' '.join(parts)}"
        else:
            start = draw.randrange(len(lines))
            name, helper = files.next(), files.next()
            body = "\n".join(lines[start : start + size])
            yield f"src/{name}/{helper}.rs\n{body}\n    {name}::{helper}_{names.next()}(&self);"


def queries(about: list[str], count: int, seed: int = 8) -> list[str]:
    """Return questions with two to six words of a text, in their order."""
    draw = random.Random(seed)
    asked = []
    while len(asked) < count:
        text = draw.choice(about)
        words = _WORD.findall(text)
        if len(words) < 4:
            continue
        places = sorted(draw.sample(range(len(words)), min(draw.randint(2, 6), len(words))))
        chosen = " ".join(words[place] for place in places)
        name, file = words[0], f"{words[1]}.rs"
        asked.append(draw.choice(_ASKING).format(name=name, file=file, words=chosen))
    return asked


class _Names:
    """Names; those drawn often are drawn more often."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._drawn: list[str] = []
        self._known: dict[str, None] = {}

    def next(self) -> str:
        """Return a new one or one of those drawn before."""
        draws, known = len(self._drawn), len(self._known)
        chance = (_STRENGTH + _DISCOUNT * known) / (_STRENGTH + draws)
        name = self._new() if self._draw.random() < chance else self._draw.choice(self._drawn)
        self._drawn.append(name)
        self._known[name] = None
        return name

    def _new(self) -> str:
        syllables = self._draw.randint(2, 4)
        return "".join(
            self._draw.choice(_CONSONANTS) + self._draw.choice(_VOWELS) for _ in range(syllables)
        )


def _sentences() -> list[str]:
    found = [part for text in mixed_texts(_POOL) for part in _SENTENCE.split(text)]
    return [part for part in dict.fromkeys(found) if 3 <= len(part.split()) <= 30]


def _lines() -> list[str]:
    session = texts_of(recorded_session() or []) + texts_of(generated_session())
    return [line for text in session for line in text.splitlines() if line.strip()]
