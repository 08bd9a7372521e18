"""The conversations to measure on: the recorded session, or generated ones like it."""

from __future__ import annotations

import json
import random
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

from rehydrate import formats

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "session.jsonl"
QUERY = "how does the packing choose between the gain of a unit and its gain per token?"
RATIO = 0.4

Message = dict[str, Any]


def recorded_session() -> list[Message] | None:
    """Return the session that the project ships as its example, if it is there."""
    if not EXAMPLE.exists():
        return None
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def generated_session(
    units: int = 305, size_bytes: int = 500_000, *, number: int = 0
) -> list[Message]:
    """Return a coding agent's work in Anthropic's format: requests, tool calls, sources as results.

    Every line of a result has a unique number, like the output of tools that read files. So no two
    texts are the same, nor are those of two sessions of different `number`.
    """
    dice = random.Random(11 + number)
    lines = cycle(_source_lines())
    printed = number * 1_000_000
    messages: list[Message] = []
    for unit in range(units):
        if unit % 25 == 0:
            request = (
                f"Request {unit}: the gain in src/pack.rs is off by {unit * 7}, please fix it."
            )
            messages.append({"role": "user", "content": request})
            continue
        mean = size_bytes // units * 25 // 24
        room = mean * 5 if dice.random() < 1 / 8 else int(mean * dice.uniform(0.2, 0.6))
        printed_before, result, written = printed, [], 0
        while written < room:
            printed += 1
            result.append(f"{printed:>6}\t{next(lines)}")
            written += len(result[-1]) + 1
        path = f"/work/round{unit % 7}/src/part_{number * units + unit}.rs"
        call = {"type": "tool_use", "id": f"toolu_{unit:06}", "name": "Read"}
        call["input"] = {"file_path": path, "offset": printed_before, "limit": len(result)}  # type: ignore[assignment]
        said = {"type": "text", "text": f"Let me look at {path} in step {unit}."}
        answer = {"type": "tool_result", "tool_use_id": call["id"], "content": "\n".join(result)}
        messages.append({"role": "assistant", "content": [said, call]})
        messages.append({"role": "user", "content": [answer]})
    return messages


def generated_chat(messages: int) -> list[Message]:
    """Return short messages of two people."""
    topics = ("the garden", "our trip", "a new recipe", "that book", "the old car", "my sister")
    dice = random.Random(12)
    return [
        {
            "role": ("user", "assistant")[number % 2],
            "content": f"I thought about {dice.choice(topics)} again, {dice.choice(topics)} too; "
            f"note {number} of day {dice.randrange(365)}, and then we went home early because it "
            "rained.",
        }
        for number in range(messages)
    ]


def texts_of(messages: list[Message]) -> list[str]:
    """Return every text that a model reads, in order."""
    return [piece.text for message in formats.parse(messages).messages for piece in message.pieces]


def next_turn(number: int) -> Message:
    """Return a user's message that no conversation had before."""
    text = f"And now turn {number}: run the tests of pack.rs again, please, and show what failed."
    return {"role": "user", "content": text}


def as_entry(message: Message, like: Message) -> Message:
    """Return `message` in the shape of its conversation: a transcript's line, or itself."""
    if "role" in like:
        return message
    return {"type": "user", "uuid": f"turn-{id(message)}", "message": message}


@cache
def _source_lines() -> list[str]:
    files = sorted((ROOT / "rust" / "rehydrate-core" / "src").rglob("*.rs"))
    return [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
