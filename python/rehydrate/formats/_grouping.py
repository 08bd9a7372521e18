"""Grouping of messages into atomic units: a tool call, its results, and what cannot stand alone.

One algorithm for every format, on `Message.calls` and `Message.answers` alone. A result belongs
to the latest call of its id that nothing has answered; failing that, to the call that was answered
(so that a second result leaves together with the first); failing that, to a later call. On valid
input this is plain pairing. On broken input it keeps every pair that exists together, and since
pairing never depends on other units, dropping whole units breaks nothing that was not broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from rehydrate.messages import Message, Unit

__all__ = ["Ledger", "group"]


def group(messages: Sequence[Message], links: Iterable[tuple[int, int]] = ()) -> tuple[Unit, ...]:
    """Partition messages into units, ordered by first member.

    `links` are pairs of positions in `messages` that belong together for reasons of the format.
    """
    parent = list(range(len(messages)))

    def root(position: int) -> int:
        while parent[position] != position:
            parent[position] = position = parent[parent[position]]
        return position

    def join(one: int, other: int) -> None:
        # The smaller position is the root, so that units come out ordered by first member.
        one, other = root(one), root(other)
        if one < other:
            parent[other] = one
        else:
            parent[one] = other

    for one, other in chain(_pairs(messages), links):
        # Nearly always two that nothing was joined with yet.
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
    """The positions of each result and of the call that it belongs to."""
    pairs: list[tuple[int, int]] = []
    unanswered: dict[str, list[int]] = {}
    answered: dict[str, int] = {}
    early: list[tuple[str, int]] = []
    paired = [(place, each) for place, each in enumerate(messages) if each.calls or each.answers]
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
    """Which call ids were made and answered so far: the validators' view of the same pairing."""

    __slots__ = ("_answered", "_unanswered")

    def __init__(self) -> None:
        self._unanswered: dict[str, int] = {}
        self._answered: set[str] = set()

    def call(self, call: str) -> bool:
        """Note a call; true if its id was called before."""
        is_repeated = call in self._unanswered
        self._unanswered[call] = self._unanswered.get(call, 0) + 1
        return is_repeated

    def answer(self, answer: str) -> bool:
        """Note a result; true if it is one too many for its id."""
        if self._unanswered.get(answer):
            self._unanswered[answer] -= 1
            self._answered.add(answer)
            return False
        return answer in self._answered

    def knows(self, call: object) -> bool:
        """Whether this id was called."""
        return isinstance(call, str) and call in self._unanswered


def user_message(text: str, format: str, *, is_turn: bool = True) -> Any:  # noqa: A002
    """What the user says, as a message of a format; or what we say in the user's name, which is no
    turn of the user's where the format can say so.

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
