"""fetch_whole: a call of it, answered by what is kept under the handle."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from rehydrate import _engine
from rehydrate._check import shown
from rehydrate.context.answers import format_items, format_remainder
from rehydrate.context.log import PREFIX
from rehydrate.context.retriever import Retriever
from rehydrate.context.tool_calls import FETCH, MAX_QUERY_CHARACTERS, Answered, read_given
from rehydrate.errors import InvalidArgumentError, UnknownHandleError
from rehydrate.formats.calls import ToolCall
from rehydrate.prompt.counting import COUNTER, text_tokens
from rehydrate.prompt.section import Provenance, Section
from rehydrate.prompt.sources.passages import excerpt, line_count
from rehydrate.prompt.splicing import heading_tokens

_MOST = 10**15
"""No text has so many characters."""
_CHARACTERS_A_TOKEN = 8
"""No page has more: longer tokens are rare, and a page that is too short is followed by another."""
_RANGE = re.compile(r"(\d{1,15})(?:\s*(?:-|\u2013|\.\.|:|to)\s*(\d{0,15}))?")  # \u2013: an en dash


class Page(NamedTuple):
    """A part of a text, by its characters."""

    text: str
    start: int
    end: int
    total: int

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole text."""
        return self.end - self.start == self.total


def page_of(text: str, offset: int, max_tokens: int, end: int | None = None) -> Page:
    r"""Return the page from a character on, up to ``end`` or as much as has room.

    It ends after a line where that loses less than half of it.

    >>> page_of("one\ntwo\nthree\n", 4, 2)
    Page(text='two\n', start=4, end=8, total=14)
    """
    stop = len(text) if end is None else end
    limit = min(stop, offset + max(max_tokens, 0) * _CHARACTERS_A_TOKEN)
    fits, beyond = offset, limit + 1
    while beyond - fits > 1:
        middle = (fits + beyond) // 2
        is_within = _engine.count(text[offset:middle], COUNTER) <= max_tokens
        fits, beyond = (middle, beyond) if is_within else (fits, middle)
    if fits < stop:
        line = text.rfind("\n", offset, fits) + 1
        if line > offset + (fits - offset) // 2:
            fits = line
    return Page(text[offset:fits], offset, fits, len(text))


def read_line_range(given: Any) -> tuple[int, int | None]:
    """Read a range of lines, counted from 1; without an end it means all that follow."""
    text = shown(given) if type(given) is int else given if type(given) is str else ""
    found = _RANGE.fullmatch(text.replace(",", "").strip())
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


def line_span(text: str, lines: tuple[int, int | None], handle: str) -> tuple[int, int]:
    """Return where lines begin and end, in characters. A range may end beyond the text."""
    first, last = lines
    total = line_count(text)
    if first > max(total, 1):
        raise InvalidArgumentError(
            f"lines begin at {first:,}, and {handle} has {total:,}; send a range within 1-{total}"
        )
    starts = [0, *(found.end() for found in re.finditer("\n", text)), len(text)]
    return starts[first - 1], len(text) if last is None else starts[min(last, len(starts) - 1)]


def describe_page(text: str, page: Page, end: int, *, in_lines: bool) -> tuple[str, str]:
    """Return what a page shows, and how to read on up to ``end``; "" where that is reached."""
    onward = f"; go on with offset {page.end}" if page.end < end else ""
    if not in_lines:
        return f"characters {page.start:,} to {page.end:,} of {page.total:,}", onward
    where = f"{line_numbers(text, page.start, page.end)} of {line_count(text):,}"
    if onward and page.text.endswith("\n"):
        first = text.count("\n", 0, page.end) + 1
        onward = f'; go on with lines="{first}-{text.count(chr(10), 0, end - 1) + 1}"'
    return where, onward


def line_numbers(text: str, start: int, end: int) -> str:
    """Return the numbers of the lines from start to end; those of its characters in part of a line.

    >>> line_numbers("a\\nb\\nc\\n", 2, 6), line_numbers("abc", 1, 2)
    ('lines 2-3', 'characters 1-2 (line 1)')
    """
    first = text.count("\n", 0, start) + 1
    last = first + text.count("\n", start, max(end - 1, start))
    begins_line = start == 0 or text[start - 1] == "\n"
    ends_line = end == len(text) or text[end - 1] == "\n"
    if first == last and not (begins_line and ends_line):
        return f"characters {start}-{end} (line {first})"
    return f"line {first}" if first == last else f"lines {first}-{last}"


TRUST = 0.5
"""Of what is kept: a tool may have returned it."""
MIN_CONFIDENCE = 0.02
"""The share of a query's content that the text must know. It is less than for request_context,
since the model has said where to look."""


class FetchArguments(NamedTuple):
    """The text to read: from a character on, some of its lines, or the parts a query finds."""

    handle: str
    offset: int = 0
    lines: tuple[int, int | None] | None = None
    query: str = ""

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> FetchArguments:
        """Read the arguments of a call; raises InvalidArgumentError that says what to send.

        >>> FetchArguments.read({"handle": "orig_a", "lines": "3400-3500"}).lines
        (3400, 3500)
        """
        given = read_given(arguments, FETCH)
        handle, offset = given.get("handle"), given.get("offset", 0)
        if not isinstance(handle, str) or not handle.strip():
            raise InvalidArgumentError(
                f"handle is {shown(handle)}; send one that stands in the conversation, such as "
                "orig_..., mem_... or rest_..."
            )
        if type(offset) is not int or not 0 <= offset < _MOST:
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
        lines = read_line_range(given["lines"]) if "lines" in given else None
        return cls(handle, offset, lines, query.strip())


def fetch_whole(retriever: Retriever, call: ToolCall) -> Answered:
    """Answer with the text under a handle, a part of it, or the rest of what was found.

    Raises InvalidArgumentError that says what to send instead.
    """
    arguments = FetchArguments.read(call.arguments())
    handle = arguments.handle
    if handle.startswith(PREFIX):
        sections = retriever.remainders.get(handle)
        if sections is None:
            raise InvalidArgumentError(
                f"nothing is kept under {shown(handle)} any more; ask again with request_context"
            )
        spliced = retriever.splice(call, list(sections))
        content = format_remainder(retriever, handle, spliced)
        left = len(spliced.no_room)
        return Answered(call, content, sections=spliced.sections, remaining=left, query=handle)
    try:
        text, source = retriever.whole(handle)
    except UnknownHandleError as gone:
        raise InvalidArgumentError(
            f"nothing is kept under {shown(handle)} ({gone}); send a handle as it stands in the "
            "conversation, or look with request_context"
        ) from None
    answer = _found if arguments.query else _part
    return answer(retriever, call, arguments, text, source)


def _part(
    retriever: Retriever, call: ToolCall, arguments: FetchArguments, text: str, source: str
) -> Answered:
    """Answer with as much of the asked part as fits, byte for byte."""
    handle, lines = arguments.handle, arguments.lines
    start, end = arguments.offset, len(text)
    if lines is not None:
        start, end = line_span(text, lines, handle)
    elif start and start >= len(text):
        raise InvalidArgumentError(
            f"offset is {start:,}, and {handle} has {len(text):,} characters; send a smaller one"
        )
    around = heading_tokens(f"{handle}[{len(text)}:{len(text)}]", handle)
    page = page_of(text, start, retriever.room_tokens - around, end)
    if end > start and not page.text:
        raise InvalidArgumentError(
            f"{handle} has {len(text):,} characters, and no room is left in this turn; answer "
            "with what you have"
        )
    item = handle if page.is_whole else f"{handle}[{page.start}:{page.end}]"
    whole = None if page.is_whole else handle
    section = _section(f"{source}:{item}", page.text, source, (item,), whole)
    spliced = retriever.splice(call, [section])
    if spliced.visible and page.is_whole:
        return Answered(call, f"{handle} is in front of you already, whole.", query=handle)
    where, read_on = describe_page(text, page, end, in_lines=lines is not None)
    if spliced.visible:
        note = f"[{handle}, {where}, are in front of you already, word for word{read_on}]"
        return Answered(call, note, query=handle)
    is_all = page.is_whole and not read_on
    content = page.text if is_all else f"{page.text}\n\n[{where}{read_on}]"
    return Answered(call, content, sections=spliced.sections, query=handle)


def _found(
    retriever: Retriever, call: ToolCall, arguments: FetchArguments, text: str, source: str
) -> Answered:
    """Answer with the parts of the text that match best, with their line numbers."""
    handle = arguments.handle
    size = f"{line_count(text):,} lines, {len(text):,} characters"
    passages = retriever.passages_of(text)
    matches = passages.best(arguments.query, min_confidence=MIN_CONFIDENCE)
    room = min(retriever.room_tokens - heading_tokens(handle, handle), retriever.max_tokens // 2)
    content, spans = excerpt(text, matches, room)
    if not spans:
        note = (
            f"Nothing in {handle} ({size}) matches {shown(arguments.query)} better than the rest. "
            'Try words that stand there, or read it with lines="1-100" or an offset.'
        )
        return Answered(call, note, query=handle)
    items = tuple([f"{handle}[{start}:{end}]" for start, end in spans])
    section = _section(f"{source}:{handle}", content, source, items, handle)
    spliced = retriever.splice(call, [section])
    numbers = ", ".join(line_numbers(text, *span) for span in spans)
    what = f"{shown(arguments.query)} in {handle} ({size})"
    if not spliced.sections:
        why = "is in front of you already" if spliced.visible else "has no room in this turn"
        note = f"What matches {what} best, {numbers}, {why}."
        return Answered(call, note, query=handle)
    body = format_items(spliced.sections, retriever.timezone)
    content = (
        f"What matches {what} best, word for word:\n\n{body}\n\n"
        f'[{numbers}; fetch_whole with lines="a-b" or an offset reads what is around]'
    )
    return Answered(call, content, sections=spliced.sections, query=handle)


def _section(
    id_: str, text: str, source: str, items: tuple[str, ...], handle: str | None
) -> Section:
    (tokens,) = text_tokens([text])
    provenance = Provenance(source, items=items, trust=TRUST)
    return Section(id_, text, provenance, tokens=tokens, handle=handle)
