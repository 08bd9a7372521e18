"""Options that several commands share, and reading of the conversation that they name."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rehydrate._document import Document, decoded, document_of
from rehydrate.cli.terminal import Failure, say
from rehydrate.compact.options import MIN_RATIO, OPTIONS, CompactOptions
from rehydrate.formats import FORMATS


def whole(text: str) -> int:
    """Parse a number from 1 up."""
    if not text.strip().isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 10,000")
    return int(text)


def tokens(text: str) -> int:
    """Parse a number of tokens, from 0 up."""
    return _number(text, 0)


def some_tokens(text: str) -> int:
    """Parse a number of tokens, from 1 up."""
    return _number(text, 1)


def _number(text: str, least: int) -> int:
    number = text.strip().lower().replace(",", "").replace("_", "")
    try:
        count = float(number[:-1]) * 1_000 if number.endswith("k") else float(int(number))
    except ValueError:
        count = -1.0
    if not least <= count < 1e15:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of tokens; pass a whole number such as 20000 or 20k"
        )
    return int(count)


def ratio(text: str) -> float:
    """Parse a share of the tokens, a number or a percentage; one too small is raised."""
    number = text.strip()
    try:
        share = float(number[:-1]) / 100 if number.endswith("%") else float(number)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no share of the tokens; pass {MIN_RATIO} to 1, such as 0.4 or 40%"
        )
    if share < MIN_RATIO:
        say(f"note: --ratio {text} is raised to {MIN_RATIO}; for less, use --budget")
    return share


def page_file(text: str) -> Path:
    """Return the file that a page is written to."""
    if text in ("", "-"):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no file for the page; name one, such as page.html"
        )
    return Path(text)


def is_same_file(one: Path, other: Path) -> bool:
    """Return whether both paths name one existing file."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False


def add_command(
    commands: Any,
    name: str,
    *,
    help: str,  # noqa: A002  argparse's word
    description: str,
    epilog: str | None = None,
    run: Callable[[argparse.Namespace], int] | None = None,
) -> argparse.ArgumentParser:
    """Add a command and return its parser; the epilog is printed as it is written.

    Without `run` it is a command with commands of its own, and prints its help.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter if epilog else argparse.HelpFormatter,
    )
    parser.set_defaults(run=run or help_of(parser))
    return parser


def help_of(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Return the function that runs a command with commands of its own: it prints the help."""

    def run(_options: argparse.Namespace) -> int:
        parser.print_help()
        return 0

    return run


def add_output_options(parser: Any, json_help: str) -> None:
    """Add --json and --color."""
    parser.add_argument("--json", action="store_true", help=json_help)
    add_color_option(parser, "default: in a terminal")


def add_color_option(
    parser: Any,
    help: str = "colours (default: in a terminal; NO_COLOR and FORCE_COLOR count)",  # noqa: A002
) -> None:
    """Add --color."""
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help=help)


FILE_FORMATS = [name for name in FORMATS if name != "langchain"]
"""The formats that a file can have."""


def add_format_option(parser: Any) -> None:
    """Add --format."""
    parser.add_argument(
        "--format",
        metavar="NAME",
        default="auto",
        choices=["auto", *FILE_FORMATS],
        help=f"{', '.join(FILE_FORMATS)}; default: detected",
    )


def add_choice(group: Any, name: str, metavar: str | None, help: str) -> None:  # noqa: A002
    """Add an option of `compact_context` that is one of a few words, with its default."""
    option = OPTIONS[name]
    choices = [value for value in option.schema["enum"] if value is not None]
    group.add_argument(
        f"--{name}", metavar=metavar, default=option.default, choices=choices, help=help
    )


def add_size_options(what: Any) -> None:
    """Add --ratio, --budget and --query."""
    size = what.add_mutually_exclusive_group()
    size.add_argument(
        "--ratio", type=ratio, default=OPTIONS["target_ratio"].default, metavar="R",
        help="share of the tokens to keep, 0.05 to 1, or a percentage such as 40%% (default: 0.4)",
    )  # fmt: skip
    size.add_argument(
        "--budget", type=tokens, metavar="N", help="tokens to keep instead, such as 20000 or 20k"
    )
    what.add_argument(
        "--query", metavar="TEXT",
        help="what the next turn is about (default: what the user said last)",
    )  # fmt: skip


def add_shape_options(what: Any) -> None:
    """Add what is kept of a message, and for whom: --granularity to --provider."""
    add_choice(
        *(what, "granularity", "G"),
        "message (default): whole messages; excerpt: also parts of long texts, gaps marked",
    )
    what.add_argument(
        "--outline", action="store_true",
        help="list the names in what is dropped, in a message of its own where the first gap is",
    )  # fmt: skip
    add_choice(
        *(what, "thinking", "T"),
        "auto (default): what the model takes back of its thinking; keep: all of it; "
        "strip: none, but for an open tool loop",
    )
    what.add_argument(
        "--model", metavar="NAME", default=OPTIONS["model"].default,
        help="the model that is asked next, for --thinking auto; default: the one that the "
        "transcript names, else a Claude that takes no thinking after a change",
    )  # fmt: skip
    add_choice(
        *(what, "provider", None),
        "for whom a list of chat or plain messages is, where a gateway sends it on; "
        "anthropic, also by a --model that is a Claude: what is kept begins with the user",
    )


def add_judging_options(how: Any) -> None:
    """Add --scoring, --counter, --format, --embedder and --no-embedding."""
    add_choice(
        *(how, "scoring", "PROFILE"),
        "balanced (default), or chitta: the plain three-signal formula",
    )
    add_choice(
        *(how, "counter", "NAME"),
        "o200k_base, cl100k_base (exact), words, chars (estimates); default: the profile's",
    )
    add_format_option(how)
    embedding = how.add_mutually_exclusive_group()
    embedding.add_argument(
        "--embedder", metavar="MODEL", default=OPTIONS["embedder"].default,
        help="besides the built-in model, for a --query: the name or folder of an ONNX model, "
        "such as those that `rehydrate model list` shows",
    )  # fmt: skip
    embedding.add_argument(
        "--no-embedding", action="store_true", help="compare words only, without the built-in model"
    )


_PASSED_AS = {"target_ratio": "ratio", "budget_tokens": "budget"}


def compact_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `compact_context` that a command passes on."""
    given = vars(options) | ({"embedder": None} if options.no_embedding else {})
    names = CompactOptions.__annotations__
    return {name: given[_PASSED_AS.get(name, name)] for name in names}


def read(path: str) -> Document:
    """Read the conversation in a file, or in standard input for ``-``.

    Raises Failure for a file that cannot be read, InvalidArgumentError for one that is none.
    """
    return document_of(*text_of(path))


def text_of(path: str) -> tuple[str, str]:
    """Return a file's name and its text, or those of standard input for ``-``."""
    name = "standard input" if path == "-" else path
    return name, decoded(_bytes(path), name)


def _bytes(path: str) -> bytes:
    if path == "-":
        if sys.stdin is None:
            raise Failure("standard input is closed; name a file")
        if sys.stdin.isatty():
            print("reading standard input; end it with Ctrl-D", file=sys.stderr)
        return sys.stdin.buffer.read()
    file = Path(path)
    try:
        return file.read_bytes()
    except FileNotFoundError:
        near = _similar_file(file)
        remedy = f"did you mean {near}?" if near else "check the path, or pass - for standard input"
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


def _similar_file(file: Path) -> Path | None:
    try:
        names = [entry.name for entry in file.parent.iterdir()]
    except OSError:
        return None
    near = get_close_matches(file.name, names, n=1, cutoff=0.75)
    return file.parent / near[0] if near else None
