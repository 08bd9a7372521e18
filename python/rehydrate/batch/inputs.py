"""What a batch reads: a folder's transcripts, and tables of conversations, in rows.

A file of a conversation is one row, and is read by the worker that compacts it. A table has many
rows: it is streamed, a few megabytes at a time, so it may be larger than the memory.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from rehydrate._text import as_unicode
from rehydrate.batch.json_lines import is_table
from rehydrate.batch.tables import Limits, Rows, table_rows
from rehydrate.errors import FileError

CONVERSATIONS = (".jsonl", ".json", ".ndjson", ".traj")
PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")
PARTS = ".parts"
MANIFEST = "manifest.json"
"""A folder of a batch's parts ends with the one and holds the other."""
_SKIPPED_FOLDERS = frozenset({".git", "node_modules", "__pycache__", ".venv"})

Kind = Literal["conversation", "parquet", "arrow", "lines"]


class Source(NamedTuple):
    """A file of the input, as it was found."""

    name: str
    path: Path
    kind: Kind
    size: int
    mtime_ns: int
    is_alone: bool = False
    """It was named itself; else its folder was."""


def found_in(path: Path, *, without: Path) -> Iterator[Source]:
    """Yield the files of a folder that may hold conversations, or the file itself; always in the
    same order. Left out are `without`, the result, and parts of batches."""
    if path.is_dir():
        for name, file in _files(path, without.resolve()):
            yield _source(name, file)
    elif path.exists():
        if not path.name.endswith((*CONVERSATIONS, *PARQUET, *ARROW)):
            raise FileError(path, "no kind of file that a batch reads", _READS)
        yield _source(path.name, path)._replace(is_alone=True)
    else:
        raise FileError(path, "no such file or folder", "check the path")


_READS = f"name a folder, or a file {', '.join((*CONVERSATIONS, *PARQUET, *ARROW))}"


def _files(folder: Path, without: Path) -> Iterator[tuple[str, Path]]:
    unreadable: list[OSError] = []
    for root, folders, names in os.walk(folder, onerror=unreadable.append):
        at = Path(root)
        folders[:] = sorted(name for name in folders if not _is_skipped(at / name))
        for name in sorted(names):
            file = at / name
            if name.endswith((*CONVERSATIONS, *PARQUET, *ARROW)) and not (
                name == without.name and file.resolve() == without
            ):
                yield file.relative_to(folder).as_posix(), file
        while unreadable:  # reading it says why, in a row
            denied = Path(str(unreadable.pop().filename))
            yield denied.relative_to(folder).as_posix(), denied
    while unreadable:
        denied = Path(str(unreadable.pop().filename))
        yield denied.relative_to(folder).as_posix(), denied


def _is_skipped(folder: Path) -> bool:
    if folder.name.endswith(PARTS):
        return (folder / MANIFEST).exists()
    return folder.name in _SKIPPED_FOLDERS


def _source(name: str, path: Path) -> Source:
    size = mtime_ns = 0
    kind: Kind = "conversation"
    try:
        found = path.stat()
        size, mtime_ns = found.st_size, found.st_mtime_ns
        if stat.S_ISREG(found.st_mode):
            kind = _kind(path)
    except OSError:
        pass  # reading it says why, in a row
    return Source(as_unicode(name), path, kind, size, mtime_ns)


def _kind(path: Path) -> Kind:
    if path.name.endswith(PARQUET):
        return "parquet"
    if path.name.endswith(ARROW):
        return "arrow"
    return "lines" if path.suffix in (".jsonl", ".ndjson") and is_table(path) else "conversation"


def rows_of(sources: Iterator[Source], *, alone: bool) -> Iterator[Rows]:
    """Yield the rows of all sources, each time no more than a part may have.

    `alone` says that the input is a single table (`table_rows`).
    """
    limits = Limits()
    files: list[Source] = []
    size = 0
    for source in sources:
        is_file = source.kind == "conversation"
        is_full = len(files) == limits.rows or size + source.size > limits.bytes
        if files and (is_full or not is_file):
            yield _of_files(files)
            limits.made()
            files, size = [], 0
        if is_file:
            files.append(source)
            size += source.size
        else:
            yield from table_rows(source, limits, alone=alone)
    if files:
        yield _of_files(files)


def row_count(source: Source) -> int | None:
    """Return how many rows a source has, where that is known without reading it."""
    if source.kind == "conversation":
        return 1
    if source.kind == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return int(pq.read_metadata(source.path).num_rows)
        except (OSError, pa.ArrowException):
            return 1  # a row with a problem
    return None


def _of_files(files: list[Source]) -> Rows:
    import pyarrow as pa

    table = pa.table(
        {
            "id": pa.array([file.name for file in files], pa.string()),
            "file": pa.array([os.fsencode(file.path) for file in files], pa.binary()),
        }
    )
    return Rows(table, tuple((file.name, file.size, file.mtime_ns) for file in files))
