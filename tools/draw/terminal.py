"""The pictures of README.md, as SVGs of a terminal that load no font and no script."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

import rehydrate
from rehydrate.compact import UnitReport

COLUMNS = 112
SESSION = Path("examples") / "session.jsonl"
RATIO = 0.2
LARGEST = 12
"""The steps of the agent that are shown."""
GAPS = 3
BAR = 16
STATES = {"whole": "green", "in part": "yellow", "left out": "bright_black"}
_ROOT = Path(__file__).resolve().parents[2]
_EXAMPLE = "examples/ask_back.py"
_CALL = re.compile(r'^(\w+) \{"\w+":"(?:/home/dev/rehydrate/)?')
_LOADED = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_STYLES = (
    (r"^> .*", "bold cyan"),
    (r"^request_context\(.*?\)", "bold magenta"),
    (r"^  \w{3} \d\d:\d\d ", "dim"),
    (r" (user|assistant): ", "green"),
    (r"^Written, .*", "bold"),
    (r"^(The session|\d requests|The last prompt)\b.*", "bright_black"),
)


def printed() -> str:
    """Return what the example prints, without the time that a request took."""
    done = subprocess.run(
        [sys.executable, _EXAMPLE], cwd=_ROOT, capture_output=True, text=True, check=True
    )
    return re.sub(r", [\d.]+ ms$", "", done.stdout, flags=re.MULTILINE)


def draw_terminal(path: Path) -> None:
    """Write the picture of `examples/ask_back.py`."""
    console = _console()
    console.print(Text.assemble(("$ ", "dim"), (f"python {_EXAMPLE}", "bold")))
    for line in printed().splitlines():
        shown = Text(line)
        for pattern, style in _STYLES:
            shown.highlight_regex(pattern, style)
        console.print(shown)
    _save(console, path, "The model asks back")


def draw_before_after(path: Path) -> None:
    """Write the picture of the example session before and after a compaction.

    It shows what the user said and the largest of the other steps.
    """
    session = [json.loads(line) for line in (_ROOT / SESSION).read_text("utf-8").splitlines()]
    small = rehydrate.compact_context(session, target_ratio=RATIO, granularity="excerpt")
    stats, steps = small.stats, small.explain().units
    others = [step for step in steps if step.role != "user"]
    largest = sorted(others, key=lambda step: step.tokens)[-LARGEST:]
    shown = [step for step in steps if step.role == "user" or step in largest]
    unit = max(step.tokens for step in shown) / BAR
    messages = sum(len(step.messages) for step in steps)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("what was said and done", width=49, no_wrap=True)
    table.add_column(f"before: {messages} messages", width=BAR + 7, no_wrap=True)
    table.add_column(f"after: {messages - stats.dropped} messages", width=BAR + 7, no_wrap=True)
    table.add_column("kept", width=9)
    for step in shown:
        state = _state(step)
        said = _CALL.sub(r"\1 ", step.preview).removesuffix('"}')
        style, who = STATES[state], "user" if step.role == "user" else "agent"
        table.add_row(
            Text.assemble((f"{who:6}", "green" if who == "user" else "blue"), (said, style)),
            _bar(step.tokens, unit, "bright_black"),
            _bar(step.kept_tokens, unit, style),
            Text(state, style),
        )
    left_out = sum(not step.kept for step in others if step not in largest)
    rest = len(steps) - len(shown)
    table.add_row(
        Text(f"{'':6}and {rest} smaller steps, {left_out} of them left out", "bright_black")
    )
    totals = (stats.before_tokens, stats.after_tokens)
    table.add_row(
        Text(f"{'':6}tokens in all", "bold"),
        *(Text(f"{each:>{BAR + 7},}", "bold") for each in totals),
    )
    console = _console()
    console.print(table)
    console.print("\nA search's result that is kept in part, as the model sees it:\n", style="bold")
    for line in _example(session, small.messages):
        console.print(Text(line[:COLUMNS], "yellow" if line.startswith("[...") else ""))
    _save(console, path, "One coding session, before and after")


def _state(step: UnitReport) -> str:
    if not step.kept:
        return "left out"
    return "whole" if step.kept_tokens == step.tokens else "in part"


def _bar(tokens: int, unit: float, style: str) -> Text:
    eighths = round(8 * tokens / unit) or min(tokens, 1)
    bar = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
    return Text.assemble((f"{bar:{BAR}}", style), (f"{tokens or '':>7,}" if tokens else "", style))


def _example(session: list[Any], kept: Sequence[Any]) -> list[str]:
    """Return the lines of the shortest result with three gaps."""
    originals = {id(message) for message in session}
    blocks = [
        block["content"].splitlines()
        for message in kept
        if id(message) not in originals and isinstance(message["message"]["content"], list)
        for block in message["message"]["content"]
        if isinstance(block.get("content"), str)
    ]
    gapped = [each for each in blocks if sum(line.startswith("[...") for line in each) == GAPS]
    return min(gapped, key=len)


def _console() -> Console:
    return Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)


def _save(console: Console, path: Path, title: str) -> None:
    drawn = console.export_svg(title=title, unique_id=path.stem.replace("_", "-"))
    drawn = _LOADED.sub("", drawn).replace("Fira Code", "ui-monospace, Menlo, Consolas")
    path.write_text(drawn, encoding="utf-8")
