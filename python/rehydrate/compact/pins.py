"""Which units are kept whatever they cost, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rehydrate.errors import InvalidArgumentError
from rehydrate.messages import Conversation


class Pinned(NamedTuple):
    """What is always kept."""

    reasons: dict[int, str]
    """By unit, why."""
    by_caller: tuple[int, ...]
    """The units that the caller pinned."""


def pinned_units(
    conversation: Conversation,
    messages: Sequence[Any],
    pin: Iterable[Any],
    *,
    thoughts: bool = True,
    reply: bool = True,
) -> Pinned:
    """Units that are always kept, with the reason: the conversation's own and the caller's.

    `pin` holds indices into `messages` or the very objects; without `thoughts` nothing is kept for
    the thinking alone that an open tool loop begins with, and without `reply` not the assistant's
    reply that the last user turn answers. Raises InvalidArgumentError for
    anything else.
    """
    if isinstance(pin, (int, str, Mapping)) or not isinstance(pin, Iterable):
        raise InvalidArgumentError(
            f"pin is of type {type(pin).__name__}; pass a list of indices or message objects"
        )
    pins = conversation.pins(thoughts=thoughts, reply=reply)
    indices = [_index_of(messages, entry) for entry in pin]
    wanted = conversation.units_holding(indices) if indices else ()
    for unit in wanted:
        pins.setdefault(unit, "pinned by the caller")
    return Pinned(pins, wanted)


def _index_of(messages: Sequence[Any], entry: Any) -> int:
    if isinstance(entry, int) and not isinstance(entry, bool):
        if -len(messages) <= entry < len(messages):
            return entry % len(messages)
        raise InvalidArgumentError(
            f"pin names message {entry} of {len(messages)}; "
            f"an index goes from {-len(messages)} to {len(messages) - 1}"
        )
    for index, message in enumerate(messages):
        if message is entry:
            return index
    raise InvalidArgumentError(
        f"pin holds a {type(entry).__name__} that is none of the messages; "
        "pass an index, or the very object that is in the list"
    )
