"""JSON as it is written: where the members of a value stand in its text.

Values are cut in their source, not read and written anew, so that numbers, escapes, the order of
keys and white space stay as the tool gave them.

JSON, cut so that what is left has the same schema: first rows of arrays, all keys of objects.

Long strings end in a mark, inside their quotes. How many rows are missing is said after the value,
never in it, and so are the keys by which a caller can ask for fewer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from json import JSONDecoder
from typing import Any, NamedTuple

from rehydrate.compact.excerpts import mark
from rehydrate.prompt.caps.cutting import MOST_NAMED, Outline, Shown, fair_share, take_by_names

_SPACE = re.compile(r"[ \t\n\r]*")
_OPENING = re.compile(r'[ \t\n\r\ufeff]*(?:\[[ \t\n\r]*["{\[\]\-0-9tfn]|\{[ \t\n\r]*["}])')
_ROW = re.compile(r'\s*(?:\d{1,7}→)?\s*(?:\{\s*"|\[\s*["{\[\-0-9tfn])')

_NUMBER = re.compile(r" {0,7}\d{1,7}→")

# Numbers as they stand: reading them would cost time, and fails beyond 4,300 digits.
_DECODER = JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


class Member(NamedTuple):
    """One element of an array or one member of an object: where its value begins and ends."""

    key: str
    """"" in an array."""
    start: int
    end: int
    value: Any
    """As it was read, its numbers as strings."""


def looks_like_json(text: str) -> bool:
    """Whether it begins and ends like an array or an object."""
    found = _OPENING.match(text)
    if not found:
        return False
    opening = found[0].lstrip(" \t\n\r\ufeff")[0]
    return text[-4_096:].rstrip()[-1:] == ("]" if opening == "[" else "}")


def is_json(text: str) -> bool:
    """Whether the whole text is one array or object."""
    if not looks_like_json(text):
        return False
    try:
        start = skip(text, 1 if text[0] == "\ufeff" else 0)
        return skip(text, end_of(text, start)) == len(text)
    except (ValueError, RecursionError):
        return False


def are_rows(lines: list[str]) -> bool:
    """Whether nearly every line begins like an array or an object of its own."""
    return sum(1 for line in lines if _ROW.match(line)) > 0.9 * len(lines)


def row_number(line: str) -> int:
    """The length of the number that a tool put before a row."""
    found = _NUMBER.match(line)
    return found.end() if found else 0


def skip(text: str, at: int) -> int:
    """Where the next thing that is no white space stands."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


def end_of(text: str, start: int) -> int:
    """Where the value that begins at `start` ends; raises ValueError, or RecursionError."""
    end = start
    for member in members(text, start):
        end = member.end
    end = skip(text, end if end > start else start + 1)
    if text[end : end + 1] not in ("]", "}"):
        raise ValueError(f"no end of the value at character {start}")
    return end + 1


def members(text: str, start: int) -> Iterator[Member]:
    """The members of the array or object that begins at `start`, in their order.

    Raises ValueError for what is no JSON, RecursionError for what is nested too deeply.

    >>> [member[:3] for member in members('{"a": 1, "b": [2]}', 0)]
    [('a', 6, 7), ('b', 14, 17)]
    """
    closing = {"[": "]", "{": "}"}[text[start]]
    at = skip(text, start + 1)
    if text[at : at + 1] == closing:
        return
    while True:
        key = ""
        if closing == "}":
            if text[at : at + 1] != '"':
                raise ValueError(f"no key at character {at}")
            key, at = _DECODER.raw_decode(text, at)
            at = skip(text, at)
            if text[at : at + 1] != ":":
                raise ValueError(f"no colon at character {at}")
            at = skip(text, at + 1)
        value, end = _DECODER.raw_decode(text, at)
        yield Member(key, at, end, value)
        at = skip(text, end)
        after = text[at : at + 1]
        if after == closing:
            return
        if after != ",":
            raise ValueError(f"no comma at character {at}")
        at = skip(text, at + 1)


_LEAST = 64
"""Characters below which no value is cut: the mark alone would be longer."""
_DEEPEST = 12
_ROW_SHARE = 0.6
"""Of the room, what one row or member may take: the next one says what they have in common."""
_LINE_SHARE = 1 / 3
"""The same of a row of JSON lines, which are not all alike."""
_FILTERS_ROOM = 600
_MOST_PATHS = 8
_MOST_ROWS = 2_000
"""Rows in which keys and their values are looked for."""
_FEW_VALUES = 8
_LONGEST_VALUE = 32
_LONGEST_KEY = 40
_WORDS = {True: "true", False: "false", None: "null"}
_STRING = re.compile(r'(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*+')
_HIGH = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_LOW = re.compile(r"\\u[dD][c-fC-F]")


def cap_json(text: str, limit: int, rows: int) -> Shown:
    """The value with what fits of it, and below it what is missing; raises ValueError or
    RecursionError where the text is no JSON."""
    start = skip(text, 1 if text[:1] == "\ufeff" else 0)
    room = limit - _filters_room(limit)
    for _ in range(4):
        cutter = _Cutter(text, rows, limit)
        body = cutter.cut(start, -1, max(room, _LEAST), "", 0)
        if skip(text, cutter.end) != len(text):
            raise ValueError("there is more after the value")
        said = cutter.said()
        shown = body + ("\n\n" + said if said else "")
        if len(shown) <= limit:
            break
        room -= len(shown) - limit + room // 10
    return Shown(shown, body)


def cap_json_lines(lines: list[str], limit: int, rows: int) -> Shown:
    """The first row, those with the most names that are not shown yet, then others from the top,
    each on its line, long ones cut inside; below them what is missing."""
    lines = lines if lines[-1].strip() else lines[:-1]
    present = [place for place, line in enumerate(lines) if line.strip()]
    seen = _Columns(_filters_room(limit))
    for place in present:
        seen.add_source(lines[place][row_number(lines[place]) :])
    room = limit - len(seen.said(len(present))) - 2
    most = max(_LEAST, round(room * _LINE_SHARE))
    cut = [_cut_line(line, most, rows) for line in lines[:MOST_NAMED]]
    cut += lines[MOST_NAMED:]
    outline = Outline(cut, room, longest_line=most)
    outline.take_all(present[:1])
    take_by_names(outline, cut, most=rows - 1)
    room_for = rows - sum(1 for place in present if outline.holds(place))
    outline.take_all(islice((place for place in present if not outline.holds(place)), room_for))
    shown = outline.render()
    missing = sum(1 for place in present if not outline.holds(place))
    return Shown(f"{shown.text}\n\n{seen.said(missing)}", shown.kept)


def _cut_line(line: str, most: int, rows: int) -> str:
    """A row on its line, its number before it."""
    number = row_number(line)
    return (
        line if len(line) <= most else line[:number] + cut_value(line[number:], most - number, rows)
    )


def cut_value(source: str, limit: int, rows: int) -> str:
    """One value, cut; the source itself, cut anywhere, where it is no JSON."""
    try:
        return _Cutter(source, rows, limit).cut(skip(source, 0), -1, limit, "", 0)
    except (ValueError, RecursionError, KeyError, IndexError):
        return source[:limit]


class _Missing(NamedTuple):
    """How many of a list's rows, or an object's keys, are left out."""

    path: str
    noun: str
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    total: int


class _Cutter:
    """One walk over a text, which notes what it leaves out."""

    def __init__(self, text: str, rows: int, limit: int) -> None:
        self._text = text
        self._rows = rows
        self._left_out: list[_Missing] = []
        self._columns = _Columns(_filters_room(limit))
        self._missing_rows = 0
        self.end = 0
        """Where the outermost value ends."""

    def said(self) -> str:
        """What is missing."""
        if self._missing_rows:
            return self._columns.said(self._missing_rows)
        by_path: dict[str, list[_Missing]] = {}
        for missing in self._left_out:
            by_path.setdefault(missing.path, []).append(missing)
        said = []
        for path, cut in list(by_path.items())[:_MOST_PATHS]:
            more, total = sum(one.count for one in cut), sum(one.total for one in cut)
            noun = f"more {cut[0].noun}" if cut[0].noun else "more"
            said.append(f"{path}: {more:,} {noun} ({total - more:,} of {total:,})".lstrip(": "))
        if len(by_path) > _MOST_PATHS:
            said.append(f"and in {len(by_path) - _MOST_PATHS:,} other places")
        return "\n".join(said)

    def cut(self, start: int, end: int, limit: int, path: str, depth: int) -> str:
        """What is left of the value from `start` to `end` (-1: wherever it ends)."""
        text = self._text
        if 0 <= end <= start + limit:
            return text[start:end]
        first = text[start]
        if first in "[{":
            return self._cut_container(start, limit, path, depth)
        return _cut_string(text, start, end, limit) if first == '"' else text[start:end]

    def _cut_container(self, start: int, limit: int, path: str, depth: int) -> str:
        """What is left of an array or an object."""
        text, first = self._text, self._text[start]
        inside: list[Member] = []
        count, last = 0, start + 1
        for member in members(text, start):
            count, last = count + 1, member.end
            if depth == 0 and first == "[":
                self._columns.add(member.value)
            if first == "{" or count <= self._rows:
                inside.append(member._replace(value=None))
        close = skip(text, last)
        if text[close : close + 1] not in ("]", "}"):
            raise ValueError(f"no end of the value at character {start}")
        if depth == 0:
            self.end = close + 1
        if close + 1 - start <= limit:
            return text[start : close + 1]
        if depth > _DEEPEST:
            self._left_out.append(_Missing(path, "", count, count))
            return "[]" if first == "[" else "{}"
        tail = text[last:close] if close - last <= _LEAST else ""
        if first == "[":
            return self._cut_array(start, inside, count, limit, path, depth) + tail + "]"
        fixed = close + 1 - start - sum(member.end - member.start for member in inside)
        return self._cut_object(start, fixed, inside, limit, path, depth) + tail + "}"

    def _cut_array(
        self, start: int, inside: list[Member], count: int, limit: int, path: str, depth: int
    ) -> str:
        out, shown = self._prefix(start, inside, limit, None, path, depth)
        if depth == 0:
            self._missing_rows = count - shown
        elif shown < count:
            self._left_out.append(_Missing(path, "", count - shown, count))
        return out

    def _cut_object(
        self, start: int, fixed: int, inside: list[Member], limit: int, path: str, depth: int
    ) -> str:
        level = fair_share([member.end - member.start for member in inside], limit - fixed)
        if level >= _LEAST:
            return self._prefix(start, inside, limit * 2, level, path, depth)[0]
        out, shown = self._prefix(start, inside, limit, None, path, depth)
        if shown < len(inside):
            self._left_out.append(_Missing(path, "keys", len(inside) - shown, len(inside)))
        return out

    def _prefix(
        self, start: int, inside: list[Member], limit: int, most: int | None, path: str, depth: int
    ) -> tuple[str, int]:
        """The first members that fit, none longer than `most`, and how many they are.

        Without `most` the last one takes what is left, and none more than its share. A row that
        would lose keys is left out, unless it is the first: what is shown of rows is their schema.
        """
        text = self._text
        out = [text[start]]
        left, at = limit - 2, start + 1
        for number, member in enumerate(inside):
            name = _flat(member.key[:_LONGEST_KEY]) or "[]"
            below = f"{path}.{name}" if path and member.key else path + name
            marked = len(self._left_out)
            before = text[at : member.start]
            room = _most_of_row(limit, left - len(before)) if most is None else most
            value = self.cut(member.start, member.end, room, below, depth + 1)
            lost_keys = any(missing.noun for missing in self._left_out[marked:])
            if len(before) + len(value) > left or (number and lost_keys and not member.key):
                del self._left_out[marked:]
                return "".join(out), number
            out += [before, value]
            left -= len(before) + len(value)
            at = member.end
        return "".join(out), len(inside)


def _cut_string(text: str, start: int, end: int, limit: int) -> str:
    """The beginning of a string and a mark, never half an escape."""
    room = max(0, limit - 48)
    found = _STRING.match(text, start + 1, start + 1 + room)
    cut = found.end() if found else start + 1
    if _HIGH.search(text, max(start + 1, cut - 6), cut) and _LOW.match(text, cut):
        cut -= 6
    if "\ud800" <= text[cut - 1] <= "\udbff":
        cut -= 1
    left_out = end - 1 - cut
    return text[start:cut] + mark("characters", left_out, cut - start, end - 2 - start) + '"'


def _most_of_row(room: int, left: int) -> int:
    """What the next row may take."""
    return max(_LEAST, min(left, round(room * _ROW_SHARE)))


def _filters_room(limit: int) -> int:
    """What may be said of what is missing."""
    return min(_FILTERS_ROOM, limit // 8)


class _Columns:
    """The keys of rows, and the values of those that have few: what can be asked for."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._rows = 0
        self._is_all = True
        self._values: dict[str, Counter[str] | None] = {}

    def add_source(self, line: str) -> None:
        """Note a row that stands in a text."""
        if len(line) > 65_536 or self._rows == _MOST_ROWS:
            self._is_all = False
            return
        try:
            at = skip(line, 0)
            if line[at : at + 1] == "{":
                self.add({member.key: member.value for member in members(line, at)})
        except (ValueError, RecursionError):
            return

    def add(self, row: Any) -> None:
        """Note a row."""
        if not isinstance(row, dict):
            return
        if self._rows == _MOST_ROWS:
            self._is_all = False
            return
        self._rows += 1
        for key, value in row.items():
            if key not in self._values and len(self._values) >= 40:
                continue
            known = self._values.setdefault(key, Counter())
            if known is None:
                continue
            said = _WORDS[value] if value is None or isinstance(value, bool) else value
            if not isinstance(said, str) or len(said) > _LONGEST_VALUE:
                self._values[key] = None
                continue
            known[said] += 1
            if len(known) > _FEW_VALUES:
                self._values[key] = None

    def said(self, missing: int) -> str:
        """How many rows are missing, and the filters that exist."""
        said = f"{missing:,} more"
        if not self._values:
            return said
        filters = []
        for key, values in self._values.items():
            name = _flat(key if len(key) <= _LONGEST_KEY else key[:_LONGEST_KEY] + "...")
            if values and self._rows > len(values):
                few = [
                    f"{_flat(value)} {n:,}" if self._is_all else _flat(value)
                    for value, n in values.most_common()
                ]
                name += f" ({', '.join(few)})"
            filters.append(name)
        out = f"{said}. filters: "
        for number, name in enumerate(filters):
            if len(out) + len(name) > self._room - 40:
                return out + f" and {len(filters) - number} more"
            out += ("" if number == 0 else ", ") + name
        return out


def _flat(text: str) -> str:
    """On one line, and as UTF-8 can say it: an escape may stand for half a surrogate pair."""
    return " ".join(text.encode("utf-8", "replace").decode().split())
