"""A conversation whose every answer is found in its named tuples: the twin of the native one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rehydrate.messages import Conversation, Message, PieceKind, Unit

_NO_ID_CHARACTER = re.compile(r"[^a-zA-Z0-9_-]")


class SlowConversation(NamedTuple):
    """Messages in units, as `rehydrate.messages.Conversation` has them."""

    format: str
    messages: tuple[Message, ...]
    units: tuple[Unit, ...]
    bound: tuple[int, ...]
    opening: tuple[int, ...]

    @classmethod
    def of(cls, fast: Conversation) -> SlowConversation:
        """Return the same conversation."""
        return cls(fast.format, fast.messages, fast.units, fast.bound, fast.opening)

    @property
    def indices(self) -> list[int]:
        """The index of each message."""
        return [message.index for message in self.messages]

    @property
    def roles(self) -> list[str]:
        """The roles that occur."""
        return list(dict.fromkeys([message.role for message in self.messages]))

    def kept_messages(self, kept_units: Sequence[bool]) -> list[bool]:
        """Return for each message whether its unit is kept."""
        dropped = set(self.dropped_indices(kept_units))
        return [message.index not in dropped for message in self.messages]

    def dropped_indices(self, kept_units: Sequence[bool]) -> list[int]:
        """Return the indices of the messages in units that are not kept, unit after unit."""
        units = zip(self.units, kept_units, strict=True)
        return [index for unit, is_kept in units if not is_kept for index in unit.members]

    def lone_texts(self, beginning: str) -> list[tuple[int, str]]:
        """Return index and text of each user's message of one text that is a unit by itself, if the
        text begins like this."""
        return [
            (message.index, message.pieces[0].text)
            for message, *others in (unit.messages for unit in self.units)
            if message.role == "user"
            and not others
            and len(message.pieces) == 1
            and message.pieces[0].text.startswith(beginning)
        ]

    def shared_ends(self, floats: bool) -> tuple[int | None, int | None]:
        """Return the indices of the last entries that a prompt shares with the next, and with the
        one before."""
        roles = [message.role for message in self.messages]
        if floats:
            turns = [
                message.index - 1 if message.index else None
                for n, message in enumerate(self.messages)
                if message.is_user_turn and not (n and roles[n - 1] == "user")
            ]
            last, before = [*reversed(turns), None, None][:2]
            return last, before
        count = len(roles)
        while count and roles[count - 1] != "assistant":
            count -= 1
        while count and roles[count - 1] == "assistant":
            count -= 1
        indices = self.indices
        return (indices[-1] if indices else None), (indices[count - 1] if count else None)

    def leading_system(self) -> int:
        """Return how many system entries the list begins with."""
        pairs = enumerate(self.messages)
        ends = (n for n, each in pairs if each.role != "system" or each.index != n)
        return next(ends, len(self.messages))

    def quoting(self, text: str) -> int | None:
        """Return the index of the first message that holds the text word for word."""
        found = (m.index for m in self.messages for piece in m.pieces if text in piece.text)
        return next(found, None)

    def last_user_message(self) -> Message | None:
        """Return the message in which the user spoke last."""
        return next((each for each in reversed(self.messages) if each.is_user_turn), None)

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
        missing, or all there, or followed by text of the user's. A message that only thinks is
        passed over; one that ends with a call or its own result is open.
        """
        units = self.units
        for message in reversed(self.messages):
            kinds = [each.kind for each in message.pieces if each.kind != PieceKind.THINKING]
            says = kinds or message.calls or message.answers or message.images
            if message.role == "assistant" and says:
                of_tool = kinds[-1:] in ([PieceKind.TOOL_INPUT], [PieceKind.TOOL_RESULT])
                is_open = bool(message.calls) and of_tool
                for position in range(len(units) - 1, -1, -1):
                    if message.index in units[position].members:
                        return position if units[position].calls_tools or is_open else None
        return None

    def loop_start(self) -> tuple[int, int | None] | None:
        """Return the index from which on the model speaks under the open tool loop, after the
        user's last turn before it, and the index of its first message there; None without a loop.
        """
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

    def units_holding(self, indices: Iterable[int]) -> list[int]:
        """Return the units of these indices, ascending; ignored entries have none."""
        wanted = set(indices)
        return [
            position
            for position, unit in enumerate(self.units)
            if not wanted.isdisjoint(unit.members)
        ]

    def first_said(self) -> tuple[int, str] | None:
        """Return index and role of the first message that is not the system's."""
        return next(((m.index, m.role) for m in self.messages if m.role != "system"), None)

    def last_turn_within(self, known: int) -> int:
        """Return the index of the entry that begins the last turn among the first ``known``
        entries; 0 where it is not certain that what is before it stays as it is."""
        messages = self.messages
        calls = [call for message in messages for call in message.calls]
        all_calls = set(calls)
        if len(all_calls) < len(calls) or any(map(_NO_ID_CHARACTER.search, calls)):
            return 0  # ids of calls are changed
        pending = set[str]()
        """Calls before a turn that are not answered before it."""
        for message in messages:
            pending.update(message.calls)
            if not pending.issuperset(all_calls.intersection(message.answers)):
                return 0  # answered twice, or before it was made
            pending.difference_update(message.answers)
        start = 0
        for before, message in zip(messages[-2::-1], messages[:0:-1], strict=True):
            pending.update(message.answers)
            pending.difference_update(message.calls)
            if message.role == "system" and before.role != "system":
                return 0  # one that comes late may be moved
            if not start and message.index <= known and not pending.intersection(all_calls):
                start = message.index if _begins_turn(message, before) else 0
        return start


def _begins_turn(message: Message, before: Message) -> bool:
    if message.role == "assistant":
        return before.role in ("user", "tool")
    return message.role == "user" and not message.answers and before.role == "assistant"
