"""Texts by kind, the same on every machine: written, generated from a seed, or from the example."""

from __future__ import annotations

import base64
import difflib
import json
import random
import re
from collections.abc import Iterable
from pathlib import Path

from benches.python.inputs import EXAMPLE, ROOT

SAMPLES = Path(__file__).with_name("token_samples.txt")
AGENT = {
    "agent: what it says": ("text", ""),
    "agent: what it asks of tools": ("tool_use", ""),
    "agent: files that it reads": ("tool_result", "Read"),
    "agent: output of commands": ("tool_result", "Bash"),
}


def texts() -> dict[str, str]:
    """Return every kind's text, in the order of the table."""
    written = _samples()
    words = written.pop("words to generate from").split()
    prose = (ROOT / "LICENSE").read_text(encoding="utf-8")
    return (
        {"prose: a licence": re.sub(r"\s+", " ", prose), **written}
        | _generated(written["Python"], words)
        | _of_the_example()
    )


def _samples() -> dict[str, str]:
    parts = re.split(r"^=== (.*)\n", SAMPLES.read_text(encoding="utf-8"), flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _of_the_example() -> dict[str, str]:
    """Return what a model would read of the recorded session."""
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    blocks = [block for line in lines for block in _blocks(json.loads(line))]
    tools = {block["id"]: block["name"] for block in blocks if block["type"] == "tool_use"}
    found: dict[str, list[str]] = {kind: [] for kind in AGENT}
    for block in blocks:
        tool = tools.get(block.get("tool_use_id"), "")
        for kind, wanted in AGENT.items():
            if wanted == (block["type"], tool):
                found[kind].append(_text(block))
    return {kind: "\n".join(parts) for kind, parts in found.items()}


def _blocks(entry: dict) -> list[dict]:
    content = entry.get("message", {}).get("content", [])
    return content if isinstance(content, list) else []


def _text(block: dict) -> str:
    if block["type"] == "tool_use":
        return json.dumps(block["input"], ensure_ascii=False, separators=(",", ":"))
    content = block["text"] if block["type"] == "text" else block["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _generated(source: str, words: list[str]) -> dict[str, str]:
    dice = random.Random(7)
    records = [_record(dice, words) for _ in range(40)]
    return {
        "JSON, compact": json.dumps(records, separators=(",", ":")),
        "JSON, indented": json.dumps(records, indent=2),
        "CSV": "\n".join(",".join(map(str, record.values())) for record in records),
        "logs": "\n".join(_log_line(dice, words, at) for at in range(120)),
        "diffs": "\n".join(_diffs(dice, words, source)),
        "Markdown tables": "\n".join(_table(dice, words)),
        "file paths": "\n".join(_path(dice, words) for _ in range(150)),
        "URLs": "\n".join(_url(dice, words) for _ in range(80)),
        "numbers": " ".join(
            f"{dice.uniform(-1, 1) * 10 ** dice.randrange(7):.6g}" for _ in range(600)
        ),
        "hexadecimal": "\n".join(dice.randbytes(20).hex() for _ in range(100)),
        "UUIDs": "\n".join(_uuid(dice) for _ in range(100)),
        "base64": base64.b64encode(dice.randbytes(3_000)).decode(),
        "minified JavaScript": _minified(dice, words),
        "a line of dashes": "-" * 2_000,
        "letters at random": "".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=3_000)),
    }


def _number(dice: random.Random) -> str:
    return f"{dice.uniform(-1, 1) * 10 ** dice.randrange(7):.6g}"


def _uuid(dice: random.Random) -> str:
    digits = dice.randbytes(16).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _record(dice: random.Random, words: list[str]) -> dict[str, object]:
    one, two = dice.sample(words, 2)
    return {
        "id": dice.randrange(10**6),
        "name": f"{one.title()} {two}",
        "created_at": f"2026-{dice.randrange(1, 13):02}-{dice.randrange(1, 29):02}T08:15:00Z",
        "price": dice.randrange(10**5) / 100,
        "active": dice.random() < 0.5,
        "tag": dice.choice((one, None)),
    }


def _log_line(dice: random.Random, words: list[str], at: int) -> str:
    level = dice.choice(("INFO", "INFO", "DEBUG", "WARN", "ERROR"))
    said = " ".join(dice.sample(words, 3))
    return (
        f"2026-11-22T03:{at // 60:02}:{at % 60:02}.{dice.randrange(1000):03}Z {level:<5} "
        f"[worker-{dice.randrange(16)}] app.{dice.choice(words)}.{dice.choice(words)} - {said} "
        f"took={dice.randrange(5000)}ms ip=10.{dice.randrange(256)}.{dice.randrange(256)}.7 "
        f"trace={dice.randbytes(8).hex()}"
    )


def _diffs(dice: random.Random, words: list[str], source: str) -> Iterable[str]:
    for number in range(5):
        word, other = dice.choice(("entry", "amount", "raw")), dice.choice(words)
        yield f"diff --git a/src/part_{number}.py b/src/part_{number}.py"
        yield f"index {dice.randbytes(4).hex()[:7]}..{dice.randbytes(4).hex()[:7]} 100644"
        before, after = source.splitlines(), source.replace(word, other).splitlines()
        yield from difflib.unified_diff(before, after, "a/src", "b/src", lineterm="", n=2)


def _table(dice: random.Random, words: list[str]) -> Iterable[str]:
    yield "| name | median | p99 | rate | note |"
    yield "|---|---:|---:|---:|---|"
    for _ in range(60):
        name, note = "_".join(dice.sample(words, 2)), " ".join(dice.sample(words, 4))
        figures = [f"{dice.uniform(0.1, 900):.{dice.randrange(3)}f}" for _ in range(3)]
        yield f"| `{name}` | {figures[0]} ms | {figures[1]} ms | {figures[2]} MB/s | {note} |"


def _path(dice: random.Random, words: list[str]) -> str:
    folders = "/".join(dice.choices(words, k=dice.randrange(2, 6)))
    stem = dice.choice(("_", "-", "")).join(dice.choices(words, k=2))
    return f"/work/{folders}/{stem}{dice.choice(('.py', '.rs', '.test.tsx', '.json', ''))}"


def _url(dice: random.Random, words: list[str]) -> str:
    path = "/".join(dice.choices(words, k=3))
    return f"https://api.example.com/v1/{path}/{dice.randrange(10**8)}?{dice.choice(words)}=%2F"


def _minified(dice: random.Random, words: list[str]) -> str:
    names = [chr(97 + one) + dice.choice("etn$_") for one in range(26)]
    return "".join(
        f"function {dice.choice(names)}({dice.choice(names)},{dice.choice(names)}){{var "
        f"{dice.choice(names)}=this.{dice.choice(words)}||[];return {dice.choice(names)}."
        f"{dice.choice(words)}?{dice.randrange(99)}:!{dice.randrange(2)}&&void 0!=="
        f"{dice.choice(names)}}}"
        for _ in range(40)
    )
