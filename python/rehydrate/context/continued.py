"""The `Thread` that continues a stored one, for a context that goes on from its last prompt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rehydrate import _native
from rehydrate._check import check_choice
from rehydrate.context.history import Entries, PromptState
from rehydrate.context.records import Row, entries_of, reading
from rehydrate.context.stored import Stored
from rehydrate.context.thread import Thread
from rehydrate.errors import InvalidArgumentError, InvalidMessageError, RehydrateError
from rehydrate.formats import FORMATS
from rehydrate.prompt.compiler import render_prompt
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import CompiledPrompt, PromptIR, RenderCache, Target
from rehydrate.prompt.section import Section
from rehydrate.prompt.serialize import IR_KIND, VERSION as IR_VERSION, document

NOT_THE_SAME = (
    "thread: this version renders its last prompt in other bytes than those that were sent; the "
    "next prompt starts a new prefix"
)


@reading()
def continued_thread(stored: Stored, render_cache: RenderCache) -> Thread:
    """Return the thread, for the context that goes on from it."""
    entries = stored.read_entries()
    thread = Thread(
        entries,
        state=_state(stored, entries, render_cache),
        waiting=_section_lists(stored, stored.waiting),
        store=stored.context_store(entries),
    )
    thread.remainders.take(_section_lists(stored, stored.remainders))
    return thread


@reading()
def unseen_thread(stored: Stored) -> Thread:
    """Return the thread, for a model that sees none of its entries."""
    entries = stored.read_entries()
    thread = Thread(entries, state=PromptState(seen=len(entries)))
    thread.remainders.take(_section_lists(stored, stored.remainders))
    return thread


def _state(stored: Stored, entries: Entries, render_cache: RenderCache) -> PromptState:
    state = stored.state
    if state is None:
        return PromptState()
    ir = _ir_of(state, entries) if state["has_ir"] else None
    sent = None
    if stored.sent is not None:
        shown = ir
        if stored.sent is not state:
            shown = _ir_of(stored.sent, entries) if stored.sent["has_ir"] else None
        if shown is not None:
            sent = _sent_again(shown, stored.sent["sent"], render_cache)
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


def _section_lists(
    stored: Stored, lists: Mapping[str, Sequence[Any]]
) -> dict[str, tuple[Section, ...]]:
    """Read the sections of each key."""
    read = {}
    for key, sections in lists.items():
        whole = {"sections": sections, "history": [], "late_bound": [], "tools": []}
        read[key] = _ir_of(whole, Entries(stored.format)).sections
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
        continued_thread(stored, RenderCache())
    except InvalidMessageError:
        if stored.state is not None or stored.operations:
            raise  # else it is of a host, whose entries stay as they came


def check_redacted(rows: Sequence[Row], bodies: Iterable[tuple[int, str]]) -> None:
    """Refuse new bodies if the thread can be read with the old ones, and not with these."""
    after = list(rows)
    for number, body in bodies:
        kind, time, _ = rows[number]
        after[number] = kind, time, body
    try:
        _read_whole(after)
        return
    except RehydrateError as error:
        problem = error
    try:
        _read_whole(rows)
    except RehydrateError:
        return  # it is as readable as it was
    # The texts are secrets: the message has the place of what can't be read, not them.
    raise InvalidArgumentError(
        f"a text is part of what the thread's format needs: without it, the thread can't be read "
        f"({type(problem).__name__}: {problem}); nothing was changed; pass more of what is to go, "
        "or purge the thread"
    ) from problem


def _read_whole(rows: Sequence[Row]) -> None:
    stored = Stored.of(rows)
    stored.entries_and_store()
    continued_thread(stored, RenderCache())


def _sent_again(
    ir: PromptIR, sent: dict[str, Any], render_cache: RenderCache
) -> CompiledPrompt | None:
    """Return the prompt that was sent; None if it does not come out byte for byte."""
    target = Target(sent["provider"], sent["model"], thinking="keep", render_cache=render_cache)
    rendered = render_prompt(ir, target, ir.history)
    return replace(rendered, ir=ir) if _native.prompt_digest(rendered) == sent["digest"] else None
