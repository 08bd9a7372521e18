"""JSON, cut so that the excerpt has the same schema: first rows of arrays, all keys of objects.

Values are cut in their source text, not parsed and written anew: numbers, escapes, the order of
keys and white space stay as the tool wrote them. A cut string ends in a mark, inside its quotes.
The number of missing rows, and the keys by which a caller can filter, come after the value.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from json import JSONDecoder
from typing import Any, NamedTuple

from rehydrate.compact.excerpts import mark
from rehydrate.prompt.caps.cutting import (
    MAX_NAMED_LINES,
    Excerpt,
    LineSelection,
    fair_share,
    filters_room,
    keep_by_new_names,
)

_SPACE = re.compile(r"[ \t\n\r]*")
_OPENING = re.compile(r'[ \t\n\r\ufeff]*(?:\[[ \t\n\r]*["{\[\]\-0-9tfn]|\{[ \t\n\r]*["}])')
_ROW_START = re.compile(r'\s*(?:\d{1,7}→\s*)?(?:\{\s*"|\[\s*["{\[\-0-9tfn])')
_ROW_NUMBER = re.compile(r" {0,7}\d{1,7}→")

# Numbers stay text: converting them takes time, and fails beyond 4,300 digits.
_DECODER = JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


class Member(NamedTuple):
    """An element of an array or a member of an object, with the span of its value."""

    key: str
    """"" in an array."""
    start: int
    end: int
    value: Any
    """The parsed value, its numbers as strings."""


def looks_like_json(text: str) -> bool:
    """Whether the text starts and ends like an array or an object."""
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
    """Whether nearly every line starts like an array or an object of its own."""
    return sum(1 for line in lines if _ROW_START.match(line)) > 0.9 * len(lines)


def row_number_length(line: str) -> int:
    """Return the length of the line number that a tool put before a row."""
    found = _ROW_NUMBER.match(line)
    return found.end() if found else 0


def skip(text: str, at: int) -> int:
    """Return the index of the next character that is not white space."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


def end_of(text: str, start: int) -> int:
    """Return the end of the value that starts at `start`; raises ValueError or RecursionError."""
    end = start
    for member in members(text, start):
        end = member.end
    end = skip(text, end if end > start else start + 1)
    if text[end : end + 1] not in ("]", "}"):
        raise ValueError(f"no end of the value at character {start}")
    return end + 1


def members(text: str, start: int) -> Iterator[Member]:
    """Yield the members of the array or object that starts at `start`, in their order.

    Raises ValueError for text that is not JSON, RecursionError for text that is nested too deeply.

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


_MIN_CHARS = 64
"""No value is cut to less: the mark alone would be longer."""
_MAX_DEPTH = 12
_ROW_SHARE = 0.6
"""Maximum share of the room for one row or member: a second one shows what they have in common."""
_LINE_SHARE = 1 / 3
"""The same for a row of JSON lines: these differ more."""
_MAX_PATHS = 8
"""Maximum number of paths whose missing rows are counted."""
_MAX_ROWS = 2_000
"""Maximum number of rows in which keys and their values are counted."""
_MAX_COLUMNS = 40
_MAX_VALUES = 8
"""Maximum number of different values of a key that is listed with its values."""
_MAX_VALUE_CHARS = 32
_MAX_KEY_CHARS = 40
_MAX_ROW_CHARS = 65_536
"""Longer rows of JSON lines are not parsed for the filters."""
_LITERALS = {True: "true", False: "false", None: "null"}
_STRING = re.compile(r'(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*+')
_HIGH_SURROGATE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_LOW_SURROGATE = re.compile(r"\\u[dD][c-fC-F]")


def cap_json(text: str, limit: int, rows: int) -> Excerpt:
    """Return as much of the value as fits, and below it how much is missing.

    Raises ValueError or RecursionError if the text is not JSON.
    """
    start = skip(text, 1 if text[:1] == "\ufeff" else 0)
    room = limit - filters_room(limit)
    for _ in range(4):
        cutter = _Cutter(text, rows, limit)
        body = cutter.cut(start, -1, max(room, _MIN_CHARS), "", 0)
        if skip(text, cutter.end) != len(text):
            raise ValueError("there is more after the value")
        summary = cutter.summary()
        whole = body + ("\n\n" + summary if summary else "")
        if len(whole) <= limit:
            break
        room -= len(whole) - limit + room // 10
    return Excerpt(whole, body)


def cap_json_lines(lines: list[str], limit: int, rows: int) -> Excerpt:
    """Return rows of JSON lines, and below them how many are missing.

    The first row comes first, then those with the most new names, then others from the top. Each is
    on its own line; long ones are cut inside.
    """
    lines = lines if lines[-1].strip() else lines[:-1]
    row_indices = [index for index, line in enumerate(lines) if line.strip()]
    columns = _Columns(filters_room(limit))
    for index in row_indices:
        columns.add_source(lines[index][row_number_length(lines[index]) :])
    room = limit - len(columns.summary(len(row_indices))) - 2
    row_room = max(_MIN_CHARS, round(room * _LINE_SHARE))
    cut = [_cut_line(line, row_room, rows) for line in lines[:MAX_NAMED_LINES]]
    cut += lines[MAX_NAMED_LINES:]
    selection = LineSelection(cut, room, max_line_characters=row_room)
    selection.keep_all(row_indices[:1])
    keep_by_new_names(selection, cut, limit=rows - 1)
    missing = [index for index in row_indices if not selection.is_kept(index)]
    selection.keep_all(missing[: rows - (len(row_indices) - len(missing))])
    excerpt = selection.render()
    missing_count = sum(1 for index in row_indices if not selection.is_kept(index))
    return Excerpt(f"{excerpt.text}\n\n{columns.summary(missing_count)}", excerpt.kept)


def _cut_line(line: str, limit: int, rows: int) -> str:
    """Return a row in at most `limit` characters, after its number if it has one."""
    if len(line) <= limit:
        return line
    start = row_number_length(line)
    return line[:start] + cut_value(line[start:], limit - start, rows)


def cut_value(source: str, limit: int, rows: int) -> str:
    """Return one value, cut; if it is not JSON, its first `limit` characters."""
    try:
        return _Cutter(source, rows, limit).cut(skip(source, 0), -1, limit, "", 0)
    except (ValueError, RecursionError, KeyError, IndexError):
        return source[:limit]


class _Missing(NamedTuple):
    """The number of a list's rows, or an object's keys, that are left out."""

    path: str
    noun: str
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    total: int


class _Cutter:
    """Cuts one value, and counts the rows and keys that it leaves out."""

    def __init__(self, text: str, rows: int, limit: int) -> None:
        self._text = text
        self._rows = rows
        self._missing: list[_Missing] = []
        self._columns = _Columns(filters_room(limit))
        self._missing_rows = 0
        self.end = 0
        """The end of the outermost value."""

    def summary(self) -> str:
        """Return the counts of what is missing, by path."""
        if self._missing_rows:
            return self._columns.summary(self._missing_rows)
        by_path: dict[str, list[_Missing]] = {}
        for missing in self._missing:
            by_path.setdefault(missing.path, []).append(missing)
        lines = []
        for path, group in list(by_path.items())[:_MAX_PATHS]:
            count, total = sum(each.count for each in group), sum(each.total for each in group)
            noun = f"more {group[0].noun}" if group[0].noun else "more"
            lines.append(f"{path}: {count:,} {noun} ({total - count:,} of {total:,})".lstrip(": "))
        if len(by_path) > _MAX_PATHS:
            lines.append(f"and in {len(by_path) - _MAX_PATHS:,} other places")
        return "\n".join(lines)

    def cut(self, start: int, end: int, limit: int, path: str, depth: int) -> str:
        """Return the value from `start` to `end` in at most `limit` characters.

        An `end` of -1 means that it is not known. Numbers and literals are never cut.
        """
        text = self._text
        if 0 <= end <= start + limit:
            return text[start:end]
        first = text[start]
        if first in "[{":
            return self._cut_container(start, limit, path, depth)
        return _cut_string(text, start, end, limit) if first == '"' else text[start:end]

    def _cut_container(self, start: int, limit: int, path: str, depth: int) -> str:
        """Return an array or an object, cut."""
        text, first = self._text, self._text[start]
        kept: list[Member] = []
        count, last = 0, start + 1
        for member in members(text, start):
            count, last = count + 1, member.end
            if depth == 0 and first == "[":
                self._columns.add(member.value)
            if first == "{" or count <= self._rows:
                kept.append(member._replace(value=None))
        close = skip(text, last)
        if text[close : close + 1] not in ("]", "}"):
            raise ValueError(f"no end of the value at character {start}")
        if depth == 0:
            self.end = close + 1
        if close + 1 - start <= limit:
            return text[start : close + 1]
        if depth > _MAX_DEPTH:
            self._missing.append(_Missing(path, "", count, count))
            return "[]" if first == "[" else "{}"
        tail = text[last:close] if close - last <= _MIN_CHARS else ""
        if first == "[":
            return self._cut_array(start, kept, count, limit, path, depth) + tail + "]"
        fixed = close + 1 - start - sum(member.end - member.start for member in kept)
        return self._cut_object(start, fixed, kept, limit, path, depth) + tail + "}"

    def _cut_array(
        self, start: int, kept: list[Member], count: int, limit: int, path: str, depth: int
    ) -> str:
        out, shown = self._prefix(start, kept, limit, None, path, depth)
        if depth == 0:
            self._missing_rows = count - shown
        elif shown < count:
            self._missing.append(_Missing(path, "", count - shown, count))
        return out

    def _cut_object(
        self, start: int, fixed: int, kept: list[Member], limit: int, path: str, depth: int
    ) -> str:
        share = fair_share([member.end - member.start for member in kept], limit - fixed)
        if share >= _MIN_CHARS:
            return self._prefix(start, kept, limit * 2, share, path, depth)[0]
        out, shown = self._prefix(start, kept, limit, None, path, depth)
        if shown < len(kept):
            self._missing.append(_Missing(path, "keys", len(kept) - shown, len(kept)))
        return out

    def _prefix(
        self,
        start: int,
        kept: list[Member],
        limit: int,
        member_limit: int | None,
        path: str,
        depth: int,
    ) -> tuple[str, int]:
        """Return the first members that fit, and their number.

        Each is cut to `member_limit`; without it, to its share of the room that is left. A row that
        would lose keys is left out, unless it is the first: the shown rows tell the schema.
        """
        text = self._text
        out = [text[start]]
        remaining, at = limit - 2, start + 1
        for number, member in enumerate(kept):
            name = _one_line(member.key[:_MAX_KEY_CHARS]) or "[]"
            member_path = f"{path}.{name}" if path and member.key else path + name
            missing_before = len(self._missing)
            between = text[at : member.start]
            room = member_limit
            if room is None:
                room = _row_room(limit, remaining - len(between))
            value = self.cut(member.start, member.end, room, member_path, depth + 1)
            lost_keys = any(missing.noun for missing in self._missing[missing_before:])
            length = len(between) + len(value)
            if length > remaining or (number and lost_keys and not member.key):
                del self._missing[missing_before:]
                return "".join(out), number
            out += [between, value]
            remaining -= length
            at = member.end
        return "".join(out), len(kept)


def _cut_string(text: str, start: int, end: int, limit: int) -> str:
    """Return the first characters of a string and a mark; no escape is cut in half."""
    room = max(0, limit - 48)
    found = _STRING.match(text, start + 1, start + 1 + room)
    cut = found.end() if found else start + 1
    ends_in_high = _HIGH_SURROGATE.search(text, max(start + 1, cut - 6), cut)
    if ends_in_high and _LOW_SURROGATE.match(text, cut):
        cut -= 6
    if "\ud800" <= text[cut - 1] <= "\udbff":
        cut -= 1
    omitted = end - 1 - cut
    return text[start:cut] + mark("characters", omitted, cut - start, end - 2 - start) + '"'


def _row_room(room: int, remaining: int) -> int:
    """Return the maximum characters of the next row."""
    return max(_MIN_CHARS, min(remaining, round(room * _ROW_SHARE)))


class _Columns:
    """The keys of rows, and the values of keys with few of them: the filters of a query."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._rows = 0
        self._is_complete = True
        self._values: dict[str, Counter[str] | None] = {}
        """Counts of the values by key; None for a key with too many values."""

    def add_source(self, line: str) -> None:
        """Add a row in JSON; a line that is not an object is skipped."""
        if len(line) > _MAX_ROW_CHARS or self._rows == _MAX_ROWS:
            self._is_complete = False
            return
        try:
            at = skip(line, 0)
            if line[at : at + 1] == "{":
                self.add({member.key: member.value for member in members(line, at)})
        except (ValueError, RecursionError):
            return

    def add(self, row: Any) -> None:
        """Add a row; one that is not an object is skipped."""
        if not isinstance(row, dict):
            return
        if self._rows == _MAX_ROWS:
            self._is_complete = False
            return
        self._rows += 1
        for key, value in row.items():
            if key not in self._values and len(self._values) >= _MAX_COLUMNS:
                continue
            counts = self._values.setdefault(key, Counter())
            if counts is None:
                continue
            text = _LITERALS[value] if value is None or isinstance(value, bool) else value
            if not isinstance(text, str) or len(text) > _MAX_VALUE_CHARS:
                self._values[key] = None
                continue
            counts[text] += 1
            if len(counts) > _MAX_VALUES:
                self._values[key] = None

    def summary(self, missing: int) -> str:
        """Return the number of missing rows, and the possible filters."""
        more = f"{missing:,} more"
        if not self._values:
            return more
        filters = []
        for key, counts in self._values.items():
            is_long = len(key) > _MAX_KEY_CHARS
            name = _one_line(key[:_MAX_KEY_CHARS] + "..." if is_long else key)
            if counts and self._rows > len(counts):
                values = [
                    f"{_one_line(value)} {count:,}" if self._is_complete else _one_line(value)
                    for value, count in counts.most_common()
                ]
                name += f" ({', '.join(values)})"
            filters.append(name)
        out = f"{more}. filters: "
        for number, name in enumerate(filters):
            if len(out) + len(name) > self._room - 40:
                return out + f" and {len(filters) - number} more"
            out += ("" if number == 0 else ", ") + name
        return out


def _one_line(text: str) -> str:
    """Return the text on one line, encodable as UTF-8: an escape may be half a surrogate pair."""
    return " ".join(text.encode("utf-8", "replace").decode().split())
