"""JSON Lines files: written whole or not at all, for their owner only, and read line by line."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from os import PathLike
from pathlib import Path

from rehydrate.errors import InvalidArgumentError


def write_lines(path: str | PathLike[str], lines: Iterable[str]) -> int:
    """Write the lines to the file, all or none, and return how many there are.

    Raises InvalidArgumentError where it cannot be written.
    """
    target = Path(path)
    # Beside the target, so that one rename replaces it.
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    count = 0
    try:
        number = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(number, "w", encoding="utf-8", newline="\n") as file:
            for line in lines:
                file.write(f"{line}\n")
                count += 1
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(target)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink()
        raise InvalidArgumentError(
            f"{target} cannot be written: {error.strerror}; choose another path"
        ) from error
    return count


def lines_of(path: str | PathLike[str]) -> Iterator[str]:
    """Yield the lines of the file with their ends; raises InvalidArgumentError where it cannot be
    read."""
    try:
        # Only "\n" ends a line: JSON may hold other line ends unescaped.
        with Path(path).open(encoding="utf-8", newline="\n") as file:
            yield from file
    except OSError as error:
        raise InvalidArgumentError(
            f"{path} cannot be read: {error.strerror}; pass a file that export wrote"
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"{path} is no UTF-8 text; pass a file that export wrote"
        ) from error
