"""Listing: which outline a compaction makes, how large, where it stands, and which it replaces."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from rehydrate import _engine
from rehydrate.compact.outline import (
    OPENING,
    Listed,
    Names,
    Outline,
    Spec,
    check_outline,
    framed,
    outline_tokens,
    read_framed,
    write_outline,
)
from rehydrate.formats.thinking import ThinkingModel, thinking_model
from rehydrate.messages import Conversation, Message, Piece, PieceKind, Unit

if TYPE_CHECKING:
    from rehydrate import _native


BY_HANDLE = "load_memory reads a message by the handle before its names"


class Place(NamedTuple):
    """Where an outline stands, in indices of the list that came in; halves stand between two."""

    index: float  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    """Of the first message that is left out: it stands for it."""
    before: float
    """Of the message before which it stands; most often the same."""


class Listing(NamedTuple):
    """The outline of one compaction, as far as it is decided."""

    outline: Spec = False
    older: Mapping[float, Sequence[Listed]] = {}
    """By index, the outlines of earlier compactions: it takes their place."""
    older_tokens: int = 0
    room_tokens: int = 0
    place: Place | None = None
    """Where it stands; None where there is none."""

    @classmethod
    def asked(
        cls,
        outline: Spec,
        conversation: Conversation,
        target_of: Callable[[int], int],
        counter: str | _engine.CustomCounter,
    ) -> tuple[Self, Conversation]:
        """What is asked for, and the conversation without the outlines that it takes the place of.

        ``target_of`` says how many tokens may be left of so many: where all of them may, they stay.
        Or else they go even where none is asked for: nobody's last word may be an outline.
        Raises InvalidArgumentError for what is no size of an outline.
        """
        check_outline(outline)
        older = older_outlines(conversation)
        if not older:
            return cls(outline), conversation
        tokens = _engine.message_tokens(conversation.messages, counter)
        if sum(tokens) <= target_of(sum(tokens)):
            return cls(outline), conversation
        each = zip(conversation.messages, tokens, strict=True)
        older_tokens = sum(count for message, count in each if message.index in older)
        return cls(outline, older, older_tokens), without_messages(conversation, older)

    def waiting(self) -> Self:
        """The one of a compaction that changes nothing: older ones stay."""
        return self._replace(older={}, room_tokens=0, place=None)

    def selected(
        self,
        select: Callable[..., _native.Selection],
        conversation: Conversation,
        entries: Sequence[Any],
        model: str,
        before_tokens: int,
        target_tokens: int,
        pinned_tokens: int,
    ) -> tuple[Self, _native.Selection]:
        """The same with its place, and what is kept beside it of the conversation."""
        room = outline_tokens(self.outline, before_tokens, target_tokens - pinned_tokens)
        if not room or before_tokens <= target_tokens:
            return self, select(target_tokens=target_tokens)
        selection = select(target_tokens=target_tokens - room)
        units = zip(conversation.units, selection.kept, strict=True)
        kept = {index for unit, is_kept in units if is_kept for index in unit.members}
        row = thinking_model(model, conversation.format, entries)
        place = place_of_outline(conversation, kept, self.older, row)
        if place is None:
            return self, select(target_tokens=target_tokens)
        return self._replace(place=place, room_tokens=room), selection

    def write(
        self,
        conversation: Conversation,
        indices: Sequence[int],
        partly: Mapping[int, Message],
        handles: Mapping[int, str],
        most_tokens: int,
        counter: str | _engine.CustomCounter,
    ) -> Outline | None:
        """The outline beside the messages that are kept, by their indices; None where no name is
        left to list, or not even one fits. ``partly`` has those kept in part."""
        if most_tokens <= 0 or self.place is None:
            return None
        names = Names()
        names.add(
            conversation,
            frozenset(indices),
            lambda unit: _handle_of(unit, handles),
            partly=partly,
            older=self.older,
        )

        def cost(lines: str) -> int:
            message = Message(0, "user", (Piece(framed(lines), PieceKind.TEXT),))
            return _engine.message_tokens([message], counter)[0]

        how = BY_HANDLE if handles else ""
        lines = write_outline(names.best(most_tokens), how, lambda text: cost(text) <= most_tokens)
        if not lines:
            return None
        position = bisect_left(indices, self.place.before)
        return Outline(framed(lines), position, int(self.place.index), cost(lines))


def _handle_of(unit: Unit, handles: Mapping[int, str]) -> str:
    """That of the message that says most: of a call what it was given, or its result."""
    known = [message for message in unit.messages if message.index in handles]
    return handles[max(known, key=lambda each: len(each.text)).index] if known else ""


def older_outlines(conversation: Conversation) -> dict[float, list[Listed]]:
    """By index, the outlines that earlier compactions put into a conversation."""
    found: dict[float, list[Listed]] = {}
    for index, text in conversation.lone_texts(OPENING):
        listed = read_framed(text)
        if listed is not None:
            found[index] = listed
    return found


def without_messages(conversation: Conversation, indices: Collection[float]) -> Conversation:
    """The conversation without these messages, each of which is a unit by itself."""
    return conversation._replace(
        messages=tuple([each for each in conversation.messages if each.index not in indices]),
        units=tuple([unit for unit in conversation.units if unit.members[0] not in indices]),
    )


def place_of_outline(
    conversation: Conversation,
    kept: Collection[int],
    gone: Collection[float],
    model: ThinkingModel,
) -> Place | None:
    """Where the first message was left out and another may stand; None for nowhere.

    ``gone`` are indices of what was taken out of the conversation before. Never inside of a unit,
    and never behind a thought. A model that refuses a tool loop without the thinking it began with
    would take the outline for a new beginning: then it stands before the last user turn, unless
    that thinking is bound to what comes before it.
    """
    ends = {index: unit.members[-1] for unit in conversation.units for index in unit.members}
    message_at: dict[float, Message | None] = dict.fromkeys(gone)
    message_at |= {message.index: message for message in conversation.messages}
    open_until, before = -1, None
    for index in sorted(message_at):
        message = message_at[index]
        if message is not None and index in kept:
            open_until, before = max(open_until, ends[message.index]), message
        elif index > open_until and not _ends_in_thought(before):
            return _before_the_loop(conversation, kept, index, model)
    return None


def _before_the_loop(
    conversation: Conversation, kept: Collection[int], index: float, model: ThinkingModel
) -> Place | None:
    """The place, or where it may stand instead."""
    turns = [each.index for each in conversation.messages if each.is_user_turn]
    last_turn = turns[-1] if turns else -1
    if index < last_turn or model.open_loop == "any":
        return Place(index, index)
    begins_by_thinking = any(
        piece.kind == PieceKind.THINKING
        for each in conversation.messages
        if each.index > last_turn and each.index in kept
        for piece in each.pieces
    )
    if not begins_by_thinking:
        return Place(index, index)
    return None if model.binds_prefix or last_turn < 0 else Place(index, last_turn)


def _ends_in_thought(message: Message | None) -> bool:
    return (
        message is not None
        and bool(message.pieces)
        and message.pieces[-1].kind == PieceKind.THINKING
    )
