"""Questions about long conversations, answered by a model: `python -m benches.python.answers`.

    python -m benches.python.answers locomo10.json --model anthropic:claude-haiku-4-5 --dry-run
    python -m benches.python.answers longmemeval_s.json --model openai:gpt-5-mini \\
        --judge openai:gpt-5 --questions 100 --strategy keep_last --strategy jit

FILES are LoCoMo's locomo10.json, LongMemEval's longmemeval_*.json, or folders of them. The same
questions are asked with each strategy. The key is read from the environment as the SDK does; the
conversations go to that provider and cost money: what will be asked is said before, and --dry-run
says that only. What was answered is in the journal, and the same command goes on from there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import anyio

from benches.python.answering.data import read_cases
from benches.python.answering.report import plan_report, report
from benches.python.answering.running import AT_ONCE, MOST_FAILURES, Journal, Run
from benches.python.answering.strategies import STRATEGIES, Answering
from rehydrate.agent import Model, model_of
from rehydrate.cli.terminal import Progress
from rehydrate.errors import RehydrateError


def main(arguments: list[str] | None = None, named: Callable[[str], Model] = model_of) -> int:
    """Read, print the plan, ask and report; return 0, 1 if it gave up, 2 for a mistake."""
    options = _options(arguments)
    try:
        return _run(options, named)
    except RehydrateError as error:
        print(f"answers: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"answers: stopped; {options.journal} has what was answered", file=sys.stderr)
        return 130


def _run(options: argparse.Namespace, named: Callable[[str], Model]) -> int:
    strategies = list(dict.fromkeys(options.strategy)) or list(STRATEGIES)
    model = named(options.model)
    judge = named(options.judge) if options.judge else None
    answering = Answering(model, options.budget, options.window, options.calls)
    cases = read_cases(options.files, options.questions)
    run = Run(cases, strategies, answering, judge, Journal(options.journal))
    print(plan_report(run.plan()), file=sys.stdout if options.dry_run else sys.stderr)
    if options.dry_run:
        return 0
    with Progress("asking", "questions", len(cases) * len(strategies)) as progress:
        rows = anyio.run(run.rows, options.at_once, progress.advance)
    print(report(rows, model.name, judge.name if judge else None))
    if run.is_given_up:
        print(f"answers: given up after {MOST_FAILURES} failures in a row", file=sys.stderr)
    return int(run.is_given_up)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("files", metavar="FILES", nargs="+", help="LoCoMo's and LongMemEval's files, or folders")
    add("--model", required=True, metavar="API:MODEL", help="anthropic:..., openai:...")
    add("--judge", metavar="API:MODEL", help="says whether answers are right (default: F1 alone)")
    add("--strategy", action="append", choices=STRATEGIES, default=[], help="repeatable; all four")
    for name, default, what in (
        ("--questions", None, "at most, evenly over the conversations; all of them"),
        ("--budget", Answering.budget_tokens, "tokens of the first prompt; %(default)s"),
        ("--window", Answering.window_tokens, "of the model; what is longer is not sent"),
        ("--calls", Answering.max_calls, "of request_context for one question; %(default)s"),
        ("--at-once", AT_ONCE, "questions under way; %(default)s"),
    ):
        add(name, type=_count, default=default, metavar="N", help=what)
    add("--journal", default="answers.jsonl", metavar="FILE", help="%(default)s")
    add("--dry-run", action="store_true", help="say how many requests and tokens, and ask nothing")
    return parser.parse_args(arguments)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} isn't a count; pass a whole number from 1 up")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
