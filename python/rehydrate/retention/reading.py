"""The sessions to measure on: conversations with their questions and summaries, and two datasets.

Messages of any format are read by the engine (`rust/rehydrate-py/src/retention`): roles, texts,
inputs of tools, steps. It has a reader of its own for that, not the product's parser: a measure
that shares code with what it measures shares its mistakes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rehydrate import formats
from rehydrate._native import role_of, text_of

Message = dict[str, Any]


def is_system(message: Message) -> bool:
    """Return whether it is a system or a developer message, which every method keeps."""
    return role_of(message) in ("system", "developer")


def estimate_cost(message: Message) -> int:
    """Estimate tokens by characters, without an exact counter: ceil(chars / 3.5)."""
    return math.ceil(len(text_of(message)) / 3.5)


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the indices of the messages that answer it, and its answer if there is one."""

    text: str
    evidence: tuple[int, ...]
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """An agent's summary, written in place of messages `start` to `end` when its window was full.

    The previous summary, if there is one, came before these messages.
    """

    message: Message
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation to measure on; `format` is its name in `compact_context`."""

    name: str
    messages: list[Message]
    format: str = "plain"
    questions: tuple[Question, ...] = ()
    summaries: tuple[Summary, ...] = ()


def read_locomo(path: str | Path) -> list[Conversation]:
    """Read LoCoMo (ACL 2024): long two-person conversations; the first speaker is the user.

    A question counts where its evidence names at least one turn that exists.
    """
    return [locomo(sample) for sample in json.loads(Path(path).read_text(encoding="utf-8"))]


def read_tau_bench(path: str | Path) -> list[Conversation]:
    """Read tau-bench trajectories in OpenAI chat format, without their system prompt.

    Every method keeps the prompt, which is longer than most of these conversations: it alone would
    use up a small budget.
    """
    return [tau_bench(each) for each in json.loads(Path(path).read_text(encoding="utf-8"))]


def read_claude_code(path: str | Path) -> Conversation:
    """Read a Claude Code transcript: the entries of its conversation unchanged, in order.

    Progress lines, snapshots and the like are left out, and so is what the user took back. So is
    the agent's own summary of an automatic compaction: the messages it replaced are in the file,
    and they must be compacted.
    """
    lines = Path(path).read_text(encoding="utf-8").split("\n")
    entries = [json.loads(line) for line in lines if line.strip()]
    read = formats.parse(entries, "claude_code")
    spoken = [entries[message.index] for message in read.messages]
    kept = [entry for entry in spoken if not entry.get("isCompactSummary")]
    return Conversation(Path(path).stem, kept, "claude_code")


def tau_bench(trajectory: dict[str, Any]) -> Conversation:
    """Read one trajectory of tau-bench."""
    name = f"task {trajectory['task_id']} trial {trajectory['trial']}"
    spoken = [message for message in trajectory["traj"] if message["role"] != "system"]
    return Conversation(name, spoken, "openai_chat")


_TURN_ID = re.compile(r"D\d+:\d+")


def locomo(sample: dict[str, Any]) -> Conversation:
    """Read one conversation of LoCoMo."""
    record = sample["conversation"]
    messages: list[Message] = []
    index_of: dict[str, int] = {}
    for _, turn in locomo_turns(record):
        index_of[turn["dia_id"]] = len(messages)
        role = "user" if turn["speaker"] == record["speaker_a"] else "assistant"
        messages.append({"role": role, "content": f"{turn['speaker']}: {turn['text']}"})
    questions: list[Question] = []
    for entry in sample["qa"]:
        # Some evidence is written as "D8:6; D9:17" or names a turn that does not exist.
        named = [turn for text in entry.get("evidence", ()) for turn in _TURN_ID.findall(text)]
        evidence = tuple(sorted({index_of[turn] for turn in named if turn in index_of}))
        if evidence:
            answer = str(entry.get("answer", ""))
            questions.append(Question(str(entry["question"]), evidence, answer))
    return Conversation(str(sample["sample_id"]), messages, "plain", tuple(questions))


def locomo_turns(record: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield every turn of a LoCoMo conversation, in order, with the number of its session."""
    session = 1
    while f"session_{session}" in record:
        for turn in record[f"session_{session}"]:
            yield session, turn
        session += 1
