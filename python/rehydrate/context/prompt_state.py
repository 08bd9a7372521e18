"""PromptState: what a prompt changes in a thread."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from rehydrate.context.history import Entries
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import PromptIR

if TYPE_CHECKING:
    from rehydrate.cost.prefix import PrefixReport
    from rehydrate.prompt.compiled import CompiledPrompt


class LeftOut:
    """The entries that prompts since one compaction do not show. They are found once, when asked
    for: until the next compaction nothing more is left out."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        """Nobody asked yet."""
        self._found: tuple[History, list[datetime]] | None = None

    def of(self, entries: Entries, shown: list[int]) -> tuple[History, list[datetime]]:
        """Return the entries beside those at the indices in ``shown``, with their times."""
        if self._found is None:
            self._found = entries.left_out(shown)
        return self._found


@dataclass(frozen=True, slots=True)
class PromptState:
    """The state that a prompt changes. A prompt replaces it as a whole, or not at all."""

    ir: PromptIR | None = None
    """The IR of the last prompt."""
    sent: CompiledPrompt | None = None
    """The last prompt that was given out."""
    prefix: PrefixReport | None = None
    """How that prompt extends the one before."""
    seen: int = 0
    """How many entries the last prompt was made from."""
    turn: int | None = None
    """The index of the user turn it was made in."""
    job_tokens: int = 0
    prompts: int = 0
    compactions: int = 0
    missing_hot: frozenset[str] | None = None
    """The hot sources that did not answer when they were last asked; None: not asked yet."""
    left_out: LeftOut = field(default_factory=LeftOut)

    @property
    def shown(self) -> PromptIR:
        """The IR of the last prompt; an empty one before the first."""
        return PromptIR() if self.ir is None else self.ir

    def going_on_from(self, ir: PromptIR, entries: Entries) -> PromptState:
        """Return the state after a prompt with this IR was made from all entries."""
        compacted = was_pruned(ir)
        return replace(
            self,
            ir=ir,
            seen=len(entries),
            turn=entries.turn,
            compactions=self.compactions + compacted,
            left_out=LeftOut() if compacted else self.left_out,
        )


def was_pruned(ir: PromptIR) -> bool:
    """Return whether compiling dropped or shortened entries to meet the budget."""
    return any(trace.name == "prune" and trace.changed for trace in ir.meta.trace)
