"""Notices: what stands after a shortened text, and the numbers in it.

Nothing ever reads a notice: one that stands in a content is content like any other.
"""

from __future__ import annotations

NOTICE_TOKENS = 128
"""That a notice takes at most, with a handle of 128 characters: so much less of the text is shown,
so that with its notice it is within the cap, and never capped again."""

LONGEST_HANDLE = 128


def notice(omitted: int, handle: str = "") -> str:
    """What is said of `omitted` tokens, and where the whole is.

    >>> print(notice(1_000).strip())
    [truncated: 1000 tokens omitted. call again with stricter filters to see specific parts.]
    >>> print(notice(1_000, "orig_a").splitlines()[-1])
    [kept whole as orig_a]
    """
    said = (
        f"\n\n[truncated: {omitted} tokens omitted. "
        "call again with stricter filters to see specific parts.]"
    )
    return f"{said}\n[kept whole as {handle}]" if handle else said


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number with its noun.

    >>> counted(1, "line"), counted(4_900, "match", "matches")
    ('1 line', '4,900 matches')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
