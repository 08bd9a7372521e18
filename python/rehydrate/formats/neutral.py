"""Neutral messages: conversions read a history into them, and write from them.

Every provider has the same few parts: texts, media, tool calls and their results. Parts that only
one has (thinking with its signature, a server's own tools) are not represented here.
`RenderedMessage` is a message in a provider's shape. `in_place` moves system entries so that they
part no call from its results.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from rehydrate._text import FreeNames
from rehydrate.errors import InvalidArgumentError


class RenderedMessage(NamedTuple):
    """A message as it is sent, and the entries it is made of."""

    message: Any
    sources: tuple[int, ...]
    """Indices of its entries in the history."""


def arguments(value: Any) -> str:
    """Return a tool call's input as OpenAI has it: a JSON string; a string stays as it is."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"the input of a tool call can't be written as JSON ({error}); pass what JSON holds"
        ) from error


def one_or_all(parts: Sequence[dict[str, Any]], kind: str) -> Any:
    """Return a content of one text as a string, any other as its parts."""
    if len(parts) == 1 and parts[0]["type"] == kind:
        return parts[0]["text"]
    return list(parts)


NO_ID_CHARACTER = re.compile(r"[^a-zA-Z0-9_-]")


class Text(NamedTuple):
    """A text."""

    text: str


class Media(NamedTuple):
    """An image or a file: its bytes in base64, or its address."""

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
    """A tool's result."""

    id: str | None
    parts: tuple[Text | Media, ...]
    is_error: bool = False


Part = Text | Media | Call | Result


class NeutralMessage(NamedTuple):
    """One message of one role, in no provider's shape."""

    role: str
    """system, user (also for results of tools) or assistant."""
    parts: tuple[Part, ...]
    sources: tuple[int, ...]
    """Indices of its entries in the history."""
    entry: Any = None
    """The entry itself, where it is only a role and a text: every provider takes it unchanged."""

    @property
    def text(self) -> str:
        """All its texts, an empty line between them."""
        return "\n\n".join(part.text for part in self.parts if isinstance(part, Text))


def normalized(messages: Sequence[NeutralMessage]) -> list[NeutralMessage]:
    """Normalise ids to what every provider takes, and put each result right behind its call.

    A result belongs to the latest call of its id. All results of an assistant turn are in one
    message behind it. A result without a call stays in place: it was broken before. A system
    message never comes between a call and its results.
    """
    return _with_grouped_results(in_place(_with_valid_ids(messages), _role_calls))


def _role_calls(message: NeutralMessage) -> RoleCalls:
    calls = [part.id for part in message.parts if isinstance(part, Call)]
    return RoleCalls(
        message.role, calls, [part.id for part in message.parts if isinstance(part, Result)]
    )


def _with_valid_ids(messages: Sequence[NeutralMessage]) -> list[NeutralMessage]:
    names = FreeNames((), "-")
    latest: dict[str | None, str] = {}

    def renamed(part: Part, source: int) -> Part:
        if isinstance(part, Call):
            name = names.take(NO_ID_CHARACTER.sub("_", part.id or f"call_{source}"))
            latest[part.id] = name
            return part._replace(id=name)
        if isinstance(part, Result):
            name = latest.get(part.id) or NO_ID_CHARACTER.sub("_", part.id or f"call_{source}")
            return part._replace(id=name)
        return part

    return [
        each
        if each.entry is not None
        else each._replace(
            parts=tuple([renamed(part, (*each.sources, 0)[0]) for part in each.parts])
        )
        for each in messages
    ]


def _with_grouped_results(messages: Sequence[NeutralMessage]) -> list[NeutralMessage]:
    runs = [(role, list(run)) for role, run in groupby(messages, key=lambda each: each.role)]
    run_of: dict[str | None, int] = {}
    for number, (role, run) in enumerate(runs):
        if role == "assistant":
            for each in run:
                run_of |= {part.id: number for part in each.parts if isinstance(part, Call)}
    if not run_of:
        return list(messages)
    calling = set(run_of.values())
    results: dict[int, list[tuple[Result, tuple[int, ...]]]] = {}
    rest = [[_without_results(each, run_of, results) for each in run] for _, run in runs]
    gathered: list[NeutralMessage] = []
    for number, kept in enumerate(rest):
        kept_here = [each for each in kept if each is not None]
        is_one = number in calling and len(kept_here) > 1
        gathered += [_joined(kept_here)] if is_one else kept_here
        if number in results:
            sources = {source for _, places in results[number] for source in places}
            parts = tuple([result for result, _ in results[number]])
            gathered.append(NeutralMessage("user", parts, tuple(sorted(sources))))
    return gathered


def _joined(run: Sequence[NeutralMessage]) -> NeutralMessage:
    """Join consecutive assistant messages into one; their results follow right behind it."""
    parts = tuple([part for each in run for part in each.parts])
    return NeutralMessage(
        "assistant", parts, tuple([source for each in run for source in each.sources])
    )


def _without_results(
    message: NeutralMessage,
    run_of: Mapping[str | None, int],
    results: dict[int, list[tuple[Result, tuple[int, ...]]]],
) -> NeutralMessage | None:
    """Return the message without results of known calls; these move to their turn."""
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, Result) and part.id in run_of:
            results.setdefault(run_of[part.id], []).append((part, message.sources))
        else:
            parts.append(part)
    if len(parts) == len(message.parts):
        return message
    return message._replace(parts=tuple(parts)) if parts else None


T = TypeVar("T")


class RoleCalls(NamedTuple):
    """The fields of an entry that decide whether a system entry may be beside it."""

    role: str
    calls: Iterable[str | None] = ()
    answers: Iterable[str | None] = ()


def in_place(messages: Sequence[T], role_calls: Callable[[T], RoleCalls]) -> list[T]:
    """Move each system entry that came amid pending calls behind the results.

    In an open call at the end of the history, only results may follow the call. Then the system
    entry goes in front of the assistant turn that calls.

    >>> messages = [RoleCalls("user"), RoleCalls("assistant", "c"), RoleCalls("system")]
    >>> [each.role for each in in_place(messages, lambda each: each)]
    ['user', 'system', 'assistant']
    >>> messages = [*messages, RoleCalls("user", answers="c")]
    >>> [each.role for each in in_place(messages, lambda each: each)]
    ['user', 'assistant', 'user', 'system']
    """
    spoken = list(map(role_calls, messages))
    if all(each.role != "system" for each in spoken):
        return list(messages)
    placed: list[T] = []
    late: list[T] = []
    waiting: Counter[str | None] = Counter()  # a damaged history calls twice under one id
    turn, before = 0, ""  # start of the assistant's turn, and the role before
    for each, (role, calls, answers) in zip(messages, spoken, strict=True):
        if role == "system" and waiting:
            late.append(each)
            continue
        answered = Counter(answers)
        if role == "assistant" and before == "assistant":
            waiting.update(calls)
        elif role == "assistant" or not answered:
            # These are never answered: the history was so before.
            placed += late
            late, waiting, turn = [], Counter(calls), len(placed)
        placed.append(each)
        before = role
        waiting -= answered
        if not waiting:
            placed += late
            late = []
    return [*placed[:turn], *late, *placed[turn:]]
