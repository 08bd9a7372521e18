"""thinking="strip": the conversation without the model's thinking, but for its open tool loop.

Providers take what was said without the thoughts that led to it. They do not take a tool loop under
way that lost them, so what the model said since the user's last turn stays as it is while its
tools are at work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rehydrate import _engine, formats
from rehydrate.messages import Conversation, Message, Unit


class Stripped(NamedTuple):
    """A conversation read anew without its thinking; places are those of the list that came in."""

    conversation: Conversation
    entries: Sequence[Any]
    """Parallel to the list that came in: None for what was nothing but thinking."""
    tokens: dict[int, int]
    """By the place of each message that was changed or left out, the tokens it lost by it."""
    unit_tokens: dict[int, int]
    """The same by unit, as far as something is left of it."""


class Unthinking(NamedTuple):
    """What is left of a conversation, and of its entries; places are those that came in."""

    conversation: Conversation
    entries: Sequence[Any]


def treat_thinking(
    policy: str,
    conversation: Conversation,
    entries: Sequence[Any],
    counter: str | _engine.CustomCounter,
) -> Stripped:
    """The conversation of these entries as it is, or without its thinking under "strip".

    The entries are not changed.
    """
    if policy == "keep":
        return Stripped(conversation, entries, {}, {})
    rest, shown = without_thinking(conversation, entries)
    changed = _changed(conversation, shown, entries)
    if not changed:
        return Stripped(conversation, entries, {}, {})
    before = {message.index: message for message in conversation.messages}
    after = {message.index: message for message in rest.messages}
    lost = _engine.message_tokens([before[place] for place in changed], counter)
    left = [after.get(place, Message(place, "", ())) for place in changed]
    spared = zip(changed, lost, _engine.message_tokens(left, counter), strict=True)
    tokens = {place: was - now for place, was, now in spared}
    return Stripped(rest, shown, tokens, _by_unit(tokens, conversation, rest))


def without_thinking(conversation: Conversation, entries: Sequence[Any]) -> Unthinking:
    """The conversation of these entries without its thinking, but for its open tool loop."""
    shown = formats.FORMATS[conversation.format].without_thinking(entries)
    if not _changed(conversation, shown, entries):
        return Unthinking(conversation, entries)
    # Whether a loop is open is asked without thoughts: one that stands alone behind the results
    # is no answer to them.
    rest = _read(conversation, shown)
    start = _loop_start(rest)
    if start is not None:
        shown[start:] = entries[start:]
        rest = _read(conversation, shown)
    return Unthinking(rest, shown)


def _changed(conversation: Conversation, shown: Sequence[Any], entries: Sequence[Any]) -> list[int]:
    places = [message.index for message in conversation.messages]
    return [place for place in places if shown[place] is not entries[place]]


def _read(conversation: Conversation, shown: Sequence[Any]) -> Conversation:
    """Read what is left of its messages, under the places of the whole list."""
    places = [m.index for m in conversation.messages if shown[m.index] is not None]
    rest = formats.FORMATS[conversation.format].parse([shown[place] for place in places])
    messages = tuple([message._replace(index=places[message.index]) for message in rest.messages])
    by_place = {message.index: message for message in messages}
    units = []
    for unit in rest.units:
        members = tuple([places[index] for index in unit.members])
        units.append(Unit(members, tuple([by_place[place] for place in members])))
    return rest._replace(
        messages=messages,
        units=tuple(units),
        ignored=conversation.ignored,
        bound=tuple([places[index] for index in rest.bound]),
    )


def _loop_start(conversation: Conversation) -> int | None:
    """Where what the model says under the open tool loop begins: behind the user's last turn."""
    loop = conversation.open_tool_loop()
    if loop is None:
        return None
    first = conversation.units[loop].members[0]
    turns = [m.index for m in conversation.messages if m.is_user_turn and m.index < first]
    return turns[-1] + 1 if turns else 0


def _by_unit(tokens: dict[int, int], before: Conversation, after: Conversation) -> dict[int, int]:
    unit_of = {index: unit for unit, whole in enumerate(after.units) for index in whole.members}
    members = {index: whole.members for whole in before.units for index in whole.members}
    lost: dict[int, int] = {}
    for place, count in tokens.items():
        unit = next((unit_of[index] for index in members[place] if index in unit_of), None)
        if unit is not None:
            lost[unit] = lost.get(unit, 0) + count
    return lost
