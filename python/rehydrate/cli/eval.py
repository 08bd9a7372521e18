"""`rehydrate eval`: measures on your own sessions how much of what is used later survives."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rehydrate._text import plural
from rehydrate.cli.options import (
    COLOR,
    Commands,
    check_not_input,
    group,
    json_option,
    number,
    option,
    page_file,
    ratio,
    whole_number,
)
from rehydrate.cli.terminal import (
    Column,
    Failure,
    Progress,
    Terminal,
    answer,
    display_width,
    say,
    table,
    write,
)
from rehydrate.compact.options import MIN_RATIO

if TYPE_CHECKING:
    from rehydrate.retention import (
        Evaluation,
        Loss,
        Recommendation,
        Sample,
        Sessions,
        Strategy,
    )
    from rehydrate.retention.evaluation import Measured, Row
    from rehydrate.retention.judging import Judgement


NAME_CELLS = 28
SHOWN_LOSSES = 3


def report(found: Evaluation, terminal: Terminal, *, has_page: bool = False) -> Iterator[str]:
    """Yield the whole report."""
    yield from _head(found, terminal)
    for title, value in found.measures():
        yield ""
        yield from _by_ratio(found, terminal, title, value)
    yield from _over_size(found, terminal)
    advice = found.recommendation
    if advice:
        yield ""
        rows = [row for row in found.rows if row.ratio == advice.ratio]
        yield from _strategy_rows(rows, f"at {_size(rows[0])}", terminal)
    if found.summaries:
        yield ""
        size = _percent(found.summaries[0].cost_ratio)
        yield from _strategy_rows(
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
    line = terminal.glyph(" · ", " | ").join(found.counts())
    yield terminal.paint(terminal.cut(line, terminal.width), "bold")
    for note in found.notes:
        yield from _wrapped(note, terminal, "dim")


def _by_ratio(
    found: Evaluation,
    terminal: Terminal,
    title: str,
    value: Callable[[Row], Measured],
) -> Iterator[str]:
    """Yield a row for each strategy, a column for each ratio; with intervals if they fit."""
    yield terminal.cut(title, terminal.width)
    is_raised = any(row.is_raised for row in found.rows)
    names = [*(["given to each"] if is_raised else []), *found.strategies]
    columns = [Column("kept of the tokens", [terminal.fit(name, NAME_CELLS) for name in names])]
    for rank, size in enumerate(found.ratios):  # the largest stay longest
        rows = [row for row in found.rows if row.ratio == size]
        fair = [value(row)[0] or 0.0 for row in rows if not row.is_over]
        best = max(fair, default=0.0) - 0.005
        cells, intervals, styles = [], [], []
        if is_raised:
            cells, intervals, styles = [_percent(rows[0].asked)], [""], ["dim"]
        for row in rows:
            mean, interval = value(row)
            cells.append("-" if mean is None else f"{mean:.2f}{'*' if row.is_over else ''}")
            intervals.append(str(interval or ""))
            is_best = mean is not None and mean >= best and not row.is_over
            styles.append("green bold" if is_best else "")
        columns.append(Column(_percent(size), cells, "<", len(found.ratios) - rank, styles))
        if any(intervals):
            dim = ["dim"] * len(intervals)
            columns.append(Column("95% interval", intervals, "<", len(found.ratios) + 1, dim))
    yield from table(columns, terminal)


def _over_size(found: Evaluation, terminal: Terminal) -> Iterator[str]:
    """Yield a line for each strategy that keeps more than it was asked for."""
    for name in found.strategies:
        over = [row for row in found.rows if row.strategy == name and row.is_over]
        if not over:
            continue
        at = [
            f"{_percent(row.cost_ratio)} at {_percent(row.asked)}"
            + (f" (compact_context keeps {row.beside:.2f} there)" if row.beside is not None else "")
            for row in over
        ]
        yield from _wrapped(
            f"* {name} keeps more than it is asked for: {', '.join(at)}", terminal, "dim"
        )


def _strategy_rows(rows: Sequence[Row], title: str, terminal: Terminal) -> Iterator[str]:
    """Yield the strategies at one ratio, by all measures."""
    from rehydrate.retention.evaluation import columns

    shown = enumerate(columns(rows).items(), 1)
    measures = [Column(head, cells, ">", rank) for rank, (head, cells) in shown]
    names = Column(title, [terminal.fit(row.strategy, NAME_CELLS) for row in rows])
    yield from table([names, *measures], terminal)


def _advice(advice: Recommendation, terminal: Terminal) -> Iterator[str]:
    yield terminal.paint(f"recommended  {advice.code}", "bold")
    yield terminal.paint(f"             {advice.command}", "dim")
    for sentence in advice.sentences():
        yield from _wrapped(sentence, terminal, indent="  ")


def _losses(losses: Iterable[Loss], terminal: Terminal) -> Iterator[str]:
    yield "lost at that, and used later"
    for loss in losses:
        used = f"used {plural(loss.used, 'time')}"
        line = f"  {terminal.fit(loss.name, 48)}  {used}; message {loss.index} of {loss.of}, "
        yield terminal.cut(f"{line}{loss.why}", terminal.width)
        side = max(10, (terminal.width - 6 - display_width(terminal.safe(loss.name))) // 2)
        before, after = terminal.fit_end(loss.before, side), terminal.fit(loss.after, side)
        around = f"    {before} {terminal.safe(loss.name)} {after}"
        yield terminal.paint(terminal.cut(around, terminal.width), "dim")


def _wrapped(text: str, terminal: Terminal, *styles: str, indent: str = "") -> Iterator[str]:
    for line in wrap(terminal.safe(text), max(terminal.width - len(indent), 20)):
        yield terminal.paint(indent + line, *styles)


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.095 else f"{share:.1%}"


def _size(row: Row) -> str:
    """Return the share of the tokens that all were given."""
    more = f" ({_percent(row.asked)} given)" if row.is_raised else ""
    return f"{_percent(row.ratio)} of the tokens{more}"


SHOWN_SKIPPED = 5


command = Commands()
_COUNT = whole_number(1, math.inf, "isn't a count; pass a whole number from 1 up")
_SHARE = number(math.ulp(0.0), 1, "isn't a share; pass a number up to 1, as 0.9", float)


def _ratios(text: str) -> Sequence[float]:
    return sorted({ratio(part) for part in text.split(",") if part.strip()} or {MIN_RATIO})


@command(
    "measure on your own sessions what survives a compaction, strategies side by side",
    option("SESSIONS", "files and folders", nargs="+"),
    group(
        "what to compare",
        option("--ratios R,R", "shares of the tokens to keep", _ratios),
        option("--strategy M:FUNCTION", "a compactor of yours", str, [], action="append"),
        option("--goal S", "the share of what is used later that has to be kept", _SHARE, 0.9),
    ),
    group(
        "how much to measure",
        option("--cuts N", "cuts and sessions at most, evenly over all", _COUNT, 60),
        option("--questions N", "questions at most, where a dataset has them", _COUNT, 100),
        option("--min-messages N", "shorter sessions are left out", _COUNT, 20),
    ),
    group(
        "with a model, which costs money",
        option("--judge API:MODEL", "answers questions before and after, as anthropic:NAME"),
        option("--judge-questions N", "questions at most", _COUNT, 12),
    ),
    group(
        "what to write",
        option("--html PAGE", "one page with charts and examples of what was lost", page_file),
        *(json_option("the figures"), COLOR),
    ),
    epilog="""\
SESSIONS are files and folders (searched for .jsonl, .json, .traj): Claude Code transcripts (they
are in ~/.claude/projects), JSON arrays of messages, JSON Lines, bodies of requests, trajectories,
or files of many conversations. What cannot be read is named and skipped.

Each session is cut at several points. What came before a cut is compacted by every strategy to
every ratio; what counts is how many of the names (files, identifiers, ids) that later tool calls
use are still there, and how many of the lines that they type again. All are given the same size.
No model is asked and nothing is sent, unless you pass --judge, which costs money.

examples:
  rehydrate eval ~/.claude/projects
  rehydrate eval chat.json --ratios 0.1,0.3 --goal 0.95 --html page.html
  rehydrate eval sessions/ --strategy mine:keep_errors  a function (messages, query, ratio)
""",
)
def _eval(options: argparse.Namespace) -> None:
    from dataclasses import replace

    from rehydrate.retention import (
        evaluate,
        exact_cost,
        named_strategy,
        sample_cases,
        standard_strategies,
    )
    from rehydrate.retention.evaluation import RATIOS

    check_not_input("--html", options.html, *options.sessions)
    own = [named_strategy(name) for name in dict.fromkeys(options.strategy)]
    model = None
    if options.judge is not None:  # now: a wrong name or a missing SDK fails before all measuring
        from rehydrate.agent.interpreter import model_of

        model = model_of(options.judge)
    sessions = _read(options)
    sample = sample_cases(sessions, max_cuts=options.cuts, max_questions=options.questions)
    if not (sample.cuts or sample.questions):
        raise Failure(
            f"nothing to measure: {'; '.join(sample.notes)}; name longer sessions, or more of them"
        )
    cost = exact_cost()
    strategies = [*standard_strategies(cost), *own]
    ratios = options.ratios or RATIOS
    total = sample.cases(len(ratios)) * len(strategies)
    with Progress("measuring", "compactions", total) as progress:
        found = evaluate(
            sample, strategies, ratios, goal=options.goal, cost=cost, advance=progress.advance
        )
    for problem in found.degraded:
        say(f"warning: {problem}; it is left out")
    if model is not None and found.recommendation is not None:
        chosen = next(each for each in strategies if each.name == found.recommendation.strategy)
        judged = _run_judge(model, sample, chosen, found.recommendation.ratio, options)
        found = replace(found, judged=judged)
    answer(
        options,
        found.to_dict(),
        lambda terminal: report(found, terminal, has_page=bool(options.html)),
    )
    if options.html:
        from rehydrate.page.evaluation import evaluation_page

        page = evaluation_page(found, title=", ".join(options.sessions))
        measured = plural(sum(session.cases > 0 for session in found.sessions), "session")
        write(page, options.html, "--html", f"what survives of {measured}")


def _read(options: argparse.Namespace) -> Sessions:
    """Return the suitable sessions, at most one for each allowed cut; list the others."""
    from rehydrate.retention import read_sessions
    from rehydrate.retention.sampling import session_files, too_short

    count = len(session_files(options.sessions))
    if not count:
        raise Failure(
            f"no session in {', '.join(options.sessions)}; folders are searched for .jsonl, .json, "
            ".ndjson and .traj"
        )
    with Progress("reading", "files", count if count <= options.cuts else None) as progress:
        found = read_sessions(
            options.sessions,
            limit=options.cuts,
            is_wanted=too_short(options.min_messages),
            advance=progress.advance,
        )
    reasons: dict[str, list[str]] = {}
    for name, reason in found.skipped:
        reasons.setdefault(reason, []).append(name)
    for reason, names in list(reasons.items())[:SHOWN_SKIPPED]:
        who = names[0] if len(names) == 1 else f"{len(names):,} sessions, such as {names[0]}"
        say(f"skipped {who}: {reason}")
    if left := sum(map(len, list(reasons.values())[SHOWN_SKIPPED:])):
        say(f"skipped {left:,} more for other reasons; --json names them all")
    if not found.conversations:
        raise Failure(
            "no session to measure on: all were skipped; name others, or lower --min-messages"
        )
    return found


def _run_judge(
    model: Any, sample: Sample, strategy: Strategy, ratio: float, options: argparse.Namespace
) -> Judgement:
    """Return what the model can answer before and after the recommended compaction."""
    from rehydrate.retention.judging import judge, planned_requests

    requests = planned_requests(sample, options.judge_questions)
    say(f"asking {model.name}: {requests:,} requests at most")
    with Progress("asking", "requests", requests) as progress:
        judged = judge(
            model, sample, strategy.compact, ratio,
            max_questions=options.judge_questions, advance=progress.advance,
        )  # fmt: skip
    for problem in judged.degraded:
        say(f"warning: {problem}")
    return judged
