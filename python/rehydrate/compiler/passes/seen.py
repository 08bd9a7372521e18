"""Seen: the lines that stand in a history so far, and the runs of them that a text repeats.

Lines are compared by their hashes first, and a run that is found so by its text. Of what is seen,
every row of four lines is an anchor; of a text that is looked up, every line may begin one. So a
run of seven lines is found, wherever it stands, in time linear in all texts.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Literal, NamedTuple

_ANCHOR = 4
_LONG_LINE = 400
"""A line that is an anchor alone."""
_NUMBER = re.compile(r" {0,7}\d{1,7}→| {1,7}\d{1,7}\t")
"""The number that a tool put before a line, as Claude Code and ``cat -n`` write it."""
_DEEPEST = 8
_LONGEST = 2**32


class Source(NamedTuple):
    """A text of the history."""

    kind: Literal["result", "input", "text"]
    call: str = ""
    name: str = ""
    """The tool's; of a text the role of who says it."""

    def __str__(self) -> str:
        """In words: "the result of call toolu_1 (Read)"."""
        if self.kind == "text":
            return f"what the {self.name[:40]} said"
        tool = f" ({self.name[:80]})" if self.name else ""
        call = f"call {self.call[:80]}" if self.call else "a call"
        return f"the {self.kind} of {call}{tool}"


class Run(NamedTuple):
    """Lines of a text, from `start` to before `end`, that stand in a source."""

    start: int
    end: int
    source: Source
    first: int
    """The first of these lines in the source, counted from 1."""
    is_whole: bool
    """Whether they are all of the source."""
    is_numbered: bool
    """Whether numbers before the lines may differ."""

    def reference(self, handle: str) -> str:
        """What stands in their place.

        >>> run = Run(0, 312, Source("result", "toolu_1", "Read"), 1, True, False)
        >>> run.reference("orig_a")
        '[same as the result of call toolu_1 (Read) above: 312 lines. kept whole as orig_a]'
        """
        count = self.end - self.start
        lines = "1 line" if count == 1 else f"{count:,} lines"
        where = "" if self.is_whole else f"lines {self.first}-{self.first + count - 1} of "
        aside = ", line numbers aside" if self.is_numbered else ""
        return f"[same as {where}{self.source} above: {lines}{aside}. kept whole as {handle}]"


class Seen:
    """The lines of a history, in the order in which they were added.

    Of a line eight bytes are kept, its hash and where it begins, for a server has thousands of
    histories; what seems to be repeated is compared with the text, which the history holds anyway.
    """

    def __init__(self, least: int) -> None:
        """Runs of fewer than `least` characters are not worth a reference."""
        self._least = least
        self._stream = array("i")
        self._at = array("I")  # where in its text each line begins
        self._pieces: list[_Piece] = []
        self._starts: list[int] = []
        self._anchors = Anchors()

    def add(
        self,
        text: str,
        source: Source,
        without: Sequence[Run] = (),
        *,
        quoted: Quoted | None = None,
    ) -> None:
        """Note the lines of a text that is visible, but for runs that were replaced.

        What only `quoted` can give again is held as that.
        """
        if len(text) >= _LONGEST:
            return
        raw = text.split("\n")
        starts = list(accumulate((len(line) + 1 for line in raw), initial=0))
        bare = [_bare(line) for line in raw]
        held = text if quoted is None else quoted
        at = 0
        for begin, end in [(run.start, run.end) for run in without] + [(len(raw), 0)]:
            piece = _Piece(source, held, at, len(raw))
            self._add(bare[at:begin], starts[at:begin], piece)
            at = end

    def _add(self, lines: list[str], starts: list[int], piece: _Piece) -> None:
        if sum(map(len, lines)) + len(lines) < self._least:
            return
        stream, anchors = self._stream, self._anchors
        start = len(stream)
        self._starts.append(start)
        self._pieces.append(piece)
        stream.extend(map(_short_hash, lines))
        self._at.extend(starts)
        for place, line in enumerate(lines):
            if len(line) >= _LONG_LINE:
                anchors.add(_short_hash((stream[start + place],)), start + place)
        for place in range(start, len(stream) - _ANCHOR + 1, _ANCHOR):
            anchors.add(_short_hash(tuple(stream[place : place + _ANCHOR])), place)

    def runs(self, text: str) -> tuple[Run, ...]:
        """The runs of the text's lines that were seen, each as long as it can be, in order."""
        if not len(self._anchors):
            return ()
        raw = text.split("\n")
        lines = [_bare(line) for line in raw]
        is_numbered = any(one is not other for one, other in zip(raw, lines, strict=True))
        wanted = list(map(_short_hash, lines))
        found: list[Run] = []
        done = place = 0
        while place < len(wanted):
            seen = self._anchor(wanted, place, lines)
            if seen < 0:
                place += 1
                continue
            run, end = self._run(lines, wanted, done, place, seen, is_numbered)
            if run is not None:
                found.append(run)
                done = end
            place = end
        return tuple(found)

    def _anchor(self, wanted: list[int], place: int, lines: list[str]) -> int:
        """Where the lines from here on were seen; -1 where they were not."""
        size = 1 if len(lines[place]) >= _LONG_LINE else _ANCHOR
        row = wanted[place : place + size]
        seen = self._anchors.get(_short_hash(tuple(row)))
        return seen if seen >= 0 and self._stream[seen : seen + size].tolist() == row else -1

    def _run(
        self,
        lines: list[str],
        wanted: list[int],
        done: int,
        place: int,
        seen: int,
        is_numbered: bool,
    ) -> tuple[Run | None, int]:
        """The run around a line that was seen, where it is worth a reference, and its end."""
        number = bisect_right(self._starts, seen) - 1
        first = self._starts[number]
        last = self._starts[number + 1] if number + 1 < len(self._starts) else len(self._stream)
        stream = self._stream
        start, begin = place, seen
        while start > done and begin > first and stream[begin - 1] == wanted[start - 1]:
            start, begin = start - 1, begin - 1
        end, after = place, seen
        while end < len(wanted) and after < last and stream[after] == wanted[end]:
            end, after = end + 1, after + 1
        source, text, offset, total = self._pieces[number]
        at = begin - first + offset
        if sum(map(len, lines[start:end])) + end - start < self._least or not self._is_said(
            str(text), begin, lines[start:end]
        ):
            return None, max(end, place + 1)
        return Run(start, end, source, at + 1, end - start == total, is_numbered), end

    def _is_said(self, text: str, begin: int, lines: Sequence[str]) -> bool:
        """Whether the text really has these lines there."""
        for place, line in enumerate(lines, begin):
            at = self._at[place]
            end = text.find("\n", at)
            if _bare(text[at:] if end < 0 else text[at:end]) != line:
                return False
        return True


class Anchors:
    """Where rows of lines stand, by their hash: a table of eight bytes an entry, the first stays.

    >>> anchors = Anchors()
    >>> anchors.add(7, 100), anchors.add(7, 200), anchors.get(7), anchors.get(8)
    (None, None, 100, -1)
    """

    __slots__ = ("_count", "_hashes", "_places")

    def __init__(self) -> None:
        """An empty one."""
        self._count = 0
        self._hashes = array("i", [0]) * 16
        self._places = array("i", [-1]) * 16

    def __len__(self) -> int:
        """How many there are."""
        return self._count

    def add(self, key: int, place: int) -> None:
        """Note where a row stands, unless it stands somewhere already."""
        if 3 * self._count >= 2 * len(self._places):
            self._grow()
        slot = self._slot(key)
        if self._places[slot] < 0:
            self._hashes[slot], self._places[slot] = key, place
            self._count += 1

    def get(self, key: int) -> int:
        """Where the row stands; -1 where it does not."""
        return self._places[self._slot(key)]

    def _slot(self, key: int) -> int:
        hashes, places = self._hashes, self._places
        last = len(places) - 1
        slot = key & last
        while places[slot] >= 0 and hashes[slot] != key:
            slot = (slot + 1) & last
        return slot

    def _grow(self) -> None:
        held = [(key, at) for key, at in zip(self._hashes, self._places, strict=True) if at >= 0]
        self._hashes = array("i", [0]) * (2 * len(self._hashes))
        self._places = array("i", [-1]) * len(self._hashes)
        for key, place in held:
            slot = self._slot(key)
            self._hashes[slot], self._places[slot] = key, place


def _short_hash(value: Any) -> int:
    return hash(value) & 0x7FFFFFFF


class Quoted(NamedTuple):
    """A long string inside of a tool's input: read again where it is wanted."""

    said: str
    number: int
    """Which of `strings_of`."""
    least: int

    def __str__(self) -> str:
        """The string."""
        return _all_strings(self.said, self.least)[self.number]


class _Piece(NamedTuple):
    """Lines of a text that are visible in a row."""

    source: Source
    text: str | Quoted
    offset: int
    """The place of its first line in the text."""
    total: int
    """Lines of the whole text."""


@lru_cache(maxsize=32)
def _all_strings(said: str, least: int) -> tuple[str, ...]:
    return tuple(strings_of(said, least))


def strings_of(said: str, least: int) -> Iterator[str]:
    """The long strings in a tool's input, which is its name, a blank and JSON."""
    if len(said) < least:
        return
    _, _, given = said.partition(" ")
    try:
        value = json.loads(given)
    except (ValueError, RecursionError):
        yield given
    else:
        yield from _strings(value, least, 0)


def _strings(value: Any, least: int, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) >= least:
            yield value
    elif depth < _DEEPEST and isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner, least, depth + 1)


def _bare(line: str) -> str:
    """The line without the number that a tool put before it; the very same where there is none."""
    found = _NUMBER.match(line)
    return line[found.end() :] if found else line
