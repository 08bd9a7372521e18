"""Quoted: the long strings in a tool's input, held so that they take no memory of their own.

What a tool was called with is read as compact JSON, a text that nobody else has. Its strings are
the entry's own where the entry holds objects; where it holds JSON, they are read again from that.

Seen: the lines that stand in a history so far, and the runs of them that a text repeats.

Rows of lines are looked up by their hashes, and a run is found around one by its text. Of what is
seen, every row of four lines is an anchor; of a text that is looked up, every line may begin one.
So a run of seven lines is found, wherever it stands, in time linear in all texts.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from rehydrate.formats._reading import is_langchain_message

_DEEPEST = 8


class Quoted(NamedTuple):
    """A long string in a JSON text: read again where it is wanted."""

    given: str
    number: int
    """Which of its long strings."""
    least: int

    def __str__(self) -> str:
        """The string."""
        return _read_again(self.given, self.least)[self.number]


def own_strings(said: str, entry: Any, least: int) -> Iterator[tuple[str, str | Quoted]]:
    """The strings of `least` characters and more in a tool's input, and what holds each.

    ``said`` is the input as it is read: the tool's name, a blank and JSON, or another text.

    >>> entry = {"type": "tool_use", "name": "Write", "input": {"content": "a b c"}}
    >>> ((text, held),) = own_strings('Write {"content":"a b c"}', entry, 4)
    >>> text, held is entry["input"]["content"]
    ('a b c', True)
    """
    if len(said) < least:
        return
    given = said.partition(" ")[2]
    own = {text: text for text in _own(entry) if len(text) >= least}
    given = own.get(given, given)
    for number, text in enumerate(_strings_in(given, least)):
        yield text, own.get(text) or Quoted(given, number, least)


def _own(entry: Any) -> Iterator[str]:
    """Every string that an entry holds, each object looked into once."""
    waiting, looked_into = [entry], set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif id(value) not in looked_into:
            looked_into.add(id(value))
            inside = value if isinstance(value, (Mapping, list, tuple)) else _fields(value)
            waiting += inside.values() if isinstance(inside, Mapping) else inside


def _fields(value: Any) -> Mapping[str, Any]:
    """Those of a message object."""
    return getattr(value, "__dict__", {}) if is_langchain_message(value) else {}


@lru_cache(maxsize=32)
def _read_again(given: str, least: int) -> tuple[str, ...]:
    return tuple(_strings_in(given, least))


def _strings_in(given: str, least: int) -> Iterator[str]:
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


_ANCHOR = 4
_LONG_LINE = 400
"""A line that is an anchor alone."""
_NUMBER = re.compile(r" {0,7}\d{1,7}→| {1,7}\d{1,7}\t")
"""The number that a tool put before a line, as Claude Code and ``cat -n`` write it."""
_LONGEST = 2**32
_MARKED = 16
"""Of so many lines one's place in its text is noted; the others are found from there."""
_PLACE_BITS = 32
_MOST_PLACES = 2**_PLACE_BITS - 1
_MOST_IN_A_BLOCK = 512


_first = attrgetter("first")


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

    Of four lines nine bytes are kept, for a server has thousands of histories; what seems to be
    repeated is compared with the text, which the history holds anyway.
    """

    def __init__(self, least: int) -> None:
        """Runs of fewer than `least` characters are not worth a reference."""
        self._least = least
        self._count = 0
        self._marks = array("I")  # where in its text every sixteenth line begins
        self._pieces: list[_Piece] = []
        self._anchors = Anchors()

    def add(
        self,
        text: str,
        source: Source,
        without: Sequence[Run] = (),
        *,
        held: str | Quoted | None = None,
    ) -> None:
        """Note the lines of a text that is visible, but for runs that were replaced.

        The text itself is held, or what gives it again.
        """
        if len(text) >= _LONGEST:
            return
        raw = text.split("\n")
        starts = list(accumulate((len(line) + 1 for line in raw), initial=0))
        bare = [_bare(line) for line in raw]
        said = text if held is None else held
        at = 0
        for begin, end in [(run.start, run.end) for run in without] + [(len(raw), 0)]:
            if begin > at:
                piece = _Piece(self._count, starts[at], source, said, at, len(raw))
                self._add(bare[at:begin], starts[at:begin], piece)
            at = end

    def _add(self, lines: list[str], starts: list[int], piece: _Piece) -> None:
        if sum(map(len, lines)) + len(lines) < self._least:
            return
        anchors, first = self._anchors, piece.first
        self._pieces.append(piece)
        self._count += len(lines)
        self._marks.extend(starts[-first % _MARKED :: _MARKED])
        hashes = list(map(_short_hash, lines))
        for place, line in enumerate(lines):
            if len(line) >= _LONG_LINE:
                anchors.add(_short_hash((hashes[place],)), first + place)
        for place in range(0, len(hashes) - _ANCHOR + 1, _ANCHOR):
            anchors.add(_short_hash(tuple(hashes[place : place + _ANCHOR])), first + place)

    def runs(self, text: str) -> tuple[Run, ...]:
        """The runs of the text's lines that were seen, each as long as it can be, in order."""
        if not len(self._anchors):
            return ()
        raw = text.split("\n")
        lines = [_bare(line) for line in raw]
        is_numbered = any(one is not other for one, other in zip(raw, lines, strict=True))
        hashes = list(map(_short_hash, lines))
        found: list[Run] = []
        done = place = 0
        while place < len(lines):
            size = 1 if len(lines[place]) >= _LONG_LINE else _ANCHOR
            seen = self._anchors.get(_short_hash(tuple(hashes[place : place + size])))
            if seen < 0:
                place += 1
                continue
            run, end = self._run(lines, done, place, seen, is_numbered)
            if run is not None:
                found.append(run)
                done = end
            place = max(end, place + 1)
        return tuple(found)

    def _run(
        self, lines: list[str], done: int, place: int, seen: int, is_numbered: bool
    ) -> tuple[Run | None, int]:
        """The run around a line that seems to be seen, where it is worth a reference, and its end.

        It begins at `done` at the earliest.
        """
        number = bisect_right(self._pieces, seen, key=_first) - 1
        piece = self._pieces[number]
        is_last = number + 1 == len(self._pieces)
        last = self._count if is_last else self._pieces[number + 1].first
        text = str(piece.text)
        at = self._begin_of(seen, piece, text)
        start, begin, before = place, seen, at
        while start > done and begin > piece.first:
            line, before = _line_before(text, before)
            if line != lines[start - 1]:
                break
            start, begin = start - 1, begin - 1
        end, after = place, seen
        while end < len(lines) and after < last:
            line, at = _line_from(text, at)
            if line != lines[end]:
                break
            end, after = end + 1, after + 1
        if sum(map(len, lines[start:end])) + end - start < self._least:
            return None, end
        first = begin - piece.first + piece.offset + 1
        is_whole = end - start == piece.total
        return Run(start, end, piece.source, first, is_whole, is_numbered), end

    def _begin_of(self, place: int, piece: _Piece, text: str) -> int:
        """Where in its text a line begins."""
        marked = place - place % _MARKED
        if marked >= piece.first:
            at = self._marks[marked // _MARKED]
        else:
            marked, at = piece.first, piece.begin
        for _ in range(marked, place):
            at = text.find("\n", at) + 1
        return at


class Anchors:
    """Where rows of lines stand, by their hash: eight bytes an entry, sorted; the first stays.

    >>> anchors = Anchors()
    >>> anchors.add(7, 100), anchors.add(7, 200), anchors.get(7), anchors.get(8)
    (None, None, 100, -1)
    """

    __slots__ = ("_blocks", "_count", "_firsts")

    def __init__(self) -> None:
        """An empty one."""
        self._count = 0
        self._blocks = [array("Q")]  # each entry a hash, and in its lower half a place
        self._firsts = array("Q", [0])

    def __len__(self) -> int:
        """How many there are."""
        return self._count

    def add(self, key: int, place: int) -> None:
        """Note where a row stands, unless it stands somewhere already."""
        number, at = self._find(key)
        block = self._blocks[number]
        if at < len(block) and block[at] >> _PLACE_BITS == key:
            return
        block.insert(at, key << _PLACE_BITS | place)
        self._count += 1
        if len(block) > _MOST_IN_A_BLOCK:
            half = len(block) // 2
            self._blocks[number : number + 1] = [block[:half], block[half:]]
            self._firsts.insert(number + 1, block[half])

    def get(self, key: int) -> int:
        """Where the row stands; -1 where it does not."""
        number, at = self._find(key)
        block = self._blocks[number]
        if at == len(block) or block[at] >> _PLACE_BITS != key:
            return -1
        return int(block[at] & _MOST_PLACES)

    def _find(self, key: int) -> tuple[int, int]:
        """The block for a row, and where in it the row is, or would be."""
        least = key << _PLACE_BITS
        number = bisect_right(self._firsts, least | _MOST_PLACES) - 1
        return number, bisect_left(self._blocks[number], least)


def _short_hash(value: Any) -> int:
    return hash(value) & 0x7FFFFFFF


def _line_from(text: str, at: int) -> tuple[str, int]:
    """The line that begins here, and where the next one does."""
    end = text.find("\n", at)
    return (_bare(text[at:]), len(text)) if end < 0 else (_bare(text[at:end]), end + 1)


def _line_before(text: str, at: int) -> tuple[str, int]:
    """The line that ends before here, and where it begins."""
    begin = text.rfind("\n", 0, at - 1) + 1
    return _bare(text[begin : at - 1]), begin


class _Piece(NamedTuple):
    """Lines of a text that are visible in a row."""

    first: int
    """The number of its first line among all that were seen."""
    begin: int
    """Where in the text that line begins."""
    source: Source
    text: str | Quoted
    offset: int
    """The place of its first line in the text."""
    total: int
    """Lines of the whole text."""


def _bare(line: str) -> str:
    """The line without the number that a tool put before it; the very same where there is none."""
    found = _NUMBER.match(line)
    return line[found.end() :] if found else line
