"""Cutting a text: where it may be cut, which of its lines fit, and the notice after it.

Nothing ever reads a notice. One that is in a content is content like any other.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from rehydrate._text import plural
from rehydrate.compact.excerpts import mark

NOTICE_TOKENS = 128
"""Maximum tokens of a notice, with a handle of 128 characters. They are reserved, so that a text
with its notice is within the cap and is never capped again."""
MAX_HANDLE_CHARS = 128
MAX_LINE_CHARS = 1_000
"""A longer line is cut: minified code and dumps would leave no room for anything else."""
MAX_LINES = 50_000
"""Number of lines among which the shown ones are chosen. No cap shows as many; further lines are
only counted."""


class Excerpt(NamedTuple):
    """The shown part of a text."""

    text: str
    kept: str
    """The characters of the text itself, without marks and counts."""


def notice(omitted: int, handle: str = "") -> str:
    """Return the notice that `omitted` tokens are missing, and the handle of the whole.

    >>> print(notice(1_000).strip())
    [truncated: 1000 tokens omitted. call again with stricter filters to see specific parts.]
    >>> print(notice(1_000, "orig_a").splitlines()[-1])
    [kept whole as orig_a]
    """
    text = (
        f"\n\n[truncated: {omitted} tokens omitted. "
        "call again with stricter filters to see specific parts.]"
    )
    return f"{text}\n[kept whole as {handle}]" if handle else text


def filters_room(limit: int) -> int:
    """Return the characters for counts and filters, of a text that is cut to `limit`."""
    return min(600, limit // 8)


def boundary(text: str, limit: int) -> int:
    """Return the last index up to `limit` that splits no character as readers see them.

    >>> boundary("abc", 2), boundary("e\\u0301", 1), boundary("a\\r\\n", 2)
    (2, 0, 1)
    """
    if not 0 < limit < len(text):
        return max(0, min(limit, len(text)))
    for index in range(limit, max(-1, limit - _LOOK_BACK), -1):
        if index == 0 or not _is_joined(text[index - 1], text[index]):
            return index
    return limit


_LOOK_BACK = 32
_JOINERS = "\u200d\ufe0e\ufe0f"


def _is_joined(before: str, after: str) -> bool:
    """Whether both code points belong to the same character."""
    if after < "\u0300":
        return before == "\r" and after == "\n"
    return (
        after in _JOINERS
        or before == "\u200d"
        or unicodedata.category(after) in ("Mn", "Me")
        or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
        or "\U0001f3fb" <= after <= "\U0001f3ff"
    )


def head(text: str, limit: int) -> Excerpt:
    """Return the first `limit` characters."""
    cut = boundary(text, limit)
    return Excerpt(text[:cut], text[:cut])


def clip(line: str, limit: int = MAX_LINE_CHARS) -> tuple[str, int]:
    """Return the line in at most `limit` characters with its mark, and how many are its own."""
    if len(line) <= limit:
        return line, len(line)
    cut = boundary(line, max(0, limit - _CLIP_MARK_CHARS))
    return line[:cut] + mark("characters", len(line) - cut, cut + 1, len(line)), cut


_CLIP_MARK_CHARS = 40


def fair_share(sizes: list[int], room: int) -> int:
    """Return the size to which the largest must be cut so that all fit.

    >>> fair_share([10, 200, 300], 210)
    100
    """
    remaining = room
    for rank, size in enumerate(sorted(sizes)):
        share = remaining // (len(sizes) - rank)
        if size > share:
            return share
        remaining -= size
    return max(sizes, default=0)


GapMark = Callable[[int, int], str]
"""Returns the mark for a gap, from its first to its last line; "" for no mark."""


class LineSelection:
    """The lines of a text that are kept, chosen in any order, as long as they and the marks fit.

    >>> selection = LineSelection([f"line {n}" for n in range(1, 101)], limit=100)
    >>> [selection.keep(n) for n in (0, 99)]
    [True, True]
    >>> print(selection.render().text)
    line 1
    [... 98 lines omitted, 2-99 ...]
    line 100
    """

    def __init__(
        self,
        lines: list[str],
        limit: int,
        *,
        gap_mark: GapMark | None = None,
        mark_characters: int = 44,
        max_line_characters: int = MAX_LINE_CHARS,
    ) -> None:
        """Take the lines, the limit in characters, and the mark of a gap with its maximum length.

        Lines of more than `max_line_characters` are cut.
        """
        self.lines = lines
        self._kept = bytearray(len(lines))
        self._gap_mark = gap_mark or _lines_mark
        self._mark_characters = mark_characters
        self._max_line_characters = max_line_characters
        self.remaining = limit - mark_characters
        """Characters that are still free."""

    def keep(self, index: int) -> bool:
        """Keep the line if it fits; return whether it is kept."""
        if self._kept[index]:
            return True
        cost = min(len(self.lines[index]), self._max_line_characters) + 1
        gap_before = index > 0 and not self._kept[index - 1]
        gap_after = index + 1 < len(self.lines) and not self._kept[index + 1]
        cost += (gap_before + gap_after - 1) * self._mark_characters
        if cost > self.remaining:
            return False
        self._kept[index] = 1
        self.remaining -= cost
        return True

    def keep_all(self, indices: Iterable[int], *, reserve: float = 0) -> None:
        """Keep those that fit, in this order, until less than `reserve` characters remain."""
        for index in indices:
            if self.remaining < reserve:
                return
            self.keep(index)

    def keep_block(self, first: int, end: int) -> bool:
        """Keep the lines from `first` to before `end`, all or none; return whether they are."""
        cost = sum(
            min(len(self.lines[index]), self._max_line_characters) + 1
            for index in range(first, end)
            if not self._kept[index]
        )
        if cost + self._mark_characters > self.remaining:
            return False
        for index in range(first, end):
            self.keep(index)
        return True

    def is_kept(self, index: int) -> bool:
        """Whether the line is kept."""
        return bool(self._kept[index])

    def render(self) -> Excerpt:
        """Return the kept lines, and a mark on a line of its own for each gap.

        A gap that is no longer than its mark is shown.
        """
        out: list[str] = []
        kept: list[str] = []
        for is_kept, first, end in self._runs():
            gap = "" if is_kept else self._gap_mark(first, end - 1)
            if not is_kept and sum(map(len, self.lines[first:end])) + end - first > len(gap) + 1:
                if gap:
                    out.append(gap)
                continue
            for line in self.lines[first:end]:
                shown, length = clip(line, self._max_line_characters)
                out.append(shown)
                kept.append(line[:length])
        return Excerpt("\n".join(out), "\n".join(kept))

    def _runs(self) -> Iterator[tuple[bool, int, int]]:
        """Yield the runs of lines that are all kept or all left out, in order."""
        first, count = 0, len(self.lines)
        while first < count:
            other = 0 if self._kept[first] else 1
            end = self._kept.find(other, first)
            end = count if end < 0 else end
            yield bool(self._kept[first]), first, end
            first = end


def short_mark(first: int, last: int) -> str:
    """Return a short mark, for texts with many gaps.

    >>> short_mark(117, 158)
    '[... 42 lines ...]'
    """
    return f"[... {plural(last - first + 1, 'line')} ...]"


def _lines_mark(first: int, last: int) -> str:
    return mark("lines", last - first + 1, first + 1, last + 1)


MAX_NAMED_LINES = 5_000
"""Number of lines in which names are searched for; no cap shows as many."""
_MAX_NAME_CHARS = 1_000
"""Characters of a line that are searched for names."""
_LINE_COST = 40
"""Characters that a line costs besides its own; with less, single lines are torn out everywhere."""
_NAME = re.compile(r"[^\W\d][\w./-]{3,}|\d{3,}")


def keep_by_new_names(
    selection: LineSelection, lines: Sequence[str], *, limit: int = MAX_NAMED_LINES
) -> None:
    """Keep up to `limit` more lines, first those with the most new names for their length.

    Names are the words, paths and numbers of a result: an agent needs these later. A name is new if
    no kept line has it. A line without a new name is not kept.

    >>> lines = ["start(server)", "start(server)", "", "port = 8080"]
    >>> selection = LineSelection(lines, 60, mark_characters=0)
    >>> keep_by_new_names(selection, lines, limit=2)
    >>> [selection.is_kept(index) for index in range(4)]
    [True, False, False, True]
    """
    names = [frozenset(_NAME.findall(line[:_MAX_NAME_CHARS])) for line in lines[:MAX_NAMED_LINES]]
    kept_names: set[str] = set()
    for index, found in enumerate(names):
        if selection.is_kept(index):
            kept_names |= found

    def new_names_per_character(index: int) -> float:
        characters = min(len(lines[index]), _MAX_NAME_CHARS) + _LINE_COST
        return len(names[index] - kept_names) / characters

    # A lazy greedy choice: a line's value only falls, so only the top of the heap is computed anew.
    heap = [
        (-new_names_per_character(index), index)
        for index, found in enumerate(names)
        if found and not selection.is_kept(index)
    ]
    heapify(heap)
    count = 0
    while heap and count < limit and selection.remaining > 0:
        before, index = heappop(heap)
        now = -new_names_per_character(index)
        if now > before:  # some of its names are kept by now
            heappush(heap, (now, index))
        elif now == 0:
            break
        elif selection.keep(index):
            kept_names |= names[index]
            count += 1
