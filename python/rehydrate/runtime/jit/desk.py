"""Desk: what all the JIT's tools have at hand for one conversation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from typing import TYPE_CHECKING

from rehydrate.compiler.splice import Spliced
from rehydrate.context.late_binding import RESULT_TOKENS
from rehydrate.formats.calls import ToolCall
from rehydrate.ir import Section
from rehydrate.runtime.jit.looking import Looking
from rehydrate.runtime.jit.remainders import Remainders

if TYPE_CHECKING:
    from rehydrate.context import Context


@dataclass(frozen=True, slots=True)
class Desk:
    """The conversation, its sources, what had no room, and what an answer may cost."""

    context: Context
    looking: Looking
    remainders: Remainders
    zone: tzinfo
    budget_tokens: int

    @property
    def most_tokens(self) -> int:
        """For the items of any answer, however empty the turn is."""
        return self.budget_tokens - RESULT_TOKENS

    @property
    def room_tokens(self) -> int:
        """For the items of one answer."""
        return min(self.most_tokens, self.context.room_tokens - RESULT_TOKENS)

    def splice(self, call: ToolCall, found: list[Section]) -> Spliced:
        """What is new and fits goes into the running prompt."""
        return self.context.splice(call.id, found, self.most_tokens)
