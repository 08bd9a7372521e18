"""Names: which lines of a text name most that no shown line names yet."""

from __future__ import annotations

import re
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from rehydrate.compiler.caps.cutting import Outline

MOST_NAMED = 5_000
"""Lines in which names are looked for: no cap shows as many."""
_LONGEST = 1_000
_GAP = 40
"""Characters that a line costs beside its own: less, and single lines are torn out everywhere."""
_NAME = re.compile(r"[^\W\d][\w./-]{3,}|\d{3,}")


def take_by_names(outline: Outline, lines: Sequence[str], *, most: int = MOST_NAMED) -> None:
    """Keep up to `most` more lines, first those with most new names for their length.

    What an agent needs of a result later are the words, paths and numbers in it; a line that says
    again what is shown already gives none.

    >>> lines = ["start(server)", "start(server)", "", "port = 8080"]
    >>> outline = Outline(lines, 60, mark_length=0)
    >>> take_by_names(outline, lines, most=2)
    >>> [outline.holds(place) for place in range(4)]
    [True, False, False, True]
    """
    names = [frozenset(_NAME.findall(line[:_LONGEST])) for line in lines[:MOST_NAMED]]
    shown: set[str] = set()
    for place, found in enumerate(names):
        if outline.holds(place):
            shown |= found

    def rate(place: int) -> float:
        return len(names[place] - shown) / (min(len(lines[place]), _LONGEST) + _GAP)

    waiting = [
        (-rate(place), place)
        for place, found in enumerate(names)
        if found and not outline.holds(place)
    ]
    heapify(waiting)
    taken = 0
    while waiting and taken < most and outline.left > 0:
        worth, place = heappop(waiting)
        now = -rate(place)
        if now > worth:  # some of its names are shown by now
            heappush(waiting, (now, place))
        elif now == 0:
            break
        elif outline.take(place):
            shown |= names[place]
            taken += 1
