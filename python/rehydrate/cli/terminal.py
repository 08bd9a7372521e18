"""What a terminal can show: its width, colour, bars, and text that cannot break the layout."""

from __future__ import annotations

import codecs
import os
import re
import shutil
import unicodedata
from collections.abc import Mapping
from typing import IO, Any, NamedTuple

PIPE_WIDTH = 120
"""Columns where there is no terminal to ask."""

_GLYPHS = "▏▎▍▌▋▊▉█░▒▓→…·×─"
_STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
# Escape sequences as a whole, so that "[31m" does not stay behind: CSI, then OSC and the other
# strings up to their terminator, then those of two characters.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|\Z)"
    r"|\x1b[ -/]*[0-~]?"
)
_MARKS_A_CHARACTER = 2
_REGIONAL_A, _REGIONAL_Z = 0x1F1E6, 0x1F1FF
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_JAMO_TAILS = range(0x1160, 0x1200)


class Terminal(NamedTuple):
    """How to write to one stream."""

    width: int = PIPE_WIDTH
    colour: bool = False
    unicode: bool = True
    encoding: str = "utf-8"

    @classmethod
    def of(
        cls, stream: IO[Any], colour: str = "auto", environ: Mapping[str, str] = os.environ
    ) -> Terminal:
        """The terminal behind a stream; `colour` is auto, always or never."""
        is_terminal = _is_terminal(stream)
        encoding = codecs.lookup(getattr(stream, "encoding", None) or "utf-8").name
        return cls(
            width=_width(stream, is_terminal, environ),
            colour=colour == "always" or (colour == "auto" and _wants_colour(is_terminal, environ)),
            unicode=_can_encode(_GLYPHS, encoding),
            encoding=encoding,
        )

    def paint(self, text: str, *styles: str) -> str:
        """The text in these styles, or as it is without colour."""
        if not (self.colour and styles and text):
            return text
        return f"\x1b[{';'.join(_STYLES[style] for style in styles)}m{text}\x1b[0m"

    def glyph(self, unicode: str, ascii: str) -> str:  # noqa: A002  the two alphabets
        """One or the other, whichever can be shown."""
        return unicode if self.unicode else ascii

    def bar(self, share: float, cells: int) -> str:
        """A bar that fills this share of so many cells, to an eighth of a cell.

        >>> Terminal().bar(0.5, 5), Terminal(unicode=False).bar(0.5, 5)
        ('██▌  ', '##   ')
        """
        share = min(max(share, 0.0), 1.0)
        if not self.unicode:
            return ("#" * max(int(share * cells + 0.49), share > 0)).ljust(cells)
        eighths = max(round(share * cells * 8), int(share > 0))
        full, part = divmod(eighths, 8)
        return ("█" * full + (_GLYPHS[part - 1] if part else "")).ljust(cells)

    def shade(self, share: float) -> str:
        """One cell, the darker the larger the share."""
        steps = self.glyph("·░▒▓█", ".:+*#")
        return steps[min(int(share * 4 + 0.5), 4)]

    def fit(self, text: str, cells: int) -> str:
        """Foreign text made safe, on one line, cut to at most so many cells.

        >>> Terminal().fit("\\x1b[31mred\\x07 alert", 7)
        'red al…'
        """
        return self.cut(self.safe(text), cells)

    def fit_end(self, text: str, cells: int) -> str:
        """Like `fit`, but what is cut is the beginning: of a path, the end says most."""
        backwards = self.safe(text)[::-1]
        return self.cut(backwards, cells)[::-1]

    def cut(self, text: str, cells: int) -> str:
        """Safe text cut to at most so many cells, with an ellipsis where something is missing."""
        if display_width(text) <= cells:
            return text
        taken = 0
        for place, character in enumerate(text):
            taken += _cells(character)
            if taken > cells - 1:
                return text[:place].rstrip() + self.glyph("…", "~") if cells > 0 else ""
        return text

    def safe(self, text: str) -> str:
        """Foreign text without anything that moves the cursor, changes colours or reorders.

        Escape sequences go as a whole, control characters become blanks, invisible ones go. What
        terminals disagree on the width of is made plain: joined emoji and skin tones come apart,
        flags become their letters. What the encoding lacks becomes a question mark.
        """
        text = unicodedata.normalize("NFC", _ESCAPES.sub(" ", text))
        characters: list[str] = []
        marks = 0
        for character in text:
            plain = character if " " <= character <= "~" else _plain(character)
            if not plain:
                continue
            if _cells(plain) == 0:
                marks += 1
                # A mark needs something to stand on, and a tower of them covers other lines.
                if not characters or marks > _MARKS_A_CHARACTER:
                    continue
            else:
                marks = 0
            characters.append(plain)
        line = " ".join("".join(characters).split())
        return line if self.encoding == "utf-8" else _encodable(line, self.encoding)


def display_width(text: str) -> int:
    """Cells that safe text takes: two for East Asian wide characters and emoji, none for marks.

    >>> display_width("日本"), display_width("שלום"), display_width("a")
    (4, 4, 1)
    """
    return len(text) if text.isascii() else sum(map(_cells, text))


def pad(text: str, cells: int, align: str = "<") -> str:
    """Text and blanks, so many cells wide."""
    blanks = " " * (cells - display_width(text))
    return blanks + text if align == ">" else text + blanks


def _cells(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.category(character) in ("Mn", "Me") or ord(character) in _JAMO_TAILS:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _plain(character: str) -> str:
    """A character as every terminal shows it; empty where it shows nothing."""
    code = ord(character)
    if _REGIONAL_A <= code <= _REGIONAL_Z:
        return chr(ord("A") + code - _REGIONAL_A)
    if code in _SKIN_TONES or 0xFE00 <= code <= 0xFE0F:
        return ""
    match unicodedata.category(character):
        case "Cf":  # joiners, and what reverses the direction of writing
            return ""
        case "Cc" | "Zl" | "Zp" | "Zs":
            return " "
        case "Cs" | "Co" | "Cn":  # lone surrogates, private use, unassigned: any width
            return "\N{REPLACEMENT CHARACTER}"
    return character


def _encodable(text: str, encoding: str) -> str:
    if _can_encode(text, encoding):
        return text
    return "".join([c if _can_encode(c, encoding) else "?" for c in text])


def _can_encode(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _is_terminal(stream: IO[Any]) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # no stream at all, or one that is closed
        return False


def _width(stream: IO[Any], is_terminal: bool, environ: Mapping[str, str]) -> int:
    asked = environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    if is_terminal:
        try:
            return os.get_terminal_size(stream.fileno()).columns or PIPE_WIDTH
        except (OSError, ValueError):
            return shutil.get_terminal_size((80, 24)).columns
    return PIPE_WIDTH


def _wants_colour(is_terminal: bool, environ: Mapping[str, str]) -> bool:
    """The conventions of no-color.org and force-color.org; a dumb terminal has none."""
    if environ.get("NO_COLOR"):
        return False
    force = environ.get("FORCE_COLOR", "")
    if force:
        return force not in ("0", "false")
    return is_terminal and environ.get("TERM") != "dumb"
