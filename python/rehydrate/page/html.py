"""Foreign text made safe for a page: what could be markup, and what no page may hold.

How much a page shows: no session is too large for it, and what it leaves out it names.

Small pieces that the pages are written with: names, figures, colours of sources.

How every page opens: no script, nothing loaded, its styles inside.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files

# Control characters, half surrogate pairs, code points that are no characters; and all of the
# higher planes, since only the last two of each are none.
_UNFIT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff\U0001fffe-\U0010ffff]"
)
_PICTURES = {0x7F: "\N{SYMBOL FOR DELETE}"} | {code: chr(0x2400 + code) for code in range(0x20)}


def escaped(text: str) -> str:
    """The text as it may stand between tags; no attribute ever holds foreign text.

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
"""Of one stretch of text, where the page has room."""
PAGE_CHARACTERS = 4_000_000
"""Of all of them: a page of some ten megabytes, which a phone still opens."""
PAGE_MESSAGES = 8_000
"""The oldest and the newest half of so many; the units between them are summed up."""


def fair_share(lengths: Sequence[int], room: int = PAGE_CHARACTERS) -> int:
    """The most that each may take so that all together stay within the room.

    >>> fair_share([10, 30_000]), fair_share([10, 500, 500], room=410)
    (20000, 200)
    """
    least, most = 0, TEXT_CHARACTERS
    if sum(min(length, most) for length in lengths) <= room:
        return most
    while most - least > 1:
        middle = (least + most) // 2
        fits = sum(min(length, middle) for length in lengths) <= room
        least, most = (middle, most) if fits else (least, middle)
    return least


def shown_ends(sizes: Sequence[int], room: int = PAGE_MESSAGES) -> tuple[int, int]:
    """How many are shown from the beginning, and from which place on to the end.

    >>> shown_ends([5, 5, 5]), shown_ends([5, 5, 5, 5, 5], room=12)
    ((3, 3), (2, 3))
    """
    if sum(sizes) <= room:
        return len(sizes), len(sizes)
    first = _half(sizes, room)
    return first, max(first, len(sizes) - _half(sizes[::-1], room))


def _half(sizes: Sequence[int], room: int) -> int:
    taken = 0
    for place, size in enumerate(sizes):
        taken += size
        if taken >= room / 2:
            return place + 1
    return len(sizes)


COLOURS = 8
"""Of sources in the style; further ones begin anew."""
NAME_CHARACTERS = 200
"""Of a name or a reason that is longer, so many are shown."""


def name(text: str, limit: int = NAME_CHARACTERS) -> str:
    """A foreign name, which no direction mark in it lets move what stands beside it."""
    shown = text if len(text) <= limit else text[: limit - 1] + "…"
    return f"<bdi>{escaped(' '.join(shown.split()) or '–')}</bdi>"


def plural(count: int, one: str, many: str = "") -> str:
    """A number and its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def tokens(count: int) -> str:
    """A number of tokens, as it stands at the end of a line."""
    return f'<span class="tokens">{count:,} tokens</span>'


def colours(sources: Iterable[str]) -> dict[str, str]:
    """A class of colour for each source, in the order in which they come."""
    return {source: f"s{place % COLOURS}" for place, source in enumerate(dict.fromkeys(sources))}


def percent(part: float, whole: float) -> str:
    """A share as CSS has it, never outside of its box."""
    return f"{min(max(100 * part / whole, 0.0), 100.0) if whole > 0 else 0.0:.2f}%"


def opening(title: str, *styles: str, body: str = "<body>") -> Iterator[str]:
    """The lines up to the body's tag; `styles` are files beside this one."""
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
