"""Declaring commands and options, options that several commands share, and reading of files."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rehydrate._native import Document, file_text
from rehydrate.cli.terminal import Failure, is_terminal, say
from rehydrate.compact.options import MIN_RATIO, OPTIONS, CompactOptions
from rehydrate.errors import InvalidMessageError
from rehydrate.formats import FORMATS

Run = Callable[[argparse.Namespace], int | None]
"""Runs a command and returns the exit code; None for 0."""
Option = Callable[[Any], object]
"""Declares an option, or several, on a parser or a group of one."""


def option(
    names: str, about: str | None = None, parse: Any = None, default: Any = None, **how: Any
) -> Option:
    """Return an option: "-n --namespace NAME" has a value, "--json" has none, "FILE" is positional.

    `parse` is a function, or the choices. The help ends with the default, if there is one to
    name. `how` goes to `add_argument`.
    """
    if parse is not None:
        how["type" if callable(parse) else "choices"] = parse
    if default is not None:
        how["default"] = default
    if about and isinstance(default, (str, int, float)) and default:
        about += f" (default: {default})"
    *flags, last = names.split()
    if last.startswith("-"):
        flags.append(last)
        how = how or {"action": "store_true"}
    else:
        how["metavar"] = last
    return lambda parser: parser.add_argument(*flags or [last.lower()], help=about, **how)


def group(title: str, *options: Option) -> Option:
    """Return options that the help lists under a title."""
    return lambda parser: _declare(parser.add_argument_group(title), options)


def one_of(*options: Option) -> Option:
    """Return options of which one at most may be given."""
    return lambda parser: _declare(parser.add_mutually_exclusive_group(), options)


def _declare(parser: Any, options: Sequence[Option]) -> None:
    for each in options:
        each(parser)


class Commands:
    """Commands in the order of their declaration: those of a module, or of another command.

    A module has one of them, named `command`; a function that runs a command is decorated by it.
    """

    def __init__(self) -> None:
        """Begin without any."""
        self._declared: list[Option] = []

    def __call__(
        self, about: str, *options: Option, epilog: str | None = None, name: str = ""
    ) -> Callable[[Run], Run]:
        """Declare a command that the decorated function runs, and whose name it has.

        `epilog` is printed below the options, as it is.
        """

        def declared(run: Run) -> Run:
            def declare(commands: Any) -> None:
                parser = _added(commands, name or run.__name__.strip("_"), about, epilog)
                parser.set_defaults(run=run)
                _declare(parser, options)

            self._declared.append(declare)
            return run

        return declared

    def within(self, name: str, about: str, epilog: str | None = None) -> Commands:
        """Declare a command that prints its help; return the place of its own commands."""
        own = Commands()

        def declare(commands: Any) -> None:
            parser = _added(commands, name, about, epilog)
            parser.set_defaults(run=help_of(parser))
            own.add_to(parser.add_subparsers(title="commands", metavar="COMMAND"))

        self._declared.append(declare)
        return own

    def include(self, others: Commands) -> None:
        """Declare those of another module here."""
        self._declared.append(others.add_to)

    def add_to(self, commands: Any) -> None:
        """Add them to the subparsers of a parser."""
        _declare(commands, self._declared)


def _added(commands: Any, name: str, about: str, epilog: str | None) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter if epilog else argparse.HelpFormatter,
    )
    return parser


def help_of(parser: argparse.ArgumentParser) -> Run:
    """Return the function that runs a command with commands of its own: it prints the help."""
    return lambda _options: parser.print_help()


def number(least: float, most: float, refusal: str, parse: Callable[[str], float]) -> Any:
    """Return a parser of numbers in a range; `refusal` is said of any other text."""

    def parsed(text: str) -> float:
        try:
            value = parse(text.strip())
        except (ValueError, OverflowError):
            value = math.nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} {refusal}")
        return value

    return parsed


def whole_number(least: int, most: float, refusal: str) -> Any:
    """Return a parser of whole numbers in a range."""
    return number(least, most, refusal, lambda text: int(text if text.isdecimal() else "none"))


whole = whole_number(1, 10_000, "isn't a number from 1 to 10,000")
"""Parses a number from 1 up."""
entries = whole_number(1, math.inf, "isn't a number of entries; pass 1 or more")
PORT = whole_number(0, 65_535, "isn't a port; pass a number from 0 to 65535")


def count(text: str) -> int:
    """Return a whole number: 20000, 20,000, 20_000 or 20k."""
    digits = text.lower().replace(",", "").replace("_", "")
    return int(float(digits[:-1]) * 1_000) if digits.endswith("k") else int(digits)


_NO_COUNT = "isn't a number of tokens; pass a whole number such as 20000 or 20k"
tokens = number(1, 1e15, _NO_COUNT, count)
"""Parses a number of tokens, from 1 up."""
_share = number(
    *(math.ulp(0), 1, f"isn't a share of the tokens; pass {MIN_RATIO} to 1, such as 0.4 or 40%"),
    lambda text: float(text[:-1]) / 100 if text.endswith("%") else float(text),
)


def ratio(text: str) -> float:
    """Parse a share of the tokens, a number or a percentage; one too small is raised."""
    share: float = _share(text)
    if share < MIN_RATIO:
        say(f"note: --ratio {text} is raised to {MIN_RATIO}; for less, use --budget")
    return share


def names_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a parser of known names with commas between them."""

    def parsed(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",")]
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(
                    f"{name!r} is none of {', '.join(known)}; name one or more, with commas"
                )
        return names

    return parsed


def page_file(text: str) -> Path:
    """Return the file that a page is written to."""
    if text in ("", "-"):
        raise argparse.ArgumentTypeError(
            f"{text!r} isn't a file for the page; name one, such as page.html"
        )
    return Path(text)


def output_of(
    options: argparse.Namespace, *sources: str | Path, what: str = "input"
) -> Path | None:
    """Return the file of -o, or None for standard output, which --json may need for itself."""
    if options.json and options.output == "-":
        raise Failure("--json and -o - both write to standard output; name a file with -o")
    page = None if options.output in (None, "-") else Path(options.output)
    check_not_input("-o", page, *sources, what=what)
    return page


def check_not_input(flag: str, page: Path | None, *inputs: str | Path, what: str = "input") -> None:
    """Refuse to overwrite the input: a file, or what is in a folder; a page in it may be there."""
    if page is None:
        return
    for file in inputs:
        try:
            is_in = page.suffix != ".html" and Path(file).resolve() in page.resolve().parents
            is_input = page.exists() and file != "-" and (is_in or page.samefile(file))
        except (OSError, ValueError):
            continue
        if is_input:
            raise Failure(f"{flag} {page} would overwrite the {what}; name another file")


def json_option(what: str) -> Option:
    """Return --json."""
    return option("--json", f"{what} as JSON")


COLOR = option("--color", "auto: in a terminal", ("auto", "always", "never"), "auto")
FILE_FORMATS = [name for name in FORMATS if name != "langchain"]
"""The formats that a file can have."""
FORMAT = option("--format NAME", ", ".join(FILE_FORMATS), ["auto", *FILE_FORMATS], "auto")
EMBEDDER = option("--embedder MODEL", "an ONNX model instead of the built-in one")


def _of_compact(names: str, name: str, **how: Any) -> Option:
    """Return an option of `compact_context`, with its default, its choices and its description."""
    made = OPTIONS[name]
    choices = [value for value in made.schema.get("enum", ()) if value is not None]
    about = made.description.partition(" Default:")[0].rstrip(".").replace("null:", "default:")
    about = about[0].lower() + about[1:]
    return option(names, about, choices or None, made.default, **how)


_RATIO = OPTIONS["target_ratio"].default
SIZE = (
    one_of(
        option(
            *("--ratio R", "share of the tokens to keep, such as 0.3 or 40%%", ratio, _RATIO),
            dest="target_ratio",
        ),
        option(
            *("--budget N", "tokens to keep instead, such as 20000 or 20k", tokens),
            dest="budget_tokens",
        ),
    ),
    _of_compact("--query TEXT", "query"),
)
SHAPE = (
    _of_compact("--granularity G", "granularity"),
    option("--outline", "list the names in what is dropped, in a message where the first gap is"),
    _of_compact("--thinking T", "thinking"),
    _of_compact("--model NAME", "model"),
    _of_compact("--provider", "provider"),
)
"""The parts of a message that are kept, and for whom."""
JUDGING = (
    _of_compact("--scoring PROFILE", "scoring"),
    _of_compact("--counter NAME", "counter"),
    FORMAT,
    one_of(
        option("--embedder MODEL", "an ONNX model too, for a --query", None, "auto"),
        option("--no-embedding", "compare words only, without the built-in model"),
    ),
)


def compact_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `compact_context` that a command passes on."""
    given = vars(options) | ({"embedder": None} if options.no_embedding else {})
    return {name: given[name] for name in CompactOptions.__annotations__}


def read(path: str) -> Document:
    """Read the conversation in a file, or in standard input for ``-``.

    Raises Failure for a file that cannot be read, InvalidArgumentError for one without a
    conversation.
    """
    return Document(*text_of(path))


@contextmanager
def naming_lines(document: Document | None) -> Iterator[None]:
    """End the command with the line of the file that holds an entry that isn't a message."""
    try:
        yield
    except InvalidMessageError as error:
        if document is None or error.index is None or error.index >= len(document.entries):
            raise
        line = document.line_of(error.index)
        raise Failure(f"line {line} of {document.name}: {error}") from None


def text_of(path: str) -> tuple[str, str]:
    """Return a file's name and its text, or those of standard input for ``-``."""
    name = "standard input" if path == "-" else path
    return name, file_text(_bytes(path), name)


def read_input(instead: str = "name a file") -> bytes:
    """Read all of standard input; `instead` is the remedy if it is closed."""
    if sys.stdin is None:
        raise Failure(f"standard input is closed; {instead}")
    if is_terminal(sys.stdin):
        say("reading standard input; end it with Ctrl-D")
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise Failure(f"standard input cannot be read: {error.strerror}") from None


def _bytes(path: str) -> bytes:
    if path == "-":
        return read_input()
    file = Path(path)
    try:
        return file.read_bytes()
    except FileNotFoundError:
        if file.is_symlink():
            problem = f"{path} is a link to {file.readlink()}, which is not there"
            raise Failure(f"{problem}; name a file") from None
        names: list[str] = []
        with suppress(OSError):
            names = [entry.name for entry in file.parent.iterdir()]
        remedy = "check the path, or pass - for standard input"
        for near in get_close_matches(file.name, names, n=1, cutoff=0.75):
            remedy = f"did you mean {file.parent / near}?"
        raise Failure(f"{path}: no such file; {remedy}") from None
    except IsADirectoryError:
        remedy = "name one of the files in it"
        sessions = list(file.glob("*.jsonl"))
        if sessions:
            newest = max(sessions, key=lambda session: session.stat().st_mtime)
            remedy = f"name a file in it, for example its newest: {newest}"
        raise Failure(f"{path} is a directory; {remedy}") from None
    except PermissionError:
        raise Failure(f"{path}: permission denied; make it readable (chmod u+r)") from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = getattr(error, "strerror", None) or error
        raise Failure(f"{path} cannot be read: {reason}") from None
