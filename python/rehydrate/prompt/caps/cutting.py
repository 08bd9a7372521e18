"""Notices: what stands after a shortened text, and the numbers in it.

Nothing ever reads a notice: one that stands in a content is content like any other.

Cutting: where a text may be cut, and which of its lines fit into so many characters.

Names: which lines of a text name most that no shown line names yet.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from rehydrate.compact.excerpts import mark

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


LONGEST_LINE = 1_000
"""A longer line is shown in part: minified code and dumps would leave no room for anything else."""

MOST_LINES = 50_000
"""Lines among which the ones to show are looked for: no cap shows as many, the rest is counted."""

_LOOK_BACK = 32
_JOINERS = "\u200d\ufe0e\ufe0f"


class Shown(NamedTuple):
    """What is left of a text."""

    text: str
    kept: str
    """Without marks and what else the text itself does not say."""


def boundary(text: str, at: int) -> int:
    """The last place up to `at` that splits no character as readers see them.

    >>> boundary("abc", 2), boundary("e\\u0301", 1), boundary("a\\r\\n", 2)
    (2, 0, 1)
    """
    if not 0 < at < len(text):
        return max(0, min(at, len(text)))
    for place in range(at, max(-1, at - _LOOK_BACK), -1):
        if place == 0 or not _joins(text[place - 1], text[place]):
            return place
    return at


def _joins(before: str, after: str) -> bool:
    """Whether the two belong to one character."""
    if after < "\u0300":
        return before == "\r" and after == "\n"
    return (
        after in _JOINERS
        or before == "\u200d"
        or unicodedata.category(after) in ("Mn", "Me")
        or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
        or "\U0001f3fb" <= after <= "\U0001f3ff"
    )


def head(text: str, limit: int) -> Shown:
    """The first so many characters."""
    cut = boundary(text, limit)
    return Shown(text[:cut], text[:cut])


def clip(line: str, most: int = LONGEST_LINE) -> tuple[str, int]:
    """The line, or its first part and a mark; and how much of it that is."""
    if len(line) <= most:
        return line, len(line)
    said = 40
    cut = boundary(line, max(0, most - said))
    return line[:cut] + mark("characters", len(line) - cut, cut + 1, len(line)), cut


def fair_share(sizes: list[int], room: int) -> int:
    """The size to which the largest must be cut so that all fit.

    >>> fair_share([10, 200, 300], 210)
    100
    """
    left = room
    for rank, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - rank)
        if size > share:
            return share
        left -= size
    return max(sizes, default=0)


Mark = Callable[[int, int], str]
"""What stands in the place of the lines from one to another, both left out; "" for nothing."""


class Outline:
    """Lines of a text, taken one by one in any order, as long as they and the marks fit.

    >>> outline = Outline([f"line {n}" for n in range(1, 101)], limit=100)
    >>> [outline.take(n) for n in (0, 99)]
    [True, True]
    >>> print(outline.render().text)
    line 1
    [... 98 lines omitted, 2-99 ...]
    line 100
    """

    def __init__(
        self,
        lines: list[str],
        limit: int,
        *,
        mark_of: Mark | None = None,
        mark_length: int = 44,
        longest_line: int = LONGEST_LINE,
    ) -> None:
        """Take the lines, how many characters there are, and what marks say and cost at most."""
        self.lines = lines
        self._kept = bytearray(len(lines))
        self._mark_of = mark_of or _lines_mark
        self._mark_length = mark_length
        self._longest = longest_line
        self.left = limit - mark_length
        """Characters that are still free."""

    def take(self, place: int) -> bool:
        """Keep the line if it fits; whether it is kept now."""
        if self._kept[place]:
            return True
        cost = min(len(self.lines[place]), self._longest) + 1
        before = place > 0 and not self._kept[place - 1]
        after = place + 1 < len(self.lines) and not self._kept[place + 1]
        cost += (before + after - 1) * self._mark_length
        if cost > self.left:
            return False
        self._kept[place] = 1
        self.left -= cost
        return True

    def take_all(self, places: Iterable[int]) -> None:
        """Keep those that fit, in this order."""
        for place in places:
            if self.left < 0:
                return
            self.take(place)

    def take_block(self, first: int, end: int) -> bool:
        """Keep the lines from `first` to before `end`, all or none."""
        cost = sum(
            min(len(self.lines[place]), self._longest) + 1
            for place in range(first, end)
            if not self._kept[place]
        )
        if cost + self._mark_length > self.left:
            return False
        for place in range(first, end):
            self.take(place)
        return True

    def holds(self, place: int) -> bool:
        """Whether the line is kept."""
        return bool(self._kept[place])

    def render(self) -> Shown:
        """The kept lines, and a mark on a line of its own in the place of each gap.

        A gap that is no longer than its mark would be is shown.
        """
        out: list[str] = []
        kept: list[str] = []
        for is_kept, first, end in self._runs():
            said = "" if is_kept else self._mark_of(first, end - 1)
            if not is_kept and sum(map(len, self.lines[first:end])) + end - first > len(said) + 1:
                if said:
                    out.append(said)
                continue
            for line in self.lines[first:end]:
                shown, length = clip(line, self._longest)
                out.append(shown)
                kept.append(line[:length])
        return Shown("\n".join(out), "\n".join(kept))

    def _runs(self) -> Iterator[tuple[bool, int, int]]:
        """Stretches of lines that are kept, or left out, in order."""
        first, count = 0, len(self.lines)
        while first < count:
            other = 0 if self._kept[first] else 1
            end = self._kept.find(other, first)
            end = count if end < 0 else end
            yield bool(self._kept[first]), first, end
            first = end


def short_mark(first: int, last: int) -> str:
    """For texts with many gaps.

    >>> short_mark(117, 158)
    '[... 42 lines ...]'
    """
    count = last - first + 1
    return f"[... {count:,} line{'' if count == 1 else 's'} ...]"


def _lines_mark(first: int, last: int) -> str:
    return mark("lines", last - first + 1, first + 1, last + 1)


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
