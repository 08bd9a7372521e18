"""Loading: a call of load_memory, answered by the items that the model does not see yet."""

from __future__ import annotations

from rehydrate.compiler.counts import counted_sections
from rehydrate.compiler.sources.items import section_of, section_of_hit
from rehydrate.formats.calls import ToolCall
from rehydrate.memory.items import Hit
from rehydrate.memory.tools import LoadMemory
from rehydrate.runtime.jit.answered import Answered
from rehydrate.runtime.jit.asking import Asking
from rehydrate.runtime.jit.desk import Desk
from rehydrate.runtime.jit.excerpting import excerpted
from rehydrate.runtime.jit.telling import Telling

SOURCE = "memory"


def load_memory(desk: Desk, call: ToolCall, loader: LoadMemory) -> Answered:
    """The passages of a query, or a note whole; raises InvalidArgumentError with what to send
    instead."""
    asked, found = loader.found(call.arguments())
    sections = [
        section_of_hit(each, source=SOURCE)
        if isinstance(each, Hit)
        else section_of(each, source=SOURCE)
        for each in found
    ]
    spliced = desk.splice(call, excerpted(desk, counted_sections(sections), asked))
    if len(found) == len(spliced.sections) == 1 and spliced.sections[0].handle is None:
        content = str(spliced.sections[0].content)  # a note by itself: as it was written
    else:
        content = Telling(desk).found(Asking(asked), spliced, [], [SOURCE])
    return Answered(
        call, content, sections=spliced.sections, remaining=len(spliced.rest), query=asked
    )
