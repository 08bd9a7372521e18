"""What capped tool results still hold of what an agent needed of them, against naive truncation.

    python -m benches.python.caps_retention

The conversations are not part of this repository. Their folder is `REHYDRATE_DATA`, or
`../shared/data`; without it only made results are measured.

A fact is a name, a path or a number that is first in a tool's result and that the agent used
afterwards, in words or in a tool's input. Each long result of the real sessions is cut to a share
of its size, by what it is made of and, for comparison, to its first characters at the same size,
the notices aside. The made ones ask what such a result is read for. All originals are asked back by
handle, byte for byte.
"""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benches.python.sources import data_folder
from benches.report.rows import Part, Row
from rehydrate import _native, count_tokens, formats
from rehydrate.messages import PieceKind
from rehydrate.prompt import HeldOriginals
from rehydrate.prompt.caps import cap_text

SHARES = (0.5, 0.25, 0.1)
LEAST = 400
"""Minimum tokens of a result."""
_LONG = 2_800
"""Minimum characters of a result."""
_FACT = re.compile(r"[A-Za-z_][\w./-]{3,}\w|\d{2,}")


class Case(NamedTuple):
    """A tool's result, and the facts needed from it."""

    group: str
    tool: str
    text: str
    facts: frozenset[str]


def facts(text: str) -> frozenset[str]:
    """Return names, paths and numbers."""
    return frozenset(_FACT.findall(text))


def real_cases(folder: Path) -> Iterator[Case]:
    """Yield cases of the sessions in the folder."""
    for path in sorted((folder / "claude_code").glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
        yield from _cases(lines, "claude_code")
    trajectories = folder / "airline_dev.json"
    if trajectories.exists():
        for task in json.loads(trajectories.read_text()):
            yield from _cases(task["traj"], "openai_chat")


def _cases(entries: list[Any], name: str) -> Iterator[Case]:
    read = formats.parse(entries, name)
    messages = read.messages
    results = _native.result_texts(read, entries, formats.FORMATS[name].places)
    said = [
        frozenset[str]().union(
            *[facts(piece.text) for piece in message.pieces if _is_said(message.role, piece.kind)]
        )
        for message in messages
    ]
    later: list[frozenset[str]] = [frozenset()] * (len(messages) + 1)
    for place in range(len(messages) - 1, -1, -1):
        later[place] = later[place + 1] | said[place]
    known: set[str] = set()
    for place, message in enumerate(messages):
        for tool, text in results[place]:
            needed = (facts(text) - known) & later[place + 1]
            if len(text) > _LONG and needed:
                yield Case("real", tool, text, frozenset(needed))
        for piece in message.pieces:
            known |= facts(piece.text)


def _is_said(role: str, kind: PieceKind) -> bool:
    return role == "assistant" and kind in (PieceKind.TEXT, PieceKind.TOOL_INPUT)


def made_cases(count: int = 20) -> Iterator[Case]:
    """Yield generated results of each kind, with the facts that a reader needs."""
    for seed in range(count):
        dice = random.Random(seed)
        for make in (_json, _log, _diff, _grep, _code):
            yield make(dice)


def _word(dice: random.Random) -> str:
    return "".join(dice.choice("bcdfgklmnprst") + dice.choice("aeiou") for _ in range(4))


def _json(dice: random.Random) -> Case:
    """Return columns, states, the number of rows, and the first row."""
    states = [_word(dice) for _ in range(4)]
    keys = ["order_" + _word(dice) for _ in range(6)]
    rows = [
        {"id": 10_000 + n, "state": dice.choice(states)} | {key: _word(dice) for key in keys}
        for n in range(dice.randint(800, 3_000))
    ]
    total = str(len(rows))
    where = dice.choice(["bare", "inside", "last"])
    note = _word(dice) * 3
    value: Any = rows
    if where != "bare":
        value = {"total": len(rows), "results": rows, "next_page": note}
    needed = {"state", *keys, *states, "10000", "10007"} | (
        {total, note} if where != "bare" else set()
    )
    return Case("made", "search", json.dumps(value), frozenset(needed))


def _log(dice: random.Random) -> Case:
    """Return what failed, where, and how it ended."""
    lines = [
        f"2026-02-17 {n // 3600:02}:{n // 60 % 60:02}:{n % 60:02} INFO {_word(dice)} {_word(dice)}"
        for n in range(dice.randint(1_500, 4_000))
    ]
    needed = set()
    for _ in range(3):
        place = dice.randrange(len(lines) - 5)
        error, file = _word(dice).title() + "Error", f"src/{_word(dice)}.py"
        lines[place] = (
            f'Traceback (most recent call last):\n  File "{file}", line 77, in {_word(dice)}\n'
            f"{error}: {_word(dice)}"
        )
        needed |= {error, file}
    end = _word(dice)
    lines.append(f"2026-02-28 11:00:00 INFO finished {end}")
    return Case("made", "bash", "\n".join(lines), frozenset(needed | {end, "finished"}))


def _diff(dice: random.Random) -> Case:
    """Return changed files, the functions, and the first lines added to each."""
    out, needed = [], set()
    for _ in range(dice.randint(15, 40)):
        path = f"lib/{_word(dice)}/{_word(dice)}.py"
        out += [f"diff --git a/{path} b/{path}", f"--- a/{path}", f"+++ b/{path}"]
        needed.add(f"b/{path}")
        for hunk in range(dice.randint(1, 6)):
            function, added = _word(dice), _word(dice)
            out.append(f"@@ -{hunk * 100 + 1},30 +{hunk * 100 + 1},31 @@ def {function}():")
            needed |= {function} | ({added} if hunk == 0 else set())
            out += [f"     {_word(dice)} = {_word(dice)}" for _ in range(12)]
            out.append(f"+    {added} = 1")
            out += [f"     {_word(dice)} = {_word(dice)}" for _ in range(12)]
    return Case("made", "bash", "\n".join(out), frozenset(needed))


def _grep(dice: random.Random) -> Case:
    """Return the matching files, and the first match in each."""
    out, needed = [], set()
    for _ in range(dice.randint(30, 80)):
        path = f"src/{_word(dice)}/{_word(dice)}.ts"
        needed.add(path)
        for number in range(dice.choice([1, 2, 5, 60, 120])):
            name = _word(dice)
            out.append(f"{path}:{number * 7 + 3}:  const {name} = useThing({_word(dice)})")
            needed |= {name} if number == 0 else set()
    return Case("made", "grep", "\n".join(out), frozenset(needed))


def _code(dice: random.Random) -> Case:
    """Return the definitions of a file, and its imports."""
    out = [f"import {(name := _word(dice))}"]
    needed = {name}
    for _ in range(dice.randint(60, 150)):
        function = _word(dice) + "_" + _word(dice)
        needed.add(function)
        out += ["", "", f"def {function}({_word(dice)}, {_word(dice)}):"]
        out += [
            f"    {_word(dice)} = {_word(dice)}({_word(dice)})" for _ in range(dice.randint(4, 30))
        ]
    numbered = [f"{number:6}→{line}" for number, line in enumerate(out, 1)]
    return Case("made", "read", "\n".join(numbered), frozenset(needed))


def measure(cases: list[Case], shares: tuple[float, ...] = SHARES) -> Part:
    """Measure by group, kind and share the facts that are left."""
    held = HeldOriginals()
    sums: dict[tuple[str, str, float], list[float]] = defaultdict(lambda: [0] * 5)
    reachable = asked = 0
    for case in cases:
        for share in shares:
            limit = max(LEAST, int(count_tokens(case.text) * share))
            capped = cap_text(case.text, limit, tool=case.tool)
            if capped is None:
                continue
            handle = held.put(case.text)
            shown = capped.body  # without the notice, which every method must add
            asked += 1
            reachable += held.get(handle) == case.text
            row = sums[case.group, capped.kind, share]
            row[0] += 1
            row[1] += len(case.facts)
            row[2] += len(case.facts & facts(shown))
            row[3] += len(case.facts & facts(case.text[: len(shown)]))
            row[4] += len(shown) / len(case.text)
    rows = [
        Row(
            f"{group} {kind}, {share:.0%} of its size",
            100 * ours / needed,
            "%",
            more_is_better=True,
            beside=f"first characters {100 * naive / needed:.1f}",
            limit=f"{count:.0f} results, {needed:.0f} facts",
        )
        for (group, kind, share), (count, needed, ours, naive, _) in sorted(sums.items())
    ]
    back = 100 * reachable / asked
    rows.append(Row("got back by handle, byte for byte", back, "%", 100, more_is_better=True))
    return Part(
        "Tool results, capped",
        "Of the names, paths and numbers in a tool's result that were used afterwards, how many a "
        "capped result still shows, beside its first characters at the same size. Made results are "
        "asked for what such a result is read for.",
        rows,
    )


if __name__ == "__main__":
    folder = data_folder()
    print(measure([*(real_cases(folder) if folder else ()), *made_cases()]).to_json())
