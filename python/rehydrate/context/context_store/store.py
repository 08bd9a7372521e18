"""ContextStore: the continuous context store of one thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from rehydrate import _native
from rehydrate._check import check_choice
from rehydrate.context.context_store.operations import Heading, Item, Operation
from rehydrate.context.context_store.proposals import (
    MAX_ANSWER_CHARS,
    MAX_PROPOSALS,
    Applied,
    ProposalRequest,
)
from rehydrate.context.context_store.tools import TOOLS
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
        self.seen = 0
        """How many entries were read."""

    @property
    def operations(self) -> Sequence[Operation]:
        """All operations, in order."""
        return self.operations_since(0)

    def operations_since(self, number: int) -> list[Operation]:
        """Return the operations from this number on."""
        return self._state.operations(number)

    def written_since(self, number: int) -> list[dict[str, Any]]:
        """Return the same as JSON values; an item's text is not in them, its span is."""
        return self._state.written(number)

    def update(self, messages: Sequence[Message], seen: int | None = None) -> list[Operation]:
        """Read the messages of new entries, in order, and return what changed.

        ``seen`` is how many entries there are then; None: they end with the last message.
        """
        before = self._state.count
        self._state.read(messages, TOOLS)
        last = messages[-1].index + 1 if messages else 0
        self.seen = max(self.seen, last if seen is None else seen)
        return self.operations_since(before)

    def apply(self, answer: str, request: ProposalRequest) -> Applied:
        """Apply what a model's answer proposes and what holds of it; return what became of it."""
        before = self._state.count
        shown = {item.id: item.span for item in request.items}
        answer = answer[:MAX_ANSWER_CHARS]
        refused, unreadable = self._state.propose(answer, shown, request.messages, MAX_PROPOSALS)
        return Applied(self.operations_since(before), Counter(refused), unreadable)

    def replay(
        self,
        written: Iterable[Mapping[str, Any]],
        messages: Sequence[Message],
        seen: int,
        recent: Iterable[Message] = (),
    ) -> None:
        """Apply operations that were written before, of ``seen`` entries.

        ``messages`` are of these entries. Of the calls in ``recent`` ones some may not be answered
        yet.
        """
        self._state.replay(written, messages)
        self._state.note_calls(recent, TOOLS)
        self.seen = seen

    def mark(self) -> tuple[int, int]:
        """Return a mark of the present end: how many operations there are, and entries read."""
        return self._state.count, self.seen

    def back_to(self, mark: tuple[int, int]) -> None:
        """Forget what was read since the mark."""
        if mark != self.mark():
            operations, self.seen = mark
            self._state.back_to(operations)

    def leave_out(self, entries: frozenset[int]) -> None:
        """Let nothing hold that these entries gave rise to: the user took them back.

        The operations stay in the log. What one of these had put an end to holds again.
        """
        self._state.leave_out(entries)

    def as_of(self, entry: int) -> ContextStore:
        """Return the store as it was before the entry with this index was read."""
        then = ContextStore()
        then._state, then.seen = self._state.before(entry), entry
        return then

    def missing(self, text: str, max_tokens: int) -> list[str]:
        """Return lines of what must not be lost and is not in a text, the strongest first; what has
        no room becomes one line with handles."""
        return self._state.missing(text, max_tokens)

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
        if budget_tokens < MIN_TOKENS:
            return ""
        whole = int(budget_tokens)
        if conversation is None:
            return self._state.render(whole, whole, (), (), TOOLS, None)
        index = _native.NameIndex()
        index.add(conversation, visible, lambda unit: f"#{unit.members[0]}")
        room = int(budget_tokens * ITEMS_SHARE)
        messages = conversation.messages
        return self._state.render(whole, room, messages, visible, TOOLS, index)
