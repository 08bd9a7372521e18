"""Generated agent runs: `python -m tests.agent.stress.runs --runs 1000 [--seed N] [--only RUN]`.

Each is a conversation with the strict provider through an official SDK. Texts, calls, cancellations
and faults are random. laws.py has what must hold of every run.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import json
import multiprocessing
import random
import sys
import time
import traceback
from collections import Counter
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from rehydrate.agent import Retrying
from tests.agent.stress.laws import LAWS
from tests.agent.stress.plan import plan_of
from tests.agent.stress.run import Run, run_plan
from tests.agent.stress.wire_reading import history_parts, request_parts

_MAX_RUN_SECONDS = 2_000
_REPORTED = (
    "runs", "turns", "requests", "bound thinking", "tool calls", "context calls", "late-bound",
    "compactions", "restarts", "summaries", "behind the provider's", "thinking left out",
    "prompts that wait",
    "cancellations", "retries", "overflows", "refused", "lost", "repeated",
    "prefix breaks reported", "unreported", "uncached", "unfitting", "failures", "cache reads",
    "prompt tokens",
)  # fmt: skip


class RunReport(NamedTuple):
    """The totals of one run, and the laws that it broke."""

    number: int
    totals: Counter
    violations: list[str]


def report_run(seed: int, number: int) -> RunReport:
    """Run one plan and check its laws."""
    faulthandler.dump_traceback_later(_MAX_RUN_SECONDS, exit=True)
    totals, violations = Counter({"runs": 1}), []
    try:
        one = run_plan(plan_of(seed, number))
        totals += _totals(one)
        for name, law in LAWS.items():
            found = list(law(one))
            totals[name] += len(found)
            violations += [f"{name}: {each}" for each in found]
    except Exception:
        totals["failures"] += 1
        violations.append(f"failed: {traceback.format_exc()}")
    finally:
        faulthandler.cancel_dump_traceback_later()
    gc.collect()
    gc.freeze()  # the SDKs stay; each later collection would read them all
    return RunReport(number, totals, violations)


def _totals(one: Run) -> Counter:
    parts = history_parts(one.context.history, one.plan.wire)
    calls = [each for each in parts if each.kind == "call"]
    bodies = [request_parts(sent.prompt.request) for sent in one.model.prompts]
    turns = [turn for turn, _ in one.ended if turn is not None]
    bill = one.provider.usage
    found = Counter(
        {
            "turns": len(one.ended),
            "requests": len(one.provider.requests),
            "tool calls": len(one.tools.calls),
            "context calls": len(one.jit.answers),
            "late-bound": sum(len(each.sections) for each in one.jit.answers.values()),
            "calls": len(calls),
            "compactions": one.context.usage.compactions,
            "restarts": len(one.ended) * one.plan.is_stored,
            "summaries": one.swaps,
            "behind the provider's": sum(
                any(section.native_to for section in sent.prompt.ir.sections)
                for sent in one.model.prompts
            ),
            "bound thinking": _sent_bound(one),
            "thinking left out": sum(
                any(trace.name == "thinking" for trace in sent.prompt.ir.meta.trace)
                for sent in one.model.prompts
            ),
            "prompts that wait": sum(
                any("waits for the end" in text for text in sent.prompt.ir.meta.degraded)
                for sent in one.model.prompts
            ),
            "cancellations": sum(was_cancelled for _, was_cancelled in one.ended),
            "retries": sum(isinstance(each, Retrying) for turn in turns for each in turn.events),
            "overflows": sum(
                each.fault is not None and each.fault.kind == "overflow"
                for each in one.provider.requests
            ),
            "prefix breaks reported": sum(
                now[: len(before)] != before for before, now in pairwise(bodies)
            ),
            "cache reads": bill.read,
            "prompt tokens": bill.prompt,
        }
    )
    found.update(f"stopped: {turn.stopped}" for turn in turns)
    return found


def _sent_bound(one: Run) -> int:
    """Count the requests with thinking to a model that binds it to its prefix."""
    binding = ("5-5", "5-1", "5-2")
    if not (one.plan.model.startswith("claude") and one.plan.model.endswith(binding)):
        return 0
    return sum('"signature"' in json.dumps(each.body) for each in one.provider.requests)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.agent.stress.runs", description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", type=int, default=None, help="this run and no other")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    seed = random.randrange(1 << 30) if options.seed is None else options.seed
    numbers = range(options.runs) if options.only is None else [options.only]
    if options.only is not None:
        print(plan_of(seed, options.only), file=sys.stderr)
    start, totals, broken = time.monotonic(), Counter(), 0
    for report in _all(partial(report_run, seed), numbers, min(options.jobs, len(numbers))):
        totals += report.totals
        broken += bool(report.violations)
        for violation in report.violations[:4]:
            again = f"--seed {seed} --only {report.number}"
            print(f"{again}: {violation}", file=sys.stderr, flush=True)
    summary = ", ".join(f"{name} {totals[name]:,}" for name in _REPORTED)
    ends = ", ".join(f"{name[9:]} {totals[name]:,}" for name in totals if name[:7] == "stopped")
    print(
        f"{summary}; ended with {ends} (seed {seed}, {time.monotonic() - start:.0f} s)",
        file=sys.stderr,
    )
    print("sound" if not broken else f"{broken} of {len(numbers)} runs are not sound")
    sys.exit(bool(broken))


def _all(report, numbers, jobs):
    if jobs == 1:
        yield from map(report, numbers)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(report, numbers, chunksize=4)


if __name__ == "__main__":
    main()
