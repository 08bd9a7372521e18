"""Loading: a call of load_memory, with the room that the turn has."""

from __future__ import annotations

from rehydrate.compiler.counts import text_tokens
from rehydrate.formats.calls import ToolCall
from rehydrate.ir import Provenance, Section
from rehydrate.memory.tools import LoadMemory
from rehydrate.runtime.jit.answered import Answered
from rehydrate.runtime.jit.desk import Desk
from rehydrate.runtime.jit.fetching import TRUST


def load_memory(desk: Desk, call: ToolCall, loader: LoadMemory) -> Answered:
    """What the tool answers, as a part of the running prompt like any other."""
    text, is_error = loader.answer(call, max(desk.room_tokens, 0))
    if is_error:
        return Answered(call, text, is_error=True)
    (tokens,) = text_tokens([text])
    name = f"load_memory:{call.id}"
    section = Section(name, text, Provenance("memory", trust=TRUST), tokens=tokens)
    return Answered(call, text, sections=desk.splice(call, [section]).sections)
