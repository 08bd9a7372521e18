"""How much a page shows: no session is too large for it, and what it leaves out it names."""

from __future__ import annotations

from collections.abc import Sequence

TEXT_CHARACTERS = 20_000
"""Of one stretch of text, where the page has room."""
PAGE_CHARACTERS = 4_000_000
"""Of all of them: a page of some ten megabytes, which a phone still opens."""
PAGE_MESSAGES = 8_000
"""The oldest and the newest half of so many; the units between them are summed up."""


def fair_share(lengths: Sequence[int], room: int = PAGE_CHARACTERS) -> int:
    """The most that each may take so that all together stay within the room.

    >>> fair_share([10, 30_000]), fair_share([10, 500, 500], room=410)
    (20000, 200)
    """
    least, most = 0, TEXT_CHARACTERS
    if sum(min(length, most) for length in lengths) <= room:
        return most
    while most - least > 1:
        middle = (least + most) // 2
        fits = sum(min(length, middle) for length in lengths) <= room
        least, most = (middle, most) if fits else (least, middle)
    return least


def shown_ends(sizes: Sequence[int], room: int = PAGE_MESSAGES) -> tuple[int, int]:
    """How many are shown from the beginning, and from which place on to the end.

    >>> shown_ends([5, 5, 5]), shown_ends([5, 5, 5, 5, 5], room=12)
    ((3, 3), (2, 3))
    """
    if sum(sizes) <= room:
        return len(sizes), len(sizes)
    first = _half(sizes, room)
    return first, max(first, len(sizes) - _half(sizes[::-1], room))


def _half(sizes: Sequence[int], room: int) -> int:
    taken = 0
    for place, size in enumerate(sizes):
        taken += size
        if taken >= room / 2:
            return place + 1
    return len(sizes)
