"""distill_novel: what a compaction drops and memory does not hold yet, as memories of its own."""

from __future__ import annotations

import re
from functools import cache

from rehydrate.compact.recall import COVERED, clean, text_to_remember
from rehydrate.messages import PieceKind, Unit

LEAST_BYTES = 40
"""A shorter text says too little to be remembered by itself."""
MOST_BYTES = 600
"""Of a longer one the beginning is remembered."""

EPISODE = "episode"
_ASSISTANT_ONLY = "wisdom"
_CUES = {
    "correction": r"""
        (?: ^ | [.!?\n] \s* ) (?: no | nope | wait | actually ) \b (?! \s+ (?: problem | worries ) )
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
    """Compiled when first asked for: `import rehydrate` stays light."""
    return tuple((kind, re.compile(cue, re.IGNORECASE | re.VERBOSE)) for kind, cue in _CUES.items())


def kind_of(text: str, *, is_assistant: bool) -> str:
    """What kind of memory a text is, by the first cue that it holds.

    >>> kind_of("No, the port is 8443.", is_assistant=False)
    'correction'
    >>> kind_of("The root cause is a stale lock.", is_assistant=True)
    'wisdom'
    >>> kind_of("The root cause is a stale lock.", is_assistant=False)
    'episode'
    """
    straight = text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    for kind, cue in _patterns():
        if (is_assistant or kind != _ASSISTANT_ONLY) and cue.search(straight):
            return kind
    return EPISODE


def confidence_of(coverage: float) -> float:
    """How sure a distilled memory is: the newer to memory, the surer."""
    return 0.5 + 0.25 * (1 - coverage)


def text_of(unit: Unit) -> str:
    """What a unit says and does, in one text."""
    texts = [text_to_remember(message) for message in unit.messages]
    return clean("\n".join(text for text in texts if text)).strip()


def kind_of_unit(unit: Unit) -> str:
    """What kind of memory a unit is, by what was said in the beginning of it.

    What a tool was asked and what it returned is nobody's wish, habit or wisdom.
    """
    spoken = [
        piece.text
        for message in unit.messages
        for piece in message.pieces
        if piece.kind == PieceKind.TEXT
    ]
    said = cut(clean("\n".join(spoken)).strip())
    return kind_of(said, is_assistant=unit.role == "assistant")


def is_novel(text: str, coverage: float) -> bool:
    """Whether a text is worth a memory: it is long enough, and memory does not hold it yet."""
    return coverage < COVERED and len(text.encode()) >= LEAST_BYTES


def cut(text: str) -> str:
    """The first 600 bytes, ending with a whole character.

    >>> len(cut("é" * 400)), cut("short")
    (300, 'short')
    """
    return text.encode()[:MOST_BYTES].decode(errors="ignore")
