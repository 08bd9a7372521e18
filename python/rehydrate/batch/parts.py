"""Part files: the results of a batch while it runs, so that a batch that was killed goes on.

``out.parquet.parts/`` is next to ``out.parquet``, with a manifest, which holds the options, and a
file for each finished part. A part's name is made of the options and of its inputs (name, size,
time of change), so a finished part is found again, and one whose inputs changed is not.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from rehydrate._jsonl import whole_file
from rehydrate.batch.inputs import MANIFEST, Rows
from rehydrate.errors import FileError, InvalidArgumentError

LOCK = "lock"
_DRAFTS = ".*.tmp"
_LAYOUT = 1
_GROUP_ROWS = 65_536
_GROUP_BYTES = 64 << 20
"""A row group of the result has about this many rows, or bytes."""


class OtherBatchError(FileError, InvalidArgumentError):
    """Parts that were made with other options, or of another input."""


class Part(NamedTuple):
    """Rows whose results are a file of their own."""

    key: str
    table: pa.Table

    @classmethod
    def of(cls, rows: Rows, options_key: str) -> Part:
        """Return these rows as a part, named by what it is made of."""
        return cls(_digest([options_key, *rows.identity]), rows.table)

    def halves(self) -> tuple[Part, Part]:
        """Return two parts with half of the rows each."""
        middle = len(self.table) // 2
        return (
            Part(_digest([self.key, "first"]), self.table.slice(0, middle)),
            Part(_digest([self.key, "second"]), self.table.slice(middle)),
        )


class PartFolder:
    """The folder of a batch's parts."""

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        """Take the folder, and what all parts have in common."""
        self.path = path
        self.identity = {"layout": _LAYOUT, **identity}
        self.key = _digest(self.identity)

    def open(self, *, restart: bool) -> int:
        """Make the folder, or go on with the parts that are in it; return how many there are.

        Raises OtherBatchError if they were made with other options, or if the folder is not one of
        parts.
        """
        if self.path.is_symlink() or (self.path.exists() and not self.path.is_dir()):
            raise OtherBatchError(self.path, "not a folder of parts", "move it, or pass another -o")
        if self.path.exists():
            self._check(restart=restart)
        self.path.mkdir(exist_ok=True)
        self._lock = locked(self.path)
        try:
            self.clean(also_parts=restart)
            with whole_file(self.path / MANIFEST) as draft:
                draft.write_text(json.dumps(self.identity, indent=2) + "\n", encoding="utf-8")
        except BaseException:
            self.close()
            raise
        return sum(1 for _ in self.path.glob("*.parquet"))

    def close(self) -> None:
        """Let another run have the folder."""
        self._lock.close()

    def _check(self, *, restart: bool) -> None:
        try:
            found = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
        except FileNotFoundError:
            if any(not (path.name == LOCK or path.match(_DRAFTS)) for path in self.path.iterdir()):
                raise OtherBatchError(
                    self.path, "exists and holds no manifest of a batch", "pass another -o"
                ) from None
            return
        except (OSError, ValueError):
            found = None
        if restart or found == self.identity:
            return
        raise OtherBatchError(self.path, self._difference(found), _REMEDY)

    def _difference(self, found: Any) -> str:
        if not isinstance(found, dict):
            return "holds a manifest that cannot be read"
        mine, theirs = _flat(self.identity), _flat(found)
        names = [name for name in {**theirs, **mine} if mine.get(name) != theirs.get(name)]
        said = ", ".join(
            f"{name} was {_shown(theirs.get(name))} and is {_shown(mine.get(name))}"
            for name in names[:3]
        )
        return f"parts of an unfinished batch are there, and {said}"

    def file(self, key: str) -> Path:
        """Return the path of the file of the part with this key."""
        return self.path / f"{key}.parquet"

    def has(self, part: Part) -> bool:
        """Return whether a part is finished."""

        try:
            return bool(pq.read_metadata(self.file(part.key)).num_rows == len(part.table))
        except (OSError, pa.ArrowException):
            return False

    def join(self, part: Part, halves: Iterable[Part]) -> None:
        """Make the file of a part from those of its halves."""

        files = [self.file(half.key) for half in halves]
        write_part(self.file(part.key), pa.concat_tables(map(_read, files)))
        for file in files:
            file.unlink(missing_ok=True)

    def clean(self, *, also_parts: bool = False) -> None:
        """Delete the unfinished files of ended processes, or all parts."""
        for draft in self.path.glob(_DRAFTS):
            draft.unlink(missing_ok=True)
        if also_parts:
            for part in self.path.glob("*.parquet"):
                part.unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete the folder with all parts."""
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)


_REMEDY = "pass the options of then to go on, or --restart to start over"


def locked(folder: Path) -> IO[bytes]:
    """Return a file that holds the folder for this process until it is closed, or the process ends.

    Raises OtherBatchError if another process holds it.
    """
    file = (folder / LOCK).open("ab")
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        file.close()
        remedy = "wait for it, or pass another -o"
        raise OtherBatchError(folder, "another run works on it now", remedy) from None
    except OSError:
        pass  # a file system without locks
    return file


def write_part(path: Path, table: pa.Table) -> None:
    """Write a part's file, whole or not at all."""

    with whole_file(path) as draft:
        pq.write_table(table, draft, compression="zstd")


def joined(parts: Iterable[Path], output: Path, empty: pa.Table) -> Iterator[pa.Table]:
    """Write all parts into one file, and yield each; the file is there when all are written."""

    with (
        whole_file(output) as draft,
        pq.ParquetWriter(draft, empty.schema, compression="zstd") as writer,
    ):
        for group in _groups(parts, empty):
            writer.write_table(group)
            yield group


def _groups(parts: Iterable[Path], empty: pa.Table) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    rows = size = 0
    for path in parts:
        table = _read(path).cast(empty.schema)
        if held and (rows + len(table) > _GROUP_ROWS or size + table.nbytes > _GROUP_BYTES):
            yield pa.concat_tables(held).combine_chunks()
            held, rows, size = [], 0, 0
        held.append(table)
        rows += len(table)
        size += table.nbytes
    if held:
        yield pa.concat_tables(held).combine_chunks()


def _read(path: Path) -> pa.Table:
    """Return the table of a part; `pq.read_table` would import pandas."""
    with pq.ParquetFile(path) as file:
        return file.read(use_threads=False)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def _flat(value: Mapping[str, Any]) -> dict[str, Any]:
    options = value.get("options")
    return {**value, "options": None, **(options if isinstance(options, dict) else {})}


def _shown(value: Any) -> str:
    return "not set" if value is None else json.dumps(value)
