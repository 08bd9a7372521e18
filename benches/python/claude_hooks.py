"""The hooks of Claude Code on real sessions: `python -m benches.python.claude_hooks`.

Each transcript with a compaction in it is cut there. The hooks run as processes, as Claude Code
starts them, and are given the summary that Claude Code wrote then. What the session used afterwards
is known: of its names that had been used before, so many are in the summary alone, so many with
what was put back, and so many with the newest turns of the same size in its place. Then each event
is timed, and the threshold of UserPromptSubmit is swept: what the assistant said after the
compaction stands for prompts about the session, questions of LoCoMo and general ones for others.

Needs sessions of Claude Code (`REHYDRATE_DATA`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benches.python.relevance import GENERAL
from benches.python.sources import data_folder
from benches.report.rows import Part, Row
from rehydrate import Memory
from rehydrate._native import last_turns, relevant_hits, said_entries, used_names
from rehydrate.integrations.claude_code import EVENTS, Home
from rehydrate.retention import read_locomo

PROJECT = "/work/measured"
THRESHOLDS = (0.35, 0.45, 0.55, 0.65, 0.75)
MIN_PROMPT_CHARS = 40
WANT_MS = 300
LOG = "\n".join(f"2026-02-17 09:30:{n % 60:02d} INFO request {n} done" for n in range(1_000))


class Cut(NamedTuple):
    """A session at its compaction."""

    name: str
    before: list[Mapping[str, Any]]
    summary: str
    after: list[Mapping[str, Any]]


def cuts(folder: Path) -> Iterator[Cut]:
    """Yield the sessions that were compacted, each at its last compaction."""
    for path in sorted((folder / "claude_code").glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        marks = [n for n, line in enumerate(lines) if line.get("subtype") == "compact_boundary"]
        if not marks:
            continue
        summary = next(line for line in lines[marks[-1] :] if line.get("isCompactSummary"))
        content = summary["message"]["content"]
        text = content if isinstance(content, str) else json.dumps(content)
        yield Cut(path.stem[:8], lines[: marks[-1]], text, lines[marks[-1] :])


class Machine:
    """A data folder of its own, and the time of each hook that was run on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {**os.environ, "REHYDRATE_HOME": str(folder / "data")}
        self.env.pop("CLAUDE_PROJECT_DIR", None)
        self.ms: dict[str, list[float]] = {event: [] for event in EVENTS}

    def hook(self, event: str, **fields: object) -> str:
        """Run a hook, and return the text that it gives the model."""
        given = json.dumps({"cwd": PROJECT, **fields}).encode()
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-P", "-m", "rehydrate.integrations.claude_code.hook", event],
            input=given,
            capture_output=True,
            check=True,
            env=self.env,
        )
        self.ms[event].append(1_000 * (time.perf_counter() - started))
        reply = json.loads(done.stdout) if done.stdout else {}
        return str(reply.get("hookSpecificOutput", {}).get("additionalContext", ""))


def used(lines: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the names that these lines used."""
    return frozenset(used_names(said_entries(lines, "claude_code", str)))


def replay(machine: Machine, cut: Cut, session: str) -> str:
    """Run all hooks over a session's compaction, and return what came back."""
    path = machine.folder / f"{session}.jsonl"
    path.write_text("".join([json.dumps(line) + "\n" for line in cut.before]), "utf-8")
    common = {"session_id": session, "transcript_path": str(path)}
    machine.hook("PreCompact", **common, trigger="auto")
    back = machine.hook("SessionStart", **common, source="compact")
    machine.hook("PostCompact", **common, compact_summary=cut.summary)
    for prompt in ("Which tests of the live view fail?", "Go on.", "Close the issue and push."):
        machine.hook("UserPromptSubmit", **common, prompt=prompt)
    for text in ("ok", LOG):
        machine.hook("PostToolUse", **common, tool_name="Bash", tool_response={"stdout": text})
    machine.hook("SessionEnd", **common, reason="other")
    return back


def newest(machine: Machine, session: str, size: int) -> str:
    """Return the end of a session's last turns, as text of this size."""
    turns = last_turns(machine.folder / f"{session}.jsonl", "claude_code")
    return "\n".join([json.dumps(turn["message"], ensure_ascii=False) for turn in turns])[-size:]


def share(names: frozenset[str], text: str) -> float:
    """Return which share of the names is in a text."""
    return sum(name in text for name in names) / len(names)


def came_back(machine: Machine, found: Sequence[Cut]) -> Iterator[Row]:
    """Yield, per compaction, where the names are that the session needed afterwards."""
    for cut in found:
        back = replay(machine, cut, cut.name)
        needed = used(cut.before) & used(cut.after)
        beside = newest(machine, cut.name, len(back))
        yield Row(
            f"{cut.name}: of {len(needed)} names needed again, in the summary or put back",
            share(needed, cut.summary + back),
            "",
            more_is_better=True,
            beside=f"in the summary {share(needed, cut.summary):.2f}; with the newest turns of "
            f"that size {share(needed, cut.summary + beside):.2f}",
            limit=f"{len(back):,} characters go back: Claude Code takes 10,000",
        )


def times(machine: Machine, found: Sequence[Cut], rounds: int) -> Iterator[Row]:
    """Yield the time of each event, from the start of its process to its end."""
    for number in range(rounds):
        for cut in found:
            replay(machine, cut, f"{cut.name}-{number}")
    for event, taken in machine.ms.items():
        taken.sort()
        p99 = taken[min(len(taken) - 1, int(len(taken) * 0.99))]
        yield Row(
            f"{event}, from the start of its process to its end, p50",
            taken[len(taken) // 2],
            "ms",
            WANT_MS,
            beside=f"p99 {p99:.0f} ms, the longest of {len(taken)} {taken[-1]:.0f} ms",
            limit="Python's start, 15 ms; imports; the transcript's last turns are read",
        )


def thresholds(machine: Machine, found: Sequence[Cut], folder: Path) -> str:
    """Return how many prompts get memories at several thresholds, as a table."""
    related = [text for cut in found for text in _spoken(cut.after)]
    locomo = read_locomo(folder / "locomo_dev.json")
    others = [query.text for one in locomo for query in one.questions][::10]
    asked = {"these sessions": related, "LoCoMo": others, "no project": list(GENERAL)}
    head = ["prompts that get memories, at a relevance of", *map(str, THRESHOLDS)]
    lines = [head, ["---"] * len(head)]
    with Memory.open(Home.of(machine.env).memory, namespace=PROJECT) as memory:
        for name, prompts in asked.items():
            hits = [(prompt, memory.search(prompt, 5)) for prompt in prompts]
            shares = [
                sum(bool(relevant_hits(each, prompt, least)) for prompt, each in hits) / len(hits)
                for least in THRESHOLDS
            ]
            lines.append([f"{len(prompts)} of {name}", *(f"{one:.2f}" for one in shares)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _spoken(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for entry in said_entries(lines, "claude_code", str):
        for block in entry["message"]["content"]:
            if entry["type"] == "assistant" and block["type"] == "text":
                text = block["text"].strip()
                if len(text) >= MIN_PROMPT_CHARS:
                    yield text[:400]


def main() -> None:
    """Print the part as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benches.python.claude_hooks")
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    folder = data_folder()
    if folder is None:
        sys.exit("claude_hooks: no sessions; set REHYDRATE_DATA")
    found = list(cuts(folder))
    with tempfile.TemporaryDirectory() as temporary:
        machine = Machine(Path(temporary))
        rows = list(came_back(machine, found))
        notes = thresholds(machine, found, folder)
        rows += times(machine, found, rounds)
    about = (
        "Real sessions, cut at their compaction, with the summary that Claude Code wrote then. The "
        "hooks run as processes. Names are those used before and again after the compaction."
    )
    print(Part("Claude Code's hooks", about, rows, notes).to_json())


if __name__ == "__main__":
    main()
