"""Paging: as much of a text as there is room for, byte for byte, and where to go on.

Fetching: a call of fetch_whole, answered by what is kept under the handle.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from rehydrate import _engine
from rehydrate.context.answers import Telling, written
from rehydrate.context.retriever import PREFIX, Desk
from rehydrate.context.tool_calls import FETCH, MAX_QUERY_CHARACTERS, Answered, shown
from rehydrate.errors import InvalidArgumentError, UnknownHandleError
from rehydrate.formats.calls import ToolCall
from rehydrate.prompt.counting import COUNTER, text_tokens
from rehydrate.prompt.section import Provenance, Section
from rehydrate.prompt.sources.passages import excerpt, line_count
from rehydrate.prompt.splicing import heading_tokens

_CHARACTERS_A_TOKEN = 8
"""No page has more: longer tokens are rare, and a page that is too short is followed by another."""


class Page(NamedTuple):
    """A stretch of a text."""

    text: str
    start: int
    end: int
    total: int

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the text."""
        return self.end - self.start == self.total


def page_of(text: str, offset: int, room_tokens: int, end: int | None = None) -> Page:
    r"""The page that begins at a character and ends at `end` at the latest; where it has to be
    cut, after a line if that loses little.

    >>> page_of("one\ntwo\nthree\n", 4, 2)
    Page(text='two\n', start=4, end=8, total=14)
    """
    stop = len(text) if end is None else end
    most = min(stop, offset + max(room_tokens, 0) * _CHARACTERS_A_TOKEN)
    fits, beyond = offset, most + 1
    while beyond - fits > 1:
        middle = (fits + beyond) // 2
        is_within = _engine.count(text[offset:middle], COUNTER) <= room_tokens
        fits, beyond = (middle, beyond) if is_within else (fits, middle)
    if fits < stop:
        line = text.rfind("\n", offset, fits) + 1
        if line > offset + (fits - offset) // 2:
            fits = line
    return Page(text[offset:fits], offset, fits, len(text))


TRUST = 0.5
"""Of what is kept: a tool may have returned it."""
LEAST_CONFIDENCE = 0.02
"""Of a query's content so much must be known in the text: the model has said where to look, so it
is less than for request_context."""
_RANGE = re.compile(r"(\d+)(?:\s*(?:-|\u2013|\.\.|:|to)\s*(\d*))?")  # \u2013: an en dash


class Fetching(NamedTuple):
    """What is to be read: a text from a character on, some of its lines, or what a query finds."""

    handle: str
    offset: int = 0
    lines: tuple[int, int | None] | None = None
    query: str = ""

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Fetching:
        """From the arguments of a call; raises InvalidArgumentError that says what to send.

        >>> Fetching.read({"handle": "orig_a", "lines": "3400-3500"}).lines
        (3400, 3500)
        """
        given = {name: value for name, value in arguments.items() if value not in (None, "")}
        if unknown := sorted(map(str, given.keys() - FETCH.properties.keys())):
            names = ", ".join(FETCH.properties)
            raise InvalidArgumentError(f"there is no argument {shown(unknown[0])}; send {names}")
        handle, offset = given.get("handle"), given.get("offset", 0)
        if not isinstance(handle, str) or not handle.strip():
            raise InvalidArgumentError(
                f"handle is {shown(handle)}; send one that stands in the conversation, such as "
                "orig_..., mem_... or rest_..."
            )
        if type(offset) is not int or offset < 0:
            raise InvalidArgumentError(f"offset is {shown(offset)}; send a whole number from 0 up")
        ways = [name for name in ("offset", "lines", "query") if given.get(name)]
        if len(ways) > 1:
            raise InvalidArgumentError(f"{' and '.join(ways)} were sent; send one of them")
        handle = handle.strip()
        if handle.startswith(PREFIX) and ways:
            raise InvalidArgumentError(f"{handle} takes no {ways[0]}; send the handle alone")
        query = given.get("query", "")
        if not isinstance(query, str) or len(query) > MAX_QUERY_CHARACTERS:
            raise InvalidArgumentError(
                f"query is {shown(query)}; send a few words, at most {MAX_QUERY_CHARACTERS:,} "
                "characters"
            )
        lines = _lines(given["lines"]) if "lines" in given else None
        return cls(handle, offset, lines, query.strip())


def fetch_whole(desk: Desk, call: ToolCall) -> Answered:
    """The text under a handle, a part of it, or the rest of what was found; raises
    InvalidArgumentError with what to send instead."""
    fetching = Fetching.read(call.arguments())
    if fetching.handle.startswith(PREFIX):
        return _rest(desk, call, fetching.handle)
    text, source = _whole(desk, fetching.handle)
    if fetching.query:
        return _found(desk, call, fetching, text, source)
    return _part(desk, call, fetching, text, source)


def _rest(desk: Desk, call: ToolCall, handle: str) -> Answered:
    try:
        sections = desk.remainders.get(handle)
    except UnknownHandleError:
        raise InvalidArgumentError(
            f"nothing is kept under {shown(handle)} any more; ask again with request_context"
        ) from None
    spliced = desk.splice(call, list(sections))
    content = Telling(desk).rest(handle, spliced)
    return Answered(
        call, content, sections=spliced.sections, remaining=len(spliced.rest), query=handle
    )


def _part(desk: Desk, call: ToolCall, fetching: Fetching, text: str, source: str) -> Answered:
    """As much of what is asked for as fits: byte for byte."""
    handle, lines = fetching.handle, fetching.lines
    start, end = fetching.offset, len(text)
    if lines is not None:
        start, end = _span(text, lines, handle)
    elif start and start >= len(text):
        raise InvalidArgumentError(
            f"offset is {start:,}, and {handle} has {len(text):,} characters; send a smaller one"
        )
    around = heading_tokens(f"{handle}[{len(text)}:{len(text)}]", handle)
    page = page_of(text, start, desk.room_tokens - around, end)
    if end > start and not page.text:
        raise InvalidArgumentError(
            f"{handle} has {len(text):,} characters, and no room is left in this turn; answer "
            "with what you have"
        )
    spliced = desk.splice(call, [_section(handle, source, page)])
    if spliced.visible and page.is_whole:
        return Answered(call, f"{handle} is in front of you already, whole.", query=handle)
    where, onward = _where(text, page, end, in_lines=lines is not None)
    if spliced.visible:
        said = f"[{handle}, {where}, are in front of you already, word for word{onward}]"
        return Answered(call, said, query=handle)
    is_all = page.is_whole and not onward
    content = page.text if is_all else f"{page.text}\n\n[{where}{onward}]"
    return Answered(call, content, sections=spliced.sections, query=handle)


def _found(desk: Desk, call: ToolCall, fetching: Fetching, text: str, source: str) -> Answered:
    """The parts of the text that match best, with their line numbers."""
    handle = fetching.handle
    size = f"{line_count(text):,} lines, {len(text):,} characters"
    matches = desk.looking.passages_of(handle, text).best(
        fetching.query, min_confidence=LEAST_CONFIDENCE
    )
    room = min(desk.room_tokens - heading_tokens(handle, handle), desk.most_tokens // 2)
    content, spans = excerpt(text, matches, room)
    if not spans:
        said = (
            f"Nothing in {handle} ({size}) matches {shown(fetching.query)} better than the rest. "
            'Try words that stand there, or read it with lines="1-100" or an offset.'
        )
        return Answered(call, said, query=handle)
    items = tuple([f"{handle}[{start}:{end}]" for start, end in spans])
    (tokens,) = text_tokens([content])
    section = Section(
        f"{source}:{handle}",
        content,
        Provenance(source, items=items, trust=TRUST),
        tokens=tokens,
        handle=handle,
    )
    spliced = desk.splice(call, [section])
    numbers = ", ".join(_numbers(text, *span) for span in spans)
    what = f"{shown(fetching.query)} in {handle} ({size})"
    if not spliced.sections:
        why = "is in front of you already" if spliced.visible else "has no room in this turn"
        said = f"What matches {what} best, {numbers}, {why}."
        return Answered(call, said, query=handle)
    body = written(spliced.sections, desk.zone)
    content = (
        f"What matches {what} best, word for word:\n\n{body}\n\n"
        f'[{numbers}; fetch_whole with lines="a-b" or an offset reads what is around]'
    )
    return Answered(call, content, sections=spliced.sections, query=handle)


def _whole(desk: Desk, handle: str) -> tuple[str, str]:
    """The text under a handle, and what keeps it."""
    try:
        return desk.looking.whole(handle)
    except UnknownHandleError as gone:
        raise InvalidArgumentError(
            f"nothing is kept under {shown(handle)} ({gone}); send a handle as it stands in the "
            "conversation, or look with request_context"
        ) from None


def _lines(given: Any) -> tuple[int, int | None]:
    """A range of lines, counted from 1; without an end: all that follow."""
    said = str(given).replace(",", "").strip() if type(given) in (int, str) else ""
    found = _RANGE.fullmatch(said)
    if found is None:
        raise InvalidArgumentError(
            f'lines is {shown(given)}; send a range such as "3400-3500", or one number'
        )
    first = int(found[1])
    last = first if found[2] is None else int(found[2]) if found[2] else None
    if first < 1 or (last is not None and last < first):
        raise InvalidArgumentError(
            f"lines is {shown(given)}; lines are counted from 1, and a range ends where it begins "
            'or after, as in "3400-3500"'
        )
    return first, last


def _span(text: str, lines: tuple[int, int | None], handle: str) -> tuple[int, int]:
    """Where lines begin and end, in characters; of a range that goes on too far what there is."""
    first, last = lines
    total = line_count(text)
    if first > max(total, 1):
        raise InvalidArgumentError(
            f"lines begin at {first:,}, and {handle} has {total:,}; send a range within 1-{total}"
        )
    start = _begin_of(text, 0, first - 1)
    return start, len(text) if last is None else _begin_of(text, start, last - first + 1)


def _begin_of(text: str, at: int, lines: int) -> int:
    """Where the text goes on so many lines further."""
    for _ in range(lines):
        at = text.find("\n", at) + 1
        if not at:
            return len(text)
    return at


def _where(text: str, page: Page, end: int, *, in_lines: bool) -> tuple[str, str]:
    """What a page shows, and how to read on."""
    onward = f"; go on with offset {page.end}" if page.end < end else ""
    if not in_lines:
        return f"characters {page.start:,} to {page.end:,} of {page.total:,}", onward
    where = f"{_numbers(text, page.start, page.end)} of {line_count(text):,}"
    if onward and page.text.endswith("\n"):
        first = text.count("\n", 0, page.end) + 1
        onward = f'; go on with lines="{first}-{text.count(chr(10), 0, end - 1) + 1}"'
    return where, onward


def _numbers(text: str, start: int, end: int) -> str:
    """The lines of a stretch; its characters where it is a part of one line.

    >>> _numbers("a\\nb\\nc\\n", 2, 6), _numbers("abc", 1, 2)
    ('lines 2-3', 'characters 1-2 (line 1)')
    """
    first = text.count("\n", 0, start) + 1
    last = first + text.count("\n", start, max(end - 1, start))
    begins_line = start == 0 or text[start - 1] == "\n"
    ends_line = end == len(text) or text[end - 1] == "\n"
    if first == last and not (begins_line and ends_line):
        return f"characters {start}-{end} (line {first})"
    return f"line {first}" if first == last else f"lines {first}-{last}"


def _section(handle: str, source: str, page: Page) -> Section:
    item = handle if page.is_whole else f"{handle}[{page.start}:{page.end}]"
    (tokens,) = text_tokens([page.text])
    return Section(
        f"{source}:{item}",
        page.text,
        Provenance(source, items=(item,), trust=TRUST),
        tokens=tokens,
        handle=None if page.is_whole else handle,
    )
