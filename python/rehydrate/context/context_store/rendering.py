"""The markdown of the context store, within a budget of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from rehydrate.context.context_store.commands import Command
from rehydrate.context.context_store.operations import TASK, Heading, Item, Items
from rehydrate.context.context_store.tool_table import CHANGES
from rehydrate.prompt.counting import text_tokens

ITEMS_SHARE = 1 / 3
"""Of the budget for items; lines of the conversation take what is left."""
MIN_TOKENS = 100
"""A smaller store would be mostly its headings."""
_MAX_ITEM = 300
"""Characters of one item; its handle leads to the rest."""
_MAX_REQUEST = 1_200
_LINES = "Lines, by what they were used for and where they stood"

WriteLines = Callable[[str, Callable[[str], bool]], str]
"""Lines of the conversation, of what a text does not show, as many as fit."""


def render(
    items: Items,
    budget_tokens: int,
    commands: Sequence[Command] = (),
    write_lines: WriteLines | None = None,
) -> str:
    """Return the store as markdown in at most ``budget_tokens``.

    The state of the task comes first in the budget, then the working set: files, open errors and
    commands, the newest first. Preferences, the strongest first, and decisions follow; where the
    room of a heading is short, its other items become one line of handles. Each takes at most its
    even part of what is left for those after it, and lines of the conversation take the rest.
    """
    if budget_tokens < MIN_TOKENS:
        return ""
    room = budget_tokens if write_lines is None else int(budget_tokens * ITEMS_SHARE)
    lines: dict[Heading, list[str]] = {}
    for after, heading in zip(range(len(_BY_WORTH), 0, -1), _BY_WORTH, strict=True):
        part = room // after
        written = list(within(part, _entries(items, heading, part, commands)))
        if heading is Heading.CONTEXT:
            written += _ran(commands, items, part - _tokens(written))
        if written:
            lines[heading] = written
            room -= _tokens([f"## {heading}", *written])
    text = _joined(lines, ())
    if write_lines is None:
        return text

    def with_lines(chosen: str) -> str:
        return _joined(lines, [f"{_LINES}:", *chosen.split("\n")])

    chosen = write_lines(
        text, lambda chosen: sum(text_tokens([with_lines(chosen)])) <= budget_tokens
    )
    return with_lines(chosen) if chosen else text


_BY_WORTH = (
    Heading.TASK_STATE,
    Heading.FILES,
    Heading.CONTEXT,
    Heading.PREFERENCES,
    Heading.DECISIONS,
)


def _joined(lines: dict[Heading, list[str]], chosen: Sequence[str]) -> str:
    parts = []
    for heading in Heading:
        under = [*lines.get(heading, ()), *(chosen if heading is Heading.CONTEXT else ())]
        if under:
            parts.append("\n".join([f"## {heading}", *under]))
    return "\n".join(parts)


def _entries(
    items: Items, heading: Heading, room: int, commands: Sequence[Command]
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


def told_uses(item: Item) -> str:
    """Return what was done with it, and where: ``edited #12, #18; read #3``."""
    done: dict[str, list[int]] = {}
    for use, entry in item.uses:
        done.setdefault(use, []).append(entry)
    return "; ".join(
        f"{use} {', '.join(f'#{entry}' for entry in entries)}" for use, entries in done.items()
    )


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
    if rest:
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
