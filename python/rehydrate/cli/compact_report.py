"""A compaction as a readable report: figures, one line a unit, sums by role and reason.

Every line fits the terminal: in a narrow one, the least important columns are left out. The preview
of the text is last on the line, so that its content cannot move another column.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from rehydrate.cli.terminal import GAP, Terminal, aligned, display_width, pad
from rehydrate.compact.result import Compaction, UnitReport, block_runs

Key = TypeVar("Key")

BAR_CELLS = 8
ROLE_BAR_CELLS = 20
ROLE_CELLS = 12
SHORT_CELLS = 14
SMALLEST_BAR = 4
DECADES = 4
NARROWEST_MAP = 10
PREVIEW_CELLS = 28
"""Minimum width of a preview; less important columns are shown only beyond it."""

# Reasons in a few words: the start of the long one, the short one, the long one without figures.
_REASONS = (
    (
        "most of what it mentions is kept",
        "said elsewhere",
        "most of what it mentions is kept elsewhere",
    ),
    ("others are worth more", "outbid", "others are worth more per token"),
    ("others score higher", "outscored", "others score higher"),
    ("needs ", "too big", "needs more tokens than are free"),
    ("memory covers ", "in memory", "memory holds most of it already"),
    ("worth its tokens", "worth it", "worth its tokens"),
    ("rule of the user", "user's rule", "rules of the user"),
    ("among the best scores", "best scores", "among the best scores"),
    ("a user turn must come first", "must lead", "a user turn must come first"),
    ("last user turn", "last user turn", "the user's last turn is always kept"),
    ("reply that the user", "reply", "the reply that the user answers is always kept"),
    ("open tool loop", "open loop", "a tool loop that goes on is always kept"),
    ("system", "system", "system messages are always kept"),
    ("pinned by the caller", "pinned", "pinned with --pin"),
)
_PINS = {
    *("system", "last user turn", "reply that the user answers", "open tool loop"),
    "pinned by the caller",
}
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
    has_outline = report.compaction.outline is not None
    total = stats.dropped + len(report.compaction.messages) - has_outline
    if not stats.changed:  # ignored entries stay in an unchanged result too
        total -= stats.ignored
    arrow = terminal.glyph("→", "->")
    figures = [
        terminal.paint(f"{stats.before_tokens:,} {arrow} {stats.after_tokens:,} tokens", "bold"),
        terminal.paint(
            f"-{stats.dropped_pct:.1f}%" if stats.changed else "unchanged", "bold", "green"
        ),
        f"{total - stats.dropped:,} of {total:,} messages kept"
        + (f", {stats.excerpted:,} in part" if stats.excerpted else "")
        + (f", {stats.stripped_tokens:,} tokens of thinking out" if stats.stripped else "")
        + (f", an outline of {stats.outline_tokens:,} tokens" if has_outline else ""),
        f"{stats.elapsed_ms:.0f} ms" if stats.elapsed_ms >= 10 else f"{stats.elapsed_ms:.1f} ms",
    ]
    embedding = "built-in embedding" if stats.embedding else "no embedding"
    yield from _flow(figures, [embedding, stats.format, stats.counter], terminal)
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


def _flow(figures: Sequence[str], made_of: Sequence[str], terminal: Terminal) -> Iterator[str]:
    """Yield figures and their sources on one line, or on two where there is no room."""
    dot = terminal.glyph(" · ", " | ")

    def fits(line: str) -> bool:  # without its colours
        return display_width(terminal.safe(line)) <= terminal.width

    while len(figures) > 1 and not fits(dot.join(figures)):
        figures = figures[:-1]
    line, second = dot.join(figures), dot.join(made_of)
    if fits(line + dot + second):
        yield line + terminal.paint(dot + second, "dim")
        return
    yield line
    yield terminal.paint(terminal.fit(second, terminal.width), "dim")


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


class _Column(NamedTuple):
    """One column; `rank` 0 is always shown, and higher ranks are dropped first."""

    rank: int
    title: str
    cell: Callable[[UnitReport], str]
    align: str = ">"
    style: Callable[[UnitReport], str] | None = None
    """Style of a kept unit's cell; the line of a dropped unit is dim as a whole."""


_PREVIEW_RANK = 5
_LAST_RANK = 11
_NEVER = _LAST_RANK + 1


def _table(units: Sequence[UnitReport], terminal: Terminal) -> Iterator[str]:
    columns = _columns(units, terminal)
    header, *rows = aligned(
        [[c.title for c in columns], *[[c.cell(unit) for c in columns] for unit in units]],
        "".join([c.align for c in columns]),
    )
    cells = list(map(display_width, header))
    preview = terminal.width - sum(cells) - len(GAP) * len(cells)
    if preview < len("preview"):
        preview = 0
    titles = GAP.join([*header, "preview"] if preview else header)
    yield terminal.paint(terminal.cut(titles, terminal.width).rstrip(), "dim")
    for unit, row in zip(units, rows, strict=True):
        values = row
        text = [terminal.fit(unit.preview, preview)] if preview else []
        if not preview:
            values = [terminal.cut(GAP.join(values), terminal.width)]
        elif unit.kept:
            values = [
                terminal.paint(value, column.style(unit)) if column.style else value
                for value, column in zip(values, columns, strict=True)
            ]
        line = GAP.join([*values, *text]).rstrip()
        yield line if unit.kept else terminal.paint(line, "dim")
        if unit.kept_tokens < unit.tokens and unit.kept:
            yield from _excerpt(unit, terminal)


def _excerpt(unit: UnitReport, terminal: Terminal) -> Iterator[str]:
    """Yield what is kept of each text of an excerpted unit, a line a text."""
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


def _columns(units: Sequence[UnitReport], terminal: Terminal) -> list[_Column]:
    """Return as many columns as fit, the most important first."""
    for rank in range(_LAST_RANK, 0, -1):
        columns = _columns_to(rank, units, terminal)
        taken = len(GAP) * (len(columns) - 1) + sum(
            max(len(column.title), *(display_width(column.cell(unit)) for unit in units))
            for column in columns
        )
        if rank > _PREVIEW_RANK:
            taken += len(GAP) + PREVIEW_CELLS
        elif rank == _PREVIEW_RANK:
            taken += len(GAP) + PREVIEW_CELLS // 2
        if taken <= terminal.width:
            return columns
    return _columns_to(0, units, terminal)


def bar_shares(scores: Sequence[float]) -> tuple[bool, list[float]]:
    """Return whether bars show the logarithm of scores, and how full each is.

    With a query, scores can spread over many orders of magnitude: half the bars would be nearly
    empty. Then a bar shows the logarithm, and is empty DECADES powers of ten below the best.

    >>> bar_shares([0.4, 0.6, 0.8])
    (False, [0.5, 0.7499999999999999, 1.0])
    """
    best = max(scores)
    is_logarithmic = statistics.median(scores) < best / BAR_CELLS
    shares = [score / best if score > 0 else 0.0 for score in scores]
    if is_logarithmic:
        shares = [max(1 + math.log10(share) / DECADES, 0.0) if share else 0.0 for share in shares]
    return is_logarithmic, shares


def _columns_to(rank: int, units: Sequence[UnitReport], terminal: Terminal) -> list[_Column]:
    """Return all columns up to this rank; the last ranks add no column, but write words in full."""
    is_logarithmic, shares = bar_shares([unit.score for unit in units])
    share_of = dict(zip(map(id, units), shares, strict=True))
    long_reasons, long_titles = rank >= _LAST_RANK - 1, rank >= _LAST_RANK
    recency, semantic, coverage = (
        ("recency", "semantic", "coverage") if long_titles else ("rec", "sem", "cov")
    )

    # A signal that is the same for every unit gets less room, or none.
    has_memory = any(unit.coverage for unit in units)
    has_odds = any(unit.odds != 1 for unit in units)

    def bar(unit: UnitReport) -> str:
        return terminal.bar(share_of[id(unit)], BAR_CELLS)

    def reason(unit: UnitReport) -> str:
        return unit.reason if long_reasons else _short(unit.reason)[0]

    def role_style(unit: UnitReport) -> str:
        return _ROLE_STYLES.get(unit.role, "bold")

    def reason_style(unit: UnitReport) -> str:
        return "bold" if unit.reason in _PINS else "green"

    columns = [
        _Column(0, "#", lambda unit: str(unit.messages[0])),
        _Column(9, "messages", lambda unit: str(len(unit.messages))),
        _Column(2, "role", lambda unit: terminal.fit(unit.role, ROLE_CELLS), "<", role_style),
        _Column(0, "tokens", lambda unit: f"{unit.tokens:,}"),
        _Column(1, "log score" if is_logarithmic else "score", bar, "<", lambda _: "green"),
        _Column(4, "", lambda unit: _figure(unit.score)),
        _Column(7, recency, lambda unit: f"{unit.recency:.2f}"),
        _Column(7, semantic, lambda unit: f"{unit.semantic:.2f}"),
        _Column(7 if has_memory else 8, coverage, lambda unit: f"{unit.coverage:.2f}"),
        _Column(7 if has_odds else _NEVER, "odds", lambda unit: _figure(unit.odds)),
        _Column(6, "gain", lambda unit: _figure(unit.gain)),
        _Column(0, "", lambda unit: "keep" if unit.kept else "drop", "<", lambda _: "green"),
        _Column(3, "why", reason, "<", reason_style),
    ]
    return [column for column in columns if column.rank <= rank]


def _figure(value: float) -> str:
    """Return two or three significant digits in few cells: 148, 8.4, 0.31, 0.004, 2e-05."""
    if value >= 99.5 or value == 0:
        return f"{value:,.0f}"
    if value >= 0.995:
        return f"{value:.1f}"
    if value >= 0.095:
        return f"{value:.2f}"
    return f"{value:.3f}" if value >= 0.00095 else f"{value:.0e}"


def _short(reason: str) -> tuple[str, str]:
    """Return a reason in a few words, and in a sentence without figures."""
    for beginning, short, sentence in _REASONS:
        if reason.startswith(beginning):
            return short, sentence
    return reason, reason


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
    cells = max(map(display_width, [*groups, "role"]))
    header = (
        f"{pad('role', cells)}  {'kept units':>10} {'tokens':>9}  "
        f"{'dropped units':>13} {'tokens':>9}  {'kept':>4}"
    )
    yield terminal.paint(terminal.cut(header, terminal.width), "dim")
    bar_cells = min(ROLE_BAR_CELLS, terminal.width - len(header) - 1)
    for role, group in groups.items():
        kept = [unit.kept_tokens for unit in group if unit.kept]
        tokens = sum(unit.tokens for unit in group)
        share = sum(kept) / tokens if tokens else 1.0
        figures = (
            f"{len(kept):>10,} {sum(kept):>9,}  "
            f"{len(group) - len(kept):>13,} {tokens - sum(kept):>9,}  {share:>4.0%}"
        )
        name = pad(role, cells)
        if bar_cells < SMALLEST_BAR:
            yield terminal.cut(f"{name}  {figures}", terminal.width)
            continue
        bar = terminal.bar(share, bar_cells).rstrip()
        style = _ROLE_STYLES.get(role, "bold")
        yield f"{terminal.paint(name, style)}  {figures} {terminal.paint(bar, 'green')}".rstrip()


def _reasons(units: Sequence[UnitReport], terminal: Terminal) -> Iterator[str]:
    """Yield how often each reason decided, with the full text of the short ones in the table."""
    header = f"{'':<4}  {'units':>5}  {'tokens':>9}  why"
    yield terminal.paint(terminal.cut(header, terminal.width), "dim")
    for word in ("keep", "drop"):
        decided = [unit for unit in units if unit.kept is (word == "keep")]
        sums = [
            (sum(unit.tokens for unit in group), len(group), *reason)
            for reason, group in _grouped(decided, lambda unit: _short(unit.reason)).items()
        ]
        for tokens, count, short, sentence in sorted(sums, key=lambda each: -each[0]):
            line = f"{word}  {count:>5,}  {tokens:>9,}  {pad(short, SHORT_CELLS)}"
            if sentence != short:
                line += GAP + sentence
            line = terminal.cut(line.rstrip(), terminal.width)
            yield line if word == "keep" else terminal.paint(line, "dim")


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
