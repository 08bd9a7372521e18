"""ContextStore: the continuous context store of one thread."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from rehydrate import _engine
from rehydrate._check import check_choice
from rehydrate.compact.outline import NameIndex, OutlineName, write_outline
from rehydrate.context.context_store.cues import RAN, first_error, subjects
from rehydrate.context.context_store.operations import (
    Heading,
    Item,
    Items,
    Operation,
    Span,
    digest,
    operation_of,
)
from rehydrate.context.context_store.proposals import (
    Applied,
    Proposal,
    ProposalRequest,
    apply_proposals,
)
from rehydrate.context.context_store.rendering import Command, render
from rehydrate.context.context_store.updater import Updater
from rehydrate.messages import Conversation, Message, PieceKind
from rehydrate.prompt.counting import text_tokens


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
        self._left_out: frozenset[int] = frozenset()
        self.seen = 0
        """How many entries were read."""

    @property
    def operations(self) -> Sequence[Operation]:
        """All operations, in order."""
        return self._items.operations

    def update(self, messages: Sequence[Message], seen: int | None = None) -> list[Operation]:
        """Read the messages of new entries, in order, and return what changed.

        ``seen`` is how many entries there are then; None: they end with the last message.
        """
        before = len(self.operations)
        self._updater.read(messages)
        last = messages[-1].index + 1 if messages else 0
        self.seen = max(self.seen, last if seen is None else seen)
        return self._items.operations[before:]

    def apply(self, proposals: Iterable[Proposal], request: ProposalRequest) -> Applied:
        """Apply what a model proposed and what holds of it, and return what became of it."""
        return apply_proposals(self._items, proposals, request)

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
            self._items.apply(operation_of(one, text_of))
        self._updater.note_calls(recent)
        self.seen = seen

    def mark(self) -> tuple[int, int]:
        """Return a mark of the present end: how many operations there are, and entries read."""
        return len(self.operations), self.seen

    def back_to(self, mark: tuple[int, int]) -> None:
        """Forget what was read since the mark."""
        if mark == self.mark():
            return
        operations, self.seen = mark
        self._begin_again(self.operations[:operations])

    def leave_out(self, entries: frozenset[int]) -> None:
        """Let nothing hold that these entries gave rise to: the user took them back.

        The operations stay in the log. What one of these had put an end to holds again.
        """
        if entries != self._left_out:
            self._left_out = entries
            self._begin_again(self.operations)

    def _begin_again(self, operations: Iterable[Operation]) -> None:
        self._items = Items(operations, self._left_out)
        self._updater = self._updater.on(self._items)

    @classmethod
    def as_of(cls, operations: Iterable[Operation], entry: int) -> ContextStore:
        """Return a store as it was before the entry with this index was read."""
        then = cls()
        then._begin_again(each for each in operations if each.entry < entry)
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


_MAX_COMMAND = 80
"""Characters of a command that are shown, and of what it came to."""


def commands_of(messages: Iterable[Message], visible: Collection[int]) -> list[Command]:
    """Return the commands that were run, in the order of their last results.

    Those whose result is one of the ``visible`` entries are left out, and secrets.
    """
    from rehydrate.memory.redaction import Redactor  # slow to load

    redactor = Redactor()
    calls: dict[str, str] = {}
    ran: dict[str, Command] = {}
    for message in messages:
        asked = iter(message.calls)
        for text, kind in message.pieces:
            if kind is PieceKind.TOOL_INPUT:
                commands = [each.text for each in subjects(text) if each.use == RAN]
                calls[next(asked, "")] = commands[0] if commands else ""
        for answer, result in _results(message):
            if command := calls.pop(answer, ""):
                ran.pop(command, None)
                ran[command] = Command(command, _outcome(result), message.index)
    shown = []
    for command, outcome, answered in ran.values():
        if answered not in visible:
            first, *others = redactor(command).text.splitlines()
            is_cut = bool(others) or len(first) > _MAX_COMMAND
            line = f"{first[: _MAX_COMMAND - 1]}…" if is_cut else first
            shown.append(Command(line, redactor(outcome).text, answered))
    return shown


def _results(message: Message) -> Iterable[tuple[str, str]]:
    """Return what a message answers with the results; none where an empty one leaves it open which
    is whose."""
    texts = [text for text, kind in message.pieces if kind is PieceKind.TOOL_RESULT]
    if len(message.answers) == 1:
        return [(message.answers[0], "\n".join(texts))]
    return zip(message.answers, texts, strict=True) if len(message.answers) == len(texts) else ()


def _outcome(result: str) -> str:
    code, error = _engine.exit_code(result), first_error(result)
    if code != 0 and error is not None:
        return " ".join(error.text.split())[:_MAX_COMMAND]
    return f"exit {code}" if code else "ok"


MAX_PRICE = 1.5
"""Characters of a line, at most, by those of its names in a list."""
_MAX_LINE = 300


def write_names(index: NameIndex, tokens: int) -> str:
    """Return the best names that are not visible, and lines of them, in at most so many tokens."""
    names = _fitting(index.best(max(tokens, 0)), {}, tokens)
    lines = _cheap_lines(names, index.hidden_texts())
    return _written(_fitting(names, lines, tokens), lines)


def _fitting(
    names: Sequence[OutlineName], lines: Mapping[OutlineName, str], tokens: int
) -> Sequence[OutlineName]:
    """Return as many names as fit; ``lines`` are those of the names that are shown in one."""
    most = bisect_right(
        range(1, len(names) + 1),
        tokens,
        key=lambda count: sum(text_tokens([_written(names[:count], lines)])),
    )
    return names[:most]


def _cheap_lines(names: Sequence[OutlineName], texts: Mapping[str, str]) -> dict[OutlineName, str]:
    """Return the last line of each name in the text of its reference, of those that cost little."""
    shared: dict[tuple[str, str], list[OutlineName]] = {}
    folded = {
        reference: "\n".join(["", *(" ".join(line.split()) for line in text.splitlines()), ""])
        for reference, text in texts.items()
    }
    for each in names:
        text = folded.get(each.reference, "")
        at = text.rfind(each.name)
        if at >= 0:
            line = text[text.rfind("\n", 0, at) + 1 : text.find("\n", at)]
            shared.setdefault((each.reference, line), []).append(each)
    return {
        each: line
        for (_, line), of_line in shared.items()
        if len(line) <= min(MAX_PRICE * sum(len(each.name) + 2 for each in of_line) - 3, _MAX_LINE)
        and (len(of_line) > 1 or any(map(str.isalnum, line.replace(of_line[0].name, ""))))
        for each in of_line
    }


def _written(names: Sequence[OutlineName], lines: Mapping[OutlineName, str]) -> str:
    """Return the names by what they were used for, then the lines by where they were."""
    listed = write_outline([each for each in names if each not in lines], "", lambda _: True)
    quoted: dict[str, dict[str, None]] = {}
    for each in names:
        if each in lines:
            quoted.setdefault(f"{each.reference}:", {})[f"> {lines[each]}"] = None
    by_reference = ["\n".join([reference, *of_it]) for reference, of_it in quoted.items()]
    return "\n".join([*listed.split("\n")[1:], *by_reference])
