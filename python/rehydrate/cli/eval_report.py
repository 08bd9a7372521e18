"""An evaluation as a readable report: tables of what is kept, a recommendation, what was lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from rehydrate.cli.terminal import Terminal, display_width, pad

if TYPE_CHECKING:
    from rehydrate.retention import Evaluation, Interval, Loss, Recommendation
    from rehydrate.retention.evaluate import Row

GAP = "  "
NAME_CELLS = 28
NARROWEST_NAME = 10
SHOWN_LOSSES = 3


def report(found: Evaluation, terminal: Terminal, *, has_page: bool = False) -> Iterator[str]:
    """The whole report."""
    yield from _head(found, terminal)
    if found.cuts:
        yield ""
        yield from _by_ratio(
            found, terminal, "of the names used later, the share still there",
            lambda row: (row.used_later, row.used_later_interval),
        )  # fmt: skip
    if found.questions:
        yield ""
        yield from _by_ratio(
            found, terminal, "of the messages that answer the questions, the share still there",
            lambda row: (row.answers, row.answers_interval),
        )  # fmt: skip
    advice = found.recommendation
    if advice:
        yield ""
        rows = [row for row in found.rows if row.ratio == advice.ratio]
        yield from _beside(rows, f"at {_percent(advice.ratio)} of the tokens", terminal)
    if found.summaries:
        yield ""
        size = _percent(found.summaries[0].cost_ratio)
        yield from _beside(
            found.summaries, f"at the size of the agent's summaries, {size}", terminal
        )
    if found.judged:
        yield ""
        yield from _wrapped(found.judged.sentence(), terminal)
    if advice:
        yield ""
        yield from _advice(advice, terminal)
    if found.losses:
        yield ""
        yield from _losses(found.losses[:SHOWN_LOSSES], terminal)
    if not has_page:
        yield ""
        step = "next  --html page.html shows charts and more of what was lost"
        yield terminal.paint(terminal.cut(step, terminal.width), "cyan")


def _head(found: Evaluation, terminal: Terminal) -> Iterator[str]:
    measured = [session for session in found.sessions if session.cases]
    formats = sorted({session.format for session in measured})
    tokens = sum(session.tokens for session in measured)
    counts = [
        f"{len(measured):,} session{'' if len(measured) == 1 else 's'}",
        f"{found.cuts:,} cut{'' if found.cuts == 1 else 's'}" if found.cuts else "",
        f"{found.questions:,} questions" if found.questions else "",
        f"{tokens:,} tokens",
        ", ".join(formats),
    ]
    line = terminal.glyph(" · ", " | ").join(filter(None, counts))
    yield terminal.paint(terminal.cut(line, terminal.width), "bold")
    for note in found.notes:
        yield from _wrapped(note, terminal, "dim")


def _by_ratio(
    found: Evaluation,
    terminal: Terminal,
    title: str,
    value: Callable[[Row], tuple[float | None, Interval | None]],
) -> Iterator[str]:
    """A line a strategy, a column a ratio; with intervals where they have room."""
    groups = {
        name: [row for row in found.rows if row.strategy == name] for name in found.strategies
    }
    names = _name_cells(found.strategies)
    has_intervals = any(value(row)[1] for row in found.rows)
    for shows_intervals in (True, False) if has_intervals else (False,):
        cells = 16 if shows_intervals else 5
        if names + (cells + len(GAP)) * len(found.ratios) <= terminal.width:
            break
    ratios = found.ratios
    if names + (cells + len(GAP)) * len(ratios) > terminal.width:
        names = NARROWEST_NAME
        ratios = ratios[-max(1, (terminal.width - names) // (cells + len(GAP))) :]
    about = f"{title}{' (95% interval by session)' if shows_intervals else ''}"
    yield terminal.cut(about, terminal.width)
    heads = [pad(_percent(ratio), cells) for ratio in ratios]
    header = GAP.join([pad(terminal.fit("kept of the tokens", names), names), *heads]).rstrip()
    yield terminal.paint(terminal.cut(header, terminal.width), "dim")
    best = {
        ratio: max((value(row)[0] or 0.0 for row in found.rows if row.ratio == ratio), default=0.0)
        for ratio in found.ratios
    }
    for name, rows in groups.items():
        line = [pad(terminal.fit(name, names), names)]
        for row in (row for row in rows if row.ratio in ratios):
            mean, interval = value(row)
            text = "-" if mean is None else f"{mean:.2f}"
            is_best = mean is not None and mean >= best[row.ratio] - 0.005
            behind = f" {interval}" if interval and shows_intervals else ""
            shown = terminal.paint(text, "green", "bold") if is_best else text
            blanks = " " * (cells - len(text) - len(behind))
            line.append(shown + terminal.paint(behind, "dim") + blanks)
        yield GAP.join(line).rstrip()


def _beside(rows: Sequence[Row], title: str, terminal: Terminal) -> Iterator[str]:
    """The strategies at one ratio, by all measures."""
    columns: list[tuple[str, Callable[[Row], str]]] = [
        ("used later", lambda row: _share(row.used_later)),
        ("answers", lambda row: _share(row.answers)),
        ("laid down", lambda row: _share(row.laid_down)),
        ("last turn", lambda row: _share(row.last_turn)),
        ("size", lambda row: _percent(row.cost_ratio)),
        ("rules broken", lambda row: f"{row.violations:,}"),
        ("time", lambda row: f"{row.milliseconds:.1f} ms" if row.milliseconds else ""),
    ]
    columns = [each for each in columns if any(each[1](row) not in ("", "-") for row in rows)]
    names = _name_cells([row.strategy for row in rows])
    sizes = [max(len(head), *(len(cell(row)) for row in rows)) for head, cell in columns]
    if display_width(title) + sum(sizes) + len(GAP) * len(sizes) <= terminal.width:
        names = max(names, display_width(title))
    else:  # a line of its own
        yield terminal.cut(title, terminal.width)
        title = ""
    while columns and names + sum(sizes) + len(GAP) * len(sizes) > terminal.width:
        columns, sizes = columns[:-1], sizes[:-1]
    heads = [pad(head, size, ">") for (head, _), size in zip(columns, sizes, strict=True)]
    yield pad(title, names) + GAP + terminal.paint(GAP.join(heads), "dim")
    for row in rows:
        cells = [pad(cell(row), size, ">") for (_, cell), size in zip(columns, sizes, strict=True)]
        yield GAP.join([pad(terminal.fit(row.strategy, names), names), *cells]).rstrip()


def _advice(advice: Recommendation, terminal: Terminal) -> Iterator[str]:
    yield terminal.paint(f"recommended  {advice.code}", "bold")
    yield terminal.paint(f"             {advice.command}", "dim")
    for sentence in advice.sentences():
        yield from _wrapped(sentence, terminal, indent="  ")


def _losses(losses: Iterable[Loss], terminal: Terminal) -> Iterator[str]:
    yield "lost at that, and used later"
    for loss in losses:
        used = f"used {loss.used} time{'' if loss.used == 1 else 's'}"
        line = f"  {terminal.fit(loss.name, 48)}  {used}; message {loss.index} of {loss.of}, "
        yield terminal.cut(f"{line}{loss.why}", terminal.width)
        side = max(10, (terminal.width - 6 - display_width(terminal.safe(loss.name))) // 2)
        before, after = terminal.fit_end(loss.before, side), terminal.fit(loss.after, side)
        around = f"    {before} {terminal.safe(loss.name)} {after}"
        yield terminal.paint(terminal.cut(around, terminal.width), "dim")


def _wrapped(text: str, terminal: Terminal, *styles: str, indent: str = "") -> Iterator[str]:
    for line in wrap(terminal.safe(text), max(terminal.width - len(indent), 20)):
        yield terminal.paint(indent + line, *styles)


def _name_cells(names: Iterable[str]) -> int:
    return min(NAME_CELLS, max(map(display_width, ("kept of the tokens", *names))))


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.095 else f"{share:.1%}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
