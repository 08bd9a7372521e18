"""The markdown of the context store, within a budget of tokens, and how it is read back.

A summary of ours may become a message of the user's: then what its lines say is taken over, and
not its words summarised again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rehydrate.compact.outline import NameIndex, OutlineName, write_outline
from rehydrate.context.context_store.cues import CHANGES, RAN, exit_code, first_error, subjects
from rehydrate.context.context_store.operations import TASK, Heading, Item, Items
from rehydrate.messages import Message, PieceKind
from rehydrate.prompt.counting import text_tokens

_MAX_COMMAND = 80
"""Characters of a command that are shown, and of what it came to."""


class Command(NamedTuple):
    """The last run of one command."""

    text: str
    """Its first line."""
    outcome: str
    """The first line of its error, the number that it exited with, or ok."""
    answered: int
    """The entry of its result."""


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
    return [
        Command(_first_line(redactor(command).text), redactor(outcome).text, answered)
        for command, outcome, answered in ran.values()
        if answered not in visible
    ]


def _results(message: Message) -> Iterable[tuple[str, str]]:
    """Return what a message answers with the results; none where an empty one leaves it open which
    is whose."""
    texts = [text for text, kind in message.pieces if kind is PieceKind.TOOL_RESULT]
    if len(message.answers) == 1:
        return [(message.answers[0], "\n".join(texts))]
    return zip(message.answers, texts, strict=True) if len(message.answers) == len(texts) else ()


def _first_line(command: str) -> str:
    first, *others = command.splitlines()
    return f"{first[: _MAX_COMMAND - 1]}…" if others or len(first) > _MAX_COMMAND else first


def _outcome(result: str) -> str:
    code, error = exit_code(result), first_error(result)
    if code != 0 and error is not None:
        return " ".join(error.text.split())[:_MAX_COMMAND]
    return f"exit {code}" if code else "ok"


MAX_PRICE = 1.5
"""Characters of a line, at most, by those of its names in a list."""
_MAX_LINE = 300

_Lines = Mapping[OutlineName, str]
"""The lines of the names that are shown in one."""


def write_names(index: NameIndex, tokens: int) -> str:
    """Return the best names that are not visible, and lines of them, in at most so many tokens."""
    names = _fitting(index.best(max(tokens, 0)), {}, tokens)
    lines = _cheap_lines(names, index.hidden_texts())
    return _written(_fitting(names, lines, tokens), lines)


def _fitting(names: Sequence[OutlineName], lines: _Lines, tokens: int) -> Sequence[OutlineName]:
    most = bisect_right(
        range(1, len(names) + 1),
        tokens,
        key=lambda count: sum(text_tokens([_written(names[:count], lines)])),
    )
    return names[:most]


def _cheap_lines(names: Sequence[OutlineName], texts: Mapping[str, str]) -> _Lines:
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


def _written(names: Sequence[OutlineName], lines: _Lines) -> str:
    """Return the names by what they were used for, then the lines by where they were."""
    listed = write_outline([each for each in names if each not in lines], "", lambda _: True)
    quoted: dict[str, dict[str, None]] = {}
    for each in names:
        if each in lines:
            quoted.setdefault(f"{each.reference}:", {})[f"> {lines[each]}"] = None
    by_reference = ["\n".join([reference, *of_it]) for reference, of_it in quoted.items()]
    return "\n".join([*listed.split("\n")[1:], *by_reference])


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
_LONGEST_PREFACE = 200

WriteNames = Callable[[int, str], str]
"""Lines of names in at most so many tokens, of those that a text does not show."""


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
        live.sort(key=lambda item: (is_changed(item), item.last_entry), reverse=True)
    elif heading is Heading.TASK_STATE:
        live.sort(key=lambda item: (item.kind != "request", item.id))
    else:
        live.sort(key=_worth, reverse=True)
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


def _worth(item: Item) -> tuple[int, float, int]:
    return item.strength, item.trust, item.last_entry


def is_changed(item: Item) -> bool:
    """Return whether it is a file that was changed."""
    return any(use in CHANGES for use, _ in item.uses)


def uses_text(item: Item) -> str:
    """Return what was done with it, and where: ``edited #12, #18; read #3``."""
    done: dict[str, list[int]] = {}
    for use, entry in item.uses:
        done.setdefault(use, []).append(entry)
    return "; ".join(
        f"{use} {', '.join(f'#{entry}' for entry in entries)}" for use, entries in done.items()
    )


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
    found = _markdown(text)
    if found or not text.startswith(SUMMARY):
        return found or None
    by_model, _, added = text.partition(f"\n{WORD_FOR_WORD}\n")
    by_model = by_model.removeprefix(SUMMARY).strip()
    if by_model:
        found.append(SummaryLine(Heading.TASK_STATE, TASK, by_model, text.index(by_model)))
    at = len(text) - len(added)
    for line in added.splitlines(keepends=True):
        kind, colon, body = line.rstrip().removeprefix("- ").partition(": ")
        heading = next((each for each, own in _KINDS.items() if own == kind), None)
        if heading is not None:
            found += _lines_of(heading, kind, body, at + len(f"- {kind}{colon}"))
        at += len(line)
    return found


def _markdown(text: str) -> list[SummaryLine]:
    """Return what the store's markdown says; nothing of a text that has any other line."""
    headings = {f"## {heading}": heading for heading in Heading}
    found: list[SummaryLine] = []
    heading, in_names, at = None, False, 0
    for number, whole in enumerate(text.splitlines(keepends=True)):
        start, at, line = at, at + len(whole), whole.rstrip()
        if line in headings:
            heading, in_names = headings[line], False
        elif heading is None:
            if line and (number or len(line) > _LONGEST_PREFACE):
                return []
        elif line == f"{_NAMES}:":
            in_names = True
        elif line.startswith("- ran "):
            continue  # what a command came to is read from its result
        elif line.startswith("- "):
            labels = {"[ ] ": "plan", "open error: ": "error", "": _KINDS[heading]}
            label = next(each for each in labels if line.startswith(f"- {each}"))
            body = line.removeprefix(f"- {label}")
            found += _lines_of(heading, labels[label], body, start + len(f"- {label}"))
        elif line and not in_names:
            return []
    return found


def _lines_of(heading: Heading, kind: str, line: str, start: int) -> Iterator[SummaryLine]:
    """Read a line without its label; one that only has handles says nothing."""
    if kind == "file":
        path, _, uses = line.rpartition(": ")
        done = [use.partition(" #")[0] for use in uses.split("; ") if " #" in use]
        if not path:  # as a summary's addition
            words = line.split(" ")
            while len(words) > 2 and words[-1].startswith("#"):
                done.insert(0, words[-2])
                del words[-2:]
            path = " ".join(words)
        yield SummaryLine(heading, kind, path, start, tuple(done))
        return
    text, _, handle = line.rpartition(" (#")
    if text and handle.endswith(")") and handle[:-1].isdecimal():
        yield SummaryLine(heading, kind, text, start)


_KINDS = {
    Heading.TASK_STATE: "request",
    Heading.DECISIONS: "decision",
    Heading.FILES: "file",
    Heading.CONTEXT: "note",
    Heading.PREFERENCES: "preference",
}


def _line(item: Item, longest: int, ran: str) -> str:
    if item.kind == "file":
        last = dict(item.uses)  # of each use
        return f"- {item.text}: {'; '.join(f'{use} #{entry}' for use, entry in last.items())}"
    text = " ".join(item.text.split())
    if item.kind == "error":
        text = ran + text
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
        handles = list(dict.fromkeys(item.span.handle for item in sorted(rest, key=_by_entry)))
        shown = " ".join(handles)
        while handles and _tokens([shown]) > max(left - 12, 24):
            handles = handles[len(handles) // 3 + 1 :]
            shown = f"... {' '.join(handles)}"
        yield f"- {len(rest)} more: {shown}"


def _by_entry(item: Item) -> int:
    return item.span.entry


def _tokens(lines: Sequence[str]) -> int:
    return sum(text_tokens(lines)) + len(lines)
