"""The templates of the pages, and the limits of what they show.

All markup is in templates/. Jinja2 escapes every value that a template writes, after `visible` has
replaced what a page cannot hold. The limits bound the size of a page for any session; the page
names what it leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rehydrate import _native
from rehydrate._native import span
from rehydrate._text import plural
from rehydrate.messages import PieceKind


def visible(value: object) -> str:
    """Return a value as text that a page may hold; what a template made is returned as it is.

    >>> visible("\\x1b[0m\\r\\n"), visible(7)
    ('␛[0m\\n', '7')
    """
    return value if isinstance(value, Markup) else _native.visible_text(str(value))


def render(template: str, **data: Any) -> str:
    """Return the page that a file of templates/ makes of the data."""
    plain = {word: _plain(value) for word, value in data.items()}
    return templates().get_template(template).render(plain)


class _Templates(Environment):
    """Templates that take no markup from their data: a host's Markup is text like any other."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        return _plain(super().getattr(obj, attribute))

    def getitem(self, obj: Any, argument: Any) -> Any:
        return _plain(super().getitem(obj, argument))


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Markup) else value


@cache
def templates() -> Environment:
    """Return the templates with their filters."""
    found = _Templates(
        loader=PackageLoader("rehydrate.page"),
        autoescape=True,
        finalize=visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    for each in (format, kind_labels, marked_lines, percent, plural, short, span):
        found.filters[each.__name__] = each
    found.tests["gap"] = lambda value: isinstance(value, Gap)
    return found


TEXT_CHARACTERS = 20_000
"""Maximum characters of one text, if the page has room."""
PAGE_CHARACTERS = 4_000_000
"""Maximum characters of all texts: a page of about ten megabytes, which a phone still opens."""
PAGE_MESSAGES = 8_000
"""Maximum messages: the oldest and the newest half; the units between them are summed up."""


def fair_share(lengths: Sequence[int], room: int = PAGE_CHARACTERS) -> int:
    """Return the maximum length of each text, so that all together fit into the room.

    >>> fair_share([10, 30_000]), fair_share([10, 500, 500], room=410)
    (20000, 200)
    """
    most = [min(length, TEXT_CHARACTERS) for length in lengths]
    return TEXT_CHARACTERS if sum(most) <= room else _native.fair_share(most, room)


class Gap(NamedTuple):
    """The entries that a page leaves out in the middle of a list; `is gap` in a template."""

    hidden: Sequence[Any]


def with_gap(items: Sequence[Any], room: int, sizes: Sequence[int] = ()) -> list[Any]:
    """Return the first and the last of the items, and a Gap in place of what has no room.

    >>> with_gap("abcde", 4), with_gap("abcde", 12, [5] * 5)
    (['a', 'b', Gap(hidden='c'), 'd', 'e'], ['a', 'b', Gap(hidden='c'), 'd', 'e'])
    """
    sizes = sizes or [1] * len(items)
    if sum(sizes) <= room:
        return list(items)
    first = _half(sizes, room)
    last = max(first, len(sizes) - _half(sizes[::-1], room))
    gap = [Gap(items[first:last])] if first < last else []
    return [*items[:first], *gap, *items[last:]]


def _half(sizes: Sequence[int], room: int) -> int:
    taken = 0
    for count, size in enumerate(sizes, 1):
        taken += size
        if taken >= room / 2:
            return count
    return len(sizes)


COLOURS = 8
"""Number of source colours in the style; further sources use them again."""
NAME_CHARACTERS = 200
"""Maximum characters shown of a name or a reason."""


def short(text: str, limit: int = NAME_CHARACTERS) -> str:
    """Return a foreign name on one line; a dash for none."""
    shown = text if len(text) <= limit else text[: limit - 1] + "…"
    return " ".join(shown.split()) or "–"


_HEADING = re.compile("#{1,6} ")
_HANDLE = re.compile(r"(?<![\w#&])(#\d+)\b")


def handles(text: str) -> list[str]:
    """Return the entries that a text names, each once, in the order of the conversation.

    >>> handles("edited #12, #3; see (#12), not C#4")
    ['#3', '#12']
    """
    return sorted(dict.fromkeys(_HANDLE.findall(text)), key=lambda handle: int(handle[1:]))


def marked_lines(text: str) -> Iterator[tuple[bool, list[str]]]:
    """Yield for each line of markdown whether it is a heading, and its parts: each second part is
    a handle.

    >>> list(marked_lines("## Decisions\\n- Use <b>. (#5)"))
    [(True, ['## Decisions']), (False, ['- Use <b>. (', '#5', ')'])]
    """
    for line in visible(text).split("\n"):
        yield _HEADING.match(line) is not None, _HANDLE.split(line)


def colours(sources: Iterable[str]) -> dict[str, str]:
    """Return a colour class for each source, in order."""
    return {source: f"s{index % COLOURS}" for index, source in enumerate(dict.fromkeys(sources))}


_KIND_LABELS = {
    PieceKind.TEXT: "",
    PieceKind.TOOL_INPUT: "calls",
    PieceKind.TOOL_RESULT: "result",
    PieceKind.THINKING: "thinking",
}


def kind_labels(kinds: Iterable[PieceKind]) -> str:
    """Return the labels of a message's pieces, each once; "" if all are plain text."""
    return " ".join(dict.fromkeys(filter(None, map(_KIND_LABELS.__getitem__, kinds))))


def percent(part: float, whole: float = 1.0) -> str:
    """Return a share as CSS, from 0% to 100%."""
    return f"{min(max(100 * part / whole, 0.0), 100.0) if whole > 0 else 0.0:.2f}%"
