"""Novel memories: which dropped units are worth a memory of their own, and of which kind."""

from __future__ import annotations

import re
from functools import cache

from rehydrate.compact.signals import COVERED, text_without_thinking, valid_unicode
from rehydrate.messages import PieceKind, Unit

MIN_BYTES = 40
"""A shorter text says too little to be a memory of its own."""
MAX_BYTES = 600
"""Only the beginning of a longer text becomes a memory."""

EPISODE = "episode"
"""The kind of a text without a cue."""
_ASSISTANT_ONLY = "wisdom"
_CUES = {
    "correction": r"""
        (?: ^ | [.!?\n] [^\S\n]* ) (?: no | nope | wait | actually ) \b
          (?! \s+ (?: problem | worries ) )
        | \b correction \b | \b i \s meant \b | \b not \s what \s i \b
        | \b that (?: 's | \s is | \s was ) \s (?: not | wrong | incorrect ) \b
        | \b you (?: 're | \s are | \s were ) \s (?: wrong | mistaken ) \b
        | \b should (?: n't | \s not ) \s have \b | \b (?: my | a ) \s mistake \b
        """,
    "preference": r"""
        \b prefer (?: s | red | ence | ences | ably )? \b | \b favou?rites? \b
        | \b i \s (?: really \s | do \s )? (?: like | love | hate | dislike ) \b
        | \b i \s (?: do \s not | don't ) \s (?: like | want ) \b
        | \b i (?: 'd | \s would ) \s rather \b
        | \b please \s (?: always | never | do \s not | don't | avoid ) \b
        """,
    "habit": r"""
        \b (?: always | usually | typically | normally | routinely | never ) \b
        | \b (?: every | each ) \s (?: time | day | morning | evening | night | week | month ) \b
        | \b tend (?: s )? \s to \b | \b as \s a \s rule \b | \b whenever \b
        """,
    "wisdom": r"""
        \b lessons? \b | \b i (?: 've )? \s (?: learned | learnt ) \b | \b insight \b
        | \b (?: it \s )? turn (?: s | ed ) \s out \b | \b root \s cause \b
        | \b the \s (?: key | trick | reason | cause | problem | issue | bug | fix | solution )
          \s (?: is | was ) \b
        | \b rule \s of \s thumb \b | \b best \s practice \b | \b takeaway \b
        | \b (?: remember | note ) \s (?: to | that ) \b
        """,
}


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return kinds and their patterns, compiled on first use: `import rehydrate` stays light."""
    return tuple((kind, re.compile(cue, re.IGNORECASE | re.VERBOSE)) for kind, cue in _CUES.items())


def kind_of(text: str, *, is_assistant: bool) -> str:
    """Return the kind of memory that a text is, by the first kind with a cue in it.

    >>> kind_of("No, the port is 8443.", is_assistant=False)
    'correction'
    >>> kind_of("The root cause is a stale lock.", is_assistant=True)
    'wisdom'
    >>> kind_of("The root cause is a stale lock.", is_assistant=False)
    'episode'
    """
    plain = text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    for kind, pattern in _patterns():
        if (is_assistant or kind != _ASSISTANT_ONLY) and pattern.search(plain):
            return kind
    return EPISODE


def confidence_of(coverage: float) -> float:
    """Return the confidence of a novel memory, higher the less memory covers it."""
    return 0.5 + 0.25 * (1 - coverage)


def unit_text(unit: Unit) -> str:
    """Return the text, calls and results of a unit, without thinking."""
    texts = [text_without_thinking(message) for message in unit.messages]
    return valid_unicode("\n".join(text for text in texts if text)).strip()


def unit_kind(unit: Unit) -> str:
    """Return the kind of memory that a unit is, by the beginning of its text.

    Calls and results do not count: they are nobody's wish, habit or wisdom.
    """
    texts = [
        piece.text
        for message in unit.messages
        for piece in message.pieces
        if piece.kind == PieceKind.TEXT
    ]
    text = truncated(valid_unicode("\n".join(texts)).strip())
    return kind_of(text, is_assistant=unit.role == "assistant")


def is_novel(text: str, coverage: float) -> bool:
    """Return whether a text is worth a memory: long enough, and not in memory yet."""
    return coverage < COVERED and len(text.encode()) >= MIN_BYTES


def truncated(text: str) -> str:
    """Return the first 600 bytes, up to a whole character.

    >>> len(truncated("é" * 400)), truncated("short")
    (300, 'short')
    """
    return text.encode()[:MAX_BYTES].decode(errors="ignore")
