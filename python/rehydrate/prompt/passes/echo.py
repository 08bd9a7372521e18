"""remove_echoes: replaces text that an earlier entry has by a reference to it.

The engine finds the runs of lines (`_engine.Echoes`). It holds the texts of the history, not copies
of them; a string in a tool's JSON input, which only the parsed message has as a text, it decodes
again when it needs it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rehydrate import _engine, formats
from rehydrate.entry_id import EntryId
from rehydrate.prompt.caps import TextChanges
from rehydrate.prompt.counting import prompt_tokens, upper_bound
from rehydrate.prompt.ir import PromptIR, Target, traced

__all__ = ["RemoveEchoes", "remove_echoes"]


NAME = "remove_echoes"
LEAST_CHARACTERS = 1_000
"""A shorter repetition stays, since a reference costs tokens too."""


@dataclass(frozen=True, slots=True)
class RemoveEchoes:
    """The pass that removes from tool results what their call or an earlier entry has already.

    One line replaces a run of lines that is above, in a tool's input, a result or a message. It
    says where the run is, and has the handle of the whole result, so the text can be read back
    even if that entry is left out later. Two lines are equal if they differ only in the number that
    a tool put before them. A reference never leads to a text that an earlier pass has cut, nor to
    another reference. Without originals nothing is removed. Nothing is removed from results that
    the model asked for by `request_context`.

    The pass runs before `prune` and after it. If a prompt must be pruned even without its echoes,
    it is pruned with them: otherwise a name could be lost together with the entry that a reference
    leads to. The second run then removes the echoes from what is kept.
    """

    least_characters: int = LEAST_CHARACTERS
    name: str = NAME
    _echoes: _engine.Echoes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Start without a conversation."""
        object.__setattr__(self, "_echoes", _engine.Echoes(self.least_characters))

    def __call__(self, ir: PromptIR, target: Target) -> PromptIR:
        """Return the IR without echoes, and a trace of it."""
        prune_traces = [trace for trace in ir.meta.trace if trace.name == "prune"]
        if prune_traces and not any(trace.changed for trace in prune_traces):
            return ir  # the first run has removed them
        after = self._without_echoes(ir, target)
        tokens = upper_bound(prompt_tokens(after), target.provider)
        if prune_traces or after.history is ir.history or tokens <= ir.budget.soft_tokens:
            return after
        return traced(self.name, ir, ir, (), ["left to what is kept: the prompt is pruned first"])

    def _without_echoes(self, ir: PromptIR, target: Target) -> PromptIR:
        changes = TextChanges(self.name, ir, target)
        history = ir.history
        if target.originals is None:
            return changes.applied("nothing is removed: there is no place to keep the originals")
        if not history.entries:
            return changes.applied()
        changed_ids = {name for trace in ir.meta.trace for name in trace.changed}
        indices = enumerate(history.indices) if changed_ids else ()
        changed = {n for n, index in indices if EntryId.of(index) in changed_ids}
        settled, known = (0, None) if changed_ids else target.settled_rows(self, ir)
        places = formats.FORMATS[history.rows.format].places
        rest = history.entries, places, changed, history.is_by_row
        hashes, echoes = self._echoes.find(history.rows_from(settled), settled, known, *rest)
        if hashes is None:
            hashes, echoes = self._echoes.find(history.rows_from(0), 0, None, *rest)
        changes.shorten(echoes)
        same = min(changes.first_position(), min(changed, default=len(history.entries)))
        target.note_settled(self, ir, same, hashes)
        return changes.applied()


remove_echoes = RemoveEchoes()
