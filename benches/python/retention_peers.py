"""Retention compared with other tools: `python -m benches.python.retention_peers`.

The peers of peer_adapters.py, and ours, on the same conversations at the same budgets, all as
chat-completions messages, which every peer takes. pip installs the peers into an environment of
their own, which `--venv` names; there all of them run with no network.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from benches.python.inputs import ROOT, Message
from benches.python.peer_adapters import PEERS
from benches.python.sources import data_folder, read_sources
from benches.report.markdown import table
from benches.report.rows import Part, Row
from rehydrate import formats
from rehydrate.retention import (
    CUT_RATIOS,
    Compact,
    Retention,
    Score,
    compacted,
    exact_cost,
    keep_last,
    keep_random,
)
from rehydrate.retention.baselines import to_langchain
from rehydrate.retention.measure import by_session, mean_by_session, score_cut, score_question

REQUIREMENTS = Path(__file__).with_suffix(".txt")
FORMAT = "openai_chat"
SOURCES = ("coding", "aider", "support", "long coding", "airline", "locomo")
OURS = "compact_context"
SLACK = 1.05
"""A peer may exceed its budget by this factor: its tokens are not counted as ours."""
OFFLINE = {
    "HEADROOM_OFFLINE": "1",
    "HF_HUB_OFFLINE": "1",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LANGSMITH_TRACING": "false",
}
"""Settings that say to the peers that there is no network."""
HEADER = ["on", "method", *(f"kept at {ratio}" for ratio in CUT_RATIOS), "lines", "tokens left"]
HEADER += ["ours at as many tokens, less it", "valid", "a call, ms"]
NOTES = (
    "Kept: of the names used later, of the evidence (locomo; a turn kept in part counts), with 95% "
    "intervals by session; lines: of those typed again, at the same ratios. A peer's budget is the "
    "same share by its own count; the tokens left are o200k_base. The column after them compares "
    "at equal tokens, case by case over all three ratios: above 0, ours keeps more. Valid: outputs "
    "that break no rule of the provider and are not empty. A call: the median, its messages in the "
    "peer's own form before; ours has seen the texts before, as in a session. "
    "`SummarizationMiddleware` asks no model here but quotes first sentences. Headroom has no "
    "budget; Kompress, its model for prose, is a download."
)


class Case(NamedTuple):
    """A conversation to cut, and its measure."""

    messages: list[Message]
    score: Callable[..., Score]


class Measured(NamedTuple):
    """A method on all cases, ours at the tokens that each kept, or why there is nothing."""

    method: str
    scores: list[Score]
    alike: list[Score]
    why: str = ""


def install(folder: Path) -> dict[str, str]:
    """Make the peers' environment; return why a requirement could not be installed, by its line."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    whole = subprocess.run([*pip, "-r", str(REQUIREMENTS)], check=False, stdout=sys.stderr)
    if not whole.returncode:
        return {}
    failed = {}  # one of them: the others are measured all the same
    for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            reported = subprocess.run([*pip, line], check=False, capture_output=True, text=True)
            if reported.returncode:
                failed[line] = (reported.stderr.strip().splitlines() or ["pip said nothing"])[-1]
    return failed


def run_inside(folder: Path, failed: dict[str, str], arguments: Sequence[str]) -> int:
    """Run the measurement with the peers' Python."""
    paths = os.pathsep.join([str(ROOT / "python"), str(ROOT)])
    command = [str(folder / "bin" / "python"), "-m", "benches.python.retention_peers", *arguments]
    environment = os.environ | OFFLINE | {"PYTHONPATH": paths}
    command += ["--inside", json.dumps(failed)]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def as_chat(messages: Sequence[Message]) -> list[Message]:
    """Return the messages for chat completions, each tool result after its call."""
    from langchain_core.messages import convert_to_openai_messages

    if formats.detect_format(messages) == FORMAT:
        return list(messages)
    chat = convert_to_openai_messages(to_langchain(messages))
    answers = {m["tool_call_id"]: m for m in chat if m["role"] == "tool"}
    ordered = []
    for message in chat:
        if message["role"] != "tool":
            calls = [call["id"] for call in message.get("tool_calls", ())]
            ordered += [message, *(answers.pop(call) for call in calls if call in answers)]
    return ordered


def cases_of(folder: Path, questions: int, cost: Any) -> dict[str, list[Case]]:
    """Return cuts of sessions, and so many questions of each chat, by source."""
    found: dict[str, list[Case]] = {}
    for source in read_sources(folder, SOURCES):
        cases = []
        for native in source.cuts:
            cut = replace(native, messages=as_chat(native.messages), format=FORMAT)
            needs = cut.mentioned(cut.messages), cut.quoted(cut.messages)
            cut = replace(cut, needed=needs[0], lines=needs[1])
            cases.append(Case(cut.messages, partial(score_cut, cut, cost=cost)))
        cases += [
            Case(chat.messages, partial(score_question, chat, number, question, cost=cost))
            for chat in source.chats
            for number, question in enumerate(chat.questions)
            if number % max(1, len(chat.questions) // questions) == 0
        ]
        found[source.title] = cases
    return found


def methods(cost: Any) -> list[tuple[str, Compact]]:
    """Return the baselines, the peers, and ours."""
    ours = partial(compacted, format=FORMAT, thinking="keep")
    return [
        ("random steps", keep_random(cost=cost)),
        ("keep last", keep_last(cost)),
        *((peer.name, peer) for peer in PEERS),
        (OURS, ours()),
        (f"{OURS}, excerpts", ours(granularity="excerpt")),
    ]


def measure(cases: Sequence[Case], method: str, compact: Compact, ours: Compact) -> Measured:
    """Measure every case at every ratio; a peer that fails gives the reason."""
    found = Measured(method, [], [])
    try:
        for case in cases:
            before = len(formats.validate(case.messages, FORMAT))
            for ratio in CUT_RATIOS:
                left: list[list[Message]] = []

                def watched(*given: Any, left: list[list[Message]] = left) -> list[Message]:
                    left.append(compact(*given))
                    return left[0]

                score = case.score(watched, ratio)
                (kept,) = left
                broken = len(formats.validate(kept, FORMAT)) - before if kept else 1
                seconds = getattr(kept, "seconds", score.seconds)
                found.scores.append(replace(score, violations=max(0, broken), seconds=seconds))
                found.alike.append(case.score(ours, max(0.001, min(1.0, score.cost_ratio))))
    except Exception as error:  # any error of a peer goes into its row
        first = str(error).partition("\n")[0]
        return Measured(method, [], [], f"{type(error).__name__}: {first[:200]}")
    return found


def cells(found: Measured) -> list[str]:
    """Return the cells of the method's line in the table."""
    if not found.scores:
        return [found.method, f"not measured: {found.why}", *[""] * (len(HEADER) - 3)]
    retention = Retention(tuple(found.scores))
    means, intervals, left = retention.means(), retention.intervals(), retention.cost_ratios()
    lines = retention.means("lines")
    pairs = [
        (score.session, ours.retained - score.retained)
        for score, ours in zip(found.scores, found.alike, strict=True)
    ]
    low, high = by_session(pairs) or (float("nan"), float("nan"))
    less = f"{mean_by_session(pairs):+.2f} ({low:+.2f} to {high:+.2f})"
    return [
        found.method,
        *(f"{means[ratio]:.2f} ({intervals.get(ratio, 'one session')})" for ratio in CUT_RATIOS),
        " / ".join(f"{lines[ratio]:.2f}" for ratio in CUT_RATIOS if ratio in lines),
        " / ".join(f"{left[ratio]:.2f}" for ratio in CUT_RATIOS),
        "" if found.method == OURS else less,
        f"{fmean(not score.violations for score in found.scores):.0%}",
        f"{1000 * median(score.seconds for score in found.scores):.3g}",
    ]


def row(on: str, ratio: float, found: Sequence[Measured]) -> Row:
    """Return our row, next to the best peer or baseline that holds the budget and the rules.

    Messages that must stay may put ours over a small budget: then a peer may keep as much.
    """
    at = {each.method: Retention(tuple(each.scores)).by_ratio().get(ratio, []) for each in found}
    left = fmean(score.cost_ratio for score in at[OURS])
    within = {
        method: fmean(score.retained for score in scores)
        for method, scores in at.items()
        if scores
        and not method.startswith(OURS)
        and fmean(score.cost_ratio for score in scores) <= max(ratio * SLACK, left)
        and not any(score.violations for score in scores)
    }
    best = max(within, key=within.__getitem__, default="")
    return Row(
        f"{on}, {ratio} of the tokens: kept by {OURS}",
        fmean(score.retained for score in at[OURS]),
        "",
        more_is_better=True,
        beside=f"{best} {within[best]:.2f}" if best else "nobody holds both",
        limit=f"what must stay: ours leaves {left:.2f}" if left > ratio * SLACK else "",
    )


def measure_all(folder: Path, questions: int, failed: dict[str, str]) -> Part:
    """Measure every method on every set of cases."""
    hosts, cost = refuse_network(), exact_cost()
    lines, rows, counts = [], [], []
    ours = dict(methods(cost))[OURS]
    for on, cases in cases_of(folder, questions, cost).items():
        found = []
        for method, compact in methods(cost):
            found.append(measure(cases, method, compact, ours))
            lines.append([on, *cells(found[-1])])
            print(" | ".join(lines[-1]), file=sys.stderr, flush=True)
        rows += [row(on, ratio, found) for ratio in CUT_RATIOS]
        counts.append(f"{len(cases)} of {on}")
    missing = [f"Not installed: {line}: {why}." for line, why in failed.items()]
    asked = f"Hosts asked for, and refused: {', '.join(hosts) or 'none'}."
    return Part(
        "Retention beside what others cut with",
        f"Cases: {', '.join(counts)}, as chat-completions messages, which every peer takes; "
        f"versions in benches/python/{REQUIREMENTS.name}. Beside ours stands the best peer or "
        "baseline that is at most 5% over the budget (or leaves no more than ours), and whose "
        "outputs are all valid.",
        rows,
        "\n".join([*table(HEADER, lines), " ".join([NOTES, asked, *missing])]),
    )


def refuse_network() -> list[str]:
    """Make every name lookup fail from now on; the list has the hosts that were asked for."""
    hosts: list[str] = []

    def refuse(host: Any, *_: Any, **__: Any) -> Any:
        if str(host) not in hosts:
            hosts.append(str(host))
        raise OSError(f"no network in this bench: {host}")

    socket.getaddrinfo = refuse
    return hosts


def main() -> None:
    """Install, measure there, print a Part as JSON; the table goes to stderr line by line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", help="folder of the conversations")
    parser.add_argument("--venv", type=Path, default=ROOT / "target" / "bench" / "peers")
    parser.add_argument("--questions", type=int, default=20, help="of each chat, evenly")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    given = parser.parse_args()
    folder = data_folder(given.folder)
    if folder is None:
        sys.exit("retention_peers: no conversations; name their folder, or set REHYDRATE_DATA")
    if given.inside is None:
        venv, passed = given.venv.absolute(), ["--questions", str(given.questions)]
        sys.exit(run_inside(venv, install(venv), [str(folder.absolute()), *passed]))
    print(measure_all(folder, given.questions, json.loads(given.inside)).to_json())


if __name__ == "__main__":
    main()
