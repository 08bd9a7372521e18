"""`rehydrate eval`: how much of what is used later survives a compaction, on your own sessions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rehydrate.cli.arguments import SMALLEST_RATIO, is_same_file, page_file, ratio
from rehydrate.cli.failure import Failure
from rehydrate.cli.output import say, say_written, show, write
from rehydrate.cli.progress import Progress
from rehydrate.cli.read import as_json
from rehydrate.cli.terminal import Terminal

if TYPE_CHECKING:
    from rehydrate.retention import Evaluation, Sample, Sessions, Strategy
    from rehydrate.retention.judge import Judgement

SHOWN_SKIPPED = 5

_EXAMPLES = """\
SESSIONS are files and folders (searched for .jsonl, .json, .traj): Claude Code transcripts (they
are in ~/.claude/projects), JSON arrays of messages, JSON Lines, bodies of requests, trajectories,
or files of many conversations. What cannot be read is named and skipped.

Each session is cut at several points. What came before a cut is compacted by every strategy to
every ratio; what counts is how many of the names (files, identifiers, ids) that later tool calls
use are still there. Where an agent wrote a summary of its own, everything is measured at its size
too. No model is asked and nothing is sent, unless you pass --judge.

examples:
  rehydrate eval ~/.claude/projects
  rehydrate eval sessions/ --html page.html
  rehydrate eval chat.json --ratios 0.1,0.3 --goal 0.95
  rehydrate eval sessions/ --strategy mine:keep_errors       your own, beside the others
  rehydrate eval sessions/ --json > figures.json
  rehydrate eval sessions/ --judge anthropic:claude-opus-4-6  a model answers before and after

A strategy of your own is a function (messages, query, ratio) -> messages. See docs/eval.md.
"""


def add_parser(commands: Any) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "eval",
        help="measure on your own sessions what survives a compaction",
        description="Strategies side by side on your own sessions: what is used later, and what of "
        "it each keeps; which ratio and settings these sessions need.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sessions", metavar="SESSIONS", nargs="+", help="files and folders")

    what = parser.add_argument_group("what to compare")
    what.add_argument(
        "--ratios", type=_ratios, metavar="R,R",
        help="shares of the tokens to keep (default: 0.1,0.2,0.3,0.4,0.6)",
    )  # fmt: skip
    what.add_argument(
        "--strategy", action="append", default=[], metavar="MODULE:FUNCTION",
        help="a compactor of your own: (messages, query, ratio) -> messages; repeatable",
    )  # fmt: skip
    what.add_argument(
        "--goal", type=_share, default=0.9, metavar="S",
        help="the share of what is used later that has to be kept (default: 0.9)",
    )  # fmt: skip

    how = parser.add_argument_group("how much to measure")
    how.add_argument(
        "--cuts", type=_count, default=60, metavar="N",
        help="cuts at most, evenly over the sessions; as many sessions are read (default: 60)",
    )  # fmt: skip
    how.add_argument(
        "--questions", type=_count, default=100, metavar="N",
        help="questions at most, where a dataset has them (default: 100)",
    )  # fmt: skip
    how.add_argument(
        "--min-messages", type=_count, default=20, metavar="N",
        help="shorter sessions are left out (default: 20)",
    )  # fmt: skip

    judge = parser.add_argument_group("with a model, which costs money")
    judge.add_argument(
        "--judge", metavar="API:MODEL",
        help="answers questions before and after, such as anthropic:claude-opus-4-6 or "
        "openai:gpt-6; the key is read from the environment as its SDK does",
    )  # fmt: skip
    judge.add_argument(
        "--judge-questions", type=_count, default=12, metavar="N",
        help="questions at most (default: 12)",
    )  # fmt: skip

    out = parser.add_argument_group("what to write")
    out.add_argument(
        "--html", metavar="PAGE", type=page_file,
        help="one page with charts and examples of what was lost; it needs no network",
    )  # fmt: skip
    out.add_argument("--json", action="store_true", help="the figures as JSON")
    out.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto",
        help="colours (default: in a terminal; NO_COLOR and FORCE_COLOR count)",
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Read, measure, print; returns the exit code."""
    from dataclasses import replace

    from rehydrate.retention import evaluate, exact_cost, named_strategy, standard_strategies
    from rehydrate.retention.evaluate import RATIOS

    _check_page(options)
    own = [named_strategy(name) for name in dict.fromkeys(options.strategy)]
    model = _model(options.judge)
    sessions = _read(options)
    sample = _sample(sessions, options)
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
        judged = _judged(model, sample, chosen, found.recommendation.ratio, options)
        found = replace(found, judged=judged)
    if options.json:
        write(as_json(found.to_dict(), indent=2) + "\n")
    else:
        from rehydrate.cli.eval_report import report

        terminal = Terminal.of(sys.stdout, options.color)
        show(report(found, terminal, has_page=bool(options.html)), terminal)
    if options.html:
        _write_page(found, options)
    return 0


def _read(options: argparse.Namespace) -> Sessions:
    """The sessions that will do, as many as there may be cuts; all others are named."""
    from rehydrate.retention import read_sessions
    from rehydrate.retention.sampling import too_short
    from rehydrate.retention.sessions import session_files

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
    if len(reasons) > SHOWN_SKIPPED:
        left = sum(map(len, reasons.values())) - sum(
            map(len, list(reasons.values())[:SHOWN_SKIPPED])
        )
        say(f"skipped {left:,} more for other reasons; --json names them all")
    if not found.conversations:
        raise Failure(
            "no session to measure on: all were skipped; name others, or lower --min-messages"
        )
    return found


def _sample(sessions: Sessions, options: argparse.Namespace) -> Sample:
    from rehydrate.retention import sample_cases

    sample = sample_cases(sessions, max_cuts=options.cuts, max_questions=options.questions)
    if not (sample.cuts or sample.questions):
        raise Failure(
            f"nothing to measure: {'; '.join(sample.notes)}; name longer sessions, or more of them"
        )
    return sample


def _model(name: str | None) -> Any:
    """The judge, before anything is measured: a wrong name or a missing SDK is said at once."""
    if name is None:
        return None
    from rehydrate.runtime.models.named import model_of

    return model_of(name)


def _judged(
    model: Any, sample: Sample, strategy: Strategy, ratio: float, options: argparse.Namespace
) -> Judgement:
    """What the model can answer before and after the recommended compaction."""
    from rehydrate.retention.judge import judge, planned_requests

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


def _write_page(found: Evaluation, options: argparse.Namespace) -> None:
    from rehydrate.page.evaluation import evaluation_page

    title = ", ".join(options.sessions)
    write(evaluation_page(found, title=title), options.html, option="--html")
    measured = sum(session.cases > 0 for session in found.sessions)
    what = "1 session" if measured == 1 else f"{measured:,} sessions"
    say_written(options.html, f"what survives of {what}")


def _check_page(options: argparse.Namespace) -> None:
    for session in options.sessions:
        if options.html and is_same_file(options.html, Path(session)):
            raise Failure(f"--html {options.html} would overwrite the input; name another file")


def _ratios(text: str) -> Sequence[float]:
    return sorted({ratio(part) for part in text.split(",") if part.strip()} or {SMALLEST_RATIO})


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share; pass a number up to 1, as 0.9")
    return share


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no count; pass a whole number from 1 up")
    return int(text)
