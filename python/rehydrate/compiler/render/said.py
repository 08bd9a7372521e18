"""What was said, in no provider's words: what conversions read a history into and write from.

Every provider says the same few things: texts, media, tool calls and their results. What only one
of them can say (thinking with its signature, a server's own tools) has no word here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from rehydrate.compiler.render.late import Heard, in_place

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
