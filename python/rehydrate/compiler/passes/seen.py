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
from typing import Any, Literal, NamedTuple

_ANCHOR = 4
_LONG_LINE = 400
"""A line that is an anchor alone."""
_NUMBER = re.compile(r" {0,7}\d{1,7}→| {1,7}\d{1,7}\t")
"""The number that a tool put before a line, as Claude Code and ``cat -n`` write it."""
_DEEPEST = 8


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

    Of a line its hash is kept, eight bytes; what seems to be repeated is compared with the text
    itself, which the history holds anyway.
    """

    def __init__(self, least: int) -> None:
        """Runs of fewer than `least` characters are not worth a reference."""
        self._least = least
        self._stream = array("q")
        self._pieces: list[_Piece] = []
        self._starts: list[int] = []
        self._anchors: dict[int, int] = {}

    def add(self, text: str, source: Source, without: Sequence[Run] = ()) -> None:
        """Note the lines of a text that is visible, but for runs that were replaced."""
        if len(text) + 1 < self._least:
            return
        lines, _ = _bare_lines(text)
        at = 0
        for run in without:
            self._add(lines[at : run.start], _Piece(source, text, at, len(lines)))
            at = run.end
        self._add(lines[at:], _Piece(source, text, at, len(lines)))

    def _add(self, lines: list[str], piece: _Piece) -> None:
        if sum(map(len, lines)) + len(lines) < self._least:
            return
        stream = self._stream
        start = len(stream)
        self._starts.append(start)
        self._pieces.append(piece)
        stream.extend(map(hash, lines))
        for place, line in enumerate(lines):
            if len(line) >= _LONG_LINE:
                self._anchors.setdefault(hash((stream[start + place],)), start + place)
        for place in range(start, len(stream) - _ANCHOR + 1, _ANCHOR):
            self._anchors.setdefault(hash(tuple(stream[place : place + _ANCHOR])), place)

    def runs(self, text: str) -> tuple[Run, ...]:
        """The runs of the text's lines that were seen, each as long as it can be, in order."""
        if not self._anchors:
            return ()
        lines, is_numbered = _bare_lines(text)
        wanted = list(map(hash, lines))
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
        seen = self._anchors.get(hash(tuple(row)), -1)
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
        if (
            sum(map(len, lines[start:end])) + end - start < self._least
            or _bare_lines(text)[0][at : at + end - start] != lines[start:end]
        ):
            return None, max(end, place + 1)
        return Run(start, end, source, at + 1, end - start == total, is_numbered), end


class _Piece(NamedTuple):
    """Lines of a text that are visible in a row."""

    source: Source
    text: str
    offset: int
    """The place of its first line in the text."""
    total: int
    """Lines of the whole text."""


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


def _bare_lines(text: str) -> tuple[list[str], bool]:
    """The lines, without the numbers that a tool put before them, and whether it did."""
    lines = text.split("\n")
    bare = [line[found.end() :] if (found := _NUMBER.match(line)) else line for line in lines]
    return bare, any(one is not other for one, other in zip(lines, bare, strict=True))
