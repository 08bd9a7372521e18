"""Sent: a message in a provider's shape, and where in the history it is from.

What was said, in no provider's words: what conversions read a history into and write from.

Every provider says the same few things: texts, media, tool calls and their results. What only one
of them can say (thinking with its signature, a server's own tools) has no word here.

Late: system entries amid a conversation, put where they part no call from its results.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeVar


class Sent(NamedTuple):
    """A message as it is sent."""

    message: Any
    sources: tuple[int, ...]
    """The history's entries that it says, by their position."""


def arguments(value: Any) -> str:
    """A tool call's input as OpenAI has it: JSON in a string; what is no JSON stays as it is."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def one_or_all(parts: Sequence[dict[str, Any]], kind: str) -> Any:
    """A content of one text as a string, any other as its parts."""
    if len(parts) == 1 and parts[0]["type"] == kind:
        return parts[0]["text"]
    return list(parts)


_NO_ID_CHARACTER = re.compile(r"[^a-zA-Z0-9_-]")


class Text(NamedTuple):
    """A text."""

    text: str


class Media(NamedTuple):
    """An image or a file: its bytes in base64, or where they are."""

    kind: str
    """image or file."""
    url: str
    """An address, or a data URL."""
    name: str = ""


class Call(NamedTuple):
    """A tool call; the input is a string where it is no JSON object."""

    id: str | None
    name: str
    input: Any


class Result(NamedTuple):
    """What a tool answered."""

    id: str | None
    parts: tuple[Text | Media, ...]
    is_error: bool = False


Part = Text | Media | Call | Result


class Said(NamedTuple):
    """One thing said by one role."""

    role: str
    """system, user (the results of tools too) or assistant."""
    parts: tuple[Part, ...]
    sources: tuple[int, ...]
    """The entries of the history that say it, by their position."""
    entry: Any = None
    """The entry itself, where it is nothing but a role and a text: every provider takes it."""

    @property
    def text(self) -> str:
        """All its texts, an empty line between them."""
        return "\n\n".join(part.text for part in self.parts if isinstance(part, Text))


def settled(said: Sequence[Said]) -> list[Said]:
    """The same with ids that every provider takes, and with each result right behind its call.

    A result belongs to the latest call of its id. All results of a turn of the assistant's stand
    in one message behind it. A result without a call stays where it is: it was none before. What
    the system says meanwhile parts no call from its results.
    """
    return _gathered(in_place(_renamed(said), _heard))


def _heard(said: Said) -> Heard:
    calls = [part.id for part in said.parts if isinstance(part, Call)]
    return Heard(said.role, calls, [part.id for part in said.parts if isinstance(part, Result)])


def _renamed(said: Sequence[Said]) -> list[Said]:
    used: set[str] = set()
    latest: dict[str | None, str] = {}

    def renamed(part: Part, source: int) -> Part:
        if isinstance(part, Call):
            wanted = _NO_ID_CHARACTER.sub("_", part.id or f"call_{source}")
            name, number = wanted, 1
            while name in used:
                number += 1
                name = f"{wanted}-{number}"
            used.add(name)
            latest[part.id] = name
            return part._replace(id=name)
        if isinstance(part, Result):
            name = latest.get(part.id) or _NO_ID_CHARACTER.sub("_", part.id or f"call_{source}")
            return part._replace(id=name)
        return part

    return [
        each
        if each.entry is not None
        else each._replace(
            parts=tuple([renamed(part, (*each.sources, 0)[0]) for part in each.parts])
        )
        for each in said
    ]


def _gathered(said: Sequence[Said]) -> list[Said]:
    runs = [(role, list(run)) for role, run in groupby(said, key=lambda each: each.role)]
    run_of: dict[str | None, int] = {}
    for number, (role, run) in enumerate(runs):
        if role == "assistant":
            for each in run:
                run_of |= {part.id: number for part in each.parts if isinstance(part, Call)}
    if not run_of:
        return list(said)
    calling = set(run_of.values())
    results: dict[int, list[tuple[Result, tuple[int, ...]]]] = {}
    rest = [[_without_results(each, run_of, results) for each in run] for _, run in runs]
    gathered: list[Said] = []
    for number, kept in enumerate(rest):
        kept_here = [each for each in kept if each is not None]
        is_one = number in calling and len(kept_here) > 1
        gathered += [_joined(kept_here)] if is_one else kept_here
        if number in results:
            sources = {place for _, places in results[number] for place in places}
            parts = tuple([result for result, _ in results[number]])
            gathered.append(Said("user", parts, tuple(sorted(sources))))
    return gathered


def _joined(run: Sequence[Said]) -> Said:
    """What the assistant said in one go as one message: its results stand right behind it."""
    parts = tuple([part for each in run for part in each.parts])
    return Said("assistant", parts, tuple([source for each in run for source in each.sources]))


def _without_results(
    said: Said,
    run_of: Mapping[str | None, int],
    results: dict[int, list[tuple[Result, tuple[int, ...]]]],
) -> Said | None:
    """What is left without results of known calls, which are put with those of their turn."""
    parts: list[Part] = []
    for part in said.parts:
        if isinstance(part, Result) and part.id in run_of:
            results.setdefault(run_of[part.id], []).append((part, said.sources))
        else:
            parts.append(part)
    if len(parts) == len(said.parts):
        return said
    return said._replace(parts=tuple(parts)) if parts else None


T = TypeVar("T")


class Heard(NamedTuple):
    """What of an entry says whether a system entry may stand beside it."""

    role: str
    calls: Iterable[str | None] = ()
    answers: Iterable[str | None] = ()


def in_place(said: Sequence[T], heard: Callable[[T], Heard]) -> list[T]:
    """The same entries; a system one that came while calls were waiting stands behind the results.

    Where they never came, since the history ends in an open call, there is room behind the call
    for its results only: then it stands in front of the assistant's turn that calls.

    >>> said = [Heard("user"), Heard("assistant", "c"), Heard("system")]
    >>> [each.role for each in in_place(said, lambda each: each)]
    ['user', 'system', 'assistant']
    >>> said = [*said, Heard("user", answers="c")]
    >>> [each.role for each in in_place(said, lambda each: each)]
    ['user', 'assistant', 'user', 'system']
    """
    read = list(map(heard, said))
    if all(each.role != "system" for each in read):
        return list(said)
    placed: list[T] = []
    late: list[T] = []
    waiting: Counter[str | None] = Counter()  # a damaged history calls twice under one id
    turn, before = 0, ""  # where the assistant's turn began, and who spoke before
    for each, (role, calls, answers) in zip(said, read, strict=True):
        if role == "system" and waiting:
            late.append(each)
            continue
        answered = Counter(answers)
        if role == "assistant" and before == "assistant":
            waiting.update(calls)
        elif role == "assistant" or not answered:
            # What still waits is never answered: the history was so before.
            placed += late
            late, waiting, turn = [], Counter(calls), len(placed)
        placed.append(each)
        before = role
        waiting -= answered
        if not waiting:
            placed += late
            late = []
    return [*placed[:turn], *late, *placed[turn:]]
