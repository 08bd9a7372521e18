"""Loading: a call of load_memory, with the room that the turn has."""

from __future__ import annotations

from rehydrate.compiler.counts import text_tokens
from rehydrate.compiler.splice import HEADING_TOKENS
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats.calls import ToolCall
from rehydrate.ir import Provenance, Section
from rehydrate.memory.tools import LoadMemory
from rehydrate.runtime.jit.answered import Answered
from rehydrate.runtime.jit.desk import Desk
from rehydrate.runtime.jit.fetching import TRUST
from rehydrate.runtime.jit.paging import page_of


def load_memory(desk: Desk, call: ToolCall, loader: LoadMemory) -> Answered:
    """What the tool answers, as a part of the running prompt like any other."""
    text, is_error = loader.answer(call)
    if is_error:
        return Answered(call, text, is_error=True)
    page = page_of(text, 0, desk.room_tokens - HEADING_TOKENS)
    if text and not page.text:
        raise InvalidArgumentError("no room is left in this turn; answer with what you have")
    name = f"load_memory:{call.id}"
    (tokens,) = text_tokens([page.text])
    section = Section(name, page.text, Provenance("memory", trust=TRUST), tokens=tokens)
    spliced = desk.splice(call, [section])
    if spliced.visible:
        return Answered(call, "It is in front of you already, word for word.")
    shown = page.text
    if page.end < page.total:
        shown += (
            f"\n\n[characters 0 to {page.end:,} of {page.total:,}: there is no room for more; send "
            "a query for what you need]"
        )
    return Answered(call, shown, sections=spliced.sections)
