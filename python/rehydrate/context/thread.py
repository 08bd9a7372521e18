"""Thread: the state of one conversation, which it alone changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from rehydrate._check import check_type
from rehydrate._concurrency.async_wrappers import HybridLock
from rehydrate._concurrency.workers import run_in_thread
from rehydrate._native import ContextStore, PromptRecords, late_tokens, user_message
from rehydrate.context.history import Entries, PromptState
from rehydrate.context.log import RemainderStore, Snapshot
from rehydrate.cost.prefix import prefix_report
from rehydrate.errors import BudgetExceededError, InvalidArgumentError
from rehydrate.messages import Message, PieceKind
from rehydrate.prompt.counting import counted_tools, prompt_tokens, room
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import CompiledPrompt, PromptIR, was_pruned
from rehydrate.prompt.section import Section, ToolDef

if TYPE_CHECKING:
    from rehydrate.context.history import Waiting
    from rehydrate.context.log import Log, LogMark
    from rehydrate.formats.calls import ToolCall
    from rehydrate.messages import Provider
    from rehydrate.prompt.request import Budget


@dataclass(slots=True, eq=False)
class PromptCall:
    """One call of `Context.prompt`: whether its caller still waits, and the thread before it.

    A cancelled coroutine leaves a worker thread, which makes its prompt to the end. The
    coroutine only marks the call as given up and waits for nothing. The worker restores the
    snapshot, on disk too, before it releases the lock. If it was done already, another thread or
    the next call on the context does that, unless something came after the prompt.
    """

    before: tuple[Snapshot, LogMark | None] | None = None
    is_given_up: bool = False
    is_made: bool = False


class ToolHandler(Protocol):
    """Answers calls of tools that a context offers, as `ContextJIT` does."""

    def handles(self, call: ToolCall) -> bool:
        """Return whether the call is one of its own."""

    async def aanswer(self, call: ToolCall) -> Any:
        """Answer the call."""


ANSWER_WORDS_TOKENS = 200
"""The most that an answer says besides its sections."""
_REPLY_RESERVE_TOKENS = 512
"""Left for the model's next words when it asks for more."""
_LEAST_SHARE = 8
"""However full the prompt is, the answers of a step may bring an eighth of the soft budget; the
next prompt is then compacted, as it would be soon. Otherwise late requests get handles only."""


class Thread:
    """The mutable state of one `Context`. Hold `lock` to change it; only its methods do.

    A prompt that fails, or that nobody waits for any more, leaves the thread as it was before. So
    does any change that its `log` cannot write, if it has one.
    """

    def __init__(
        self,
        entries: Entries,
        *,
        state: PromptState = PromptState(),  # noqa: B008  it is frozen
        waiting: Waiting | None = None,
        store: ContextStore | None = None,
    ) -> None:
        """Begin with these entries and what was made of them."""
        self.lock = HybridLock()
        self.entries = entries
        self.state = state
        self.waiting: Waiting = waiting or {}
        """Until the next prompt is sent: by then all results are in. A result that never comes (the
        turn was cancelled, the loop added something else) binds nothing, and its sections can be
        asked for again."""
        self.remainders = RemainderStore()
        self.store = store or ContextStore()
        self.tool_handler: ToolHandler | None = None
        self.log: Log | None = None
        """The log to which every change is written. It has all earlier ones when it is set."""
        self._left_out: tuple[object, tuple[History, list[datetime]]] | None = None
        """The number of the last compaction with what was taken back, and the entries that prompts
        since do not show."""
        self._last_call: PromptCall | None = None
        """The last change, if it was a call of `prompt`."""
        self._records: PromptRecords | None = None
        """The records of the last prompt, if somebody asked."""

    # Changes, and a way back

    def snapshot(self) -> Snapshot:
        """Return the thread as it is now."""
        return Snapshot(len(self.entries), self.state, self.waiting, self.store.mark())

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold the lock on the thread, without a prompt that nobody received."""
        with self.lock:
            self.undo_abandoned()
            yield

    @contextmanager
    def attempt(self, call: PromptCall) -> Iterator[None]:
        """Make a prompt; whatever the block raises, and if nobody waits for the prompt any more,
        the thread is as it was before."""
        with self.change(ends_turn=True) as before:
            call.before = before
            self._last_call = call
            yield
        call.is_made = True
        self.undo_abandoned()

    def give_up_call(self, call: PromptCall) -> None:
        """Note that nobody waits for a prompt any more; it is undone at once, or when it is made.
        This waits for nothing."""
        call.is_given_up = True
        if call.is_made and self.log is not None:  # else its worker sees that
            with suppress(RuntimeError):  # no more threads: the next call undoes it
                run_in_thread(self._try_to_undo)

    def _try_to_undo(self) -> None:
        with suppress(Exception), self.reading():
            pass

    @contextmanager
    def change(self, *, ends_turn: bool = False) -> Iterator[tuple[Snapshot, LogMark | None]]:
        """Change the thread; whatever the block or its log raises, it is as it was before.

        The log writes the change at once if it writes each of them, or the change ``ends_turn``.
        """
        self.settle()
        log = self.log
        if log is not None:
            log._check_open()
        mark = None if log is None else log.mark
        before = self.snapshot()
        try:
            yield before, mark
            if log is not None and (ends_turn or log.saves_entries):
                if ends_turn:
                    self.update_store()
                log.save(self)
        except BaseException:
            self._last_call = None
            self._restore(before)
            if log is not None and mark is not None:
                log.doubt(mark)
            raise

    def undo_abandoned(self) -> None:
        """Restore what was before the last prompt, if nobody received that prompt."""
        abandoned = self._before_abandoned()
        if abandoned is not None:
            before, mark = abandoned
            if self.log is not None and mark is not None:
                self.log.undo(mark)
            self._last_call = None
            self._restore(before)

    def settle(self) -> None:
        """Undo an abandoned prompt; any other holds from now on. Call it before a change."""
        self.undo_abandoned()
        self._last_call = None

    def update_store(self) -> None:
        """Have the context store read the entries that were added since it last did."""
        self.entries.read_into(self.store)

    def _before_abandoned(self) -> tuple[Snapshot, LogMark | None] | None:
        call = self._last_call
        return call.before if call is not None and call.is_given_up else None

    def _restore(self, before: Snapshot) -> None:
        if self.state.compactions != before.state.compactions:
            self._left_out = None
        self.entries.back_to(before.entries)
        self.state, self.waiting = before.state, before.waiting
        self.store.back_to(before.store)

    # Prompts

    def ask(self, query: str | None, clock: Callable[[], float]) -> str:
        """Add what the user says now, and return it; None and a blank text are nothing, "".

        Raises InvalidArgumentError while a tool call waits for its result.
        """
        if query is not None:
            check_type("query", query, str, "pass a string, or None")
        if query is None or not query.strip():
            return ""
        message = user_message(query, self.entries.format)
        if parted := self.entries.parted_by(message):
            raise InvalidArgumentError(
                f"query would come before results that are still to come: {parted[0]}; "
                "add the results first, or leave query out"
            )
        self.entries.extend([message], clock())
        return query

    def send(
        self, prompt: CompiledPrompt, missing_hot: frozenset[str] | None, max_job_tokens: int | None
    ) -> None:
        """Note the prompt as the one before the model. Raise if the job is over its limit."""
        state = self.state
        report = None if state.sent is None else prefix_report(state.sent, prompt)
        fresh = prompt.tokens - (report.shared_tokens if report else 0)
        job_tokens = state.job_tokens + fresh
        if max_job_tokens is not None and job_tokens > max_job_tokens:
            raise BudgetExceededError(
                "the job",
                job_tokens,
                max_job_tokens,
                "end it here, set context.budget to one with more, or call context.new_job() "
                "where a new job begins",
                "Budget.max_job_tokens",
            )
        self.state = state._replace(
            sent=prompt, prefix=report, job_tokens=job_tokens, prompts=state.prompts + 1
        )
        self.go_on_from(prompt.ir, missing_hot)
        self.waiting = {}  # calls without a result now never got an answer

    def go_on_from(self, ir: PromptIR, missing_hot: frozenset[str] | None) -> None:
        """Make this IR, which is of all entries, what the next prompt extends."""
        if self.waiting:
            new = self.entries.since(self.state.seen).messages
            answers = {answer for message in new for answer in message.answers}
            self.waiting = {id_: of for id_, of in self.waiting.items() if id_ not in answers}
        ir.history.shrink_parse_cache()
        self.state = self.state._replace(
            ir=ir,
            seen=len(self.entries),
            turn=self.entries.turn,
            compactions=self.state.compactions + was_pruned(ir),
            missing_hot=missing_hot,
        )

    def swap(self, ir: PromptIR) -> None:
        """Have a summary in this IR in place of entries of the last prompt."""
        self.state = self.state._replace(ir=ir, compactions=self.state.compactions + 1)

    def offer(self, tools: Sequence[ToolDef], handler: ToolHandler | None) -> None:
        """Offer new tools too, and have their calls answered by the handler, if there is one."""
        ir = self.state.ir
        if tools and ir is not None:
            ir = ir.replace(tools=(*ir.tools, *counted_tools(tools)))
            self.state = self.state._replace(ir=ir)
        if handler is not None:
            self.tool_handler = handler

    def begin_job(self) -> None:
        """Count the tokens of a job from here."""
        self.state = self.state._replace(job_tokens=0)

    # Sections that wait for the results of calls

    def wait(self, tool_call_id: str, sections: Sequence[Section]) -> None:
        """Note what the result of this call will show; a second call of one id adds to it."""
        before = self.waiting.get(tool_call_id, ())
        self.waiting = {**self.waiting, tool_call_id: (*before, *sections)}

    def give_up(self, tool_call_id: str, sections: Sequence[Section] | None) -> None:
        """Stop waiting for these sections of a call, or for all of them."""
        waiting = dict(self.waiting)
        found = waiting.pop(tool_call_id, ())
        left = [one for one in found if sections is not None and one not in sections]
        self.waiting = {**waiting, tool_call_id: tuple(left)} if left else waiting

    def bound(self, messages: Sequence[Message]) -> Iterator[Section]:
        """Yield the waiting sections that results in these messages show."""
        for message in messages:
            for tool_call_id in self.waiting.keys() & set(message.answers):
                results = [p.text for p in message.pieces if p.kind == PieceKind.TOOL_RESULT]
                for section in self.waiting[tool_call_id]:
                    if any(str(section.content) in text for text in results):
                        yield section

    def room_tokens(self, budget: Budget, provider: Provider) -> int:
        """Return the room of an answer in the running turn, within the job's limit."""
        state = self.state
        waiting = sum(map(late_tokens, self.waiting_sections))
        waiting += ANSWER_WORDS_TOKENS * len(self.waiting)
        added = self.entries.tokens_since(state.seen) + waiting
        shown = 0 if state.ir is None else prompt_tokens(state.ir)
        used = shown + added + _REPLY_RESERVE_TOKENS
        soft = room(budget.soft_tokens, provider) - used
        hard = room(budget.hard_tokens, provider) - used
        # The calls of one step share it.
        least = budget.soft_tokens // _LEAST_SHARE - waiting
        left = max(soft, min(hard, least))
        if budget.max_job_tokens is not None:
            job = budget.max_job_tokens - state.job_tokens
            left = min(left, job - added - _REPLY_RESERVE_TOKENS)
        return max(left, 0)

    @property
    def waiting_sections(self) -> list[Section]:
        """All sections that wait."""
        return [section for sections in self.waiting.values() for section in sections]

    # Entries

    def history(self) -> list[Any]:
        """Return all entries. It takes no lock, so it answers while a prompt is made."""
        before = self._before_abandoned()
        return self.entries.all(None if before is None else before[0].entries)

    def shown_indices(self) -> list[int]:
        """Return the indices of the entries the model sees, with those since its last prompt."""
        return [*self.state.shown.history.indices, *range(self.state.seen, len(self.entries))]

    def prompt_records(self) -> PromptRecords:
        """Return the last prompt's records of entries and sections."""
        shown = self.state.shown
        if self._records is None or self._records.ir is not shown:
            self._records = PromptRecords(shown)
        return self._records

    def left_out(self) -> tuple[History, list[datetime]]:
        """Return the entries that the last prompt does not show, and when each was said.

        They are found once: until the next compaction no more are left out, unless the user takes
        some back.
        """
        key = self.state.compactions, self.entries.taken_back
        if self._left_out is None or self._left_out[0] != key:
            self._left_out = key, self.entries.left_out(self.shown_indices())
        return self._left_out[1]
