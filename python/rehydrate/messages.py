"""The frozen values that every format is read into: Piece, Message, Unit, Conversation.

A format module reads a provider's entries into a `Conversation`. Everything after it (counting,
embedding, scoring, packing) uses only these values, and returns indices into the caller's list. The
entries themselves are never copied and never changed.

Named tuples, not dataclasses: they are made by the thousand on the hot path, in C.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Literal, NamedTuple

__all__ = ["Conversation", "Message", "Piece", "PieceKind", "Unit", "normal_role"]


_NORMAL_ROLES = {"developer": "system", "function": "tool", "tool_result": "tool"}


class PieceKind(IntEnum):
    """The kind of a text, which decides how much of it an agent will need again."""

    TEXT = 0
    TOOL_INPUT = 1
    TOOL_RESULT = 2
    THINKING = 3


class Piece(NamedTuple):
    """One text of a message; a tool call's is its name, a blank and its input as compact JSON."""

    text: str
    kind: PieceKind


class Message(NamedTuple):
    """One entry of the caller's list, as the engine sees it.

    `role` is system, user, assistant, tool, or any other string in the entry. `images` counts
    images, documents and other media, which cost a constant and are never text. `calls` and
    `answers` hold the ids of tool calls and of tool results. `is_user_turn` is true for text of the
    user's own, false for tool results and for text that a harness writes as the user.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    role: str
    pieces: tuple[Piece, ...]
    images: int = 0
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    is_user_turn: bool = False

    @property
    def text(self) -> str:
        """All its pieces, a line break between them."""
        return "\n".join(piece.text for piece in self.pieces)


class Unit(NamedTuple):
    """Messages that are kept or dropped together; `members` are their indices, ascending."""

    members: tuple[int, ...]
    messages: tuple[Message, ...]

    @property
    def role(self) -> str:
        """The role of its first message: assistant for a call with its results."""
        return self.messages[0].role

    @property
    def is_system(self) -> bool:
        """Whether all its messages are the system's."""
        # The first message decides for nearly all units, and every call asks all units.
        messages = self.messages
        return messages[0].role == "system" and all(item.role == "system" for item in messages)

    @property
    def is_user_turn(self) -> bool:
        """Whether it holds a user turn."""
        return any(message.is_user_turn for message in self.messages)

    @property
    def opens_with_user(self) -> bool:
        """Whether a conversation may start here for a provider that wants a user message first.

        Not with a message of only white space: Claude Code leaves it out when it sends.
        """
        first = self.messages[0]
        if first.role != "user" or first.answers:
            return False
        return first.images > 0 or any(not piece.text.isspace() for piece in first.pieces)

    @property
    def calls_tools(self) -> bool:
        """Whether it holds a tool call that the client must answer (server tools answer in the
        assistant's own message)."""
        called = {call for message in self.messages for call in message.calls}
        if not called:
            return False
        for message in self.messages:
            if message.role == "assistant":
                called.difference_update(message.answers)
        return bool(called)


class Conversation(NamedTuple):
    """A caller's list, read: `messages` in order, partitioned into `units` by first member.

    `ignored` are the indices of entries that are no messages (progress lines of a transcript);
    every index of the list is in exactly one unit or in `ignored`. `user_first` says whether the
    provider wants the first message to be the user's. `bound` are the indices of messages that are
    always kept. They refer to data of the provider (an earlier response, a compaction), or the
    provider refuses the rest without them (a thought without text that begins an open tool loop).
    """

    format: str
    messages: tuple[Message, ...]
    units: tuple[Unit, ...]
    ignored: tuple[int, ...] = ()
    user_first: bool = False
    bound: tuple[int, ...] = ()

    def last_user_turn(self) -> int | None:
        """Return the unit with the last user turn."""
        units = self.units
        last: int | None = None
        last_index = -1
        # By message, not by unit: units may interleave, and a user may speak amid tool results.
        for position, unit in enumerate(units):
            for message in reversed(unit.messages):
                if message.is_user_turn:
                    if message.index > last_index:
                        last, last_index = position, message.index
                    break
        return last

    def open_tool_loop(self) -> int | None:
        """Return the unit whose tool calls or results no assistant message has reacted to yet.

        It is the unit of the last assistant message, if that unit calls tools. Results may be
        missing, or all there, or followed by text of the user's.
        """
        units = self.units
        for message in reversed(self.messages):
            if message.role == "assistant":
                for position in range(len(units) - 1, -1, -1):
                    if message.index in units[position].members:
                        return position if units[position].calls_tools else None
        return None

    def answered_reply(self) -> int | None:
        """Return the unit with the last assistant message before the last user turn: the reply that
        the user answers, as in "yes, the second one"."""
        has_user_turn = False
        for message in reversed(self.messages):
            if not has_user_turn:
                has_user_turn = message.is_user_turn
            elif message.role == "assistant" and any(
                piece.kind == PieceKind.TEXT and piece.text.strip() for piece in message.pieces
            ):
                return self.units_holding([message.index])[0]
        return None

    def thoughts_of_open_loop(self) -> int | None:
        """Return the unit in which the model began the turn of an open tool loop, if with thinking.

        With thinking enabled, Anthropic refuses a turn that does not begin with it.
        """
        if self.open_tool_loop() is None:
            return None
        first: Message | None = None
        for message in reversed(self.messages):
            if message.is_user_turn:
                break
            if message.role == "assistant":
                first = message
        if first is None or not any(piece.kind == PieceKind.THINKING for piece in first.pieces):
            return None
        return self.units_holding([first.index])[0]

    def pins(self, *, thoughts: bool = True, reply: bool = True) -> dict[int, str]:
        """Return the units that are always kept, with the reason: system, last user turn and the
        reply that it answers, open tool loop, bound ones.

        ``thoughts=False`` leaves out those kept only for the thinking that begins a loop;
        ``reply=False`` leaves out the reply.
        """
        pins = {position: "system" for position, unit in enumerate(self.units) if unit.is_system}
        for position, why in (
            (self.last_user_turn(), "last user turn"),
            (self.open_tool_loop(), "open tool loop"),
            (self.thoughts_of_open_loop() if thoughts else None, "open tool loop"),
            (self.answered_reply() if reply else None, "reply that the user answers"),
        ):
            if position is not None:
                pins.setdefault(position, why)
        for position in self.units_holding(self.bound) if self.bound and thoughts else ():
            pins.setdefault(position, "bound to what the provider holds")
        return pins

    def kept_for_words(self) -> frozenset[int]:
        """Return the units always kept only for their text, although they may hold tool results: a
        user may write in the message that answers a call, and the reply may have called tools."""
        units = {self.last_user_turn(), self.answered_reply()} - {
            self.open_tool_loop(),
            self.thoughts_of_open_loop(),
            *self.units_holding(self.bound),
        }
        return frozenset(unit for unit in units if unit is not None)

    def unit_of(self) -> dict[int, int]:
        """Return message index -> unit."""
        return {
            index: position for position, unit in enumerate(self.units) for index in unit.members
        }

    def units_holding(self, indices: Iterable[int]) -> tuple[int, ...]:
        """Return the units of these indices, ascending; ignored entries have none."""
        wanted = set(indices)
        return tuple(
            position
            for position, unit in enumerate(self.units)
            if not wanted.isdisjoint(unit.members)
        )


def normal_role(role: str) -> str:
    """Return system, user, assistant or tool; any other string unchanged."""
    return _NORMAL_ROLES.get(role, role)


Provider = Literal["anthropic", "openai_chat", "openai_responses"]


PROVIDERS: tuple[Provider, ...] = ("anthropic", "openai_chat", "openai_responses")
