"""Stored threads: `attach` gives a context its own; other conversations are a source for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.context.context_store.operations import Span
from rehydrate.context.context_store.store import text_at
from rehydrate.context.history import Entries, StoredEntry
from rehydrate.context.prompt_state import PromptState
from rehydrate.context.thread import Thread
from rehydrate.context.thread_log import LogMark, ThreadLog
from rehydrate.context.thread_originals import Remainders, ThreadOriginals
from rehydrate.context.thread_records import (
    Record,
    StoredThread,
    digest_of,
    effective,
    header,
    ir_of,
    read_record,
    reading,
)
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.compiler import render_prompt
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import CompiledPrompt, PromptIR
from rehydrate.prompt.sources.conversation import conversation
from rehydrate.prompt.target import Target

if TYPE_CHECKING:
    from collections.abc import Collection

    from rehydrate.context.prompt_builder import PromptBuilder
    from rehydrate.memory.store import ThreadStore
    from rehydrate.prompt.sources.source import HydrationSource


_PAGE = 4_096
NOT_THE_SAME = (
    "thread: this version renders its last prompt in other bytes than those that were sent; the "
    "next prompt starts a new prefix"
)


def records_of(store: ThreadStore, namespace: str, name: str) -> list[Record]:
    """Return all records of a thread, in order; [] where there is no such thread."""
    records: list[Record] = []
    while True:
        page = store.records(namespace, name, start=len(records), limit=_PAGE)
        records += [read_record(*row) for row in page]
        if len(page) < _PAGE:
            return records


@reading()
def attach(
    thread: Thread,
    builder: PromptBuilder,
    store: ThreadStore,
    namespace: str,
    name: str,
    *,
    saves_entries: bool,
    clock: Callable[[], float],
    has_own_originals: bool,
) -> dict[str, Any] | None:
    """Restore what the store has of the thread, and have every change of it written there.

    Return the summary that an earlier process had ready, if there is one. Raises
    InvalidArgumentError where its entries are in another format, and StoreError.
    """
    records = records_of(store, namespace, name)
    stored = StoredThread.of(effective(records)) if records else None
    format = thread.entries.format  # noqa: A001
    if stored is not None:
        if stored.format != format:
            raise InvalidArgumentError(
                f"thread {name!r} has entries in the format {stored.format!r}, not {format!r}; "
                f"pass format={stored.format!r}"
            )
        thread.entries.restore(stored.entries)
        _restore_state(thread, builder, stored)
        thread.late.restore(stored.section_lists(stored.waiting))
        _restore_store(thread, stored)
        thread.remainders = Remainders(stored.section_lists(stored.remainders))
    originals = None
    if not has_own_originals:
        originals = ThreadOriginals(thread.entries, {} if stored is None else stored.originals)
        builder.originals = originals
    thread.log = ThreadLog(
        store,
        namespace,
        name,
        mark=LogMark(
            len(records),
            len(thread.entries),
            thread.state,
            dict(thread.late.waiting),
            len(thread.store.operations),
        ),
        originals=originals,
        remainders=thread.remainders,
        saves_entries=saves_entries,
        clock=clock,
        header=None if records else header(format),
    )
    return None if stored is None else stored.summary


@reading()
def restore_unseen(thread: Thread, builder: PromptBuilder, stored: StoredThread) -> None:
    """Restore a thread for a model that sees none of its entries; no change of it is written."""
    thread.entries.restore(stored.entries)
    thread.state = PromptState(seen=len(thread.entries))
    thread.remainders = Remainders(stored.section_lists(stored.remainders))
    builder.originals = ThreadOriginals(thread.entries, stored.originals)


@reading()
def thread_of(records: Sequence[Record]) -> Thread:
    """Return a thread with the entries and the context store that its records tell of."""
    stored = StoredThread.of(records)
    thread = Thread(stored.format)
    thread.entries.restore(stored.entries)
    _restore_store(thread, stored)
    thread.update_store()
    return thread


def _restore_store(thread: Thread, stored: StoredThread) -> None:
    messages = thread.entries.at_indices(range(stored.seen)).messages
    by_entry = {message.index: message for message in messages}
    turn = min(thread.entries.turn or 0, stored.seen)

    def text_of(span: Span) -> str:
        message = by_entry.get(span.entry)
        return "" if message is None else text_at(span, message) or ""

    recent = [message for message in messages if message.index >= turn]
    thread.store.replay(stored.operations, stored.seen, text_of, recent)


def _restore_state(thread: Thread, builder: PromptBuilder, stored: StoredThread) -> None:
    told = stored.state
    if told is None:
        return
    ir = ir_of(told, thread.entries)
    sent = None
    if stored.sent is not None:
        shown = ir if stored.sent is told else ir_of(stored.sent, thread.entries)
        sent = None if shown is None else _sent_again(shown, stored.sent["sent"], builder)
        if sent is None and ir is not None:
            degraded = (*ir.meta.degraded, NOT_THE_SAME)
            ir = ir.replace(meta=replace(ir.meta, degraded=degraded))
    missing = told["missing_hot"]
    state = PromptState(
        ir=ir,
        sent=sent,
        seen=told["seen"],
        turn=told["turn"],
        job_tokens=told["job_tokens"],
        prompts=told["prompts"],
        compactions=told["compactions"],
        missing_hot=None if missing is None else frozenset(missing),
    )
    if ir is not None:
        offered, builder.tools = builder.tools, ir.tools
        state = builder.offer(offered, state)
    thread.state = state


def _sent_again(
    ir: PromptIR, told: dict[str, Any], builder: PromptBuilder
) -> CompiledPrompt | None:
    """Return the prompt that was sent; None where it does not come out byte for byte."""
    target = Target(told["provider"], told["model"], render_cache=builder.render_cache)
    rendered = render_prompt(ir, target, ir.history)
    return replace(rendered, ir=ir) if digest_of(rendered) == told["digest"] else None


MAX_BYTES = 8_000_000
"""Of the threads that are searched, the last changed first: reading them takes about a second."""
NAME = "threads"


_Row = tuple[str, int, int, int, int]
"""A thread as the store lists it: another row, and something in it changed."""


class OtherThreads:
    """The entries of the other threads of a namespace, as one history, read again when one changed.

    Threads whose entries are in another format are left out.
    """

    def __init__(self, store: ThreadStore, namespace: str, own: str, format: str) -> None:  # noqa: A002
        """Read nothing yet; ``own`` is the thread that asks."""
        self._store = store
        self._namespace = namespace
        self._own = own
        self._format = format
        self._lock = ForkSafeLock()
        self._found: Sequence[_Row] = ()
        self._threads: dict[str, tuple[_Row, StoredThread]] = {}
        self._read: tuple[History, list[datetime]] = (History(format=format), [])
        self._places: list[str] = []

    def entries(self) -> tuple[History, Sequence[datetime]]:
        """Return the entries and their times; the same objects until a thread changes."""
        with self._lock:
            found = [row for row in self._store.threads(self._namespace) if row[0] != self._own]
            if found != self._found:
                self._take(found)
                self._found = found
            return self._read

    def place(self, index: int) -> str:
        """Return what an entry is called: its thread and its number there."""
        return self._places[index]

    def _take(self, found: Sequence[_Row]) -> None:
        """Read the threads that changed, and put all of them together."""
        known, self._threads = self._threads, {}
        told: list[StoredEntry] = []
        places: list[str] = []
        left = MAX_BYTES
        for row in found:
            name, size = row[0], row[4]
            if size > left:
                break
            left -= size
            before = known.get(name)
            if before is None or before[0] != row:
                records = effective(records_of(self._store, self._namespace, name))
                if not records:
                    continue  # it was purged just now
                before = row, StoredThread.of(records)
            self._threads[name] = before
            thread = before[1]
            if thread.format == self._format:
                told += thread.entries
                places += [f"{name} #{number}" for number in range(len(thread.entries))]
        entries = Entries(self._format)
        entries.restore(told)
        times = [datetime.fromtimestamp(each.time, UTC) for each in told]
        self._places = places
        self._read = entries.at_indices(range(len(entries))), times


def other_threads(
    others: OtherThreads, *, lookup_tools: Collection[str], max_tokens: int
) -> HydrationSource:
    """Return the source of the messages in other threads that match a query."""
    return conversation(
        others.entries,
        name=NAME,
        lookup_tools=lookup_tools,
        max_tokens=max_tokens,
        place=others.place,
    )
