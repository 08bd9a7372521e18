"""Where a conversation's turns and its open tool loop are, found slowly among its messages."""

from __future__ import annotations

from collections.abc import Sequence

from rehydrate.messages import Conversation, Message, PieceKind


def last_user_turn(conversation: Conversation) -> int | None:
    """Return the unit in which the user spoke last."""
    turns = [each.index for each in conversation.messages if each.is_user_turn]
    return conversation.unit_of()[max(turns)] if turns else None


def open_tool_loop(conversation: Conversation) -> int | None:
    """Return the unit whose calls or results no assistant message has reacted to yet."""
    said = [each for each in conversation.messages if _is_said(each)]
    if not said:
        return None
    unit = conversation.unit_of()[said[-1].index]
    members = conversation.units[unit].messages
    called = {call for each in members for call in each.calls}
    by_itself = {call for each in members if each.role == "assistant" for call in each.answers}
    waits = called - by_itself and not _reacts_to_all(said[-1], members)
    return unit if waits or _ends_with_tool(said[-1]) else None


def turn_of_open_loop(conversation: Conversation) -> int | None:
    """Return the unit with the user turn that the open tool loop works on."""
    start = _start(conversation)
    turn = None if start is None else start - 1
    return conversation.unit_of().get(turn) if turn is not None else None


def thoughts_of_open_loop(conversation: Conversation) -> int | None:
    """Return the unit in which the model began the turn of the open loop, if with thinking."""
    start = _start(conversation)
    if start is None or conversation.format == "openai_responses":
        return None
    said = [m for m in conversation.messages if m.role == "assistant" and m.index >= start]
    is_thought = said and any(piece.kind is PieceKind.THINKING for piece in said[0].pieces)
    return conversation.unit_of()[said[0].index] if is_thought else None


def _start(conversation: Conversation) -> int | None:
    """Return the index after the last user turn before the open loop."""
    unit = open_tool_loop(conversation)
    if unit is None:
        return None
    first = conversation.units[unit].members[0]
    turns = [each.index for each in conversation.messages if each.is_user_turn]
    return max([0, *(index + 1 for index in turns if index < first)])


def _is_said(message: Message) -> bool:
    """Return whether it is the assistant's, and more than a thought."""
    thinks = all(piece.kind is PieceKind.THINKING for piece in message.pieces)
    only_thinks = thinks and not (message.calls or message.answers or message.images)
    return message.role == "assistant" and not only_thinks


def _reacts_to_all(message: Message, members: Sequence[Message]) -> bool:
    """Return whether it ends with words, after the results of all calls of its unit."""
    before = {call for each in members if each.index <= message.index for call in each.answers}
    called = {call for each in members for call in each.calls}
    return called <= before and _kinds(message)[-1:] == [PieceKind.TEXT]


def _kinds(message: Message) -> list[PieceKind]:
    return [piece.kind for piece in message.pieces if piece.kind is not PieceKind.THINKING]


def _ends_with_tool(message: Message) -> bool:
    kinds = _kinds(message)
    of_tools = (PieceKind.TOOL_INPUT, PieceKind.TOOL_RESULT)
    return bool(message.calls and kinds and kinds[-1] in of_tools)
