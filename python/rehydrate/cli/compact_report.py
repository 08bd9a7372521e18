"""A compaction as a readable report: figures, one line per unit, sums by role and reason.

Every line fits the terminal: in a narrow one, the least important columns are left out. The preview
of the text is last on the line, so that its content cannot move another column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from rehydrate._native import block_runs, short_reason
from rehydrate.cli.terminal import Column, Terminal, table
from rehydrate.compact.result import Compaction, UnitReport

Key = TypeVar("Key")

ROLE_CELLS = 12
NARROWEST_MAP = 10

_ROLE_STYLES = {
    "system": "magenta",
    "user": "cyan",
    "assistant": "blue",
    "tool use": "yellow",
    "tool": "yellow",
}


class Report(NamedTuple):
    """One compaction, its input, and how to show it."""

    name: str
    compaction: Compaction[Any]
    has_query: bool
    terminal: Terminal
    top: int | None = None
    """Number of units to show; None: all of them, and sums by role."""

    def lines(self) -> Iterator[str]:
        """Yield the whole report."""
        units = self.compaction.explain().units
        yield from _head(self)
        if units:
            yield ""
            yield from _table(_top_units(units, self.top), self.terminal)
            if self.top is None:
                yield ""
                yield from _roles(units, self.terminal)
            elif len(units) > self.top:
                more = f"and {len(units) - self.top:,} more units; without --top all are shown"
                yield self.terminal.paint(self.terminal.cut(more, self.terminal.width), "dim")
            yield ""
            yield from _reasons(units, self.terminal)
        yield ""
        yield from _next_steps(self)


def _top_units(units: Sequence[UnitReport], limit: int | None) -> Sequence[UnitReport]:
    """Return half the limit of kept units, by gain, and half of dropped ones, by size."""
    if limit is None or len(units) <= limit:
        return units
    kept = sorted((unit for unit in units if unit.kept), key=lambda unit: -unit.gain)
    dropped = sorted((unit for unit in units if not unit.kept), key=lambda unit: -unit.tokens)
    shown_dropped = min(len(dropped), max(limit // 2, limit - len(kept)))
    shown = {unit.unit for unit in (*kept[: limit - shown_dropped], *dropped[:shown_dropped])}
    return [unit for unit in units if unit.unit in shown]


# The head


def _head(report: Report) -> Iterator[str]:
    terminal, stats = report.terminal, report.compaction.stats
    embedding = "built-in embedding" if stats.embedding else "no embedding"
    dot = terminal.glyph(" · ", " | ")
    figures = figures_of(report.compaction, terminal)
    yield terminal.paint(terminal.cut(figures, terminal.width), "bold")
    made_of = dot.join([embedding, stats.format, stats.counter])
    yield terminal.paint(terminal.cut(made_of, terminal.width), "dim")
    yield terminal.paint(terminal.fit_end(report.name, terminal.width), "dim")
    units = report.compaction.explain().units
    if stats.before_tokens:
        yield ""
        yield _map(units, terminal)
    notices = [f"done without: {problem}" for problem in stats.degraded]
    if stats.over_budget:
        notices.insert(
            0,
            f"over budget: what is always kept takes {stats.pinned_tokens:,} tokens, "
            f"{stats.target_tokens:,} were asked for",
        )
    for notice in notices:
        yield terminal.paint(terminal.fit(notice, terminal.width), "yellow")


def figures_of(compaction: Compaction[Any], terminal: Terminal) -> str:
    """Return the outcome of a compaction in a line."""
    stats, has_outline = compaction.stats, compaction.outline is not None
    total = stats.dropped + len(compaction.messages) - has_outline
    if not stats.changed:  # ignored entries stay in an unchanged result too
        total -= stats.ignored
    parts = (
        f"{total - stats.dropped:,} of {total:,} messages kept",
        f", {stats.excerpted:,} in part" if stats.excerpted else "",
        f", {stats.stripped_tokens:,} tokens of thinking out" if stats.stripped else "",
        f", an outline of {stats.outline_tokens:,} tokens" if has_outline else "",
        f", {stats.covered_pct:.0f}% of what went in memory" if stats.covered_pct else "",
        f", {stats.distilled:,} distilled" if stats.distilled else "",
    )
    figures = (
        f"{stats.before_tokens:,} {terminal.glyph('→', '->')} {stats.after_tokens:,} tokens",
        f"-{stats.dropped_pct:.1f}%" if stats.changed else "unchanged",
        "".join(parts),
        f"{stats.elapsed_ms:.0f} ms" if stats.elapsed_ms >= 10 else f"{stats.elapsed_ms:.1f} ms",
    )
    return terminal.glyph(" · ", " | ").join(figures)


def _map(units: Sequence[UnitReport], terminal: Terminal) -> str:
    """Return a map of the conversation from its oldest token to its newest: dark where kept."""
    ends = ("oldest ", " newest")
    cells = terminal.width - sum(map(len, ends))
    if cells < NARROWEST_MAP:
        ends, cells = ("", ""), terminal.width
    total = sum(unit.tokens for unit in units)
    shares = [0.0] * cells
    begin = 0.0
    for unit in units:
        end = begin + unit.tokens * cells / total
        if unit.kept:
            kept_share = min(unit.kept_tokens / max(unit.tokens, 1), 1.0)
            for cell in range(int(begin), min(int(end) + 1, cells)):
                shares[cell] += max(min(end, cell + 1) - max(begin, cell), 0.0) * kept_share
        begin = end
    oldest, newest = (terminal.paint(text, "dim") for text in ends)
    return oldest + terminal.paint("".join(map(terminal.shade, shares)), "green") + newest


# The table


def _table(units: Sequence[UnitReport], terminal: Terminal) -> Iterator[str]:
    """Yield the table; below a unit that is kept in part, the kept part of each of its texts."""

    def column(
        title: str,
        cell: Callable[[UnitReport], str],
        rank: int,
        align: str = ">",
        style: Callable[[UnitReport], str] | None = None,
    ) -> Column:
        styles = [style(unit) for unit in units] if style else ()
        return Column(title, [cell(unit) for unit in units], align, rank, styles)

    # A signal that is the same for every unit gets less room, or none.
    has_memory = any(unit.coverage for unit in units)
    has_odds = any(unit.odds != 1 for unit in units)
    columns = [
        column("#", lambda unit: str(unit.messages[0]), 0),
        column("messages", lambda unit: str(len(unit.messages)), 9),
        column("role", lambda unit: terminal.fit(unit.role, ROLE_CELLS), 2, "<", _role_style),
        column("tokens", lambda unit: f"{unit.tokens:,}", 0),
        column("score", lambda unit: _figure(unit.score), 1),
        column("recency", lambda unit: f"{unit.recency:.2f}", 7),
        column("semantic", lambda unit: f"{unit.semantic:.2f}", 7),
        column("coverage", lambda unit: f"{unit.coverage:.2f}", 7 if has_memory else 8),
        *([column("odds", lambda unit: _figure(unit.odds), 7)] if has_odds else []),
        column("gain", lambda unit: _figure(unit.gain), 6),
        column("", lambda unit: "keep" if unit.kept else "drop", 0, "<", lambda _: "green"),
        column("why", lambda unit: short_reason(unit.reason)[0], 3, "<", _reason_style),
    ]
    dropped = {number for number, unit in enumerate(units) if not unit.kept}
    preview = Column("preview", [unit.preview for unit in units])
    header, *lines = table(columns, terminal, preview, dropped)
    yield header
    for unit, line in zip(units, lines, strict=True):
        yield line
        if unit.kept_tokens < unit.tokens and unit.kept:
            yield from _excerpt(unit, terminal)


def _role_style(unit: UnitReport) -> str:
    return _ROLE_STYLES.get(unit.role, "bold")


def _reason_style(unit: UnitReport) -> str:
    return "bold" if short_reason(unit.reason)[2] else "green"


def _excerpt(unit: UnitReport, terminal: Terminal) -> Iterator[str]:
    """Yield the kept part of each text of an excerpted unit, one per line."""
    for (message, _), group in groupby(unit.blocks, key=lambda block: (block.message, block.text)):
        blocks = list(group)
        kept = [block for block in blocks if block.kept]
        if len(kept) == len(blocks):
            continue
        tokens, whole = (sum(block.tokens for block in some) for some in (kept, blocks))
        runs = [run for run in block_runs(blocks) if run.kept]
        spans = ", ".join(f"{run.first}-{run.last}" for run in runs) or "none"
        line = (
            f"     {terminal.glyph('└', '`')} of message {message} {tokens:,} of {whole:,} tokens: "
            f"{blocks[0].measure} {spans} of {blocks[-1].last}"
        )
        yield terminal.paint(terminal.cut(line, terminal.width), "dim")


def _figure(value: float) -> str:
    """Return two or three significant digits in few cells: 148, 8.4, 0.31, 0.004, 2e-05."""
    if value >= 99.5 or value == 0:
        return f"{value:,.0f}"
    if value >= 0.995:
        return f"{value:.1f}"
    if value >= 0.095:
        return f"{value:.2f}"
    return f"{value:.3f}" if value >= 0.00095 else f"{value:.0e}"


# The foot


def _grouped(
    units: Iterable[UnitReport], key: Callable[[UnitReport], Key]
) -> dict[Key, list[UnitReport]]:
    groups: dict[Key, list[UnitReport]] = {}
    for unit in units:
        groups.setdefault(key(unit), []).append(unit)
    return groups


def _roles(units: Sequence[UnitReport], terminal: Terminal) -> Iterator[str]:
    """Yield the kept and dropped tokens of each role."""
    groups = _grouped(units, lambda unit: terminal.fit(unit.role, ROLE_CELLS))
    if len(groups) > 1:
        groups["total"] = [*units]
    kept = [[unit for unit in group if unit.kept] for group in groups.values()]
    tokens = [sum(unit.tokens for unit in group) for group in groups.values()]
    left = [sum(unit.kept_tokens for unit in group) for group in kept]
    dropped = [len(group) - len(some) for group, some in zip(groups.values(), kept, strict=True)]
    shares = list(zip(left, tokens, strict=True))
    yield from table(
        [
            Column("role", [*groups], "<", 0, [_ROLE_STYLES.get(role, "bold") for role in groups]),
            Column("kept units", [f"{len(some):,}" for some in kept], ">", 2),
            Column("tokens", [f"{some:,}" for some in left], ">"),
            Column("dropped units", [f"{count:,}" for count in dropped], ">", 2),
            Column("tokens", [f"{whole - some:,}" for some, whole in shares], ">"),
            Column("kept", [f"{some / max(whole, 1):.0%}" for some, whole in shares], ">", 1),
        ],
        terminal,
    )


def _reasons(units: Sequence[UnitReport], terminal: Terminal) -> Iterator[str]:
    """Yield how often each reason decided, with the full text of the short ones in the table."""
    groups = _grouped(units, lambda unit: (not unit.kept, *short_reason(unit.reason)[:2]))
    tokens = {reason: sum(unit.tokens for unit in group) for reason, group in groups.items()}
    ranked = sorted(groups, key=lambda reason: (reason[0], -tokens[reason]))
    yield from table(
        [
            Column("", ["drop" if is_out else "keep" for is_out, *_ in ranked]),
            Column("units", [f"{len(groups[reason]):,}" for reason in ranked], ">", 1),
            Column("tokens", [f"{tokens[reason]:,}" for reason in ranked], ">"),
            Column("why", [short for _, short, _ in ranked]),
        ],
        terminal,
        Column("", [sentence if sentence != short else "" for _, short, sentence in ranked]),
        {number for number, reason in enumerate(ranked) if reason[0]},
    )


def _next_steps(report: Report) -> Iterator[str]:
    """Yield what to try next, the most useful first."""
    stats, terminal = report.compaction.stats, report.terminal
    steps = []
    if not stats.before_tokens:
        steps.append("there is nothing to compact")
    elif not stats.changed:
        steps.append("everything fits; a smaller --ratio or --budget drops more")
    elif stats.over_budget:
        steps.append("what is always kept fills the budget: raise --ratio or --budget")
    if stats.changed and not report.has_query:
        steps.append("--query 'what the next turn is about' keeps what bears on it")
    if stats.changed and not stats.excerpted:
        steps.append("--granularity excerpt keeps the best parts of long texts")
    if stats.changed:
        steps.append("--pin N keeps message N (column #); -o FILE writes the kept messages")
        steps.append("--html PAGE shows both sides: before and after, text by text")
    for number, step in enumerate(steps):
        line = terminal.cut(f"{'next' if number == 0 else '':<4}  {step}", terminal.width)
        yield terminal.paint(line, "cyan")
