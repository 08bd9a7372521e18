"""Terminal output: width, colours, bars, progress, and text that cannot break the layout."""

from __future__ import annotations

import codecs
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from rehydrate import _native
from rehydrate._jsonl import whole_file
from rehydrate._native import as_unicode, plain
from rehydrate._text import as_json

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

T = TypeVar("T")

USAGE = 2
"""Exit code of a mistake in the arguments or the input, which the user can correct."""
INTERNAL = 70
"""Exit code of a bug of Rehydrate (EX_SOFTWARE of sysexits.h)."""


GAP = "  "
"""Between the columns of a table."""
REST_CELLS = 20
"""Room that a table leaves for the texts in its last column, before columns of a rank."""


class Failure(Exception):  # noqa: N818  it is one, and `Error` would suggest ours
    """Ends the command with one line on standard error that names place, problem and remedy."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        """Take the line without the program's name, and the exit code."""
        super().__init__(message)
        self.code = code


PIPE_WIDTH = 120
"""Width in columns if there is no terminal."""

_GLYPHS = "█░▒▓→…·└"
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


class Terminal(NamedTuple):
    """Options for writing to one stream."""

    width: int = PIPE_WIDTH
    colour: bool = False
    unicode: bool = True
    encoding: str = "utf-8"

    @classmethod
    def of(
        cls, stream: IO[Any], colour: str = "auto", environ: Mapping[str, str] = os.environ
    ) -> Terminal:
        """Return the terminal of a stream; `colour` is auto, always or never."""
        encoding = codecs.lookup(getattr(stream, "encoding", None) or "utf-8").name
        return cls(
            width=_width(stream, environ),
            colour=colour == "always" or (colour == "auto" and _wants_colour(stream, environ)),
            unicode=_GLYPHS.encode(encoding, "replace").decode(encoding) == _GLYPHS,
            encoding=encoding,
        )

    def paint(self, text: str, *styles: str) -> str:
        """Return the text in these styles, or unchanged without colour."""
        if not (self.colour and styles and text):
            return text
        return f"\x1b[{';'.join(_STYLES[style] for style in styles)}m{text}\x1b[0m"

    def glyph(self, unicode: str, ascii: str) -> str:  # noqa: A002  the two alphabets
        """Return the first, or the second if the stream cannot show it."""
        return unicode if self.unicode else ascii

    def shade(self, share: float) -> str:
        """Return one cell, the darker the larger the share."""
        steps = self.glyph("·░▒▓█", ".:+*#")
        return steps[min(int(share * 4 + 0.5), 4)]

    def fit(self, text: str, cells: int) -> str:
        """Return foreign text made safe, on one line, cut to the given number of cells.

        >>> Terminal().fit("\\x1b[31mred\\x07 alert", 7)
        'red al…'
        """
        return self.cut(self.safe(text), cells)

    def fit_end(self, text: str, cells: int) -> str:
        """Like `fit`, but cut at the beginning: the end of a path says most."""
        backwards = self.safe(text)[::-1]
        return self.cut(backwards, cells)[::-1]

    def cut(self, text: str, cells: int) -> str:
        """Return safe text cut to the given number of cells, with an ellipsis if it is cut."""
        if display_width(text) <= cells:
            return text
        from rich.cells import set_cell_size

        return set_cell_size(text, cells - 1).rstrip() + self.glyph("…", "~") if cells > 0 else ""

    def safe(self, text: str) -> str:
        """Return foreign text without anything that moves the cursor, changes colours or reorders.

        Escape sequences and invisible characters are removed, control characters become blanks.
        Characters of unclear width are simplified: joined emoji and skin tones come apart, flags
        become their letters. A character that the encoding lacks becomes a question mark.
        """
        return _native.safe_line(text).encode(self.encoding, "replace").decode(self.encoding)


def display_width(text: str) -> int:
    """Return the cells of safe text: two for East Asian wide characters and emoji, none for marks.

    >>> display_width("日本"), display_width("שלום"), display_width("a")
    (4, 4, 1)
    """
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def pad(text: str, cells: int, align: str = "<") -> str:
    """Return the text filled with blanks to the given number of cells."""
    blanks = " " * (cells - display_width(text))
    return blanks + text if align == ">" else text + blanks


class Column(NamedTuple):
    """A column of a table."""

    title: str
    cells: Sequence[str]
    align: str = "<"
    rank: int = 0
    """Columns of the highest rank are left out first if there is no room; 0 is always shown."""
    styles: Sequence[str] = ()
    """The style of each cell, such as ``"green bold"``."""


def table(
    columns: Sequence[Column],
    terminal: Terminal,
    rest: Column | None = None,
    dim: Container[int] = (),
) -> Iterator[str]:
    """Yield a table that fits the terminal: its header, if it has titles, then a line for each row.

    ``rest`` is the last column, of foreign texts: they are cut to the room that the others leave.
    Rows in ``dim`` are dim as a whole.

    >>> list(table([Column("berth", ["4"]), Column("boats", ["12"], ">")], Terminal()))
    ['berth  boats', '4         12']
    """
    least = REST_CELLS if rest is not None else -len(GAP)
    shown = [(max(map(display_width, (each.title, *each.cells))), each) for each in columns]
    while (room := terminal.width - sum(width + len(GAP) for width, _ in shown)) < least and (
        most := max(column.rank for _, column in shown)
    ):
        shown = [each for each in shown if each[1].rank < most]
    if rest is not None and room >= len(rest.title):
        texts = [terminal.fit(text, room) for text in rest.cells]
        shown.append((0, rest._replace(cells=texts)))
    filled = [
        [pad(text, width, column.align) for text in (column.title, *column.cells)]
        for width, column in shown
    ]
    header, *rows = zip(*filled, strict=True)
    if any(map(str.strip, header)):
        yield terminal.paint(terminal.cut(GAP.join(header).rstrip(), terminal.width), "dim")
    for number, row in enumerate(rows):
        line = GAP.join(row).rstrip()
        if display_width(line) > terminal.width:
            line = terminal.cut(line, terminal.width)
        elif number not in dim:
            painted = []
            for cell, (_, column) in zip(row, shown, strict=True):
                text = cell.rstrip()  # blanks in colour would remain at the end of the line
                styles = column.styles[number].split() if column.styles else ()
                painted.append(terminal.paint(text, *styles) + cell[len(text) :])
            line = GAP.join(painted).rstrip()
        yield terminal.paint(line, "dim") if number in dim else line


def size(count: int) -> str:
    """Return a number of bytes in a unit that suits it.

    >>> size(20), size(4_200_000)
    ('20 bytes', '4.2 MB')
    """
    from rich.filesize import decimal

    return decimal(count)


def _width(stream: IO[Any], environ: Mapping[str, str]) -> int:
    columns = environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or PIPE_WIDTH
    except (AttributeError, OSError, ValueError):  # no stream, or one that is not of a terminal
        return PIPE_WIDTH


def is_terminal(stream: IO[Any] | None) -> bool:
    """Return whether a person is at the other end of a stream; False if it is closed."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def _wants_colour(stream: IO[Any], environ: Mapping[str, str]) -> bool:
    """Follow no-color.org and force-color.org; a dumb terminal has no colours."""
    if environ.get("NO_COLOR"):
        return False
    force = environ.get("FORCE_COLOR", "")
    if force:
        return force not in ("0", "false")
    return is_terminal(stream) and environ.get("TERM") != "dumb"


def write(text: str, path: Path | None = None, option: str = "-o", what: str = "") -> None:
    """Write data as UTF-8, whatever the locale, with line ends unchanged; half of a surrogate pair,
    which UTF-8 cannot hold, is U+FFFD.

    `option` named the path; a failure asks the user to pass another one with it. The user is
    informed of a file that holds `what`.
    """
    data = as_unicode(text).encode()
    if path is None:
        _write_out(data)
        return
    try:
        # Replaces the target of a link, not the link.
        with whole_file(path.resolve(), keeps_mode=True) as draft:
            draft.write_bytes(data)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = getattr(error, "strerror", None) or error
        raise Failure(
            f"{path} cannot be written: {reason}; name another file with {option}"
        ) from None
    if what:
        say(f"wrote {path}: {what}")


def show(lines: Iterable[str], terminal: Terminal) -> None:
    """Write lines to read, in the terminal's encoding."""
    text = "".join([line + "\n" for line in lines])
    _write_out(text.encode(terminal.encoding, errors="replace"))


def answer(
    options: Namespace,
    value: Any,
    lines: Callable[[Terminal], Iterable[str]],
    indent: int | None = 2,
) -> None:
    """Write a command's result: the value as JSON where --json is given, records as objects; else
    the lines."""
    if options.json:
        write(as_json(plain(value), indent=indent) + "\n")
    else:
        terminal = Terminal.of(sys.stdout, getattr(options, "color", "auto"))
        show(lines(terminal), terminal)


def say(line: str) -> None:
    """Write one line for the user to standard error, without terminal escapes; if that cannot be
    written, nothing else is lost."""
    if sys.stderr is None:
        return
    indent = len(line) - len(line.lstrip(" "))
    with suppress(OSError):
        print(" " * indent + Terminal.of(sys.stderr).safe(line), file=sys.stderr)


def confirmed(question: str) -> bool:
    """Ask the user, and return whether they said yes; raises Failure if nobody can be asked."""
    if not is_terminal(sys.stdin):
        raise Failure(f"{question} Nobody can be asked here; say yes with --yes")
    print(f"{Terminal.of(sys.stderr).safe(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _write_out(data: bytes) -> None:
    if sys.stdout is None:
        raise Failure(
            "standard output is closed; connect it, or name a file where one can be named"
        )
    try:
        # Unbuffered (python -u), a write may take only the beginning.
        rest = memoryview(data)
        while rest:
            rest = rest[sys.stdout.buffer.write(rest) :]
        sys.stdout.buffer.flush()
    except OSError as error:
        # The rest goes nowhere: the flush at exit must not fail too.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        raise Failure(f"standard output cannot be written: {error.strerror}") from None


class Progress:
    """Progress, shown while the block runs if standard error is a terminal.

    With a total it is a bar, without one a count.
    """

    def __init__(
        self, doing: str, unit: str, total: int | None = None, *, shows_rate: bool = False
    ) -> None:
        """Take the name of the work, the unit that is counted, and the total if it is known.

        With `shows_rate` it also says how long the rest will take.
        """
        self._doing = doing
        self._unit = unit
        self._total = total
        self._shows_rate = shows_rate
        self._bar: Bar | None = None

    def advance(self, steps: int) -> None:
        """Count finished steps."""
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[0], steps)

    def over(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, and count each."""
        for item in items:
            self.advance(1)
            yield item

    def skip(self, steps: int) -> None:
        """Count steps that were finished before, without counting them for the speed."""
        if self._bar is not None:
            (task,) = self._bar.tasks
            self._bar.reset(task.id, completed=int(task.completed) + steps)

    def __enter__(self) -> Self:
        """Start drawing, if standard error is a terminal."""
        if is_terminal(sys.stderr):
            self._bar = self.bar(sys.stderr)
            self._bar.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Clear the line: the next output goes where it was."""
        if self._bar is not None:
            self._bar.stop()

    def bar(self, stream: IO[str]) -> Bar:
        """Return the bar on a stream."""
        from rich import progress
        from rich.console import Console

        columns: list[progress.ProgressColumn] = [
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}", markup=False),
            progress.MofNCompleteColumn(),
            progress.TextColumn(self._unit, markup=False),
            progress.TimeElapsedColumn(),
        ]
        if self._total is not None:
            columns[2:2] = [progress.BarColumn(), progress.TaskProgressColumn()]
        if self._shows_rate:
            columns.append(progress.TimeRemainingColumn(compact=True))
        bar = progress.Progress(*columns, console=Console(file=stream), transient=True)
        bar.add_task(Terminal.of(stream).safe(self._doing), total=self._total)
        return bar
