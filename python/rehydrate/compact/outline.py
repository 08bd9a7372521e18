"""The outline of what was left out: its names, so that the model knows what it can ask for.

One line for each kind of name: used by which tool, seen in results, said by whom. In a line, names
follow a reference to the message that has them: its number in a `Context`, its handle in a
memory.

A later compaction finds the outline by its fence. Its names then compete with the new ones for the
one new outline. A forged outline gets its names listed, and nothing more.

`OutlinePlan` is the size of an outline, its slot, and the outlines that it replaces.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Self

from rehydrate import _engine, _native
from rehydrate.formats.thinking import thinking_model
from rehydrate.messages import Conversation, Message, Unit

ID = "outline"
"""The id of the fence, and of the section in a prompt."""
OutlineSize = bool | int | float
"""Whether there is an outline; or its most tokens (int), or its share of what came in (float)."""

OPENING = "<context-"
"""The text at the beginning of every outline."""


class OutlineName(NamedTuple):
    """A name in an outline."""

    name: str
    heading: str
    """The tool that was called with it, or its place."""
    reference: str = ""
    """The number or handle by which its message can be read."""


class Outline(NamedTuple):
    """The message in which `compact_context` lists the names in the dropped messages."""

    text: str
    position: int
    """Its index among the kept messages."""
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    """The index, in the caller's list, of the first dropped message, whose place it takes."""
    tokens: int


BY_HANDLE = "load_memory reads a message by the handle before its names"


class OutlinePlan(NamedTuple):
    """The outline of one compaction, as far as it is decided."""

    size: OutlineSize = False
    replaced: Mapping[float, Sequence[OutlineName]] = {}
    """Index -> names, for the outlines of earlier compactions that this one replaces."""
    replaced_tokens: int = 0
    max_tokens: int = 0
    slot: tuple[float, float] | None = None
    """The index of the first dropped message, and that of the message that the outline is put
    before; None if there is no outline. A half is between two messages."""

    @classmethod
    def of(
        cls,
        size: OutlineSize,
        conversation: Conversation,
        target_of: Callable[[int], int],
        counter: str | _engine.CustomCounter,
        pinned: Collection[int],
    ) -> tuple[Self, Conversation]:
        """Return the plan, and the conversation without the outlines that it replaces.

        ``target_of`` maps the tokens that came in to the target. Earlier outlines stay only if
        everything fits the target, or if they are ``pinned``. Otherwise they go, even if no new one
        is wanted: an outline must not be kept as somebody's last message.
        """
        replaced = {
            float(index): names
            for index, text in conversation.lone_texts(OPENING)
            if index not in pinned and (names := _native.read_fenced_outline(text)) is not None
        }
        if not replaced:
            return cls(size), conversation
        tokens = _native.message_tokens(conversation, counter)
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
        """Select what is kept with the outline; return the plan with its slot, and the
        selection."""
        max_tokens = _native.outline_tokens(self.size, before_tokens, target_tokens - pinned_tokens)
        if not max_tokens or before_tokens <= target_tokens:
            return self, select(target_tokens=target_tokens)
        selection = select(target_tokens=target_tokens - max_tokens)
        units = zip(conversation.units, selection.kept, strict=True)
        kept = {index for unit, is_kept in units if is_kept for index in unit.members}
        rules = thinking_model(model, conversation.format, entries)
        slot = _native.outline_slot(conversation, kept, [*self.replaced], rules)
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
        """Return the outline with the kept messages at these indices.

        ``excerpts`` maps an index to its message, for those kept in part. Returns None if there is
        no name to list, or not even one fits.
        """
        if max_tokens <= 0 or self.slot is None:
            return None
        names = _native.NameIndex()
        names.add(
            conversation,
            frozenset(indices),
            lambda unit: _handle_of(unit, handles),
            excerpts=excerpts,
            replaced=self.replaced,
        )

        def cost(lines: str) -> int:
            return _native.count(_native.fenced_outline(lines), counter)

        how = BY_HANDLE if handles else ""
        lines = _native.write_outline(
            names.best(max_tokens), how, lambda text: cost(text) <= max_tokens
        )
        if not lines:
            return None
        index, before = self.slot
        text = _native.fenced_outline(lines)
        return Outline(text, bisect_left(indices, before), int(index), cost(lines))


def _handle_of(unit: Unit, handles: Mapping[int, str]) -> str:
    """Return the handle of its longest message: of a call's input or of its result."""
    stored = [message for message in unit.messages if message.index in handles]
    return handles[max(stored, key=lambda each: len(each.text)).index] if stored else ""
