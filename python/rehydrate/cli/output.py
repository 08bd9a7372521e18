"""Writing: results to standard output or a file, words to the user to standard error."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

from rehydrate.cli.failure import Failure
from rehydrate.cli.terminal import Terminal


def write(text: str, path: Path | None = None, option: str = "-o") -> None:
    """Data, as UTF-8 whatever the locale says and without touching line ends.

    `option` named the path, and is where the user may name another.
    """
    data = text.encode()
    if path is None:
        _write_out(data)
        return
    try:
        _write_file(path, data)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = getattr(error, "strerror", None) or error
        raise Failure(
            f"{path} cannot be written: {reason}; name another file with {option}"
        ) from None


def show(lines: Iterable[str], terminal: Terminal) -> None:
    """Lines to read, in the terminal's encoding."""
    text = "".join([line + "\n" for line in lines])
    _write_out(text.encode(terminal.encoding, errors="replace"))


def say_written(path: Path, what: str) -> None:
    """A page that was asked for and is in its file, so that nobody wonders whether it is."""
    say(f"wrote {path}: {what}")


def say(line: str) -> None:
    """One line to the user on standard error, with nothing in it that a terminal would obey."""
    if sys.stderr is None:
        return
    indent = len(line) - len(line.lstrip(" "))
    print(" " * indent + Terminal.of(sys.stderr).safe(line), file=sys.stderr)


def _write_file(path: Path, data: bytes) -> None:
    """The whole file or none of it: what stood there before is replaced when all is written."""
    if path.exists() and not path.is_file():
        path.write_bytes(data)  # a device or a pipe
        return
    target = path.resolve()  # what a link points to is replaced, not the link
    draft = target.with_name(f".rehydrate-{os.getpid()}.tmp")
    try:
        draft.write_bytes(data)
        if target.exists():
            draft.chmod(stat.S_IMODE(target.stat().st_mode))
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _write_out(data: bytes) -> None:
    if sys.stdout is None:
        raise Failure("standard output is closed; name a file with -o")
    try:
        # Unbuffered (python -u), a write may take only the beginning.
        rest = memoryview(data)
        while rest:
            rest = rest[sys.stdout.buffer.write(rest) :]
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Failure(f"standard output cannot be written: {error.strerror}") from None
