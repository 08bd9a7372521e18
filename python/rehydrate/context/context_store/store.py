"""ContextStore: the continuous context store of one thread."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from rehydrate._check import check_choice
from rehydrate.compact.outline import NameIndex
from rehydrate.context.context_store.operations import (
    Heading,
    Item,
    Items,
    Operation,
    Span,
    digest,
    operation_of,
)
from rehydrate.context.context_store.proposal_checks import Applied, apply_proposals
from rehydrate.context.context_store.proposals import Proposal, ProposalRequest
from rehydrate.context.context_store.rendering import commands_of, render, write_names
from rehydrate.context.context_store.updater import Updater
from rehydrate.messages import Conversation, Message


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
        self._items = Items()
        self._updater = Updater(self._items)
        self._operations: list[Operation] = []
        self._left_out: frozenset[int] = frozenset()
        self.seen = 0
        """How many entries were read."""

    @property
    def operations(self) -> Sequence[Operation]:
        """All operations, in order."""
        return self._operations

    def update(self, messages: Sequence[Message], seen: int | None = None) -> list[Operation]:
        """Read the messages of new entries, in order, and return what changed.

        ``seen`` is how many entries there are then; None: they end with the last message.
        """
        done = self._updater.read(messages)
        self._operations += done
        last = messages[-1].index + 1 if messages else 0
        self.seen = max(self.seen, last if seen is None else seen)
        return done

    def apply(self, proposals: Iterable[Proposal], request: ProposalRequest) -> Applied:
        """Apply what a model proposed and what holds of it, and return what became of it."""
        applied = apply_proposals(self._items, proposals, request)
        self._operations += applied.operations
        return applied

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
        for one in written:
            operation = operation_of(one, text_of)
            self._items.apply(operation)
            self._operations.append(operation)
        self._updater.note_calls(recent)
        self.seen = seen

    def mark(self) -> tuple[int, int]:
        """Return a mark of the present end: how many operations there are, and entries read."""
        return len(self._operations), self.seen

    def back_to(self, mark: tuple[int, int]) -> None:
        """Forget what was read since the mark."""
        if mark == self.mark():
            return
        operations, self.seen = mark
        del self._operations[operations:]
        self._apply_all()

    def leave_out(self, entries: frozenset[int]) -> None:
        """Let nothing hold that these entries gave rise to: the user took them back.

        The operations stay in the log. What one of these had put an end to holds again.
        """
        if entries != self._left_out:
            self._left_out = entries
            self._apply_all()

    def _apply_all(self) -> None:
        self._items = Items()
        for operation in self._operations:
            if operation.entry not in self._left_out:
                self._items.apply(operation)
            elif operation.added is not None:
                self._items.reserve(operation.added.id)
        self._updater = self._updater.on(self._items)

    @classmethod
    def as_of(cls, operations: Iterable[Operation], entry: int) -> ContextStore:
        """Return a store as it was before the entry with this index was read."""
        then = cls()
        then._operations = [each for each in operations if each.entry < entry]
        for operation in then._operations:
            then._items.apply(operation)
        then.seen = entry
        return then

    def items(self, heading: str | None = None) -> list[Item]:
        """Return all items, or those of a heading that hold."""
        if heading is None:
            return list(self._items)
        check_choice("heading", heading, [str(each) for each in Heading])
        return self._items.live(Heading(heading))

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
            return render(self._items, budget_tokens)

        def write(tokens: int, shown: str) -> str:
            index = NameIndex()
            index.add(conversation, visible, lambda unit: f"#{unit.members[0]}")
            index.add_visible(shown)
            return write_names(index, tokens)

        return render(
            self._items, budget_tokens, commands_of(conversation.messages, visible), write
        )


def text_at(span: Span, message: Message) -> str | None:
    """Return the text of a span in its message; None where the message has another text there."""
    if span.piece >= len(message.pieces):
        return None
    text = message.pieces[span.piece].text[span.start : span.end]
    return text if digest(text) == span.digest else None
