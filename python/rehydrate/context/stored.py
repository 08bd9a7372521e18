"""Stored: a thread as its records have it, and the `Thread` that continues it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from rehydrate import _native
from rehydrate._check import check_choice
from rehydrate._native import ContextStore
from rehydrate.context.history import Entries, PromptState, StoredEntry
from rehydrate.context.records import Row, entries_of, reading, rows_of
from rehydrate.context.thread import Thread
from rehydrate.errors import InvalidArgumentError, InvalidMessageError
from rehydrate.formats import FORMATS
from rehydrate.messages import FormatName, Provider, own_provider
from rehydrate.prompt.compiler import render_prompt
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import CompiledPrompt, PromptIR, RenderCache, Target
from rehydrate.prompt.section import Section
from rehydrate.prompt.serialize import IR_KIND, VERSION as IR_VERSION, document

if TYPE_CHECKING:
    from rehydrate.memory.store import ThreadStore


NOT_THE_SAME = (
    "thread: this version renders its last prompt in other bytes than those that were sent; the "
    "next prompt starts a new prefix"
)


def read_stored(
    store: ThreadStore,
    namespace: str,
    name: str,
    format: FormatName,  # noqa: A002  the field's word
    *,
    is_asked_for: bool,
) -> tuple[Stored, int]:
    """Return a thread, an empty one if there is none, and how many records it has.

    Raises InvalidArgumentError if its entries are in another format than was asked for, and
    StoreError.
    """
    rows = rows_of(store, namespace, name)
    stored = Stored.of(rows) if rows else Stored(format)
    if is_asked_for and stored.format != format:
        raise InvalidArgumentError(
            f"thread {name!r} has entries in the format {stored.format!r}, not {format!r}; "
            f"pass format={stored.format!r}"
        )
    return stored, len(rows)


@dataclass(slots=True)
class Stored:
    """A thread as its records have it."""

    format: FormatName
    entries: list[StoredEntry] = field(default_factory=list)
    state: dict[str, Any] | None = None
    """The last state, whole."""
    sent: Any = None
    """The state of the last prompt that was sent, whole."""
    waiting: dict[str, list[Any]] = field(default_factory=dict)
    originals: dict[str, str] = field(default_factory=dict)
    remainders: dict[str, list[Any]] = field(default_factory=dict)
    operations: list[dict[str, Any]] = field(default_factory=list)
    seen: int = 0
    """The number of entries that the context store has read."""
    summary: dict[str, Any] | None = None

    @classmethod
    @reading()
    def of(cls, rows: Sequence[Row]) -> Stored:
        """Read the records that count; raises UnreadableIRError for a later version's."""
        stored = cls(**json.loads(_native.folded_records(rows)))
        stored.entries = [StoredEntry(*each) for each in stored.entries]
        if stored.sent is True:
            stored.sent = stored.state
        return stored

    @property
    def provider(self) -> Provider | None:
        """The provider of its last prompt, else of its entries; None if these have none."""
        if self.sent is not None:
            return cast("Provider", self.sent["sent"]["provider"])
        return own_provider(self.format)

    # Threads

    @reading()
    def thread(self, render_cache: RenderCache) -> Thread:
        """Return the thread, for the context that goes on from it."""
        entries = self._entries()
        thread = Thread(
            entries,
            state=self._state(entries, render_cache),
            waiting=self._section_lists(self.waiting),
            store=self._context_store(entries),
        )
        thread.remainders.take(self._section_lists(self.remainders))
        return thread

    @reading()
    def unseen_thread(self) -> Thread:
        """Return the thread, for a model that sees none of its entries."""
        entries = self._entries()
        thread = Thread(entries, state=PromptState(seen=len(entries)))
        thread.remainders.take(self._section_lists(self.remainders))
        return thread

    @reading()
    def entries_and_store(self) -> tuple[Entries, ContextStore]:
        """Return the entries and the context store, which has read all of them."""
        entries = self._entries()
        thread = Thread(entries, store=self._context_store(entries))
        thread.update_store()
        return entries, thread.store

    def _entries(self) -> Entries:
        entries = Entries(self.format)
        entries.restore(self.entries)
        return entries

    def _context_store(self, entries: Entries) -> ContextStore:
        messages = entries.at_indices(range(self.seen)).messages
        turn = min(entries.turn or 0, self.seen)
        recent = [message for message in messages if message.index >= turn]
        store = ContextStore()
        store.replay(self.operations, messages, self.seen, recent)
        return store

    def _state(self, entries: Entries, render_cache: RenderCache) -> PromptState:
        state = self.state
        if state is None:
            return PromptState()
        ir = _ir_of(state, entries) if state["has_ir"] else None
        sent = None
        if self.sent is not None:
            shown = ir
            if self.sent is not state:
                shown = _ir_of(self.sent, entries) if self.sent["has_ir"] else None
            if shown is not None:
                sent = _sent_again(shown, self.sent["sent"], render_cache)
            if sent is None and ir is not None:
                degraded = (*ir.meta.degraded, NOT_THE_SAME)
                ir = ir.replace(meta=replace(ir.meta, degraded=degraded))
        missing = state["missing_hot"]
        return PromptState(
            ir,
            sent,
            missing_hot=None if missing is None else frozenset(missing),
            **{name: state[name] for name in _COUNTS},
        )

    def _section_lists(self, lists: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Section, ...]]:
        """Read the sections of each key."""
        read = {}
        for key, sections in lists.items():
            whole = {"sections": sections, "history": [], "late_bound": [], "tools": []}
            read[key] = _ir_of(whole, Entries(self.format)).sections
        return read


_COUNTS = ("seen", "turn", "job_tokens", "prompts", "compactions")
_IR_FIELDS = ("request", "sections", "tools", "late_bound", "counter", "breakpoints", "meta")


def _ir_of(state: Mapping[str, Any], entries: Entries) -> PromptIR:
    """Return the IR of a whole state; entries that are shown as they were added are those given."""
    fields = {name: state[name] for name in _IR_FIELDS if name in state}
    ir = PromptIR.from_dict({**document(IR_KIND), "version": IR_VERSION, **fields})
    shown = state["history"]
    history = History(
        tuple(
            [
                entries_of(each[2:], entries.format)[0] if len(each) > 2 else entries.at(each[0])
                for each in shown
            ]
        ),
        entries.format,
        tuple([each[1] for each in shown]),
        tuple([each[0] for each in shown]),
    )
    if entries.format == "langchain":
        sections, late = (tuple(map(_of_messages, each)) for each in (ir.sections, ir.late_bound))
        ir = ir.replace(sections=sections, late_bound=late)
    return ir.replace(history=history)


def _of_messages(section: Section) -> Section:
    """Return a section with LangChain's messages where the record has their fields."""
    if isinstance(section.content, str):
        return section
    return replace(section, content=tuple(entries_of(section.content, "langchain")))


def check_log(rows: Sequence[Row]) -> None:
    """Raise for records of which no thread can be read: UnreadableIRError, which says why."""
    stored = Stored.of(rows)
    check_choice("the thread's format", stored.format, FORMATS)
    try:
        stored.thread(RenderCache())
    except InvalidMessageError:
        if stored.state is not None or stored.operations:
            raise  # else it is of a host, whose entries stay as they came


def _sent_again(
    ir: PromptIR, sent: dict[str, Any], render_cache: RenderCache
) -> CompiledPrompt | None:
    """Return the prompt that was sent; None if it does not come out byte for byte."""
    target = Target(sent["provider"], sent["model"], thinking="keep", render_cache=render_cache)
    rendered = render_prompt(ir, target, ir.history)
    return replace(rendered, ir=ir) if _native.prompt_digest(rendered) == sent["digest"] else None
