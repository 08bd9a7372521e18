"""Fetching: a call of fetch_whole, answered by what is kept under the handle."""

from __future__ import annotations

from rehydrate.compiler.counts import text_tokens
from rehydrate.compiler.splice import HEADING_TOKENS
from rehydrate.errors import InvalidArgumentError, UnknownHandleError
from rehydrate.formats.calls import ToolCall
from rehydrate.ir import Provenance, Section
from rehydrate.runtime.jit.answered import Answered
from rehydrate.runtime.jit.asking import shown
from rehydrate.runtime.jit.desk import Desk
from rehydrate.runtime.jit.paging import Page, page_of
from rehydrate.runtime.jit.remainders import PREFIX
from rehydrate.runtime.jit.telling import Telling

TRUST = 0.5
"""Of what is kept: a tool may have returned it."""


def fetch_whole(desk: Desk, call: ToolCall) -> Answered:
    """The text under a handle, or the rest of what was found; raises InvalidArgumentError with what
    to send instead."""
    arguments = call.arguments()
    handle, offset = arguments.get("handle"), arguments.get("offset") or 0
    if not isinstance(handle, str) or not handle.strip():
        raise InvalidArgumentError(
            f"handle is {shown(handle)}; send one that stands in the conversation, such as "
            "orig_..., mem_... or rest_..."
        )
    if type(offset) is not int or offset < 0:
        raise InvalidArgumentError(f"offset is {shown(offset)}; send a whole number from 0 up")
    handle = handle.strip()
    if handle.startswith(PREFIX):
        return _rest(desk, call, handle)
    return _part(desk, call, handle, offset)


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


def _part(desk: Desk, call: ToolCall, handle: str, offset: int) -> Answered:
    """As much of the text as fits, from a character on: byte for byte."""
    text, source = _whole(desk, handle)
    if offset and offset >= len(text):
        raise InvalidArgumentError(
            f"offset is {offset:,}, and {handle} has {len(text):,} characters; send a smaller one"
        )
    page = page_of(text, offset, desk.room_tokens - HEADING_TOKENS)
    if text and not page.text:
        raise InvalidArgumentError(
            f"{handle} has {len(text):,} characters, and no room is left in this turn; answer "
            "with what you have"
        )
    spliced = desk.splice(call, [_section(handle, source, page)])
    if spliced.visible and page.is_whole:
        return Answered(call, f"{handle} is in front of you already, whole.", query=handle)
    where = f"characters {page.start:,} to {page.end:,} of {page.total:,}"
    onward = f"; go on with offset {page.end}" if page.end < page.total else ""
    if spliced.visible:
        said = f"[{handle}, {where}, are in front of you already, word for word{onward}]"
        return Answered(call, said, query=handle)
    content = f"{page.text}\n\n[{where}{onward}]" if onward else page.text
    return Answered(call, content, sections=spliced.sections, query=handle)


def _whole(desk: Desk, handle: str) -> tuple[str, str]:
    """The text under a handle, and what keeps it."""
    try:
        return desk.context.originals.get(handle), "original"
    except UnknownHandleError as error:
        gone = error
    for memory in desk.looking.memories:
        try:
            return memory.get(handle).text, "memory"
        except UnknownHandleError:
            continue
    raise InvalidArgumentError(
        f"nothing is kept under {shown(handle)} ({gone}); send a handle as it stands in the "
        "conversation, or look with request_context"
    )


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
