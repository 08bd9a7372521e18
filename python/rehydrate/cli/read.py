"""Reading the conversation in a file, or in standard input."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from pathlib import Path

from rehydrate._document import Document, decoded, document_of
from rehydrate.cli.terminal import Failure


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
