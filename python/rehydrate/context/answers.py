"""The answers of the JIT's tools: request_context, load_memory and fetch_whole.

All items of one answer are in one fence (`fenced_items` in `rust/rehydrate-py/src/retrieval.rs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from rehydrate import _native
from rehydrate._check import shown
from rehydrate._native import (
    REMAINDER_PREFIX,
    SHORTEST_QUOTE,
    FetchArguments,
    describe,
    fenced_items,
    fetch_arguments,
    heading_tokens,
    late_tokens,
)
from rehydrate._text import plural
from rehydrate.compact.signals import WeightedQuery
from rehydrate.context.retriever import Retriever, excerpt_tokens
from rehydrate.context.tool_calls import FETCH, Answered, ContextQuery
from rehydrate.errors import InvalidArgumentError, UnknownHandleError
from rehydrate.formats.calls import ToolCall
from rehydrate.memory.items import Hit
from rehydrate.memory.tools import LoadMemory
from rehydrate.prompt.counting import counted_sections, text_of, text_tokens
from rehydrate.prompt.entries import COUNTER
from rehydrate.prompt.originals import TRUST as TOOL_TRUST
from rehydrate.prompt.passes.packing import cut_to, is_divisible
from rehydrate.prompt.section import Provenance, Section, SourceReport, changed
from rehydrate.prompt.sources.memory import section_of, section_of_hit
from rehydrate.prompt.splicing import Spliced, excerpt, line_count

_SHOWN = "[shown already]"


def with_excerpt(retriever: Retriever, found: Sequence[Section], query: str) -> list[Section]:
    """Return the sections; of those that could never come whole, the most relevant with its best
    blocks alone.

    Blocks are word for word, each gap is marked, and the handle of the whole is with them. A
    line that the model sees already is replaced by a mark. Dividing a text costs milliseconds, and
    the source of cut parts brings the lines of others: two bring no more of the names used next
    (D61).
    """
    long = [section for section in found if is_too_long(retriever, section)]
    best = max(long, key=lambda section: section.relevance, default=None)
    return [_excerpt(retriever, each, query) if each is best else each for each in found]


def is_too_long(retriever: Retriever, section: Section) -> bool:
    """Return whether the section would fit into no answer."""
    return late_tokens(section) > retriever.max_tokens


def handle_of(retriever: Retriever, section: Section) -> str | None:
    """Return a handle of the whole section; None if nothing can keep it."""
    handle = section.handle or section.metadata.get("handle")
    if handle:
        return str(handle)
    try:
        return retriever.originals.put(str(section.content))
    except Exception:  # the match is answered all the same
        return None


def _excerpt(retriever: Retriever, section: Section, query: str) -> Section:
    if not is_divisible(section):
        return section
    handle = handle_of(retriever, section)
    if handle is None:
        return section
    lines = str(section.content).split("\n")
    visible = retriever.visible_text().lines.intersection(lines)
    quoted = {line for line in visible if len(line.strip()) >= SHORTEST_QUOTE}
    # A mark for each line, so that line numbers are those of the whole.
    unseen = "\n".join([_SHOWN if line in quoted else line for line in lines])
    if not unseen.replace(_SHOWN, "").strip():
        return section
    limit = excerpt_tokens(retriever.max_tokens)
    asked = WeightedQuery(query) if query else None
    cut = cut_to(replace(section, content=unseen), asked, limit)
    if is_too_long(retriever, cut) and is_divisible(cut):  # of megabytes one block may be too long
        cut = cut_to(cut, asked, limit)
    return section if is_too_long(retriever, cut) else replace(cut, handle=handle)


MAX_LONG_ITEMS_NAMED = 3


def format_answer(
    retriever: Retriever,
    query: ContextQuery,
    spliced: Spliced,
    failed: Sequence[SourceReport],
    asked: Sequence[str],
) -> str:
    """Return the answer to a query: the items, the omitted ones, and the sources that failed.

    ``asked`` names all sources that were asked.
    """
    what = f"for {shown(query.query)}"
    if query.time_range is not None:
        what += f", {describe(query.time_range, retriever.timezone)}"
    if spliced.sections:
        items = fenced_items(spliced.sections, retriever.timezone)
        body = [f"Found {what}, word for word:", items]
    elif spliced.no_room:
        count = plural(len(spliced.no_room), "item")
        body = [f"{count} found {what}; there is no room for them here."]
    elif spliced.visible:
        body = [f"All that was found {what} is in front of you already; nothing is sent twice."]
    elif len(failed) < len(asked):
        body = [
            f"Nothing was found {what} beyond what you see already (asked: "
            f"{', '.join(asked)}). Try other words, another time_range or another scope."
        ]
    else:
        body = []
    body += _format_rest(retriever, spliced.no_room)
    for report in failed:
        # An exception gives its type: its text may be private.
        why = report.detail.partition(":")[0] if report.status == "failed" else report.detail
        body.append(
            f"{report.name} gave no answer ({why}): what it knows is missing here. Ask again "
            "later, or go on without it."
        )
    return "\n\n".join(body)


def format_remainder(retriever: Retriever, handle: str, spliced: Spliced) -> str:
    """Return the answer to fetch_whole of a remainder."""
    if spliced.sections:
        items = fenced_items(spliced.sections, retriever.timezone)
        body = [f"More of {handle}, word for word:", items]
    elif spliced.no_room:
        body = [f"There is no room for more of {handle} here."]
    else:
        body = [f"All of {handle} is in front of you already; nothing is sent twice."]
    return "\n\n".join([*body, *_format_rest(retriever, spliced.no_room)])


def _format_rest(retriever: Retriever, rest: Sequence[Section]) -> list[str]:
    """Return lines with the omitted sections, and the handles by which they are read."""
    long = [section for section in rest if is_too_long(retriever, section)]
    short = [section for section in rest if section not in long]
    lines = []
    if short:
        tokens = sum(section.tokens or 0 for section in short)
        lines.append(
            f"[{plural(len(short), 'item')} more, {tokens:,} tokens, had no room: fetch_whole "
            f"{retriever.remainders.put(short)} gives them]"
        )
    long.sort(key=lambda section: -section.relevance)
    for section in long[:MAX_LONG_ITEMS_NAMED]:
        handle = handle_of(retriever, section)
        how = f"fetch_whole {handle} reads it in parts" if handle else "ask more narrowly"
        name = section.title or section.id
        lines.append(f"[{name}, {section.tokens:,} tokens, is too long for one answer: {how}]")
    if len(long) > MAX_LONG_ITEMS_NAMED:
        others = plural(len(long) - MAX_LONG_ITEMS_NAMED, "item")
        lines.append(f"[{others} more are as long: ask more narrowly]")
    return lines


MEMORY_SOURCE = "memory"
MIN_FETCH_CONFIDENCE = 0.02
"""The share of a query's content that the text must know. It is less than for request_context,
since the model has said where to look."""


def request_context(retriever: Retriever, call: ToolCall, now: datetime) -> Answered:
    """Answer with as many of the found sections as are new and fit.

    Raises InvalidArgumentError that says what to send instead.
    """
    query = ContextQuery.read(call.arguments(), now, retriever.timezone)
    hydrated = retriever.find(query, retriever.visible_items())
    if not hydrated:
        raise InvalidArgumentError(
            f"scope is {query.scope!r}, and there is nothing of that kind to look in; this "
            f"conversation has {', '.join(retriever.kinds)}: send another scope, or none"
        )
    reports = [each.report for each in hydrated]
    failed = [report for report in reports if report.status in ("late", "failed")]
    sections = [section for each in hydrated for section in each.sections]
    # Messages become speakers and words, and tokens are those of the words: no title is above them.
    texts = [
        each.content if isinstance(each.content, str) else text_of(each, "auto")
        for each in sections
    ]
    found = [
        changed(section, content=text, tokens=tokens)
        for section, text, tokens in zip(sections, texts, text_tokens(texts), strict=True)
    ]
    shortened = with_excerpt(retriever, _without_overlaps(retriever, found), query.query)
    spliced = retriever.splice(call, shortened)
    asked = [report.name for report in reports]
    return Answered(
        call,
        format_answer(retriever, query, spliced, failed, asked),
        is_error=len(failed) == len(reports),
        sections=spliced.sections,
        remaining=len(spliced.no_room),
        query=query.query,
        scope=query.scope,
        time_range=query.time_range,
        degraded=tuple([note for each in hydrated for note in each.degraded]),
    )


def load_memory(retriever: Retriever, call: ToolCall, loader: LoadMemory) -> Answered:
    """Answer with the passages of a query, or a whole note, without what the model sees already.

    Raises InvalidArgumentError that says what to send instead.
    """
    query, found = loader.found(call.arguments())
    sections = [
        section_of_hit(each, source=MEMORY_SOURCE)
        if isinstance(each, Hit)
        else section_of(each, source=MEMORY_SOURCE)
        for each in found
    ]
    spliced = retriever.splice(call, with_excerpt(retriever, counted_sections(sections), query))
    if len(found) == len(spliced.sections) == 1 and spliced.sections[0].handle is None:
        content = str(spliced.sections[0].content)  # a note by itself: as it was written
    else:
        content = format_answer(retriever, ContextQuery(query), spliced, [], [MEMORY_SOURCE])
    return Answered(
        call, content, sections=spliced.sections, remaining=len(spliced.no_room), query=query
    )


def _without_overlaps(retriever: Retriever, found: Sequence[Section]) -> list[Section]:
    """Return the sections without the parts of a message that comes whole, and without long
    messages of which parts were found."""
    part_of = {id(each): each.metadata["part_of"] for each in found if "part_of" in each.metadata}
    others = [each for each in found if id(each) not in part_of]
    long = [each for each in others if is_too_long(retriever, each)]
    whole = {item for each in others if each not in long for item in each.provenance.items}
    in_parts = {item for item in part_of.values() if item not in whole}
    left_out = {id(each) for each in found if part_of.get(id(each)) in whole}
    left_out |= {id(each) for each in long if not in_parts.isdisjoint(each.provenance.items)}
    return [each for each in found if id(each) not in left_out]


def fetch_whole(retriever: Retriever, call: ToolCall) -> Answered:
    """Answer with the text under a handle, a part of it, or the rest of what was found.

    Raises InvalidArgumentError that says what to send instead.
    """
    arguments = fetch_arguments(call.arguments(), FETCH.schema["properties"])
    handle = arguments.handle
    if handle.startswith(REMAINDER_PREFIX):
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
            f"nothing is kept under {shown(handle)} ({gone}); send a handle as it appears in the "
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
    matches = passages.best(arguments.query, min_confidence=MIN_FETCH_CONFIDENCE)
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
    body = fenced_items(spliced.sections, retriever.timezone)
    content = (
        f"What matches {what} best, word for word:\n\n{body}\n\n"
        f'[{numbers}; fetch_whole with lines="a-b" or an offset reads what is around]'
    )
    return Answered(call, content, sections=spliced.sections, query=handle)


def _section(
    id_: str, text: str, source: str, items: tuple[str, ...], handle: str | None
) -> Section:
    (tokens,) = text_tokens([text])
    provenance = Provenance(source, items=items, trust=TOOL_TRUST)
    return Section(id_, text, provenance, tokens=tokens, handle=handle)
