"""Readers of public conversations and of one's own sessions into one plain shape."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .reading import Message

_TURN_ID = re.compile(r"D\d+:\d+")


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the indices of the messages that answer it."""

    text: str
    evidence: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation to measure on; `format` is the name that `compact_context` knows it by."""

    name: str
    messages: list[Message]
    format: str = "plain"
    questions: tuple[Question, ...] = ()


def read_locomo(path: str | Path) -> list[Conversation]:
    """LoCoMo (ACL 2024): long two-person conversations; the first speaker is the user.

    A question counts where its evidence names at least one turn that exists.
    """
    return [_locomo(sample) for sample in json.loads(Path(path).read_text(encoding="utf-8"))]


def read_tau_bench(path: str | Path) -> list[Conversation]:
    """tau-bench trajectories in OpenAI chat format, without their system prompt.

    Every method keeps the prompt, which is longer than most of these conversations: with it in, a
    small budget would be spent before the first choice.
    """
    trajectories = json.loads(Path(path).read_text(encoding="utf-8"))
    return [
        Conversation(
            name=f"task {t['task_id']} trial {t['trial']}",
            messages=[m for m in t["traj"] if m["role"] != "system"],
            format="openai_chat",
        )
        for t in trajectories
    ]


def read_claude_code(path: str | Path) -> Conversation:
    """A Claude Code transcript: its user and assistant entries as they stand, in order.

    Progress lines, snapshots and the like are left out, and so is the agent's own summary of an
    automatic compaction: what came before it is in the file, and is what should be compacted.
    """
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines if line.strip()]
    return Conversation(
        name=Path(path).stem,
        messages=[
            entry
            for entry in entries
            if entry.get("type") in ("user", "assistant") and not entry.get("isCompactSummary")
        ],
        format="claude_code",
    )


def _locomo(sample: dict[str, Any]) -> Conversation:
    record = sample["conversation"]
    messages: list[Message] = []
    index_of: dict[str, int] = {}
    session = 1
    while f"session_{session}" in record:
        for turn in record[f"session_{session}"]:
            index_of[turn["dia_id"]] = len(messages)
            role = "user" if turn["speaker"] == record["speaker_a"] else "assistant"
            messages.append({"role": role, "content": f"{turn['speaker']}: {turn['text']}"})
        session += 1
    questions: list[Question] = []
    for entry in sample["qa"]:
        # Some evidence is written as "D8:6; D9:17" or names a turn that does not exist.
        named = [turn for text in entry.get("evidence", ()) for turn in _TURN_ID.findall(text)]
        evidence = tuple(sorted({index_of[turn] for turn in named if turn in index_of}))
        if evidence:
            questions.append(Question(str(entry["question"]), evidence))
    return Conversation(str(sample["sample_id"]), messages, "plain", tuple(questions))
