"""Notices: what stands after a shortened text, and the numbers in it.

Nothing ever reads a notice: one that stands in a content is content like any other.
"""

from __future__ import annotations

import math

CHARS_A_TOKEN = 3.5

NOTICE_ROOM = 300
"""Characters that a notice takes at most, with a handle of 128 characters. A text that is longer
than its cap by no more than this stays whole: cutting it would save nothing, and what a cap has
made is never capped again."""

LONGEST_HANDLE = 128


def notice(omitted: int, handle: str = "") -> str:
    """What is said of `omitted` characters, and where the whole is.

    >>> print(notice(3_500).strip())
    [truncated: 1000 tokens omitted. call again with stricter filters to see specific parts.]
    >>> print(notice(3_500, "orig_a").splitlines()[-1])
    [kept whole as orig_a]
    """
    tokens = math.ceil(omitted / CHARS_A_TOKEN)
    said = (
        f"\n\n[truncated: {tokens} tokens omitted. "
        "call again with stricter filters to see specific parts.]"
    )
    return f"{said}\n[kept whole as {handle}]" if handle else said


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number with its noun.

    >>> counted(1, "line"), counted(4_900, "match", "matches")
    ('1 line', '4,900 matches')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
