"""ContextStore: the continuous context store of one thread."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from rehydrate import _native
from rehydrate._check import check_choice
from rehydrate.context.context_store.operations import Heading, Item, Operation, Span, operation_of
from rehydrate.context.context_store.proposals import (
    MAX_PROPOSALS,
    Applied,
    Proposal,
    ProposalRequest,
)
from rehydrate.context.context_store.tools import subjects
from rehydrate.messages import Conversation, Message

ITEMS_SHARE = 0.8
"""Of the budget for what was laid down, done and left open; names take what is left."""
MIN_TOKENS = 100
"""A smaller store would be mostly its headings."""
SUMMARY = "[compacted history summary]"
"""The first line of a summary that takes the place of messages."""
WORD_FOR_WORD = "Also, word for word:"
"""The line before what a model's summary lacked."""


class ContextStore:
    """What a thread must not lose, as an append-only log of operations over verbatim spans.

    After every turn `update` reads what the turn added: what the user laid down, what was decided,
    which files were changed, which errors are open, what is being done now. `render` writes it as
    markdown within a budget. Each line ends with the handle of the message that it is from.

    >>> from rehydrate import formats
    >>> store = ContextStore()
    >>> said = [{"role": "user", "content": "Fix the login. From now on, always use tabs."}]
    >>> operations = store.update(formats.parse(said, "anthropic").messages)
    >>> print(store.render(200))
    ## Task State
    - Fix the login. From now on, always use tabs. (#0)
    ## User Preferences
    - From now on, always use tabs. (#0)
    """

    def __init__(self) -> None:
        """Start empty."""
        self._state = _native.ContextStore()
        self._left_out: frozenset[int] = frozenset()
        self.seen = 0
        """How many entries were read."""

    @property
    def operations(self) -> Sequence[Operation]:
        """All operations, in order."""
        return self.operations_between(0)

    def operations_between(self, start: int, end: int | None = None) -> list[Operation]:
        """Return the operations from one number to another; None: to the last."""
        return self._state.operations(start, end)

    def update(self, messages: Sequence[Message], seen: int | None = None) -> list[Operation]:
        """Read the messages of new entries, in order, and return what changed.

        ``seen`` is how many entries there are then; None: they end with the last message.
        """
        before = len(self._state)
        self._state.read(messages, subjects)
        last = messages[-1].index + 1 if messages else 0
        self.seen = max(self.seen, last if seen is None else seen)
        return self.operations_between(before)

    def apply(self, proposals: Iterable[Proposal], request: ProposalRequest) -> Applied:
        """Apply what a model proposed and what holds of it, and return what became of it."""
        before = len(self._state)
        shown = {item.id: item.span for item in request.items}
        refused = self._state.propose(proposals, shown, request.messages, MAX_PROPOSALS)
        return Applied.of(self.operations_between(before), refused)

    def replay(
        self,
        written: Iterable[Mapping[str, Any]],
        seen: int,
        text_of: Callable[[Span], str],
        recent: Iterable[Message] = (),
    ) -> None:
        """Apply operations that were written before.

        ``text_of`` reads a span in the thread; ``recent`` are messages that were read, of whose
        calls some may not be answered yet.
        """
        self._state.replay([operation_of(one, text_of) for one in written])
        self._state.note_calls(recent, subjects)
        self.seen = seen

    def mark(self) -> tuple[int, int]:
        """Return a mark of the present end: how many operations there are, and entries read."""
        return len(self._state), self.seen

    def back_to(self, mark: tuple[int, int]) -> None:
        """Forget what was read since the mark."""
        if mark == self.mark():
            return
        operations, self.seen = mark
        self._state.begin_again(operations, self._left_out)

    def leave_out(self, entries: frozenset[int]) -> None:
        """Let nothing hold that these entries gave rise to: the user took them back.

        The operations stay in the log. What one of these had put an end to holds again.
        """
        if entries != self._left_out:
            self._left_out = entries
            self._state.begin_again(len(self._state), entries)

    def as_of(self, entry: int, operations: int) -> ContextStore:
        """Return the store as it was before the entry with this index was read, by the first
        ``operations``, so many."""
        then = ContextStore()
        then._left_out, then.seen = self._left_out, entry
        then._state = self._state.as_of(entry, operations, self._left_out)
        return then

    def items(self, heading: str | None = None) -> list[Item]:
        """Return all items, or those of a heading that hold."""
        if heading is not None:
            check_choice("heading", heading, [str(each) for each in Heading])
        return self._state.items(heading)

    def render(
        self,
        budget_tokens: int,
        *,
        conversation: Conversation | None = None,
        visible: Collection[int] = (),
    ) -> str:
        """Return the store as markdown in at most ``budget_tokens``; "" below a hundred.

        With the ``conversation``, it has the commands that were run and what they came to, and
        names that were used in it, some with their lines, fill the room that is left: but for what
        the messages at the ``visible`` indices have.
        """
        if conversation is None:
            return self.render_with(None, budget_tokens)
        told = _native.Told()
        told.add(conversation, visible, subjects)
        return self.render_with(told, budget_tokens)

    def render_with(self, told: _native.Told | None, budget_tokens: int) -> str:
        """Return what `render` does, by what was told in the conversation."""
        if budget_tokens < MIN_TOKENS:
            return ""
        room = int(budget_tokens if told is None else budget_tokens * ITEMS_SHARE)
        return self._state.render(int(budget_tokens), room, told)


def text_at(span: Span, message: Message) -> str | None:
    """Return the text of a span in its message; None where the message has another text there."""
    if span.piece >= len(message.pieces):
        return None
    text = message.pieces[span.piece].text[span.start : span.end]
    return text if _native.digest(text) == span.digest else None
