"""Files written whole or not at all, for their owner only; JSON Lines, read line by line; a folder
that the environment names."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from stat import S_IMODE

from rehydrate._check import check_path
from rehydrate.errors import InvalidArgumentError


@contextmanager
def whole_file(path: Path, *, keeps_mode: bool = False) -> Iterator[Path]:
    """Give a draft to write, which replaces `path` when it is complete and on the disk.

    Only its owner may read it; with `keeps_mode` it gets the mode of the earlier file. A device or
    a pipe is written directly. Raises OSError; also for a database, which nothing replaces: what a
    memory or stored threads hold would be gone.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    if _is_database(path):
        raise FileExistsError(errno.EEXIST, "it is a database, with what it holds", str(path))
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}.tmp")
    # Nobody can have put a link under this name, which writing would follow.
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        if keeps_mode and path.exists():
            draft.chmod(S_IMODE(path.stat().st_mode))
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def _is_database(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"
    return False


def write_lines(path: str | PathLike[str], lines: Iterable[str]) -> int:
    """Write the lines to the file, all or none, and return how many there are.

    Raises InvalidArgumentError if it cannot be written.
    """
    check_path("path", path, "pass the path of a file")
    target = Path(path)
    if not target.name:
        raise InvalidArgumentError(
            f"path is {os.fspath(path)!r}, which is a folder; pass the path of a file"
        )
    count = 0
    try:
        with whole_file(target) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
            for line in lines:
                file.write(f"{line}\n")
                count += 1
    except OSError as error:
        raise InvalidArgumentError(
            f"{target} cannot be written: {error.strerror}; choose another path"
        ) from error
    return count


def lines_of(path: str | PathLike[str]) -> Iterator[str]:
    """Yield the lines of the file with their ends; raises InvalidArgumentError if it cannot be
    read."""
    check_path("path", path, "pass the path of a file")
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
            f"{path} isn't UTF-8 text; pass a file that export wrote"
        ) from error


def folder_named(variable: str, value: str) -> Path:
    """Return the folder that a variable of the environment names; a server isn't one."""
    if "://" in value:
        raise InvalidArgumentError(
            f"{variable} is an address; name a folder: hooks and caches keep files there, and "
            "REHYDRATE_MEMORY may name a server"
        )
    return Path(value).expanduser()
