"""The outline of what was left out: its names, so that the model knows what it can ask back.

A line each for what they are: acted on by which tool, seen in results, said by whom. In a line they
stand under the message that has them, where it can be asked for: its number in a `Context`, its
handle in a memory.

The outline is found again, by its fence, when what is left is compacted once more: then its names
compete with the new ones for the one outline that is made. Whoever forges one gets names listed,
and no more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rehydrate import _engine
from rehydrate.errors import InvalidArgumentError
from rehydrate.fences import tags
from rehydrate.messages import Conversation, Message, PieceKind, Unit

ID = "outline"
"""Of the fence, and of the section in a prompt."""
SHARE = 0.015
"""Of the tokens that came in, what the usual outline takes."""
USUAL_TOKENS = 200
"""The usual outline's at least, where there is room for them."""
LEAST_TOKENS = 100
"""A smaller outline is mostly its own frame: there is none."""
MOST_OF_FREE = 0.15
"""So much of the room at most is the usual outline's that what must stay leaves."""
INTRODUCTION = "Names in what was left out here"
_HANDLES_SHARE = 3
"""A third of the names' room at most is for handles: a memory's has twenty tokens."""

Spec = bool | int | float
"""Whether there is an outline; or the tokens that it takes at most, or their share of what came
in."""

_RESULTS, _ERRORS, _SPOKEN = "in tool results", "errors", "spoken of"
_SAID = {"user": "said by the user", "assistant": "said by the assistant"}
_OTHER, _CALLS = "said by others", "tool calls"
_NOT_TOOLS = frozenset({_RESULTS, _ERRORS, _SPOKEN, _OTHER, *_SAID.values()})
_ERROR = re.compile(r"\w(Error|Exception|Failure)$")
_HEADING = re.compile(r"[^\w.-]+")
_LONGEST_HEADING = 64
_LABEL = re.compile(r"\[redacted:\w+\]")
_RUN = re.compile(r"[\w./@~-]+")
_LINE = re.compile(r"([^:\n]+): (.+)")
OPENING = "<context-"
"""The text of every outline begins so."""
_TAG = re.compile(r'<(context-[0-9a-f]{16}) id="outline" note="[^"]*">\n')


def check_outline(outline: object) -> None:
    """Refuse what is no size of an outline."""
    if isinstance(outline, bool):
        return
    if isinstance(outline, int) and outline >= LEAST_TOKENS:
        return
    if isinstance(outline, float) and 0 < outline < 1:
        return
    raise InvalidArgumentError(
        f"outline is {outline!r}; pass True for the usual size, False for none, a whole number of "
        f"tokens from {LEAST_TOKENS} up, or a share of the tokens that came in between 0 and 1, "
        "such as 0.02"
    )


def outline_tokens(outline: Spec, before_tokens: int, free_tokens: int) -> int:
    """What the outline may take of the room that what must stay leaves; 0 where that would be too
    little for one.

    >>> outline_tokens(True, 100_000, 20_000), outline_tokens(0.02, 100_000, 20_000)
    (1500, 2000)
    >>> outline_tokens(True, 4_000, 400)
    0
    """
    tokens = int(before_tokens * outline) if isinstance(outline, float) else int(outline)
    if outline is True:
        usual = max(int(before_tokens * SHARE), USUAL_TOKENS)
        tokens = min(usual, int(free_tokens * MOST_OF_FREE))
    tokens = min(tokens, free_tokens)
    return tokens if tokens >= LEAST_TOKENS else 0


class Listed(NamedTuple):
    """A name in an outline."""

    name: str
    heading: str
    """What it was: the tool that was called with it, or where it stood."""
    reference: str = ""
    """By what its message can be asked for."""


class _Part(NamedTuple):
    """A text of the conversation, and what its names are listed as."""

    text: str
    kind: PieceKind
    unit: int
    is_shown: bool
    heading: str
    reference: str = ""


class Outline(NamedTuple):
    """The message that `compact_context` put where the first of what it left out had stood."""

    text: str
    """What it says."""
    position: int
    """Its place among the messages that are kept."""
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    """Of the message that it stands in the place of, in the list that came in."""
    tokens: int


class Names:
    """The names in the texts of a conversation, and which of them are still to be seen."""

    def __init__(self) -> None:
        """Start empty."""
        self._parts: list[_Part] = []
        self._secrets = _Secrets()
        self._unit = 0

    def add(
        self,
        conversation: Conversation,
        kept: Collection[int],
        reference_of: Callable[[Unit], str],
        *,
        partly: Mapping[int, Message] = {},
        older: Mapping[float, Sequence[Listed]] = {},
    ) -> None:
        """Read a conversation, unit by unit, of which the messages in ``kept`` are shown.

        ``partly`` has what is left of those that are shown in part, ``older`` the outlines that
        stood in it, both by the message's index; ``reference_of`` says how a unit that went can
        be asked for.
        """
        rows: list[tuple[float, Any]] = [(unit.members[0], unit) for unit in conversation.units]
        rows += older.items()
        rows.sort(key=lambda row: row[0])
        for _, row in rows:
            self._unit += 1
            if not isinstance(row, Unit):
                self.add_older(row)
                continue
            reference = "" if row.members[0] in kept else reference_of(row)
            for message in row.messages:
                is_shown = message.index in kept or message.role == "system"
                left = partly.get(message.index)
                if left is not None:
                    self._read(left, "", is_shown=True)
                self._read(message, reference, is_shown=is_shown and left is None)

    def add_older(self, listed: Iterable[Listed]) -> None:
        """Take the names of an outline made before."""
        for name, heading, reference in listed:
            kind = PieceKind.TOOL_RESULT if heading in _NOT_TOOLS else PieceKind.TOOL_INPUT
            if heading == _SPOKEN:  # as it is said: in the middle of a sentence, and twice
                kind, name = PieceKind.TEXT, f"of {name} and {name}"  # noqa: PLW2901
            self._parts.append(_Part(name, kind, self._unit, False, heading, reference))

    def add_shown(self, text: str) -> None:
        """Take a text that is to be seen beside the conversation."""
        self._parts.append(_Part(text, PieceKind.TEXT, self._unit, True, ""))

    def _read(self, message: Message, reference: str, *, is_shown: bool) -> None:
        for text, kind in message.pieces:
            if kind == PieceKind.THINKING or not text:
                continue
            heading, said = _SAID.get(message.role, _OTHER), text
            if kind == PieceKind.TOOL_INPUT:
                tool, _, given = text.partition(" ")
                heading = _HEADING.sub("", tool)[:_LONGEST_HEADING] or _CALLS
                said = self._secrets.given(given)
            elif kind == PieceKind.TOOL_RESULT:
                heading = _RESULTS
            if kind != PieceKind.TOOL_INPUT and not is_shown:
                said = self._secrets.said(text)
            self._parts.append(_Part(said, kind, self._unit, is_shown, heading, reference))

    def best(self, limit: int) -> list[Listed]:
        """Those that are worth most of what is not to be seen any more, the best first."""
        # What stood in a secret is listed as little as what is to be seen.
        self.add_shown("\n".join(self._secrets.runs))
        texts, kinds, units, shown, *_ = zip(*self._parts, strict=True)
        listed: list[Listed] = []
        for name, last, acted, is_spoken in _engine.names(texts, bytes(kinds), units, shown, limit):
            part = self._parts[last if acted is None else acted]
            heading = _SPOKEN if is_spoken else part.heading
            if acted is None and _ERROR.search(name):
                heading = _ERRORS
            listed.append(Listed(name, heading, part.reference))
        return listed


def write_outline(listed: Sequence[Listed], how: str, fits: Callable[[str], bool]) -> str:
    """The lines of as many of these names, the best first, as fit; "" where none does.

    ``how`` says how they are asked for.
    """
    least, most = 0, len(listed)
    while least < most:
        middle = (least + most + 1) // 2
        if fits(_lines(listed[:middle], how)):
            least = middle
        else:
            most = middle - 1
    return _lines(listed[:least], how) if least else ""


def _lines(listed: Sequence[Listed], how: str) -> str:
    room = sum(len(each.name) + 2 for each in listed) // _HANDLES_SHARE
    groups: dict[str, dict[str, list[str]]] = {}
    referred: dict[str, bool] = {"": True}
    for name, heading, reference in listed:
        if reference not in referred:
            room -= len(reference) + 1
            referred[reference] = room >= 0
        shown = reference if referred[reference] else ""
        groups.setdefault(heading, {}).setdefault(shown, []).append(name)
    said = f"{INTRODUCTION}; {how}" if how else INTRODUCTION
    return "\n".join([f"{said}.", *(_line(heading, by) for heading, by in groups.items())])


def _line(heading: str, names: Mapping[str, Sequence[str]]) -> str:
    # Those without a message first: what stands behind a reference is that message's.
    by = sorted(names.items(), key=lambda item: item[0] != "")
    shown = [", ".join(group) if not at else f"{at} {', '.join(group)}" for at, group in by]
    return f"{heading}: {'; '.join(shown)}"


def framed(lines: str) -> str:
    """The lines in their fence, as the text of a message."""
    opening, closing = tags(ID, ID, "", "", None, True, lines)
    return f"{opening}\n{lines}\n{closing}"


def read_framed(text: str) -> list[Listed] | None:
    """The names of an outline that is all of a text; None where it is none, word for word.

    >>> read_framed(framed("Names in what was left out here.\\nRead: #4 src/rows.py"))
    [Listed(name='src/rows.py', heading='Read', reference='#4')]
    """
    opened = _TAG.match(text)
    if opened is None:
        return None
    lines = text[opened.end() :].removesuffix(f"\n</{opened[1]}>")
    return read_lines(lines) if framed(lines) == text else None


def read_lines(lines: str) -> list[Listed] | None:
    """The names that stand in these lines; None where they are no outline's."""
    said, *rest = lines.split("\n")
    if not said.startswith(INTRODUCTION):
        return None
    listed: list[Listed] = []
    for line in rest:
        found = _LINE.fullmatch(line)
        if found is None:
            return None
        for group in found[2].split("; "):
            reference, _, names = group.rpartition(" ") if ", " not in group else _split(group)
            listed += [Listed(name, found[1], reference) for name in names.split(", ") if name]
    return listed


def _split(group: str) -> tuple[str, str, str]:
    first, comma, others = group.partition(", ")
    reference, blank, name = first.rpartition(" ")
    return reference, blank, name + comma + others


class _Secrets:
    """What must not be listed: secrets where they stand, and wherever else they do."""

    def __init__(self) -> None:
        from rehydrate.memory import redaction  # slow to load, and wanted by few

        self._redactor = redaction.Redactor()
        self._secrets_in = redaction.secrets_in
        self.runs: set[str] = set()
        """What stood in secrets, as far as it could be a name."""

    def said(self, text: str) -> str:
        """The text without them."""
        return self._noted(text, self._redactor(text).text)

    def given(self, text: str) -> str:
        """What a call was given, a value a line: JSON's escapes would become part of the names."""
        try:
            value = json.loads(text)
            before = "\n".join(_leaves(value))
            if not self._secrets_in(text):
                return before
            return self._noted(before, "\n".join(_leaves(self._redactor.inside(value))))
        except (ValueError, RecursionError):
            return self.said(text)

    def _noted(self, before: str, after: str) -> str:
        if before == after:
            return before
        after = _LABEL.sub(" ", after)
        self.runs.update(set(_RUN.findall(before)) - set(_RUN.findall(after)))
        return after


def _leaves(value: Any) -> Iterator[str]:
    """The texts and numbers in a value."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
