"""StoreProposer: a fast model makes the context store better, beside the conversation.

When a turn is over it reads the turn, in a thread, and proposes operations. The next prompt checks
and applies them, as a part of itself: what takes the prompt back takes them back too. One job at a
time; nobody waits for it, and a model that fails or hangs leaves the store to its rules.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Event
from typing import TYPE_CHECKING

from rehydrate._concurrency.workers import run_in_thread
from rehydrate._text import safe_error_text
from rehydrate.context.context_store.operations import Heading, Item, Operation
from rehydrate.context.context_store.proposals import Answer, ProposalRequest, read_answer

if TYPE_CHECKING:
    from rehydrate.context.background.writers import Complete
    from rehydrate.context.context_store.store import ContextStore
    from rehydrate.context.thread import Thread
    from rehydrate.prompt.entries import History


class ProposalJob:
    """One turn that the model reads."""

    def __init__(self, turn: History, items: Sequence[Item], until: int) -> None:
        """Take the entries, the items that hold, and the index of the first entry after them."""
        self.until = until
        self.started = time.perf_counter()
        self.done = Event()
        self.failure = ""
        self._turn = turn
        self._by_index = dict(zip(turn.indices, turn.entries, strict=True))
        self._request = ProposalRequest(tuple(items), ())
        self._answer = Answer([], 0)
        self._applied: Operation | None = None
        """The first of its operations, which is the store's `_position`."""
        self._position = 0

    @property
    def elapsed_ms(self) -> float:
        """The time since it began."""
        return (time.perf_counter() - self.started) * 1e3

    def run(self, complete: Complete) -> None:
        """Ask the model; it raises nothing."""
        try:
            self._request = self._request._replace(messages=self._turn.numbered_messages)
            self._answer = read_answer(complete(self._request.prompt))
        except BaseException as error:
            why = safe_error_text(error, "the store's model")
            self.failure = f"store: its model failed ({why}); rules alone keep it"
        finally:
            self.done.set()

    def apply(self, thread: Thread) -> str:
        """Apply what holds of the answer; return what became of it, in words."""
        entries = thread.entries
        still = [
            message
            for message in self._request.messages
            if message.index < len(entries)
            and message.index not in entries.taken_back
            and entries.at(message.index) is self._by_index[message.index]
        ]
        self._position = len(thread.store.operations)
        applied = thread.store.apply(
            self._answer.proposals, self._request._replace(messages=tuple(still))
        )
        self._applied = applied.operations[0] if applied.operations else None
        unreadable = self._answer.unreadable
        return applied.summary + (f"; {unreadable} unreadable" if unreadable else "")

    def stands_in(self, store: ContextStore) -> bool:
        """Return whether its operations were not taken back."""
        at = store.operations[self._position : self._position + 1]
        return self._applied is None or (len(at) == 1 and at[0] is self._applied)


class StoreProposer:
    """What a model proposes for the context store of one thread. Hold the thread's lock to use it.

    ``tell`` is told of each answer, and what became of it.
    """

    def __init__(
        self, complete: Complete, thread: Thread, tell: Callable[[ProposalJob, str], None]
    ) -> None:
        """Begin with no job; the last turn of a stored thread is still to be read."""
        self._complete = complete
        self._thread = thread
        self._tell = tell
        self._read = thread.entries.turn or 0
        """The index of the first entry that no job has read."""
        self._job: ProposalJob | None = None
        self._applied: list[ProposalJob] = []
        """Those that the last prompt applied: they are applied again where it was taken back."""

    def start_if_due(self) -> None:
        """Begin to read what came before the present user turn, if nothing else is being read."""
        thread, turn = self._thread, self._thread.entries.turn
        if self._job is not None or turn is None or turn <= self._read:
            return
        thread.update_store()
        items = [item for heading in Heading for item in thread.store.items(heading)]
        job = ProposalJob(thread.entries.between(self._read, turn), items, turn)
        try:
            run_in_thread(lambda: job.run(self._complete))
        except RuntimeError:  # no more threads: the next prompt tries again
            return
        self._job, self._read = job, turn

    def apply(self) -> str:
        """Apply what is ready; return what went wrong, "" where nothing did."""
        thread, job = self._thread, self._job
        undone = [each for each in self._applied if not each.stands_in(thread.store)]
        is_ready = job is not None and job.done.is_set()
        if undone or is_ready:
            thread.update_store()  # the rules read first
        for each in undone:
            each.apply(thread)
        self._applied = undone
        if job is None or not is_ready:
            return ""
        self._job = None
        self._applied.append(job)
        told = job.apply(thread)
        self._tell(job, job.failure or told)
        return job.failure
