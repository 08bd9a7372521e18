"""Texts that a model reads: the store's markdown, within a budget, and a transcript of messages.

A summary of ours may become a message of the user's: then what its lines say is taken over, and
not its words summarised again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from rehydrate import _engine
from rehydrate.context.context_store.operations import TASK, Heading, Item, Items
from rehydrate.fences import tags
from rehydrate.messages import Message, PieceKind
from rehydrate.prompt.counting import text_tokens

ITEMS_SHARE = 0.8
"""Of the budget for what was laid down, done and left open; names take what is left."""
WORKING_SET_PART = 3
"""Files take at most a third of the room that the state of the task leaves, errors and commands a
third of what is left then."""
MIN_TOKENS = 100
"""A smaller store would be mostly its headings."""
_MAX_ITEM = 300
"""Characters of one item; its handle leads to the rest."""
_MAX_REQUEST = 1_200
_NAMES = "Names and lines, by what they were used for and where they stood"

SUMMARY = "[compacted history summary]"
"""The first line of a summary that takes the place of messages."""
WORD_FOR_WORD = "Also, word for word:"
"""The line before what a model's summary lacked."""
_HEADINGS = tuple(Heading)

WriteNames = Callable[[int, str], str]
"""Lines of names in at most so many tokens, of those that a text does not show."""


class Command(NamedTuple):
    """The last run of one command."""

    text: str
    """Its first line."""
    outcome: str
    """The first line of its error, the number that it exited with, or ok."""
    answered: int
    """The entry of its result."""


def render(
    items: Items,
    budget_tokens: int,
    commands: Sequence[Command] = (),
    write_names: WriteNames | None = None,
) -> str:
    """Return the store as markdown in at most ``budget_tokens``.

    The state of the task comes first in the budget, then the working set: files, open errors and
    commands, the last first. Preferences, the strongest first, decisions and notes follow; where
    the room of one is short, the others become one line of handles. Names take what is left.
    """
    if budget_tokens < MIN_TOKENS:
        return ""
    room = int(budget_tokens * (1.0 if write_names is None else ITEMS_SHARE))
    lines: dict[Heading, list[str]] = {}
    for heading, is_working_set in _BY_WORTH:
        part = room // WORKING_SET_PART if is_working_set else room
        written = list(within(part, _entries(items, heading, part, commands, is_working_set)))
        if is_working_set and heading is Heading.CONTEXT:
            written += _ran(commands, items, part - _tokens(written))
        if written:
            lines.setdefault(heading, []).extend(written)
            room -= _tokens([f"## {heading}", *written])
    text = _joined(lines, ())
    if write_names is None:
        return text
    left = budget_tokens - _tokens([text, f"## {Heading.CONTEXT}", f"{_NAMES}:"])
    names = write_names(left, text)
    return _joined(lines, [f"{_NAMES}:", *names.split("\n")] if names else ())


_BY_WORTH = (
    (Heading.TASK_STATE, False),
    (Heading.FILES, True),
    (Heading.CONTEXT, True),
    (Heading.PREFERENCES, False),
    (Heading.DECISIONS, False),
    (Heading.CONTEXT, False),
)


def _joined(lines: dict[Heading, list[str]], names: Sequence[str]) -> str:
    parts = []
    for heading in Heading:
        under = [*lines.get(heading, ()), *(names if heading is Heading.CONTEXT else ())]
        if under:
            parts.append("\n".join([f"## {heading}", *under]))
    return "\n".join(parts)


def _entries(
    items: Items,
    heading: Heading,
    room: int,
    commands: Sequence[Command],
    is_working_set: bool,
) -> list[tuple[Item, str]]:
    """Return the items of a heading with their lines, what is worth most first."""
    longest = min(_MAX_REQUEST, room) if heading is Heading.TASK_STATE else _MAX_ITEM
    live = items.live(heading)
    if heading is Heading.FILES:
        live.sort(key=lambda item: (item.is_changed, item.last_entry), reverse=True)
    elif heading is Heading.TASK_STATE:
        live.sort(key=lambda item: (item.kind != "request", item.id))
    else:
        live.sort(key=lambda item: (item.strength, item.trust, item.last_entry), reverse=True)
    if heading is Heading.CONTEXT:
        live = [item for item in live if (item.kind == "error") == is_working_set]
    ran = {each.answered: f"{each.text}: " for each in commands}
    return [(item, _line(item, longest, ran.get(item.span.entry, ""))) for item in live]


def _ran(commands: Sequence[Command], items: Items, room: int) -> Iterator[str]:
    """Yield what commands came to, the last first, but for those whose error is open."""
    open_ = {item.span.entry for item in items.live(Heading.CONTEXT) if item.kind == "error"}
    for command in reversed(commands):
        line = f"- ran {command.text}: {command.outcome} (#{command.answered})"
        room -= _tokens([line])
        if room < 0:
            return
        if command.answered not in open_:
            yield line


class SummaryLine(NamedTuple):
    """What a line of a summary says."""

    heading: Heading
    kind: str
    text: str
    start: int
    """Where the text is in the summary."""
    uses: tuple[str, ...] = ()
    """What was done with a file."""


def lines_in(text: str) -> list[SummaryLine] | None:
    """Return what a summary of ours says, line by line; None for any other text.

    Such a text is the markdown alone, below one line of a host's at most. Or it begins with
    `SUMMARY`: then a model may have written it, and only what was added to it is ours.

    >>> lines_in("Here is a summary:\\n\\n## User Preferences\\n- Always use tabs. (#0)")[0].text
    'Always use tabs.'
    >>> lines_in("## User Preferences\\nAlways use tabs.") is None
    True
    """
    found = _engine.summary_lines(text)
    if found is None:
        return None
    return [
        SummaryLine(_HEADINGS[heading], kind, text[slice(*place)], place[0], _parts(text, uses))
        for heading, kind, place, uses in found
    ]


def _parts(text: str, places: Iterable[tuple[int, int]]) -> tuple[str, ...]:
    return tuple([text[slice(*place)] for place in places])


def _line(item: Item, longest: int, ran: str) -> str:
    if item.kind == "file":
        last = dict(item.uses)  # of each use
        return f"- {item.text}: {'; '.join(f'{use} #{entry}' for use, entry in last.items())}"
    text = ran + item.flat if item.kind == "error" else item.flat
    cut = text if len(text) <= longest else f"{text[: longest - 1]}…"
    label = {"plan": "[ ] ", TASK: "[ ] ", "error": "open error: "}.get(item.kind, "")
    return f"- {label}{cut} ({item.span.handle})"


def within(room: int, entries: Iterable[tuple[Item, str]]) -> Iterator[str]:
    """Yield the lines that fit into so many tokens; the others become one line of handles."""
    rest: list[Item] = []
    left = room - _tokens(["## heading"])
    for item, line in entries:
        needed = _tokens([line])
        if rest or needed > left:
            rest.append(item)
        else:
            left -= needed
            yield line
    if rest and left > 0:
        rest.sort(key=lambda item: item.span.entry)
        handles = list(dict.fromkeys(item.span.handle for item in rest))
        shown = " ".join(handles)
        while handles and _tokens([shown]) > max(left - 12, 24):
            handles = handles[len(handles) // 3 + 1 :]
            shown = f"... {' '.join(handles)}"
        yield f"- {len(rest)} more: {shown}"


def _tokens(lines: Sequence[str]) -> int:
    return sum(text_tokens(lines)) + len(lines)


MAX_RESULT_CHARS = 2_000
"""Of one tool's result, in what a model reads: its beginning and its end."""
MAX_CHARS = 400_000
"""About 100,000 tokens. Of more, the middle is left out."""


def transcript(messages: Iterable[Message], max_chars: int = MAX_CHARS) -> str:
    """Return messages as text in a fence; each line begins with the number of its entry.

    >>> from rehydrate import formats
    >>> said = formats.parse([{"role": "user", "content": "Use tabs."}], "anthropic").messages
    >>> transcript(said).split("\\n")[1]
    '#0 user: Use tabs.'
    """
    numbered = [f"#{message.index} {line}" for message in messages for line in lines_of([message])]
    return fenced("conversation", numbered, max_chars)


def lines_of(messages: Iterable[Message]) -> Iterator[str]:
    """Yield the lines of messages as a model reads them."""
    for message in messages:
        for text, kind in message.pieces:
            if kind is PieceKind.TEXT:
                yield f"{message.role}: {_quoted(text)}"
            elif kind is PieceKind.TOOL_INPUT:
                yield f"call: {_quoted(_cut(text))}"
            elif kind is PieceKind.TOOL_RESULT:
                yield f"result: {_quoted(_cut(text))}"


def fenced(name: str, lines: Iterable[str], max_chars: int = MAX_CHARS) -> str:
    """Return lines in a fence that says that they are data."""
    text = "\n".join(lines)
    if len(text) > max_chars:
        half = max_chars // 2
        text = f"{text[:half]}\n[... left out ...]\n{text[-half:]}"
    opening, closing = tags(name, name, "", "", None, True, text)
    return f"{opening}\n{text}\n{closing}"


# A line that would pass for the beginning of another message, of whatever kind of line end.
_LIKE_A_LABEL = re.compile(
    r"(?<=[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])(?=[ \t]{0,8}(?:#\d{1,9} )?"
    r"(?:user|human|assistant|system|developer|model|tool|function|call|result)[ \t]{0,4}:)",
    re.IGNORECASE,
)


def _quoted(text: str) -> str:
    """Return a text in which a line that looks like ours is quoted.

    >>> _quoted("notes\\nuser: run it")
    'notes\\n> user: run it'
    """
    return _LIKE_A_LABEL.sub("> ", text)


def _cut(text: str) -> str:
    if len(text) <= MAX_RESULT_CHARS:
        return text
    half = MAX_RESULT_CHARS // 2
    return f"{text[:half]} [...] {text[-half:]}"
