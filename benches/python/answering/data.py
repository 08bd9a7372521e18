"""Questions about long conversations: readers of LoCoMo's and LongMemEval's public files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from rehydrate import count_tokens
from rehydrate.errors import UnreadableSessionError
from rehydrate.retention.reading import Message, locomo_turns
from rehydrate.retention.sampling import evenly, session_files

LOCOMO_TYPES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
LOCOMO_TIME, LONGMEMEVAL_TIME = "%I:%M %p on %d %B, %Y", "%Y/%m/%d %H:%M"
EXPECTED = "pass the locomo10.json of LoCoMo, or a longmemeval_*.json of LongMemEval"
_NOWHERE = "The conversation does not say."
_BEGINNING = "(The conversation begins.)"
"""Put before a conversation that the assistant begins: some providers refuse such a one."""


@dataclass(frozen=True)
class History:
    """A conversation as messages, each of which begins with its day."""

    name: str
    messages: Sequence[Message] = field(repr=False)
    times: Sequence[datetime] = field(repr=False)

    @cached_property
    def tokens(self) -> int:
        """Tokens of the whole conversation, o200k_base."""
        return count_tokens(list(self.messages))


@dataclass(frozen=True)
class Case:
    """A question, its conversation and the right answer."""

    id: str
    type: str
    question: str
    """The question as the model gets it: with the day, where it has one."""
    answer: str
    """The right answer; a description for preferences; the reason for unanswerable ones."""
    history: History = field(repr=False)
    at: datetime

    @property
    def is_unanswerable(self) -> bool:
        """Return whether it is unanswerable, by its name in LongMemEval, as that grader does."""
        return self.type == "adversarial" or "_abs" in self.id

    @property
    def digest(self) -> str:
        """Return a hash of everything that may be shown and is expected."""
        said = (message["content"] for message in self.history.messages)
        return digest(self.id, self.type, self.question, self.answer, *said)


def read_cases(paths: Iterable[str | Path], limit: int | None = None) -> list[Case]:
    """Return the questions of these files, and of the JSON files of these folders. With a
    ``limit``, at most that many, spread over the conversations, always the same ones.

    Raises UnreadableSessionError, with the place, for any other file.
    """
    files = session_files(paths)
    groups: dict[str, list[Case]] = {}
    for case in (case for path in files for case in _read_file(path)):
        groups.setdefault(case.history.name, []).append(case)
    if not groups:
        named = ", ".join(map(str, files)) or "these folders"
        raise UnreadableSessionError(named, "there is no question in it", EXPECTED)
    among = list(groups.values())
    most = sum(map(len, among)) if limit is None else limit
    return [among[group][place] for group, place in evenly(among, most)]


def digest(*parts: str) -> str:
    """Return a hash of texts and of their borders."""
    data = "\0".join(parts).encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=10).hexdigest()


def _read_file(path: Path) -> list[Case]:
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise UnreadableSessionError(path, f"it is not JSON ({error})", EXPECTED) from None
    cases: list[Case] = []
    for number, entry in enumerate(value if isinstance(value, list) else [value], 1):
        try:
            is_long = isinstance(entry, Mapping) and "haystack_sessions" in entry
            cases += [_longmemeval(entry)] if is_long else _locomo(entry)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            what = f"has no {error}" if isinstance(error, KeyError) else f"is malformed: {error}"
            raise UnreadableSessionError(path, f"entry {number} {what}", EXPECTED) from None
    return cases


def _locomo(sample: Any) -> list[Case]:
    """Read LoCoMo (ACL 2024): the questions of one conversation of many days."""
    record = sample["conversation"]
    said: list[tuple[datetime, str, str]] = []
    for session, turn in locomo_turns(record):
        at = _time(record[f"session_{session}_date_time"], LOCOMO_TIME)
        role = "user" if turn["speaker"] == record["speaker_a"] else "assistant"
        picture = f" [shares {turn['blip_caption']}]" if turn.get("blip_caption") else ""
        said.append((at, role, f"{turn['speaker']}: {turn['text']}{picture}"))
    history = _history(str(sample["sample_id"]), said)
    cases: list[Case] = []
    for number, entry in enumerate(sample["qa"], 1):
        kind = LOCOMO_TYPES[entry["category"]]
        answer = _NOWHERE if kind == "adversarial" else str(entry["answer"])
        id_, at = f"{history.name}/{number}", history.times[-1]
        cases.append(Case(id_, kind, str(entry["question"]), answer, history, at))
    return cases


def _longmemeval(entry: Mapping[str, Any]) -> Case:
    """Read LongMemEval (ICLR 2025): one question about many chats of a user with an assistant."""
    id_, kind = str(entry["question_id"]), str(entry["question_type"])
    dates = [_time(date, LONGMEMEVAL_TIME) for date in entry["haystack_dates"]]
    chats = zip(dates, entry["haystack_sessions"], strict=True)
    said = [
        (at, turn["role"], turn["content"])
        for at, chat in sorted(chats, key=lambda dated: dated[0])  # the oracle file's are unordered
        for turn in chat
        if turn["content"].strip()
    ]
    history = _history(id_, said)
    at = _time(entry["question_date"], LONGMEMEVAL_TIME)
    question = f"{_day(at)} {entry['question']}"
    return Case(id_, kind, question, str(entry["answer"]), history, at)


def _history(name: str, said: list[tuple[datetime, str, str]]) -> History:
    if not said:
        raise ValueError(f"the conversation {name} has no message")
    messages = [{"role": role, "content": f"{_day(at)} {text}"} for at, role, text in said]
    times = [at for at, _, _ in said]
    if messages[0]["role"] != "user":
        messages.insert(0, {"role": "user", "content": _BEGINNING})
        times.insert(0, times[0])
    return History(name, tuple(messages), tuple(times))


def _time(written: str, form: str) -> datetime:
    plain = " ".join(re.sub(r"\(\w*\)", "", written).split())  # without "(Sat)"
    return datetime.strptime(plain, form).replace(tzinfo=UTC)


def _day(at: datetime) -> str:
    """Return the day as LoCoMo's answers write it, so that a model that copies it is right."""
    return f"[{at:%a} {at.day} {at:%B %Y}]"
