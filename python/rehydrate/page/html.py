"""HTML helpers of the pages: escaping of foreign text, limits, and small pieces.

The limits bound the size of a page for any session; the page names what it leaves out. The small
pieces are names, figures, colours of sources, and the opening: no script, nothing loaded, styles
inside.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files

from rehydrate.messages import PieceKind

# Control characters, half surrogate pairs, code points that are not characters; and all of the
# higher planes, since only the last two of each are none.
_UNFIT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff\U0001fffe-\U0010ffff]"
)
_PICTURES = {0x7F: "\N{SYMBOL FOR DELETE}"} | {code: chr(0x2400 + code) for code in range(0x20)}


def escaped(text: str) -> str:
    """Return the text escaped for use between tags; no attribute ever holds foreign text.

    >>> escaped('</script> "a" & \\x1b[0m')
    '&lt;/script&gt; "a" &amp; ␛[0m'
    """
    text = text.replace("\r\n", "\n")
    return html.escape(_UNFIT.sub(_fit, text), quote=False)


def _fit(unfit: re.Match[str]) -> str:
    code = ord(unfit.group())
    if code > 0xFFFF and code & 0xFFFE != 0xFFFE:
        return unfit.group()
    return _PICTURES.get(code, "\N{REPLACEMENT CHARACTER}")


TEXT_CHARACTERS = 20_000
"""Maximum characters of one text, where the page has room."""
PAGE_CHARACTERS = 4_000_000
"""Maximum characters of all texts: a page of about ten megabytes, which a phone still opens."""
PAGE_MESSAGES = 8_000
"""Maximum messages: the oldest and the newest half; the units between them are summed up."""


def fair_share(lengths: Sequence[int], room: int = PAGE_CHARACTERS) -> int:
    """Return the maximum length of each text, so that all together fit into the room.

    >>> fair_share([10, 30_000]), fair_share([10, 500, 500], room=410)
    (20000, 200)
    """
    smallest, largest = 0, TEXT_CHARACTERS
    if sum(min(length, largest) for length in lengths) <= room:
        return largest
    while largest - smallest > 1:
        middle = (smallest + largest) // 2
        fits = sum(min(length, middle) for length in lengths) <= room
        smallest, largest = (middle, largest) if fits else (smallest, middle)
    return smallest


def shown_ends(sizes: Sequence[int], room: int = PAGE_MESSAGES) -> tuple[int, int]:
    """Return how many are shown from the beginning, and the index from which the end is shown.

    >>> shown_ends([5, 5, 5]), shown_ends([5, 5, 5, 5, 5], room=12)
    ((3, 3), (2, 3))
    """
    if sum(sizes) <= room:
        return len(sizes), len(sizes)
    first = _half(sizes, room)
    return first, max(first, len(sizes) - _half(sizes[::-1], room))


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


def name(text: str, limit: int = NAME_CHARACTERS) -> str:
    """Return a foreign name, isolated so that its direction marks move nothing next to it."""
    shown = text if len(text) <= limit else text[: limit - 1] + "…"
    return f"<bdi>{escaped(' '.join(shown.split()) or '–')}</bdi>"


_HEADING = re.compile("#{1,6} ")
_HANDLE = re.compile(r"(?<![\w#&])#\d+\b")


def handles(text: str) -> list[str]:
    """Return the entries that a text names, each once, in the order of the conversation.

    >>> handles("edited #12, #3; see (#12), not C#4")
    ['#3', '#12']
    """
    return sorted(dict.fromkeys(_HANDLE.findall(text)), key=lambda handle: int(handle[1:]))


def markdown(text: str) -> str:
    """Return foreign markdown as it is, escaped, with its headings and its handles marked.

    >>> markdown("## Decisions\\n- Use <b>. (#5)")
    '<b class="heading">## Decisions</b>\\n- Use &lt;b&gt;. (<span class="handle">#5</span>)'
    """
    lines = []
    for line in escaped(text).split("\n"):
        marked = _HANDLE.sub(r'<span class="handle">\g<0></span>', line)
        lines.append(f'<b class="heading">{marked}</b>' if _HEADING.match(line) else marked)
    return "\n".join(lines)


def tokens(count: int) -> str:
    """Return a number of tokens for the end of a line."""
    return f'<span class="tokens">{count:,} tokens</span>'


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


def percent(part: float, whole: float) -> str:
    """Return a share as CSS, from 0% to 100%."""
    return f"{min(max(100 * part / whole, 0.0), 100.0) if whole > 0 else 0.0:.2f}%"


def opening(title: str, *styles: str, body: str = "<body>") -> Iterator[str]:
    """Yield the lines up to the body's tag; `styles` are files next to this one."""
    own = files(__package__)
    style = "".join(own.joinpath(file).read_text("utf-8") for file in ("style.css", *styles))
    yield "<!doctype html>"
    yield '<html lang="en">'
    yield "<head>"
    yield '<meta charset="utf-8">'
    yield (
        '<meta http-equiv="Content-Security-Policy"'
        " content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    )
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escaped(title)}</title>"
    yield f"<style>\n{style}</style>"
    yield "</head>"
    yield body


def document(
    title: str, head: Iterable[str], main: Iterable[str], *styles: str, body: str = "<body>"
) -> str:
    """Return a whole page: the opening, the lines of its head, and those of its main part."""
    parts = [
        *opening(title, *styles, body=body),
        *head,
        "<main>",
        *main,
        "</main>",
        "</body>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"
