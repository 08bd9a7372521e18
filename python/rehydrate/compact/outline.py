"""The outline of what was left out: its names, so that the model knows what it can ask for.

One line for each kind of name: used by which tool, seen in results, said by whom. In a line, names
stand behind a reference to the message that has them: its number in a `Context`, its handle in a
memory.

A later compaction finds the outline by its fence. Its names then compete with the new ones for the
one new outline. A forged outline gets its names listed, and nothing more.

`OutlinePlan` is the size of an outline, its slot, and the outlines that it replaces.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from rehydrate import _engine
from rehydrate.errors import InvalidArgumentError
from rehydrate.fences import tags
from rehydrate.formats.thinking import ThinkingModel, thinking_model
from rehydrate.messages import Conversation, Message, PieceKind, Unit

if TYPE_CHECKING:
    from rehydrate import _native


ID = "outline"
"""The id of the fence, and of the section in a prompt."""
DEFAULT_SHARE = 0.015
"""The default outline's share of the tokens that came in."""
DEFAULT_TOKENS = 200
"""The default outline's size where its share is less, if there is room."""
MIN_TOKENS = 100
"""A smaller outline would be mostly its own frame, so there is none."""
MAX_FREE_SHARE = 0.15
"""The default outline takes at most this share of the tokens that pinned units leave free."""
INTRODUCTION = "Names in what was left out here"
_NAME_CHARS_PER_REFERENCE_CHAR = 3
"""References take at most a third as many characters as names: a handle has twenty tokens."""

OutlineSize = bool | int | float
"""Whether there is an outline; or its most tokens (int), or its share of what came in (float)."""

_RESULTS, _ERRORS, _PROPER_NAMES = "in tool results", "errors", "spoken of"
_BY_ROLE = {"user": "said by the user", "assistant": "said by the assistant"}
_OTHER_ROLE, _TOOL_CALLS = "said by others", "tool calls"
_NOT_TOOLS = frozenset({_RESULTS, _ERRORS, _PROPER_NAMES, _OTHER_ROLE, *_BY_ROLE.values()})
_ERROR = re.compile(r"\w(Error|Exception|Failure)$")
_NOT_IN_HEADING = re.compile(r"[^\w.-]+")
_MAX_HEADING = 64
_REDACTION_LABEL = re.compile(r"\[redacted:\w+\]")
_POSSIBLE_NAME = re.compile(r"[\w./@~-]+")
_LINE = re.compile(r"([^:\n]+): (.+)")
OPENING = "<context-"
"""The text of every outline begins so."""
_OPENING_TAG = re.compile(r'<(context-[0-9a-f]{16}) id="outline" note="[^"]*">\n')


def check_outline(outline: object) -> None:
    """Raise InvalidArgumentError for anything but an `OutlineSize`."""
    if isinstance(outline, bool):
        return
    if isinstance(outline, int) and outline >= MIN_TOKENS:
        return
    if isinstance(outline, float) and 0 < outline < 1:
        return
    raise InvalidArgumentError(
        f"outline is {outline!r}; pass True for the usual size, False for none, a whole number of "
        f"tokens from {MIN_TOKENS} up, or a share of the tokens that came in between 0 and 1, "
        "such as 0.02"
    )


def outline_tokens(outline: OutlineSize, before_tokens: int, free_tokens: int) -> int:
    """Return the most tokens of the outline; 0 where that is too little for one.

    ``free_tokens`` is what pinned units leave of the target.

    >>> outline_tokens(True, 100_000, 20_000), outline_tokens(0.02, 100_000, 20_000)
    (1500, 2000)
    >>> outline_tokens(True, 4_000, 400)
    0
    """
    tokens = int(before_tokens * outline) if isinstance(outline, float) else int(outline)
    if outline is True:
        default = max(int(before_tokens * DEFAULT_SHARE), DEFAULT_TOKENS)
        tokens = min(default, int(free_tokens * MAX_FREE_SHARE))
    tokens = min(tokens, free_tokens)
    return tokens if tokens >= MIN_TOKENS else 0


class OutlineName(NamedTuple):
    """A name in an outline."""

    name: str
    heading: str
    """The tool that was called with it, or where it stood."""
    reference: str = ""
    """The number or handle by which its message can be read."""


class _Text(NamedTuple):
    """A text of the conversation, and the heading of its names."""

    text: str
    kind: PieceKind
    unit: int
    is_visible: bool
    heading: str
    reference: str = ""


class Outline(NamedTuple):
    """The message in which `compact_context` lists the names in what it left out."""

    text: str
    position: int
    """Its index among the kept messages."""
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    """The index, in the caller's list, of the first dropped message, whose place it takes."""
    tokens: int


class NameIndex:
    """The names in the texts of a conversation, and which of them are still visible."""

    def __init__(self) -> None:
        """Start empty."""
        self._texts: list[_Text] = []
        self._redaction = _Redaction()
        self._unit = 0

    def add(
        self,
        conversation: Conversation,
        kept: Collection[int],
        reference_of: Callable[[Unit], str],
        *,
        excerpts: Mapping[int, Message] = {},
        replaced: Mapping[float, Sequence[OutlineName]] = {},
    ) -> None:
        """Add a conversation, unit by unit, of which the messages in ``kept`` are visible.

        ``excerpts`` maps an index to its message, for those kept in part; ``replaced`` maps an
        index to the names of an earlier outline. ``reference_of`` returns by what a dropped unit
        can be read.
        """
        rows: list[tuple[float, Any]] = [(unit.members[0], unit) for unit in conversation.units]
        rows += replaced.items()
        rows.sort(key=lambda row: row[0])
        for _, row in rows:
            self._unit += 1
            if not isinstance(row, Unit):
                self.add_outline(row)
                continue
            reference = "" if row.members[0] in kept else reference_of(row)
            for message in row.messages:
                is_visible = message.index in kept or message.role == "system"
                excerpt = excerpts.get(message.index)
                if excerpt is not None:
                    self._add_message(excerpt, "", is_visible=True)
                self._add_message(message, reference, is_visible=is_visible and excerpt is None)

    def add_outline(self, names: Iterable[OutlineName]) -> None:
        """Add the names of an earlier outline."""
        for name, heading, reference in names:
            kind = PieceKind.TOOL_RESULT if heading in _NOT_TOOLS else PieceKind.TOOL_INPUT
            text = name
            if heading == _PROPER_NAMES:  # the engine finds one by two uses inside a sentence
                kind, text = PieceKind.TEXT, f"of {name} and {name}"
            self._texts.append(_Text(text, kind, self._unit, False, heading, reference))

    def add_visible(self, text: str) -> None:
        """Add a text that is visible beside the conversation."""
        self._texts.append(_Text(text, PieceKind.TEXT, self._unit, True, ""))

    def _add_message(self, message: Message, reference: str, *, is_visible: bool) -> None:
        for text, kind in message.pieces:
            if kind == PieceKind.THINKING or not text:
                continue
            heading, clean = _BY_ROLE.get(message.role, _OTHER_ROLE), text
            if kind == PieceKind.TOOL_INPUT:
                tool, _, arguments = text.partition(" ")
                heading = _NOT_IN_HEADING.sub("", tool)[:_MAX_HEADING] or _TOOL_CALLS
                clean = self._redaction.input_text(arguments)
            elif kind == PieceKind.TOOL_RESULT:
                heading = _RESULTS
            if kind != PieceKind.TOOL_INPUT and not is_visible:
                clean = self._redaction.text(text)
            self._texts.append(_Text(clean, kind, self._unit, is_visible, heading, reference))

    def hidden_texts(self) -> dict[str, str]:
        """Return what is no longer visible, without secrets, by its reference."""
        texts: dict[str, list[str]] = {}
        for each in self._texts:
            if each.reference and not each.is_visible:
                texts.setdefault(each.reference, []).append(each.text)
        return {reference: "\n".join(of_it) for reference, of_it in texts.items()}

    def best(self, limit: int) -> list[OutlineName]:
        """Return the names that are no longer visible, the most useful first."""
        # A name inside a secret counts as visible, so that it is never listed.
        self.add_visible("\n".join(self._redaction.secret_names))
        texts, kinds, units, visible, *_ = zip(*self._texts, strict=True)
        names: list[OutlineName] = []
        for name, last, last_input, is_proper_name in _engine.names(
            texts, bytes(kinds), units, visible, limit
        ):
            text = self._texts[last if last_input is None else last_input]
            heading = _PROPER_NAMES if is_proper_name else text.heading
            if last_input is None and _ERROR.search(name):
                heading = _ERRORS
            names.append(OutlineName(name, heading, text.reference))
        return names


def write_outline(names: Sequence[OutlineName], how: str, fits: Callable[[str], bool]) -> str:
    """Return the lines of as many of these names as fit, the first first; "" if none fits.

    ``how`` tells the reader how to ask for a name.
    """
    low, high = 0, len(names)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(_lines(names[:middle], how)):
            low = middle
        else:
            high = middle - 1
    return _lines(names[:low], how) if low else ""


def _lines(names: Sequence[OutlineName], how: str) -> str:
    room = sum(len(each.name) + 2 for each in names) // _NAME_CHARS_PER_REFERENCE_CHAR
    groups: dict[str, dict[str, list[str]]] = {}
    has_room: dict[str, bool] = {"": True}
    for name, heading, reference in names:
        if reference not in has_room:
            room -= len(reference) + 1
            has_room[reference] = room >= 0
        written = reference if has_room[reference] else ""
        groups.setdefault(heading, {}).setdefault(written, []).append(name)
    introduction = f"{INTRODUCTION}; {how}" if how else INTRODUCTION
    lines = (_line(heading, by_reference) for heading, by_reference in groups.items())
    return "\n".join([f"{introduction}.", *lines])


def _line(heading: str, by_reference: Mapping[str, Sequence[str]]) -> str:
    # Names without a reference come first: behind a reference they would seem to be its message's.
    groups = sorted(by_reference.items(), key=lambda item: item[0] != "")
    written = [f"{ref} {', '.join(names)}" if ref else ", ".join(names) for ref, names in groups]
    return f"{heading}: {'; '.join(written)}"


def fenced(lines: str) -> str:
    """Return the lines in their fence, as the text of a message."""
    opening, closing = tags(ID, ID, "", "", None, True, lines)
    return f"{opening}\n{lines}\n{closing}"


def read_fenced(text: str) -> list[OutlineName] | None:
    """Return the names of an outline; None unless the text is exactly one outline.

    >>> read_fenced(fenced("Names in what was left out here.\\nRead: #4 src/rows.py"))
    [OutlineName(name='src/rows.py', heading='Read', reference='#4')]
    """
    opening = _OPENING_TAG.match(text)
    if opening is None:
        return None
    lines = text[opening.end() :].removesuffix(f"\n</{opening[1]}>")
    return read_lines(lines) if fenced(lines) == text else None


def read_lines(text: str) -> list[OutlineName] | None:
    """Return the names in the lines of an outline; None for any other text."""
    introduction, *lines = text.split("\n")
    if not introduction.startswith(INTRODUCTION):
        return None
    names: list[OutlineName] = []
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            return None
        for group in match[2].split("; "):
            # The first name stands behind the reference and a blank.
            first, comma, others = group.partition(", ")
            reference, _, name = first.rpartition(" ")
            written = f"{name}{comma}{others}".split(", ")
            names += [OutlineName(each, match[1], reference) for each in written if each]
    return names


class _Redaction:
    """Removes secrets from texts, and collects the names inside them: they are listed nowhere."""

    def __init__(self) -> None:
        from rehydrate.memory import redaction  # slow to load, and rarely needed

        self._redactor = redaction.Redactor()
        self._secrets_in = redaction.secrets_in
        self.secret_names: set[str] = set()

    def text(self, text: str) -> str:
        """Return the text without secrets."""
        return self._without_labels(text, self._redactor(text).text)

    def input_text(self, arguments: str) -> str:
        """Return the values of a call's arguments, one a line, without secrets.

        Values, not JSON: the escapes of JSON would become part of the names.
        """
        try:
            value = json.loads(arguments)
            before = "\n".join(_leaves(value))
            if not self._secrets_in(arguments):
                return before
            after = "\n".join(_leaves(self._redactor.inside(value)))
            return self._without_labels(before, after)
        except (ValueError, RecursionError):
            return self.text(arguments)

    def _without_labels(self, before: str, after: str) -> str:
        if before == after:
            return before
        after = _REDACTION_LABEL.sub(" ", after)
        names_left = set(_POSSIBLE_NAME.findall(after))
        self.secret_names.update(set(_POSSIBLE_NAME.findall(before)) - names_left)
        return after


def _leaves(value: Any) -> Iterator[str]:
    """Yield the texts and numbers in a value."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


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
