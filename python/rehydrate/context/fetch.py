"""fetch_whole: a call of it, answered by what is kept under the handle."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from rehydrate import _native
from rehydrate._check import shown
from rehydrate.context.answers import format_items, format_remainder
from rehydrate.context.log import PREFIX
from rehydrate.context.retriever import Retriever
from rehydrate.context.tool_calls import FETCH, MAX_QUERY_CHARACTERS, Answered, read_given
from rehydrate.errors import InvalidArgumentError, UnknownHandleError
from rehydrate.formats.calls import ToolCall
from rehydrate.prompt.counting import COUNTER, text_tokens
from rehydrate.prompt.section import Provenance, Section
from rehydrate.prompt.splicing import excerpt, heading_tokens, line_count

_MOST = 10**15
"""No text has so many characters."""
_RANGE = re.compile(r"(\d{1,15})(?:\s*(?:-|\u2013|\.\.|:|to)\s*(\d{0,15}))?")  # \u2013: an en dash


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
        span = _native.line_span(text, *lines)
        if span is None:
            total = line_count(text)
            raise InvalidArgumentError(
                f"lines begin at {lines[0]:,}, and {handle} has {total:,}; send a range within "
                f"1-{total}"
            )
        start, end = span
    elif start and start >= len(text):
        raise InvalidArgumentError(
            f"offset is {start:,}, and {handle} has {len(text):,} characters; send a smaller one"
        )
    around = heading_tokens(f"{handle}[{len(text)}:{len(text)}]", handle)
    stop = _native.page_end(text, start, end, retriever.room_tokens - around, COUNTER)
    page, is_whole = text[start:stop], stop - start == len(text)
    if end > start and not page:
        raise InvalidArgumentError(
            f"{handle} has {len(text):,} characters, and no room is left in this turn; answer "
            "with what you have"
        )
    item = handle if is_whole else f"{handle}[{start}:{stop}]"
    whole = None if is_whole else handle
    section = _section(f"{source}:{item}", page, source, (item,), whole)
    spliced = retriever.splice(call, [section])
    if spliced.visible and is_whole:
        return Answered(call, f"{handle} is in front of you already, whole.", query=handle)
    where, read_on = _native.describe_page(text, start, stop, end, lines is not None)
    if spliced.visible:
        note = f"[{handle}, {where}, are in front of you already, word for word{read_on}]"
        return Answered(call, note, query=handle)
    content = page if is_whole and not read_on else f"{page}\n\n[{where}{read_on}]"
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
    numbers = ", ".join(_native.line_numbers(text, *span) for span in spans)
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
