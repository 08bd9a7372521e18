"""Grouping of messages into atomic units: a tool call with its results.

One algorithm for every format; it reads only `Message.calls` and `Message.answers`. A result
belongs to the latest unanswered call of its id; else to the answered call, so that a second result
leaves together with the first; else to a later call. On valid input this is plain pairing. On
broken input it keeps every pair that exists together. Pairing never depends on other units, so
dropping whole units breaks nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from rehydrate.messages import Message, Unit

__all__ = ["Ledger", "group"]


def group(messages: Sequence[Message], links: Iterable[tuple[int, int]] = ()) -> tuple[Unit, ...]:
    """Partition messages into units, ordered by first member.

    `links` are pairs of indices in `messages` that the format joins for its own reasons.
    """
    parent = list(range(len(messages)))

    def root(position: int) -> int:
        while parent[position] != position:
            parent[position] = position = parent[parent[position]]
        return position

    def join(one: int, other: int) -> None:
        # The smaller index is the root, so that units come out ordered by first member.
        one, other = root(one), root(other)
        if one < other:
            parent[other] = one
        else:
            parent[one] = other

    for one, other in chain(_pairs(messages), links):
        # Nearly always two that are joined with nothing yet.
        if parent[one] == one < other == parent[other]:
            parent[other] = one
        else:
            join(one, other)

    members: dict[int, list[Message]] = {}
    for position, message in enumerate(messages):
        above = parent[position]
        if above == position:
            members[position] = [message]
        else:
            # Nearly always the root itself.
            members[above if parent[above] == above else root(above)].append(message)
    return tuple([_unit(unit) for unit in members.values()])


def _pairs(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """Return the indices of each result and of its call."""
    pairs: list[tuple[int, int]] = []
    unanswered: dict[str, list[int]] = {}
    answered: dict[str, int] = {}
    early: list[tuple[str, int]] = []
    paired = [(index, each) for index, each in enumerate(messages) if each.calls or each.answers]
    for position, message in paired:
        for call in message.calls:
            unanswered.setdefault(call, []).append(position)
        for answer in message.answers:
            waiting = unanswered.get(answer)
            if waiting:
                answered[answer] = waiting.pop()
            if answer in answered:
                pairs.append((answered[answer], position))
            else:
                early.append((answer, position))
    pairs += [
        (unanswered[answer][0], position) for answer, position in early if unanswered.get(answer)
    ]
    return pairs


def _unit(messages: list[Message]) -> Unit:
    if len(messages) == 1:
        return Unit((messages[0].index,), (messages[0],))
    return Unit(tuple([message.index for message in messages]), tuple(messages))


class Ledger:
    """The call ids made and answered so far; the validators pair calls and results with it."""

    __slots__ = ("_answered", "_unanswered")

    def __init__(self) -> None:
        self._unanswered: dict[str, int] = {}
        self._answered: set[str] = set()

    def call(self, call: str) -> bool:
        """Record a call; return whether its id was called before."""
        is_repeated = call in self._unanswered
        self._unanswered[call] = self._unanswered.get(call, 0) + 1
        return is_repeated

    def answer(self, answer: str) -> bool:
        """Record a result; return whether it is one too many for its id."""
        if self._unanswered.get(answer):
            self._unanswered[answer] -= 1
            self._answered.add(answer)
            return False
        return answer in self._answered

    def knows(self, call: object) -> bool:
        """Return whether this id was called."""
        return isinstance(call, str) and call in self._unanswered


def user_message(text: str, format: str, *, is_turn: bool = True) -> Any:  # noqa: A002
    """Return a user's message in a format. `is_turn=False`: text that Rehydrate adds in the user's
    role, marked as no turn of the user where the format has such a mark.

    >>> user_message("hello", "anthropic")
    {'role': 'user', 'content': 'hello'}
    """
    if format == "langchain":
        from langchain_core.messages import HumanMessage

        return HumanMessage(text)
    message = {"role": "user", "content": text}
    if format != "claude_code":
        return message
    line = {"type": "user", "message": message}
    return line if is_turn else {**line, "isMeta": True}
