"""Conversations read and grouped slowly and plainly: the twin of the native readers and columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from rehydrate.formats import anthropic, claude_code, openai_chat, plain
from rehydrate.messages import Conversation, Message, Unit

LINKED = {"anthropic": anthropic, "openai_chat": openai_chat, "plain": plain}


def read_slowly(name: str, entries: Sequence[Any]) -> Conversation:
    """Read a list by the format's own reader of one entry, without columns."""
    if name == "claude_code":
        messages, links, ignored = claude_code.read_slowly(entries)
        units = group(messages, links)
        return Conversation(name, tuple(messages), units, tuple(ignored), user_first=True)
    messages, links = [], []
    before: int | None = None  # the thought or the calls that the next message may belong to
    for index, entry in enumerate(entries):
        message, is_linked = LINKED[name]._read_entry(entry, index)
        messages.append(message)
        if name == "anthropic" and message.role == "assistant":
            links += [] if before is None else [(before, index)]
            before = index if is_linked else None
        elif name == "anthropic" and message.role != "system":
            before = None
        elif name == "openai_chat" and message.role == "tool":
            links += [] if before is None or message.answers else [(before, index)]
        elif name == "openai_chat":
            before = index if is_linked else None
    others = [message.role for message in messages if message.role != "system"]
    user_first = name == "anthropic" or (name == "plain" and others[:1] == ["user"])
    bound = _opening_thought(entries, messages) if name == "anthropic" else ()
    units = group(messages, links)
    return Conversation(name, tuple(messages), units, (), user_first, bound)


def _opening_thought(entries: Sequence[Any], messages: Sequence[Message]) -> tuple[int, ...]:
    first: Message | None = None
    for message in reversed(messages):
        if message.role == "assistant":
            first = message
        elif not message.answers:
            break
    if first is None or first is messages[-1]:
        return ()
    begins = anthropic._begins_with_thought(entries[first.index])
    has_piece = any(piece.kind == anthropic._THINKING for piece in first.pieces)
    return (first.index,) if begins and not has_piece else ()


def group(messages: Sequence[Message], links: Iterable[tuple[int, int]] = ()) -> tuple[Unit, ...]:
    """Partition messages into units, ordered by first member.

    It reads only `Message.calls` and `Message.answers`. A result belongs to the latest unanswered
    call of its id; else to the answered call, so that a second result leaves together with the
    first; else to a later call. On valid input this is plain pairing. On broken input it keeps
    every pair that exists together. Pairing never depends on other units, so dropping whole units
    breaks nothing more.

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
