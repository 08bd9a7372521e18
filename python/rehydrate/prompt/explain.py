"""explain: an IR as a table of the cost and the source of each part, and of what was left out."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rehydrate.entry_id import EntryId
from rehydrate.errors import InvalidMessageError
from rehydrate.prompt.section import TOOLS

if TYPE_CHECKING:
    from rehydrate.prompt.request import Budget
    from rehydrate.prompt.section import (
        DroppedSection,
        PromptContent,
        Section,
        SourceReport,
        Trace,
    )


_ID_WIDTH, _SOURCE_WIDTH, _BAR_WIDTH = 44, 12, 40


class PromptRow(NamedTuple):
    """A tool, a section, a run of history entries, or something that was left out."""

    kind: Literal["tool", "section", "history", "late_bound", "cut", "dropped"]
    """``late_bound``: a section that the model asked for; the row of the history contains its
    tokens too. ``cut``: the missing part of a section."""
    id: str
    """``tools.grep``, a section's id, ``history[4]``, ``history[4-17]``, or ``history[4..17]``
    where entries between are missing."""
    source: str
    tokens: int
    reason: str = ""
    """Why it is kept, cut or dropped."""
    priority: str = ""
    mode: str = ""
    stability: str = ""
    position: str = ""
    trust: float = 1.0
    relevance: float | None = None
    min_tokens: int = 0
    breakpoint: bool = False
    """Whether the provider is told to cache the prefix that ends here."""
    handle: str | None = None
    """The handle of the whole text."""
    first: int = 0
    """The position in the IR of a tool, a section or the first entry of a run. For dropped entries
    it is the index in the caller's list."""
    last: int = 0
    """The same for the last entry of a run."""
    entries: int = 1
    """The number of entries in a run."""

    @property
    def is_kept(self) -> bool:
        """Whether it is in the prompt."""
        return self.kind not in ("cut", "dropped")


class PromptExplanation(NamedTuple):
    """Rows in the order in which a provider reads them, then what was left out.

    With the reports of the sources and the traces of the passes.
    """

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
        """The tokens of each source that are in the prompt, in the order of the prompt."""
        sums: dict[str, int] = {}
        for row in self.rows:
            if row.is_kept:
                sums[row.source] = sums.get(row.source, 0) + row.tokens
            if row.kind == "late_bound":
                sums["history"] = sums.get("history", 0) - row.tokens
        return sums

    def to_dict(self) -> dict[str, Any]:
        """Return the table as JSON values."""
        from rehydrate.prompt.serialize import plain

        values: dict[str, Any] = plain(self)
        return values

    def __str__(self) -> str:
        """Return the budget, the rows, the sources and the passes, as plain text."""
        parts = [_budget_lines(self), _row_lines(self.rows)]
        if self.sources:
            head = "source state >sections >tokens >ms"
            parts.append(_table(head, [_named_cells(*source) for source in self.sources]))
        if self.trace:
            passes = [
                _named_cells(name, before, after, len(changed), elapsed_ms, "; ".join(notes))
                for name, before, after, changed, notes, elapsed_ms in self.trace
            ]
            parts.append(_table("pass >before >after >changed >ms", passes))
        if self.degraded:
            parts.append([f"done without: {_one_line(problem)}" for problem in self.degraded])
        return "\n\n".join("\n".join(lines) for lines in parts)


class Why(NamedTuple):
    """Whether a prompt shows an entry or a section, and why; ``str()`` of it is a sentence."""

    id: str
    """``history[4]``, a section's, or the name of a source."""
    shown: Literal["whole", "in part", "not"]
    reason: str
    tokens: int = 0
    """What the prompt shows of it."""
    omitted_tokens: int = 0
    """What the prompt does not show of it, where it is known."""
    handle: str | None = None
    """The handle of the whole text, for `fetch_whole` and `originals`."""

    def __str__(self) -> str:
        """Return the id, what is shown of it, the tokens and the reason."""
        omitted = f", {self.omitted_tokens:,} omitted" if self.omitted_tokens else ""
        whole = f"; the whole is {self.handle}" if self.handle else ""
        return (
            f"{self.id}: {self.shown} shown ({self.tokens:,} tokens{omitted}): {self.reason}{whole}"
        )


class Records:
    """What an IR records of each entry, section and source; read once for all that is asked."""

    __slots__ = ("_dropped", "_passes", "_shown", "ir", "positions")

    def __init__(self, ir: PromptContent) -> None:
        """Read the records."""
        self.ir = ir
        self.positions = {index: position for position, index in enumerate(ir.history.indices)}
        """Where the history has each entry."""
        self._shown: dict[str, list[int]] = {}
        for one in (*ir.sections, *ir.late_bound):
            self._shown.setdefault(one.id, []).append(one.tokens or 0)
        self._passes: dict[str, list[str]] = {}
        for trace in _changing_passes(ir):
            for id_ in dict.fromkeys(trace.changed):
                self._passes.setdefault(id_, []).append(f"changed by {trace.name}")
        self._dropped = {one.section: one for one in ir.meta.dropped}

    def why(self, id_: str) -> Why | None:
        """Return what is recorded under an id; None where nothing is."""
        if (index := EntryId.index_of(id_)) is None:
            shown = self._shown.get(id_, [])
        else:
            position = self.positions.get(index)
            shown = (
                [] if position is None else list(self.ir.history.tokens[position : position + 1])
            )
        passes = self._passes.get(id_, [])
        if dropped := self._dropped.get(id_):
            reason = f"{dropped.reason} ({dropped.by})" if dropped.by else dropped.reason
            fate: Literal["in part", "not"] = "in part" if shown else "not"
            return Why(id_, fate, reason, sum(shown), dropped.tokens, dropped.handle)
        if shown:
            return Why(id_, "in part" if passes else "whole", "; ".join(passes), sum(shown))
        for name, status, sections, tokens, _, detail in self.ir.meta.sources:
            if name == id_:
                what = f"{status}: {detail or f'it brought {sections} sections'}"
                return Why(id_, "whole" if sections else "not", what, tokens)
        return None


def explain(ir: PromptContent) -> PromptExplanation:
    """Return the IR as a table."""
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
    for number, tool in enumerate(ir.tools):
        is_last = number == len(ir.tools) - 1
        yield PromptRow(
            "tool",
            f"{TOOLS}.{tool.name}",
            tool.provenance.source,
            tool.tokens or 0,
            "run by the provider" if tool.is_hosted else "",
            stability="static",
            trust=tool.provenance.trust,
            breakpoint=is_last and TOOLS in ir.breakpoints,
            first=number,
            last=number,
        )


def _sections_and_history(ir: PromptContent) -> Iterator[PromptRow]:
    """Yield static sections, the system's first; then the history with the dynamic sections."""
    numbered = list(enumerate(ir.sections))
    static = [pair for pair in numbered if pair[1].is_static]
    for number, section in sorted(static, key=lambda pair: not pair[1].is_system):
        yield _section(section, number, ir)
    inserted: dict[int, list[PromptRow]] = {}
    dynamic = [pair for pair in numbered if not pair[1].is_static]
    default = last_user_turn(ir) if dynamic else 0
    for number, section in dynamic:
        before = default if section.anchor is None else _position_of(ir, section.anchor)
        inserted.setdefault(before, []).append(_section(section, number, ir))
    yield from _history(ir, inserted)


def _section(section: Section, number: int, ir: PromptContent) -> PromptRow:
    passes = [trace.name for trace in _changing_passes(ir) if section.id in trace.changed]
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
        number,
        number,
    )


def _history(ir: PromptContent, inserted: dict[int, list[PromptRow]]) -> Iterator[PromptRow]:
    """Yield runs of entries. A run ends before an inserted section and after a breakpoint."""
    history, indices = ir.history, ir.history.indices
    size = len(history.entries)
    marks = {n for n in range(size) if history.entry_id(n) in ir.breakpoints}
    edges = sorted({0, size} | {min(n, size) for n in inserted} | {n + 1 for n in marks})
    changed_ids = {name for trace in _changing_passes(ir) for name in trace.changed}
    for begin, end in zip(edges, [*edges[1:], size], strict=True):
        yield from inserted.get(begin, ())
        if begin == end:
            continue
        first, last = indices[begin], indices[end - 1]
        changed = sum(EntryId.of(index) in changed_ids for index in indices[begin:end])
        words = [f"{end - begin:,} entries"] if end - begin > 1 else []
        words += [f"{changed:,} changed by passes"] if changed else []
        yield PromptRow(
            "history",
            EntryId.run(first, last, has_gaps=last - first >= end - begin),
            "history",
            sum(history.tokens[begin:end]),
            ", ".join(words),
            stability="static",
            breakpoint=end - 1 in marks,
            first=begin,
            last=end - 1,
            entries=end - begin,
        )


def _changing_passes(ir: PromptContent) -> list[Trace]:
    """Return the passes that did more than set breakpoints: those have a column of their own."""
    marks = set(ir.breakpoints)
    return [trace for trace in ir.meta.trace if not marks.issuperset(trace.changed)]


def last_user_turn(ir: PromptContent) -> int:
    """Return the position of the last user turn; without one, the position after the last entry."""
    try:
        last = ir.history.rows.last_user_message()
    except InvalidMessageError:
        last = None
    return len(ir.history.entries) if last is None else last.index


def _late_bound(ir: PromptContent) -> Iterator[PromptRow]:
    for number, section in enumerate(ir.late_bound):
        row = _section(section, number, ir)
        reason = f"asked for by the model, in the result of {section.tool_call_id}"
        yield row._replace(kind="late_bound", reason=reason)


def _position_of(ir: PromptContent, entry_index: int) -> int:
    """Return the position of the first entry whose entry index is at least this one."""
    indices = ir.history.indices
    return next((n for n, index in enumerate(indices) if index >= entry_index), len(indices))


def _dropped(ir: PromptContent) -> Iterator[PromptRow]:
    """Yield what was left out. Entries that went for one reason are one run."""
    kept_sections = {section.id for section in ir.sections}
    kept = sorted(ir.history.indices)
    kept_entries = frozenset(kept)
    run: list[tuple[int, DroppedSection]] = []
    for dropped in ir.meta.dropped:
        index = EntryId.index_of(dropped.section)
        is_cut = dropped.section in kept_sections or index in kept_entries
        if run and (is_cut or index is None or not _continues(run[-1], index, dropped, kept)):
            yield _dropped_run(run)
            run = []
        if index is not None and not is_cut:
            run.append((index, dropped))
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
        yield _dropped_run(run)


def _continues(
    last: tuple[int, DroppedSection], index: int, dropped: DroppedSection, kept: list[int]
) -> bool:
    """Whether an entry continues the run: for the same reason, with no kept entry between."""
    before, one = last
    return (
        index > before
        and (one.reason, one.by, one.priority) == (dropped.reason, dropped.by, dropped.priority)
        and bisect_left(kept, before) == bisect_left(kept, index)
    )


def _dropped_run(run: list[tuple[int, DroppedSection]]) -> PromptRow:
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
    filled = min(round(_BAR_WIDTH * table.tokens / soft), _BAR_WIDTH)
    bar = "#" * filled + "." * (_BAR_WIDTH - filled)
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
    head = "# id source >tokens priority mode stable >trust place fate reason"
    return _table(
        f">{head}",
        [
            (
                str(number) if row.is_kept else "",
                _clipped(row.id, _ID_WIDTH),
                _clipped(row.source, _SOURCE_WIDTH),
                f"{row.tokens:,}",
                row.priority,
                row.mode,
                row.stability,
                f"{row.trust:g}" if row.kind in ("tool", "section", "late_bound") else "",
                row.position,
                "kept" if row.is_kept else row.kind,
                _one_line(row.reason + (" BREAKPOINT" if row.breakpoint else "")).strip(),
            )
            for number, row in enumerate(rows)
        ],
    )


def _table(head: str, rows: Sequence[Sequence[str]]) -> list[str]:
    """Pad the cells of each column to one width. ``head`` names the columns, with ">" before those
    that are aligned to the right; the last column may have no name."""
    names = [*head.split(), ""][: max(len(row) for row in rows)] if rows else head.split()
    columns = zip([name.lstrip(">") for name in names], *rows, strict=True)
    padded = [
        [f"{cell:{name[:1] if name[:1] == '>' else '<'}{max(map(len, column))}}" for cell in column]
        for name, column in zip(names, columns, strict=True)
    ]
    return ["  ".join(cells).rstrip() for cells in zip(*padded, strict=True)]


def _named_cells(name: str, *values: Any) -> list[str]:
    """Return the cells of a source or a pass: counts, the time that it took, and words."""
    *counts, elapsed_ms, words = values
    cells = [count if isinstance(count, str) else f"{count:,}" for count in counts]
    return [_clipped(name, _ID_WIDTH), *cells, f"{elapsed_ms:.1f}", _one_line(words)]


def _clipped(text: str, width: int) -> str:
    line = _one_line(text)
    return line if len(line) <= width else line[: width - 1] + "…"


def _one_line(text: str) -> str:
    """Replace line breaks and other characters that would move the text next to it."""
    return "".join(character if character.isprintable() else " " for character in text)
