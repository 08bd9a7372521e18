"""The frozen values that every format is read into: Piece, Message, Unit, Conversation.

A format module reads a provider's entries into a `Conversation`. Everything after it (counting,
embedding, scoring, packing) uses only these values, and returns indices into the caller's list. The
entries themselves are never copied and never changed.

Named tuples, not dataclasses: they are made by the thousand, in C.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    from rehydrate._native import Columns

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

    @property
    def only_thinks(self) -> bool:
        """Whether it holds nothing but thinking, which may have no text."""
        is_thought = all(piece.kind == PieceKind.THINKING for piece in self.pieces)
        return is_thought and not (self.calls or self.answers or self.images)


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


_MAX_PROBLEMS = 5
_KEPT = ("format", "ignored", "user_first", "bound", "opening", "unknown")

SHAPES = (Piece, Message, Unit, tuple(PieceKind))
"""The classes of which columns make named tuples."""


class Conversation:
    """A caller's list, read: `messages` in order, partitioned into `units` by first member.

    `ignored` are the indices of entries that are not messages (progress lines of a transcript);
    every index of the list is in exactly one unit or in `ignored`. `user_first` says whether the
    provider wants the first message to be the user's. `bound` are the indices of messages that are
    always kept. They refer to data of the provider (an earlier response, a compaction), or the
    provider refuses the rest without them (a thought without text that begins an open tool loop).

    `opening` are those of the bound ones that are kept only for the thought that begins an open
    tool loop. `unknown` are the types of blocks that no format knows, and how many there are: they
    are counted by what can be read in them.

    `columns` is the same conversation in columns, as the engine takes it. A native reader makes
    nothing else: named tuples are made of it once somebody asks for them, since making thousands of
    them in every call would take longer than the engine does. Where there are only named tuples,
    the engine makes the columns.
    """

    __slots__ = (
        *("_messages", "_units", "bound", "columns", "format", "ignored", "opening", "unknown"),
        "user_first",
    )
    __match_args__ = ("format", "messages", "units", "ignored", "user_first", "bound")

    def __init__(
        self,
        format: str,  # noqa: A002  the field's word
        messages: tuple[Message, ...] | None,
        units: tuple[Unit, ...] | None,
        ignored: tuple[int, ...] = (),
        user_first: bool = False,
        bound: tuple[int, ...] = (),
        *,
        columns: Columns | None = None,
        opening: tuple[int, ...] = (),
        unknown: Mapping[str, int] | None = None,
    ) -> None:
        """Hold what was read: messages and units, or ``columns``."""
        self.format = format
        self._messages = messages
        self._units = units
        self.ignored = ignored
        self.user_first = user_first
        self.bound = bound
        self.columns = columns
        self.opening = opening
        self.unknown = unknown or {}

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages, in order."""
        found = self._messages
        if found is None:
            assert self.columns is not None
            found = self._messages = self.columns.messages(SHAPES)
        return found

    @property
    def units(self) -> tuple[Unit, ...]:
        """All units, in the order of their first messages."""
        found = self._units
        if found is None:
            assert self.columns is not None
            found = self._units = self.columns.units(self.messages, SHAPES)
        return found

    @property
    def message_count(self) -> int:
        """How many messages there are."""
        return len(self.messages) if self.columns is None else len(self.columns)

    @property
    def unit_count(self) -> int:
        """How many units there are."""
        return len(self.units) if self.columns is None else self.columns.unit_count

    @property
    def indices(self) -> list[int]:
        """The index of each message."""
        if self.columns is not None:
            return self.columns.indices
        return [message.index for message in self.messages]

    @property
    def roles(self) -> list[str]:
        """The roles that occur."""
        if self.columns is not None:
            return self.columns.roles
        return list(dict.fromkeys([message.role for message in self.messages]))

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence on each type of block that no format knows."""
        return problems_of(self.unknown)

    def _replace(self, **changes: Any) -> Conversation:
        """Return the same conversation with other values under these names."""
        columns = None if changes.keys() & {"messages", "units"} else self.columns
        if columns is None:
            changes = {"messages": self.messages, "units": self.units, **changes}
        else:
            changes = {"messages": self._messages, "units": self._units, **changes}
        kept = {name: getattr(self, name) for name in _KEPT}
        return Conversation(**{**kept, **changes}, columns=columns)

    def __eq__(self, other: object) -> bool:
        """Compare the values; how they are held makes no difference."""
        if not isinstance(other, Conversation):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        """Hash the values."""
        return hash(self._values())

    def __reduce__(self) -> tuple[type[Conversation], tuple[Any, ...]]:
        """Copy and pickle the values; columns are made again where they are wanted."""
        return Conversation, self._values()

    def _values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.__match_args__])

    def __repr__(self) -> str:
        """Show the values."""
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"Conversation({values})"

    def kept_messages(self, kept_units: Sequence[bool]) -> list[bool]:
        """Return for each message whether its unit is kept."""
        if self.columns is not None:
            return self.columns.kept_messages(kept_units)
        dropped = set(self.dropped_indices(kept_units))
        return [message.index not in dropped for message in self.messages]

    def dropped_indices(self, kept_units: Sequence[bool]) -> list[int]:
        """Return the indices of the messages in units that are not kept, unit after unit."""
        if self.columns is not None:
            return self.columns.dropped_indices(kept_units)
        units = zip(self.units, kept_units, strict=True)
        return [index for unit, is_kept in units if not is_kept for index in unit.members]

    def lone_texts(self, beginning: str) -> list[tuple[int, str]]:
        """Return index and text of each user's message of one text that is a unit by itself, if the
        text begins like this."""
        if self.columns is not None:
            return self.columns.lone_texts(beginning)
        return [
            (message.index, message.pieces[0].text)
            for message, *others in (unit.messages for unit in self.units)
            if message.role == "user"
            and not others
            and len(message.pieces) == 1
            and message.pieces[0].text.startswith(beginning)
        ]

    def uncommon_indices(self) -> list[int]:
        """Return the indices of messages with more than texts, images, calls and their results."""
        return self.indices if self.columns is None else self.columns.uncommon()

    def thoughtful_indices(self) -> list[int]:
        """Return the indices of all messages that may hold a thought."""
        return self.indices if self.columns is None else self.columns.thoughtful()

    def last_user_message(self) -> Message | None:
        """Return the message in which the user spoke last."""
        if self.columns is not None:
            found = self.columns.last_user_turn()
            return None if found is None else self.columns.message(found[0], SHAPES)
        return next((each for each in reversed(self.messages) if each.is_user_turn), None)

    def last_user_turn(self) -> int | None:
        """Return the unit with the last user turn."""
        if self.columns is not None:
            found = self.columns.last_user_turn()
            return None if found is None else found[1]
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
        missing, or all there, or followed by text of the user's. A thought alone answers nothing:
        the model is still at it.
        """
        if self.columns is not None:
            return self.columns.open_tool_loop()
        units = self.units
        for message in reversed(self.messages):
            if message.role == "assistant" and not message.only_thinks:
                for position in range(len(units) - 1, -1, -1):
                    if message.index in units[position].members:
                        return position if units[position].calls_tools else None
        return None

    def loop_start(self) -> tuple[int, int | None] | None:
        """Return the index from which on the model speaks under the open tool loop, after the
        user's last turn before it, and the index of its first message there; None without a loop.
        """
        if self.columns is not None:
            return self.columns.loop_start()
        loop = self.open_tool_loop()
        if loop is None:
            return None
        first = self.units[loop].members[0]
        turns = [m.index for m in self.messages if m.is_user_turn and m.index < first]
        start = turns[-1] + 1 if turns else 0
        said = (m.index for m in self.messages if m.role == "assistant" and m.index >= start)
        return start, next(said, None)

    def answered_reply(self) -> int | None:
        """Return the unit with the last assistant message before the last user turn: the reply that
        the user answers, as in "yes, the second one"."""
        if self.columns is not None:
            return self.columns.answered_reply()
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

        With thinking enabled, Anthropic refuses a turn that does not begin with it. OpenAI has no
        such rule.
        """
        if self.format == "openai_responses":
            return None
        if self.columns is not None:
            return self.columns.thoughts_of_open_loop()
        _, opening = self.loop_start() or (0, None)
        first = next((each for each in self.messages if each.index == opening), None)
        if first is None or not any(piece.kind == PieceKind.THINKING for piece in first.pieces):
            return None
        return self.units_holding([first.index])[0]

    def turn_of_open_loop(self) -> int | None:
        """Return the unit with the user turn that an open tool loop works on: the last one before
        it. It is not the last user turn if the user also writes next to a result."""
        start, _ = self.loop_start() or (0, None)
        return self.units_holding([start - 1])[0] if start else None

    def pins(self, *, thoughts: bool = True) -> dict[int, str]:
        """Return the units that are always kept, with the reason: system, last user turn, open tool
        loop and the turn it works on, bound ones.

        ``thoughts=False`` leaves out those kept only for the thinking that begins a loop.
        """
        pins = dict.fromkeys(self._system_units(), "system")
        for position, why in (
            (self.last_user_turn(), "last user turn"),
            (self.turn_of_open_loop(), "last user turn"),
            (self.open_tool_loop(), "open tool loop"),
            (self.thoughts_of_open_loop() if thoughts else None, "open tool loop"),
        ):
            if position is not None:
                pins.setdefault(position, why)
        bound = [each for each in self.bound if thoughts or each not in self.opening]
        for position in self.units_holding(bound) if bound else ():
            pins.setdefault(position, "bound to what the provider holds")
        return pins

    def _system_units(self) -> list[int]:
        if self.columns is not None:
            return self.columns.system_units()
        return [
            position
            for position, unit in enumerate(self.units)
            if any(message.role == "system" for message in unit.messages)
        ]

    def kept_for_words(self) -> frozenset[int]:
        """Return the units always kept only for their text, although they may hold tool results: a
        user may write in the message that answers a call, and a system message be bound to one."""
        words = {self.last_user_turn(), self.turn_of_open_loop()}
        units = {*words, *self._system_units()} - {
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
        if self.columns is not None:
            return tuple(self.columns.units_holding(list(indices)))
        wanted = set(indices)
        return tuple(
            position
            for position, unit in enumerate(self.units)
            if not wanted.isdisjoint(unit.members)
        )


def problems_of(unknown: Mapping[str, int]) -> tuple[str, ...]:
    """Return a sentence on each type of block that no format knows.

    >>> problems_of({"hologram": 2})
    ("blocks of the type 'hologram' are of no format here: 2 are counted by what can be read",)
    """
    return tuple(
        [
            f"blocks of the type {name!r} are of no format here: {count} "
            f"{'is' if count == 1 else 'are'} counted by what can be read"
            for name, count in sorted(unknown.items())[:_MAX_PROBLEMS]
        ]
    )


def normal_role(role: str) -> str:
    """Return system, user, assistant or tool; any other string unchanged."""
    return _NORMAL_ROLES.get(role, role)


Provider = Literal["anthropic", "openai_chat", "openai_responses"]
FormatName = Literal[
    "claude_code", "codex", "openai_responses", "openai_chat", "anthropic", "langchain", "plain"
]
FORMAT_NAMES: tuple[FormatName, ...] = get_args(FormatName)
"""The formats of messages, in the order of their detection (`rehydrate.formats.FORMATS`)."""

PROVIDER_OF: Mapping[str, Provider] = {"claude_code": "anthropic", "codex": "openai_responses"}
"""The formats of agents' transcripts, and the provider whose messages are in their lines. What a
line means depends on other lines."""


PROVIDERS: tuple[Provider, ...] = ("anthropic", "openai_chat", "openai_responses")
