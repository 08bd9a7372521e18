"""Late: system entries amid a conversation, put where they part no call from its results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

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
