"""OutlinePlan: the size of a compaction's outline, its slot, and the outlines that it replaces."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from rehydrate import _engine
from rehydrate.compact.outline import (
    OPENING,
    NameIndex,
    Outline,
    OutlineName,
    OutlineSize,
    fenced,
    outline_tokens,
    read_fenced,
    write_outline,
)
from rehydrate.formats.thinking import ThinkingModel, thinking_model
from rehydrate.messages import Conversation, Message, PieceKind, Unit

if TYPE_CHECKING:
    from rehydrate import _native


BY_HANDLE = "load_memory reads a message by the handle before its names"


class Slot(NamedTuple):
    """Where an outline goes, in indices of the caller's list; a half lies between two messages."""

    index: float  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    """The index of the first dropped message."""
    before: float
    """The index of the message that the outline is put before; usually the same."""


class OutlinePlan(NamedTuple):
    """The outline of one compaction, as far as it is decided."""

    size: OutlineSize = False
    replaced: Mapping[float, Sequence[OutlineName]] = {}
    """Index -> names, for the outlines of earlier compactions that this one replaces."""
    replaced_tokens: int = 0
    max_tokens: int = 0
    slot: Slot | None = None
    """None if there is no outline."""

    @classmethod
    def of(
        cls,
        size: OutlineSize,
        conversation: Conversation,
        target_of: Callable[[int], int],
        counter: str | _engine.CustomCounter,
    ) -> tuple[Self, Conversation]:
        """Return the plan, and the conversation without the outlines that it replaces.

        ``target_of`` maps the tokens that came in to the target. Earlier outlines stay only if
        everything fits the target. Otherwise they go, even if no new one is wanted: an outline must
        not be kept as somebody's last message. Raises InvalidArgumentError for a bad size.
        """
        replaced = _earlier_outlines(conversation)
        if not replaced:
            return cls(size), conversation
        tokens = _engine.message_tokens(conversation, counter)
        if sum(tokens) <= target_of(sum(tokens)):
            return cls(size), conversation
        counted = zip(conversation.messages, tokens, strict=True)
        replaced_tokens = sum(count for message, count in counted if message.index in replaced)
        return cls(size, replaced, replaced_tokens), conversation.without(map(int, replaced))

    def cancelled(self) -> Self:
        """Return the plan of a compaction that changes nothing: earlier outlines stay."""
        return self._replace(replaced={}, max_tokens=0, slot=None)

    def select(
        self,
        select: Callable[..., _native.Selection],
        conversation: Conversation,
        entries: Sequence[Any],
        model: str,
        before_tokens: int,
        target_tokens: int,
        pinned_tokens: int,
    ) -> tuple[Self, _native.Selection]:
        """Select what is kept beside the outline; return the plan with its slot, and the
        selection."""
        max_tokens = outline_tokens(self.size, before_tokens, target_tokens - pinned_tokens)
        if not max_tokens or before_tokens <= target_tokens:
            return self, select(target_tokens=target_tokens)
        selection = select(target_tokens=target_tokens - max_tokens)
        units = zip(conversation.units, selection.kept, strict=True)
        kept = {index for unit, is_kept in units if is_kept for index in unit.members}
        rules = thinking_model(model, conversation.format, entries)
        slot = outline_slot(conversation, kept, self.replaced, rules)
        if slot is None:
            return self, select(target_tokens=target_tokens)
        return self._replace(slot=slot, max_tokens=max_tokens), selection

    def write(
        self,
        conversation: Conversation,
        indices: Sequence[int],
        excerpts: Mapping[int, Message],
        handles: Mapping[int, str],
        max_tokens: int,
        counter: str | _engine.CustomCounter,
    ) -> Outline | None:
        """Return the outline beside the kept messages at these indices.

        ``excerpts`` maps an index to its message, for those kept in part. Returns None if there is
        no name to list, or not even one fits.
        """
        if max_tokens <= 0 or self.slot is None:
            return None
        names = NameIndex()
        names.add(
            conversation,
            frozenset(indices),
            lambda unit: _handle_of(unit, handles),
            excerpts=excerpts,
            replaced=self.replaced,
        )

        def cost(lines: str) -> int:
            return _engine.count(fenced(lines), counter)

        how = BY_HANDLE if handles else ""
        lines = write_outline(names.best(max_tokens), how, lambda text: cost(text) <= max_tokens)
        if not lines:
            return None
        position = bisect_left(indices, self.slot.before)
        return Outline(fenced(lines), position, int(self.slot.index), cost(lines))


def _handle_of(unit: Unit, handles: Mapping[int, str]) -> str:
    """Return the handle of its longest message: of a call's input or of its result."""
    stored = [message for message in unit.messages if message.index in handles]
    return handles[max(stored, key=lambda each: len(each.text)).index] if stored else ""


def _earlier_outlines(conversation: Conversation) -> dict[float, list[OutlineName]]:
    """Return index -> names, for the outlines of earlier compactions in a conversation."""
    found: dict[float, list[OutlineName]] = {}
    for index, text in conversation.lone_texts(OPENING):
        names = read_fenced(text)
        if names is not None:
            found[index] = names
    return found


def outline_slot(
    conversation: Conversation,
    kept: Collection[int],
    removed: Collection[float],
    model: ThinkingModel,
) -> Slot | None:
    """Return the slot at the first gap where a message may go; None if there is none.

    ``removed`` holds indices of what was taken out of the conversation before. A slot is never
    inside a unit, and never behind a thought. Some models refuse a tool loop without the thinking
    at its beginning, and would take the outline for a new beginning. For them the slot is before
    the last user turn, or nowhere if that thinking is bound to what comes before it.
    """
    ends = {index: unit.members[-1] for unit in conversation.units for index in unit.members}
    message_at: dict[float, Message | None] = dict.fromkeys(removed)
    message_at |= {message.index: message for message in conversation.messages}
    open_until, previous = -1, None
    for index in sorted(message_at):
        message = message_at[index]
        if message is not None and index in kept:
            open_until, previous = max(open_until, ends[message.index]), message
        elif index > open_until and not _ends_in_thought(previous):
            return _outside_the_loop(conversation, kept, index, model)
    return None


def _outside_the_loop(
    conversation: Conversation, kept: Collection[int], index: float, model: ThinkingModel
) -> Slot | None:
    """Return the slot at this index, or before the last user turn if the model needs that."""
    turns = [each.index for each in conversation.messages if each.is_user_turn]
    last_turn = turns[-1] if turns else -1
    if index < last_turn or model.open_loop == "any":
        return Slot(index, index)
    loop_has_thinking = any(
        piece.kind == PieceKind.THINKING
        for each in conversation.messages
        if each.index > last_turn and each.index in kept
        for piece in each.pieces
    )
    if not loop_has_thinking:
        return Slot(index, index)
    return None if model.binds_prefix or last_turn < 0 else Slot(index, last_turn)


def _ends_in_thought(message: Message | None) -> bool:
    return (
        message is not None
        and bool(message.pieces)
        and message.pieces[-1].kind == PieceKind.THINKING
    )
