"""ModelView: what the model of a context sees now, and what its own requests add to it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rehydrate.context.prompt_builder import PromptBuilder
from rehydrate.context.stored_thread import OtherThreads
from rehydrate.context.thread import Thread
from rehydrate.context.thread_originals import Remainders
from rehydrate.prompt.counting import prompt_tokens, room
from rehydrate.prompt.entries import History
from rehydrate.prompt.section import Section
from rehydrate.prompt.splicing import Spliced, VisibleText, splice

if TYPE_CHECKING:
    from rehydrate.prompt.sources.conversation import PartlyShown


_REPLY_RESERVE_TOKENS = 512
"""Left for the model's next words when it asks for more."""
_LEAST_SHARE = 8
"""However full the prompt is, the answers of a step may bring an eighth of the soft budget; the
next prompt is then compacted, as it would be soon. Else who asks late gets handles only."""


class ModelView:
    """One for each `Context`; any number of threads may use it."""

    __slots__ = ("_builder", "_last", "_thread")

    def __init__(self, thread: Thread, builder: PromptBuilder) -> None:
        """Read and extend this thread."""
        self._thread = thread
        self._builder = builder
        self._last: tuple[History | None, VisibleText] = (None, VisibleText.of(()))

    @property
    def remainders(self) -> Remainders:
        """What answers had no room for."""
        return self._thread.remainders

    def other_threads(self) -> OtherThreads | None:
        """Return the other conversations of the store; None where the thread is not stored."""
        log = self._thread.log
        if log is None:
            return None
        return OtherThreads(log.store, log.namespace, log.name, self._thread.entries.format)

    def splice(self, tool_call_id: str, found: Sequence[Section], budget_tokens: int) -> Spliced:
        """Take what was found for a tool call into the running turn.

        Whole new sections go in, within ``budget_tokens`` and what remains of the turn's and the
        job's budget. Nothing that is in the prompt changes. The caller puts the sections' texts
        into the result of the call and adds that to the context; the next prompt's IR has them in
        `late_bound`.
        """
        thread = self._thread
        with thread.lock, thread.change():
            spliced = splice(
                found,
                tool_call_id=tool_call_id,
                budget_tokens=min(budget_tokens, self._room_tokens()),
                visible=thread.visible_items(),
                visible_text=self._messages().text,
                visible_sections=self._visible_sections(),
            )
            thread.late.wait(tool_call_id, spliced.sections)
            return spliced

    def unsplice(self, tool_call_id: str, sections: Sequence[Section] | None = None) -> None:
        """Take back these sections, or all, of a call whose result nobody waits for any more."""
        with self._thread.lock, self._thread.change():
            self._thread.late.give_up(tool_call_id, sections)

    def text(self) -> VisibleText:
        """Return everything that the model sees, as one text."""
        with self._thread.lock:
            self._thread.undo_abandoned()
            messages = self._messages()
            sections = VisibleText.of([str(each.content) for each in self._visible_sections()])
            text = f"{messages.text}\n{sections.text}"
            return VisibleText(text, messages.lines | sections.lines)

    def items(self) -> frozenset[str]:
        """Return the ids of what the model sees whole (`Provenance.items`), entries among them."""
        with self._thread.lock:
            self._thread.undo_abandoned()
            return self._thread.visible_items()

    def partly_shown(self) -> tuple[PartlyShown, ...]:
        """Return the texts of entries of which the last prompt shows only a part: capped results,
        and repetitions that became a reference."""
        with self._thread.lock:
            self._thread.undo_abandoned()
            return self._thread.partly_shown()

    def left_out(self) -> tuple[History, list[datetime]]:
        """Return the entries that the last prompt does not show, and when each was said."""
        thread = self._thread
        with thread.lock:
            thread.undo_abandoned()
            return thread.state.left_out.of(thread.entries, thread.shown_indices())

    def room_tokens(self) -> int:
        """Return what an answer may bring into the running turn, within the job's limit."""
        with self._thread.lock:
            self._thread.undo_abandoned()
            return self._room_tokens()

    def _room_tokens(self) -> int:
        thread, budget = self._thread, self._builder.budget
        added = thread.entries.tokens_since(thread.state.seen) + thread.late.tokens
        shown = 0 if thread.state.ir is None else prompt_tokens(thread.state.ir)
        used = shown + added + _REPLY_RESERVE_TOKENS
        soft = room(budget.soft_tokens, self._builder.provider) - used
        hard = room(budget.hard_tokens, self._builder.provider) - used
        # The calls of one step share it.
        least = budget.soft_tokens // _LEAST_SHARE - thread.late.tokens
        left = max(soft, min(hard, least))
        if budget.max_job_tokens is not None:
            job = budget.max_job_tokens - thread.state.job_tokens
            left = min(left, job - added - _REPLY_RESERVE_TOKENS)
        return max(left, 0)

    def _messages(self) -> VisibleText:
        """Return the text of the messages in the last prompt; it is joined once a prompt."""
        history = self._thread.state.shown.history
        if self._last[0] is not history:
            self._last = history, VisibleText.of([each.text for each in history.messages])
        return self._last[1]

    def _visible_sections(self) -> tuple[Section, ...]:
        ir = self._thread.state.shown
        return (*ir.sections, *ir.late_bound, *self._thread.late.sections)
