"""SeenLines: finds the runs of lines in a text that an earlier text of the history has.

Every row of four lines that was seen is an anchor, stored by its hash. In a text to check, a row
may begin at any line. Around an anchor that matches, the texts are compared line by line. So every
run of seven lines is found, wherever it is, in time linear in the length of all texts.

`input_strings` are the long strings in a tool's input, held without a copy of their own. A parsed
message has the input as compact JSON, a text that only the message holds. Its strings are the
entry's own objects where the entry holds values. Where the entry holds JSON, they are decoded again
from that JSON when they are needed.
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

_ANCHOR_LINES = 4
_LONG_LINE = 400
"""Characters. A line so long is an anchor alone."""
_LINE_NUMBER = re.compile(r" {0,7}\d{1,7}→| {1,7}\d{1,7}\t")
"""The number that a tool writes before a line, as Claude Code and ``cat -n`` do."""
_MAX_CHARACTERS = 2**32
"""Of a text: offsets in it are stored in 32 bits."""
_MARK_INTERVAL = 16
"""The offset of every 16th line is stored. Others are found from there."""
_LINE_BITS = 32
_MAX_LINE = 2**_LINE_BITS - 1
_MAX_BLOCK = 512


class TextSource(NamedTuple):
    """Where a text of the history is from."""

    kind: Literal["result", "input", "text"]
    call: str = ""
    name: str = ""
    """The tool; of a message's own text the role that wrote it."""

    def __str__(self) -> str:
        """Return it in words: "the result of call toolu_1 (Read)"."""
        if self.kind == "text":
            return f"what the {self.name[:40]} said"
        tool = f" ({self.name[:80]})" if self.name else ""
        call = f"call {self.call[:80]}" if self.call else "a call"
        return f"the {self.kind} of {call}{tool}"


class Repeat(NamedTuple):
    """The lines of a text from `start` up to `end` (exclusive), which an earlier text has too."""

    start: int
    end: int
    source: TextSource
    first: int
    """The number of the first of these lines in the source, counted from 1."""
    is_whole: bool
    """Whether they are all lines of the source."""
    is_numbered: bool
    """Whether the numbers before the lines may differ."""

    def reference(self, handle: str) -> str:
        """Return the line that replaces them.

        >>> repeat = Repeat(0, 312, TextSource("result", "toolu_1", "Read"), 1, True, False)
        >>> repeat.reference("orig_a")
        '[same as the result of call toolu_1 (Read) above: 312 lines. kept whole as orig_a]'
        """
        count = self.end - self.start
        lines = "1 line" if count == 1 else f"{count:,} lines"
        where = "" if self.is_whole else f"lines {self.first}-{self.first + count - 1} of "
        aside = ", line numbers aside" if self.is_numbered else ""
        return f"[same as {where}{self.source} above: {lines}{aside}. kept whole as {handle}]"


class SeenLines:
    """The visible lines of a history, numbered in the order in which they were added.

    It stores nine bytes for four lines, because a server has thousands of histories. A match by
    hash is compared with the text, which the history holds anyway.
    """

    def __init__(self, least_characters: int) -> None:
        """Ignore runs of fewer characters: they are not worth a reference."""
        self._least_characters = least_characters
        self._count = 0
        self._offsets = array("I")  # in its text, of every 16th line
        self._blocks: list[_LineBlock] = []
        self._anchors = AnchorIndex()

    @property
    def count(self) -> int:
        """How many lines were added."""
        return self._count

    def beginning(self, count: int) -> SeenLines:
        """Return the first ``count`` lines; the last of them must be the last of a text."""
        begun = SeenLines(self._least_characters)
        begun._count = count
        begun._offsets = self._offsets[: -(-count // _MARK_INTERVAL)]
        begun._blocks = self._blocks[: bisect_left(self._blocks, count, key=_first)]
        begun._anchors = self._anchors.before(count)
        return begun

    def add(
        self,
        text: str,
        source: TextSource,
        without: Sequence[Repeat] = (),
        *,
        held: str | EncodedString | None = None,
    ) -> None:
        """Add the lines of a visible text, except for runs that were replaced.

        ``held`` is the object to hold, where it is not the text itself.
        """
        if len(text) >= _MAX_CHARACTERS:
            return
        raw = text.split("\n")
        offsets = list(accumulate((len(line) + 1 for line in raw), initial=0))
        lines = [_without_number(line) for line in raw]
        held = text if held is None else held
        start = 0
        for repeat_start, repeat_end in [(r.start, r.end) for r in without] + [(len(raw), 0)]:
            if repeat_start > start:
                block = _LineBlock(self._count, offsets[start], source, held, start, len(raw))
                self._add(lines[start:repeat_start], offsets[start:repeat_start], block)
            start = repeat_end

    def _add(self, lines: list[str], offsets: list[int], block: _LineBlock) -> None:
        if _characters(lines) < self._least_characters:
            return
        anchors, first = self._anchors, block.first
        self._blocks.append(block)
        self._count += len(lines)
        self._offsets.extend(offsets[-first % _MARK_INTERVAL :: _MARK_INTERVAL])
        hashes = list(map(_short_hash, lines))
        for index, line in enumerate(lines):
            if len(line) >= _LONG_LINE:
                anchors.add(_short_hash((hashes[index],)), first + index)
        for index in range(0, len(hashes) - _ANCHOR_LINES + 1, _ANCHOR_LINES):
            row = tuple(hashes[index : index + _ANCHOR_LINES])
            anchors.add(_short_hash(row), first + index)

    def repeats(self, text: str) -> tuple[Repeat, ...]:
        """Return the runs of lines that were seen, each as long as possible, in order."""
        if not len(self._anchors):
            return ()
        raw = text.split("\n")
        lines = [_without_number(line) for line in raw]
        is_numbered = any(one is not other for one, other in zip(raw, lines, strict=True))
        hashes = list(map(_short_hash, lines))
        found: list[Repeat] = []
        done = index = 0
        while index < len(lines):
            size = 1 if len(lines[index]) >= _LONG_LINE else _ANCHOR_LINES
            seen = self._anchors.get(_short_hash(tuple(hashes[index : index + size])))
            if seen < 0:
                index += 1
                continue
            repeat, end = self._repeat_around(lines, done, index, seen, is_numbered)
            if repeat is not None:
                found.append(repeat)
                done = end
            index = max(end, index + 1)
        return tuple(found)

    def _repeat_around(
        self, lines: list[str], least_start: int, index: int, seen: int, is_numbered: bool
    ) -> tuple[Repeat | None, int]:
        """Extend the match of the line at `index` with the line numbered `seen`, both ways.

        Returns the repeat, or None where it is too short, and the index of the first line after
        it. It does not start before `least_start`.
        """
        number = bisect_right(self._blocks, seen, key=_first) - 1
        block = self._blocks[number]
        is_last = number + 1 == len(self._blocks)
        block_end = self._count if is_last else self._blocks[number + 1].first
        text = str(block.text)
        offset = self._offset_of(seen, block, text)
        start, seen_start, start_offset = index, seen, offset
        while start > least_start and seen_start > block.first:
            line, start_offset = _line_before(text, start_offset)
            if line != lines[start - 1]:
                break
            start, seen_start = start - 1, seen_start - 1
        end, seen_end = index, seen
        while end < len(lines) and seen_end < block_end:
            line, offset = _line_from(text, offset)
            if line != lines[end]:
                break
            end, seen_end = end + 1, seen_end + 1
        if _characters(lines[start:end]) < self._least_characters:
            return None, end
        first = seen_start - block.first + block.start + 1
        is_whole = end - start == block.total
        return Repeat(start, end, block.source, first, is_whole, is_numbered), end

    def _offset_of(self, seen: int, block: _LineBlock, text: str) -> int:
        """Return where in the block's text the line with this number begins."""
        marked = seen - seen % _MARK_INTERVAL
        if marked >= block.first:
            offset = self._offsets[marked // _MARK_INTERVAL]
        else:
            marked, offset = block.first, block.offset
        for _ in range(marked, seen):
            offset = text.find("\n", offset) + 1
        return offset


class _LineBlock(NamedTuple):
    """Consecutive visible lines of one text."""

    first: int
    """The number of its first line among all lines that were seen."""
    offset: int
    """Where that line begins in the text."""
    source: TextSource
    text: str | EncodedString
    start: int
    """The index of its first line in the text."""
    total: int
    """The number of lines of the whole text."""


_first = attrgetter("first")


class AnchorIndex:
    """Line numbers by the hash of the row that begins there. The first number of a hash stays.

    An entry takes eight bytes: the entries are in sorted blocks, as in a B-tree of one level.

    >>> anchors = AnchorIndex()
    >>> anchors.add(7, 100), anchors.add(7, 200), anchors.get(7), anchors.get(8)
    (None, None, 100, -1)
    """

    __slots__ = ("_blocks", "_count", "_firsts")

    def __init__(self) -> None:
        """Start empty."""
        self._count = 0
        self._blocks = [array("Q")]  # each entry: a hash, and in the lower half a line number
        self._firsts = array("Q", [0])

    def __len__(self) -> int:
        """Return the number of entries."""
        return self._count

    def add(self, key: int, line: int) -> None:
        """Add the line number, unless this hash has one."""
        number, at = self._find(key)
        block = self._blocks[number]
        if at < len(block) and block[at] >> _LINE_BITS == key:
            return
        block.insert(at, key << _LINE_BITS | line)
        self._count += 1
        if len(block) > _MAX_BLOCK:
            half = len(block) // 2
            self._blocks[number : number + 1] = [block[:half], block[half:]]
            self._firsts.insert(number + 1, block[half])

    def get(self, key: int) -> int:
        """Return the line number of this hash; -1 where there is none."""
        number, at = self._find(key)
        block = self._blocks[number]
        if at == len(block) or block[at] >> _LINE_BITS != key:
            return -1
        return int(block[at] & _MAX_LINE)

    def before(self, line: int) -> AnchorIndex:
        """Return the entries of the lines before this one."""
        blocks = [
            array("Q", [entry for entry in block if entry & _MAX_LINE < line])
            for block in self._blocks
        ]
        blocks = [block for block in blocks if block]
        index = AnchorIndex()
        if blocks:
            index._blocks = blocks
            index._firsts = array("Q", [0, *[block[0] for block in blocks[1:]]])
            index._count = sum(map(len, blocks))
        return index

    def _find(self, key: int) -> tuple[int, int]:
        """Return the block of a hash, and where in it the hash is or would be."""
        least = key << _LINE_BITS
        number = bisect_right(self._firsts, least | _MAX_LINE) - 1
        return number, bisect_left(self._blocks[number], least)


def _short_hash(value: Any) -> int:
    return hash(value) & 0x7FFFFFFF


def _characters(lines: Sequence[str]) -> int:
    """Return the length of these lines with their line breaks."""
    return sum(map(len, lines)) + len(lines)


def _line_from(text: str, offset: int) -> tuple[str, int]:
    """Return the line that begins at this offset, and the offset of the next line."""
    end = text.find("\n", offset)
    if end < 0:
        return _without_number(text[offset:]), len(text)
    return _without_number(text[offset:end]), end + 1


def _line_before(text: str, offset: int) -> tuple[str, int]:
    """Return the line that ends before this offset, and the offset where it begins."""
    start = text.rfind("\n", 0, offset - 1) + 1
    return _without_number(text[start : offset - 1]), start


def _without_number(line: str) -> str:
    """Return the line without the number that a tool put before it; the same object if none."""
    found = _LINE_NUMBER.match(line)
    return line[found.end() :] if found else line


_MAX_DEPTH = 8


class EncodedString(NamedTuple):
    """A long string in a JSON text, decoded again when it is needed."""

    json_text: str
    number: int
    """Its number among the long strings of the text."""
    least_characters: int
    """Shorter strings do not count."""

    def __str__(self) -> str:
        """Return the string."""
        return _decoded(self.json_text, self.least_characters)[self.number]


def input_strings(
    parsed_input: str, entry: Any, least_characters: int
) -> Iterator[tuple[str, str | EncodedString]]:
    """Yield the long strings of a tool's input, each with the object that holds it.

    ``parsed_input`` is the input as a message has it: the tool's name, a space, and JSON or another
    text.

    >>> entry = {"type": "tool_use", "name": "Write", "input": {"content": "a b c"}}
    >>> ((text, held),) = input_strings('Write {"content":"a b c"}', entry, 4)
    >>> text, held is entry["input"]["content"]
    ('a b c', True)
    """
    if len(parsed_input) < least_characters:
        return
    json_text = parsed_input.partition(" ")[2]
    own = {text: text for text in _strings_of_entry(entry) if len(text) >= least_characters}
    json_text = own.get(json_text, json_text)
    for number, text in enumerate(_long_strings(json_text, least_characters)):
        yield text, own.get(text) or EncodedString(json_text, number, least_characters)


def _strings_of_entry(entry: Any) -> Iterator[str]:
    """Yield every string that an entry holds; each object is visited once."""
    stack, visited = [entry], set()
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            yield value
        elif id(value) not in visited:
            visited.add(id(value))
            inner = value if isinstance(value, (Mapping, list, tuple)) else _attributes(value)
            stack += inner.values() if isinstance(inner, Mapping) else inner


def _attributes(value: Any) -> Mapping[str, Any]:
    """Return the attributes of a LangChain message; none of other objects."""
    return getattr(value, "__dict__", {}) if is_langchain_message(value) else {}


@lru_cache(maxsize=32)
def _decoded(json_text: str, least_characters: int) -> tuple[str, ...]:
    return tuple(_long_strings(json_text, least_characters))


def _long_strings(json_text: str, least_characters: int) -> Iterator[str]:
    """Yield the long strings in a JSON text; a text that is not JSON is one string."""
    try:
        value = json.loads(json_text)
    except (ValueError, RecursionError):
        yield json_text
    else:
        yield from _long_strings_in(value, least_characters, 0)


def _long_strings_in(value: Any, least_characters: int, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) >= least_characters:
            yield value
    elif depth < _MAX_DEPTH and isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _long_strings_in(inner, least_characters, depth + 1)
