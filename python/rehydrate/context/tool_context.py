"""ToolContext: what the tools of a ContextJIT share for one conversation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from typing import TYPE_CHECKING

from rehydrate.context.late_binding import ANSWER_WORDS_TOKENS
from rehydrate.context.model_view import ModelView
from rehydrate.context.remainders import Remainders
from rehydrate.context.retriever import Retriever
from rehydrate.formats.calls import ToolCall
from rehydrate.prompt.section import Section
from rehydrate.prompt.splicing import Spliced

if TYPE_CHECKING:
    from rehydrate.prompt.originals import Originals


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The conversation, its sources, what had no room, and what an answer may cost."""

    view: ModelView
    originals: Originals
    retriever: Retriever
    remainders: Remainders
    timezone: tzinfo
    budget_tokens: int

    @property
    def max_tokens(self) -> int:
        """The limit for the items of any answer, however empty the turn is."""
        return self.budget_tokens - ANSWER_WORDS_TOKENS

    @property
    def room_tokens(self) -> int:
        """The limit for the items of the next answer."""
        return min(self.max_tokens, self.view.room_tokens() - ANSWER_WORDS_TOKENS)

    def splice(self, call: ToolCall, found: list[Section]) -> Spliced:
        """Take into the running prompt what is new and fits."""
        return self.view.splice(call.id, found, self.max_tokens)
