"""An IR as a table: what stands where, what it costs, where it is from, what went and why."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rehydrate.entry_id import EntryId
from rehydrate.errors import InvalidMessageError
from rehydrate.formats import parse
from rehydrate.prompt.laws import TOOLS

if TYPE_CHECKING:
    from rehydrate.prompt.content import PromptContent
    from rehydrate.prompt.meta import DroppedSection, SourceReport, Trace
    from rehydrate.prompt.request import Budget
    from rehydrate.prompt.section import Section


_ENTRY = re.compile(r"history\[(\d{1,9})\]")
_ID_CELLS, _SOURCE_CELLS, _BAR_CELLS = 44, 12, 40


class PromptRow(NamedTuple):
    """One tool, one section, a run of entries of the history, or something that was left out."""

    kind: Literal["tool", "section", "history", "late_bound", "cut", "dropped"]
    """``late_bound``: what the model asked for; its tokens are among those of the history, in which
    it stands. ``cut``: what is missing of a section that is there in part."""
    id: str
    """``tools.grep``, a section's id, ``history[4]``, ``history[4-17]`` or, with entries missing
    between, ``history[4..17]``."""
    source: str
    tokens: int
    reason: str = ""
    """Why it is kept or cut, or why it went."""
    priority: str = ""
    mode: str = ""
    stability: str = ""
    position: str = ""
    trust: float = 1.0
    relevance: float | None = None
    min_tokens: int = 0
    breakpoint: bool = False
    """Whether the cache is told to keep the prefix that ends here."""
    handle: str | None = None
    """Where the whole can be fetched."""
    first: int = 0
    """Its position in the IR, and of a run that of the last; of a run that was left out, the place
    in the list that came in."""
    last: int = 0
    entries: int = 1
    """Entries in a run."""

    @property
    def is_kept(self) -> bool:
        """Whether it is in the prompt."""
        return self.kind not in ("cut", "dropped")


class PromptExplanation(NamedTuple):
    """Rows in the order in which a provider reads them, then what was left out; and how the prompt
    came to be."""

    rows: tuple[PromptRow, ...]
    tokens: int
    before_tokens: int
    budget: Budget
    counter: str
    sources: tuple[SourceReport, ...]
    trace: tuple[Trace, ...]
    degraded: tuple[str, ...]

    @property
    def by_source(self) -> dict[str, int]:
        """Tokens in the prompt by what brought them, in the order of the prompt."""
        sums: dict[str, int] = {}
        for row in self.rows:
            if row.is_kept:
                sums[row.source] = sums.get(row.source, 0) + row.tokens
            if row.kind == "late_bound":
                sums["history"] = sums.get("history", 0) - row.tokens
        return sums

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        from rehydrate.prompt.serialize import plain

        values: dict[str, Any] = plain(self)
        return values

    def __str__(self) -> str:
        """The budget, the rows, the sources and the passes, as plain text."""
        parts = [_budget_lines(self), _row_lines(self.rows)]
        if self.sources:
            parts.append(_source_lines(self.sources))
        if self.trace:
            parts.append(_trace_lines(self.trace))
        if self.degraded:
            parts.append([f"done without: {_one_line(problem)}" for problem in self.degraded])
        return "\n\n".join("\n".join(lines) for lines in parts)


def explain(ir: PromptContent) -> PromptExplanation:
    """The IR as a table."""
    rows = (*_tools(ir), *_sections_and_history(ir), *_late_bound(ir), *_dropped(ir))
    meta = ir.meta
    return PromptExplanation(
        rows,
        ir.tokens,
        meta.before_tokens,
        ir.budget,
        ir.counter,
        meta.sources,
        meta.trace,
        meta.degraded,
    )


def _tools(ir: PromptContent) -> Iterator[PromptRow]:
    for position, tool in enumerate(ir.tools):
        is_last = position == len(ir.tools) - 1
        yield PromptRow(
            "tool",
            f"{TOOLS}.{tool.name}",
            tool.provenance.source,
            tool.tokens or 0,
            "run by the provider" if tool.is_hosted else "",
            stability="static",
            trust=tool.provenance.trust,
            breakpoint=is_last and TOOLS in ir.breakpoints,
            first=position,
            last=position,
        )


def _sections_and_history(ir: PromptContent) -> Iterator[PromptRow]:
    """Static sections, the system's first; then the history with the dynamic ones where they
    stand in it."""
    placed = list(enumerate(ir.sections))
    static = [pair for pair in placed if pair[1].is_static]
    for position, section in sorted(static, key=lambda pair: not pair[1].is_system):
        yield _section(section, position, ir)
    inserted: dict[int, list[PromptRow]] = {}
    dynamic = [pair for pair in placed if not pair[1].is_static]
    default = last_user_turn(ir) if dynamic else 0
    for position, section in dynamic:
        before = default if section.anchor is None else _position(ir, section.anchor)
        inserted.setdefault(before, []).append(_section(section, position, ir))
    yield from _history(ir, inserted)


def _section(section: Section, position: int, ir: PromptContent) -> PromptRow:
    passes = [trace.name for trace in _changing(ir) if section.id in trace.changed]
    reasons = [f"passes: {', '.join(dict.fromkeys(passes))}"] if passes else []
    if section.must_stay_whole:
        reasons.append(f"always whole: {section.mode if section.priority < 4 else 'critical'}")
    return PromptRow(
        "section",
        section.id,
        section.provenance.source,
        section.tokens or 0,
        "; ".join(reasons),
        section.priority.name.lower(),
        section.mode.value,
        section.stability.value,
        section.position.value,
        section.trust,
        section.relevance,
        section.min_tokens,
        section.id in ir.breakpoints,
        section.handle,
        position,
        position,
    )


def _history(ir: PromptContent, inserted: dict[int, list[PromptRow]]) -> Iterator[PromptRow]:
    """Runs of entries, cut where a section stands between them or a breakpoint on one."""
    history = ir.history
    size = len(history.entries)
    marks = {n for n in range(size) if history.entry_id(n) in ir.breakpoints}
    cuts = {0, size} | {min(n, size) for n in inserted} | {n + 1 for n in marks}
    changes = _changed_entries(ir)
    edges = sorted(cuts)
    for begin, end in zip(edges, [*edges[1:], size], strict=True):
        yield from inserted.get(begin, ())
        if begin == end:
            continue
        first, last = history.place(begin), history.place(end - 1)
        touched = sum(history.place(n) in changes for n in range(begin, end))
        yield PromptRow(
            "history",
            EntryId.run(first, last, has_gaps=last - first >= end - begin),
            "history",
            sum(history.tokens[begin:end]),
            _run_reason(end - begin, touched),
            stability="static",
            breakpoint=end - 1 in marks,
            first=begin,
            last=end - 1,
            entries=end - begin,
        )


def _run_reason(count: int, touched: int) -> str:
    words = [f"{count:,} entries"] if count > 1 else []
    words += [f"{touched:,} changed by passes"] if touched else []
    return ", ".join(words)


def _changing(ir: PromptContent) -> list[Trace]:
    """The passes that did more than set breakpoints, which are told anyway."""
    marks = set(ir.breakpoints)
    return [trace for trace in ir.meta.trace if not marks.issuperset(trace.changed)]


def _changed_entries(ir: PromptContent) -> set[int]:
    names = {name for trace in _changing(ir) for name in trace.changed}
    return {
        place
        for place in (ir.history.place(n) for n in range(len(ir.history.entries)))
        if EntryId.of(place) in names
    }


def last_user_turn(ir: PromptContent) -> int:
    """Position of the entry in which the user spoke last; behind the last one if in none."""
    history = ir.history
    try:
        messages = parse(history.entries, history.format).messages
    except InvalidMessageError:
        messages = ()
    turns = [message.index for message in messages if message.is_user_turn]
    return max(turns, default=len(history.entries))


def _late_bound(ir: PromptContent) -> Iterator[PromptRow]:
    for position, section in enumerate(ir.late_bound):
        row = _section(section, position, ir)
        reason = f"asked for by the model, in the result of {section.carrier}"
        yield row._replace(kind="late_bound", reason=reason)


def _position(ir: PromptContent, place: int) -> int:
    """The position of the first entry that stood at this place or behind it."""
    size = len(ir.history.entries)
    return next((n for n in range(size) if ir.history.place(n) >= place), size)


def _dropped(ir: PromptContent) -> Iterator[PromptRow]:
    """What was left out, entry by entry of the history as runs with one fate."""
    visible = {section.id for section in ir.sections}
    kept = sorted(ir.history.place(n) for n in range(len(ir.history.entries)))
    shown = frozenset(kept)
    run: list[tuple[int, DroppedSection]] = []
    for dropped in ir.meta.dropped:
        match = _ENTRY.fullmatch(dropped.section)
        place = int(match[1]) if match else -1
        is_cut = dropped.section in visible or (match is not None and place in shown)
        if run and (is_cut or not _goes_on(run[-1], place, dropped, kept)):
            yield _gone_run(run)
            run = []
        if match and not is_cut:
            run.append((place, dropped))
            continue
        yield PromptRow(
            "cut" if is_cut else "dropped",
            dropped.section,
            dropped.by,
            dropped.tokens,
            dropped.reason,
            dropped.priority,
            handle=dropped.handle,
        )
    if run:
        yield _gone_run(run)


def _goes_on(
    last: tuple[int, DroppedSection], place: int, dropped: DroppedSection, kept: list[int]
) -> bool:
    """Whether an entry went as the one before it did, with nothing that is kept between them."""
    before, one = last
    return (
        place > before
        and (one.reason, one.by, one.priority) == (dropped.reason, dropped.by, dropped.priority)
        and bisect_left(kept, before) == bisect_left(kept, place)
    )


def _gone_run(run: list[tuple[int, DroppedSection]]) -> PromptRow:
    (first, dropped), (last, _) = run[0], run[-1]
    words = [f"{len(run):,} entries"] if len(run) > 1 else []
    words.append(f"{dropped.reason} ({dropped.by})" if dropped.by else dropped.reason)
    return PromptRow(
        "dropped",
        EntryId.run(first, last, has_gaps=last - first >= len(run)),
        "history",
        sum(one.tokens for _, one in run),
        "; ".join(words),
        dropped.priority,
        handle=dropped.handle if len(run) == 1 else None,
        first=first,
        last=last,
        entries=len(run),
    )


# As text


def _budget_lines(table: PromptExplanation) -> list[str]:
    soft, hard = table.budget.soft_tokens, table.budget.hard_tokens
    filled = min(round(_BAR_CELLS * table.tokens / soft), _BAR_CELLS)
    bar = "#" * filled + "." * (_BAR_CELLS - filled)
    line = (
        f"[{bar}] {table.tokens:,} of {soft:,} tokens ({table.tokens / soft:.0%}), "
        f"hard limit {hard:,}; {table.counter}"
    )
    shares = ", ".join(
        f"{_one_line(name)} {tokens:,}" for name, tokens in table.by_source.items() if tokens
    )
    lines = [line]
    if shares:
        lines.append(f"by source: {shares}")
    if table.before_tokens and table.before_tokens != table.tokens:
        lines.append(f"sources brought {table.before_tokens:,} tokens")
    return lines


def _row_lines(rows: Sequence[PromptRow]) -> list[str]:
    head = ("#", "id", "source", "tokens", "priority", "mode", "stable", "trust", "place", "fate")
    cells = [(*head, "reason")]
    for number, row in enumerate(rows):
        cells.append(
            (
                str(number) if row.is_kept else "",
                _clipped(row.id, _ID_CELLS),
                _clipped(row.source, _SOURCE_CELLS),
                f"{row.tokens:,}",
                row.priority,
                row.mode,
                row.stability,
                f"{row.trust:g}" if row.kind in ("tool", "section", "late_bound") else "",
                row.position,
                "kept" if row.is_kept else row.kind,
                _one_line(row.reason + (" BREAKPOINT" if row.breakpoint else "")).strip(),
            )
        )
    return _aligned(cells, right={0, 3, 7})


def _source_lines(sources: Iterable[SourceReport]) -> list[str]:
    cells = [("source", "state", "sections", "tokens", "ms", "")]
    cells += [
        (
            _clipped(source.name, _ID_CELLS),
            source.status,
            f"{source.sections:,}",
            f"{source.tokens:,}",
            f"{source.elapsed_ms:.1f}",
            _one_line(source.detail),
        )
        for source in sources
    ]
    return _aligned(cells, right={2, 3, 4})


def _trace_lines(passes: Iterable[Trace]) -> list[str]:
    cells = [("pass", "before", "after", "changed", "ms", "")]
    cells += [
        (
            _clipped(trace.name, _ID_CELLS),
            f"{trace.before_tokens:,}",
            f"{trace.after_tokens:,}",
            f"{len(trace.changed):,}",
            f"{trace.elapsed_ms:.1f}",
            _one_line("; ".join(trace.notes)),
        )
        for trace in passes
    ]
    return _aligned(cells, right={1, 2, 3, 4})


def _aligned(rows: Sequence[Sequence[str]], right: set[int]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _clipped(text: str, cells: int) -> str:
    line = _one_line(text)
    return line if len(line) <= cells else line[: cells - 1] + "…"


def _one_line(text: str) -> str:
    """Without line breaks and anything else that would move what stands beside it."""
    return "".join(character if character.isprintable() else " " for character in text)
