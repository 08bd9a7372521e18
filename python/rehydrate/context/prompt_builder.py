"""PromptBuilder: the next prompt of a thread, from its last prompt and the entries since.

The last prompt's IR stays as it is and new sections and entries follow, so that each prompt extends
the one before. Only where the prefix breaks anyway (a compaction) is anything in it made again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate._check import check_list, check_methods, check_timeout
from rehydrate._native import FreeNames, with_items
from rehydrate.context.history import PromptState
from rehydrate.context.records import check_clock
from rehydrate.context.thread import Thread
from rehydrate.cost.prices import minimum_prefix
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.caps import RemoveEchoes, remove_echoes
from rehydrate.prompt.compiler import DEFAULT_PASSES, compile_for, place_breakpoints
from rehydrate.prompt.counting import prompt_tokens, upper_bound
from rehydrate.prompt.entries import History
from rehydrate.prompt.hydration import hydrate
from rehydrate.prompt.ir import PromptIR, RenderCache, Target
from rehydrate.prompt.passes.prune import OVER_BUDGET
from rehydrate.prompt.request import Budget, ContextRequest, TimeRange
from rehydrate.prompt.section import DroppedSection, Meta, Section, Stability, ToolDef
from rehydrate.prompt.sources import check_names, sources_of, with_documents
from rehydrate.prompt.sources.given import system as system_source
from rehydrate.prompt.splicing import visible_items

if TYPE_CHECKING:
    from rehydrate.messages import Provider
    from rehydrate.prompt.hydration import TimeLimit
    from rehydrate.prompt.ir import CompiledPrompt, Pass
    from rehydrate.prompt.sources import Given
    from rehydrate.prompt.sources.source import HydrationSource


_FIRST_ONLY = ("system", "tools")
"""Sources asked for the first prompt only: a change in them would change the whole prefix."""


class Draft(NamedTuple):
    """A prompt before it is compiled."""

    ir: PromptIR
    missing_hot: frozenset[str] | None
    """The hot sources that did not answer, as in `PromptState`."""

    def degraded(self, why: str) -> Draft:
        """Return the draft with one more line about a problem."""
        meta = self.ir.meta
        degraded = tuple(dict.fromkeys((*meta.degraded, why)))
        return self._replace(ir=self.ir.replace(meta=replace(meta, degraded=degraded)))


@dataclass(slots=True)
class PromptBuilder:
    """Makes the prompts of one `Context`. Hold the lock of its thread to use it; only its own
    methods change it."""

    sources: Given
    target: Target
    system: str | Section | Sequence[str | Section] | None
    tools: tuple[ToolDef, ...]
    request: ContextRequest
    passes: tuple[Pass, ...]
    asking: TimeLimit
    """The timeout of all sources, if it is not each source's own."""
    runs_own_code_only: bool
    """No pass and no store of originals is the caller's: these may take any time."""
    has_own_model: bool
    """Whether the context was made for a model: no other is named then."""
    _left_out: tuple[DroppedSection, ...] = ()
    """The records of entries that the last turn began with."""
    _own_tools: dict[str, ToolDef] = field(init=False)
    """The tools by name, as they are defined now."""
    kept_tools: tuple[str, ...] = ()
    """A sentence on each tool of a stored prompt that is defined in other words now."""

    def __post_init__(self) -> None:
        """Note the tools that it was made with."""
        self._own_tools = {tool.name: tool for tool in self.tools}

    @property
    def budget(self) -> Budget:
        """The limits of the prompts to come."""
        return self.request.budget

    def limit(self, budget: Budget) -> None:
        """Set the limits of the prompts to come."""
        self.request = replace(self.request, budget=budget)

    def go_to(self, provider: Provider) -> None:
        """Compile for this provider."""
        self.target = replace(self.target, provider=provider)

    def name_model(self, name: str) -> None:
        """Say which model the prompts go to, if the context was made without one."""
        if not self.has_own_model:
            minimum = minimum_prefix(name)
            self.target = replace(self.target, model=name, minimum_prefix=minimum)

    def offer(self, tools: Iterable[ToolDef]) -> tuple[ToolDef, ...]:
        """Offer these tools too, and return those that are new; raises InvalidArgumentError for two
        of one name. A tool of a stored prompt stays as it was sent."""
        own = dict(self._own_tools)
        for tool in tools:
            if not _is_same(own.setdefault(tool.name, tool), tool):
                raise InvalidArgumentError(
                    f"two tools are named {tool.name!r}; give one of them another name"
                )
        self._own_tools = own
        sent = {tool.name: tool for tool in self.tools}
        new = tuple([tool for tool in own.values() if tool.name not in sent])
        self.tools = (*self.tools, *new)
        self.kept_tools = tuple(
            [
                f"tool {name!r} is offered as it was when the thread began: its new definition "
                "would break the prefix"
                for name, tool in sent.items()
                if not _is_same(tool, own.get(name, tool))
            ]
        )
        return new

    def go_on_with(self, tools: tuple[ToolDef, ...]) -> tuple[ToolDef, ...]:
        """Offer the tools of a stored prompt first, and return those that are new in it."""
        self.tools = tools
        return self.offer(())

    def is_short(self, thread: Thread, query: str | None, time_range: TimeRange | None) -> bool:
        """Return whether the next prompt takes no longer than an event loop can spare."""
        state, entries = thread.state, thread.entries
        is_new_turn = bool(query) or _is_new_turn(thread, time_range)
        if not self.runs_own_code_only or (is_new_turn and self.sources):
            return False  # what others wrote may take any time
        query_chars = len(query) if isinstance(query, str) else 0
        new_tokens = entries.tokens_since(state.seen) + query_chars // 3
        shown_tokens = 0 if state.ir is None else prompt_tokens(state.ir)
        if upper_bound(shown_tokens + new_tokens, self.target.provider) > self.budget.soft_tokens:
            return False  # it is compacted
        visible = 0 if state.ir is None else len(state.ir.history.entries)
        return prompt_ms(visible, len(entries) - state.seen + 1, new_tokens) <= INLINE_MS

    def draft(self, thread: Thread, query: str, time_range: TimeRange | None) -> Draft:
        """Return the last prompt's IR with everything new after it.

        The sources are asked in a new user turn only, or about a time range.
        """
        state, entries = thread.state, thread.entries
        base, missing = state.ir, state.missing_hot
        request = replace(
            self.request, query=query or entries.last_user_text(), time_range=time_range
        )
        if _is_new_turn(thread, time_range):
            found, missing = self._hydrate(request, state)
        else:
            found = state.shown.replace(sections=())
        if base is None:
            base = found.replace(sections=(), history=History(format=entries.format))
        new = entries.since(state.seen)
        history = base.history.without(entries.taken_back).followed_by(new)
        # If the user never spoke (a summary goes on from a compaction) before what came last.
        anchor = len(entries) - 1 if entries.turn is None else entries.turn
        late_bound = (*base.late_bound, *thread.bound(new.messages))
        shown = base.replace(history=history, late_bound=late_bound)
        fresh = [
            section if section.is_static else replace(section, anchor=anchor)
            for section in unseen(found.sections, shown)
        ]
        ir = PromptIR(
            request=request,
            sections=(*base.sections, *fresh),
            tools=base.tools,
            history=history,
            late_bound=late_bound,
            counter=base.counter,
        )
        return Draft(ir.replace(meta=self._carried(found.meta, base.meta, ir.tokens)), missing)

    def _carried(self, meta: Meta, last: Meta, tokens: int) -> Meta:
        """Return what is still true of how the last prompt of a turn was made, with the last record
        of each entry left out or cut; ``tokens`` are those of everything there is now."""
        degraded = tuple([line for line in meta.degraded if not line.startswith(OVER_BUDGET)])
        dropped = meta.dropped
        if meta is not last:  # a new turn's; most turns add none to tens of thousands of records
            known = self._left_out
            if last.dropped[: len(known)] != known:  # of another prompt
                known = ()
            new = {one.section: one for one in last.dropped[len(known) :] if one.of_entry}
            if new:
                known = tuple(({one.section: one for one in known} | new).values())
            self._left_out, dropped = known, (*known, *dropped)
        return Meta(meta.sources, dropped, before_tokens=tokens, degraded=degraded)

    def compile(
        self, draft: Draft, thread: Thread, *, waits: bool = True
    ) -> tuple[CompiledPrompt, frozenset[str] | None]:
        """Compile a draft; if that compacts, from fresh content.

        Return the prompt and the hot sources that did not answer. With ``waits=False`` it compacts
        inside an open tool loop too.
        """
        made = draft
        target = self.target if waits else replace(self.target, waits=False)

        def refresh() -> PromptIR:
            nonlocal made
            made = self._refresh(draft, thread)
            return made.ir

        compiled = compile_for(target, draft.ir, self.passes, thread.state.sent, refresh)
        return compiled, made.missing_hot

    def rendered(self, ir: PromptIR) -> CompiledPrompt:
        """Return the prompt of an IR that went through the passes, as it was sent."""
        target = replace(self.target, thinking="keep", render_cache=RenderCache())
        return compile_for(target, ir, (place_breakpoints,))

    def _hydrate(
        self, request: ContextRequest, state: PromptState
    ) -> tuple[PromptIR, frozenset[str] | None]:
        """Ask the sources; hot ones only for the first prompt, or if they did not answer yet."""
        sources = sources_of(self.sources)
        if state.ir is None:
            found = hydrate(request, sources, system=self.system, tools=self.tools, **self.asking)
            return found, _missing_hot(found, sources, state.missing_hot)
        shares = dict(request.strategy.shares) | dict.fromkeys(_FIRST_ONLY, 0.0)
        later = replace(request, strategy=replace(request.strategy, shares=shares))
        missing = state.missing_hot or ()
        asked = [each for each in sources if each.kind != "hot" or each.name in missing]
        found = hydrate(later, asked, **self.asking).replace(request=request)
        # Hot memory that is late is before the turn that it came in, so the prefix holds.
        hot = _hot_names(sources)
        sections = [
            replace(section, stability=Stability.DYNAMIC)
            if section.provenance.source in hot
            else section
            for section in found.sections
        ]
        return found.with_sections(sections), _missing_hot(found, sources, state.missing_hot)

    def _refresh(self, draft: Draft, thread: Thread) -> Draft:
        """Return the draft of a prompt whose prefix breaks anyway: with hot memory as it is now,
        and the texts of entries as they were added, since what was shortened in them refers to what
        may go. The sections of a hot source that does not answer stay."""
        ir, missing = draft
        hot = [each for each in sources_of(self.sources) if each.kind == "hot"]
        if hot and thread.state.ir is not None:  # for the first prompt they were asked just now
            found = hydrate(ir.request, hot, **self.asking)
            missing = _missing_hot(found, hot, missing)
            answered = {report.name for report in found.meta.sources if report.status == "ok"}
            fresh, shown = (
                [each for each in sections if each.provenance.source in answered]
                for sections in (found.sections, ir.sections)
            )
            degraded = tuple(dict.fromkeys((*ir.meta.degraded, *found.meta.degraded)))
            if shown != fresh or degraded != ir.meta.degraded:
                others = [each for each in ir.sections if each.provenance.source not in answered]
                meta = replace(ir.meta, degraded=degraded)
                ir = ir.replace(sections=(*fresh, *others), meta=meta)
        texts = thread.entries.with_texts_of(ir.history.indices, ir.history)
        return Draft(ir if texts is ir.history else ir.replace(history=texts), missing)


def own_passes() -> tuple[Pass, ...]:
    """Return the default passes, with a memory for echoes that no other conversation shares."""
    own = RemoveEchoes()
    return tuple([own if step is remove_echoes else step for step in DEFAULT_PASSES])


def _is_same(one: ToolDef, other: ToolDef) -> bool:
    facts = [(each.description, each.schema, each.is_hosted and each.raw) for each in (one, other)]
    return facts[0] == facts[1]


def _is_new_turn(thread: Thread, time_range: TimeRange | None) -> bool:
    state = thread.state
    return state.ir is None or time_range is not None or thread.entries.turn != state.turn


def _hot_names(sources: Sequence[HydrationSource]) -> set[str]:
    return {each.name for each in sources if each.kind == "hot"}


def _missing_hot(
    found: PromptIR, sources: Sequence[HydrationSource], before: frozenset[str] | None
) -> frozenset[str] | None:
    """Return the hot sources that were late or failed; `before` if none was asked."""
    hot = _hot_names(sources)
    reports = [report for report in found.meta.sources if report.name in hot]
    if not reports:
        return before
    return frozenset([each.name for each in reports if each.status in ("late", "failed")])


_NUMBER = " @"
"""Between a section's name and its number, if a source says something new under one name."""
_LATE_NUMBER = re.compile(r"~\d+$")
"""The same in the id of a late-bound section."""


def unseen(found: Sequence[Section], shown: PromptIR) -> Iterator[Section]:
    """Yield the sections that are new to a prompt's IR, with the ids they get in it.

    A function may say something else in every turn under one name, as a clock does. Its last words
    are not repeated; anything else gets a number. Content that a result shows at the model's own
    request is not repeated either. A section with new and old items names the new ones only.
    """
    if not found:
        return
    shown_ids = {section.id for section in (*shown.sections, *shown.late_bound)}
    ids = FreeNames(shown_ids, _NUMBER)
    latest = _latest(shown)
    given = visible_items(PromptIR(late_bound=shown.late_bound))
    for section in found:
        if section.is_static:
            if section.id not in shown_ids:
                yield section
            continue
        items = section.provenance.items
        fresh = tuple([item for item in items if item not in given])
        is_given = bool(items) and not fresh
        if is_given or latest.get(section.id) == section.content:
            continue
        id_ = ids.take(section.id)
        yield with_items(section if id_ == section.id else replace(section, id=id_), fresh)


def _latest(shown: PromptIR) -> dict[str, Any]:
    """Return the latest content under each name, from a source or in the answer to a call."""
    contents = [
        (
            -1 if section.anchor is None else section.anchor,
            section.id.partition(_NUMBER)[0],
            section,
        )
        for section in shown.sections
    ]
    if shown.late_bound:
        indices = {
            tool_call_id: shown.history.entry_index(index)
            for tool_call_id, index in shown.history.rows.answers()
        }
        contents += [
            (indices.get(section.tool_call_id or "", -1), _LATE_NUMBER.sub("", section.id), section)
            for section in shown.late_bound
        ]
    in_order = sorted(contents, key=lambda each: each[0])
    return {name: section.content for _, name, section in in_order}


INLINE_MS = 5.0
"""Work up to this long may run on the event loop. The interpreter takes its lock from a busy thread
only every 5 ms (`sys.getswitchinterval`), so the loop would wait as long for shorter work in a
thread."""

_PROMPT_MS = 1.0
_VISIBLE_ENTRY_MS = 0.01
"""For an entry that the last prompt had too."""
_NEW_ENTRY_MS = 0.1
"""For a new entry: it is read, checked and hashed."""
_NEW_TOKEN_MS = 0.0008
"""For a new token: it is capped, and compared with the history."""


def prompt_ms(visible_entries: int, new_entries: int, new_tokens: int) -> float:
    """Return the time of a prompt that asks no sources and is not compacted, in milliseconds.

    >>> prompt_ms(visible_entries=100, new_entries=2, new_tokens=500)
    2.6
    """
    return (
        _PROMPT_MS
        + _VISIBLE_ENTRY_MS * visible_entries
        + _NEW_ENTRY_MS * new_entries
        + _NEW_TOKEN_MS * new_tokens
    )


def checked_sources(given: Any) -> tuple[Any, ...]:
    """Return the sources: memories and functions as they are, documents by their paths."""
    sources = with_documents(given)
    check_names(sources_of(sources))
    return tuple(sources)


def check_system(system: Any) -> None:
    """Check the beginning of every prompt: texts and Sections."""
    if system is not None:
        system_source(*(system if isinstance(system, (list, tuple)) else (system,)))


def check_working(passes: Any, originals: Any, timeout: Any, clock: Any) -> None:
    """Check how prompts are made."""
    if passes is not None:
        check_list("passes", passes, "pass a list of functions")
        for step in passes:
            check_methods("a pass", step, "__call__", "pass a function (ir, target) -> ir")
    if originals is not None:
        remedy = "pass what has put and get, as HeldOriginals and MemoryOriginals have"
        check_methods("originals", originals, "put get", remedy)
    if timeout != "own":
        check_timeout("timeout", timeout)
    check_clock(clock)
