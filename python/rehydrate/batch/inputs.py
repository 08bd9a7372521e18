"""The input of a batch: a folder's transcripts, and tables of conversations, in rows.

A file of a conversation is one row, and is read by the worker that compacts it. A table (Parquet,
Arrow, JSON Lines) has many rows: it is streamed, a few megabytes at a time, so it may be larger
than the memory.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rehydrate._native import as_unicode
from rehydrate.errors import FileError, InvalidArgumentError

CONVERSATIONS = (".jsonl", ".json", ".ndjson", ".traj")
PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")
PARTS = ".parts"
MANIFEST = "manifest.json"
"""A folder of a batch's parts ends with the one and holds the other."""
_SKIPPED_FOLDERS = frozenset({".git", "node_modules", "__pycache__", ".venv"})

Kind = Literal["conversation", "parquet", "arrow", "lines"]
MAX_ROWS = 1_000
MAX_BYTES = 4 << 20
"""Limits of the rows in one part; a longer row is a part of its own."""
_FIRST_ROWS = 8
_FIRST_BYTES = 256 << 10
_DOUBLED_EVERY = 8


class Source(NamedTuple):
    """A file of the input, as it was found."""

    name: str
    path: Path
    kind: Kind
    size: int
    mtime_ns: int
    is_alone: bool = False
    """It was named itself; else its folder was."""


class UnreadableTableError(FileError, InvalidArgumentError):
    """A table that cannot be read, or lacks the columns ``id`` and ``messages``."""


class Rows(NamedTuple):
    """Consecutive rows, as a table, and what they were made of.

    The columns are ``id`` and how the conversation is found: ``file`` is the path of a file,
    ``line`` a line of JSON, ``messages`` (with ``query``) the conversation itself, ``problem`` why
    there is none.
    """

    table: pa.Table
    identity: tuple[object, ...]
    """Changes when a file does."""


class Limits:
    """The limits of the next part. The first parts are small, so that a few conversations, or a few
    long ones, are work for all workers; the same for the same input."""

    def __init__(self) -> None:
        """Begin with the first part."""
        self._parts = 0

    @property
    def rows(self) -> int:
        """The most rows of a part."""
        return min(MAX_ROWS, _FIRST_ROWS << min(self._parts // _DOUBLED_EVERY, 30))

    @property
    def bytes(self) -> int:
        """The most bytes of conversations."""
        return min(MAX_BYTES, _FIRST_BYTES << min(self._parts // _DOUBLED_EVERY, 30))

    def made(self) -> None:
        """Count a part that was made."""
        self._parts += 1


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
    walked = os.walk(folder, onerror=unreadable.append)
    for root, folders, names in chain(walked, [(str(folder), [], [])]):
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
    return "lines" if path.suffix in (".jsonl", ".ndjson") and _is_table(path) else "conversation"


_HEAD_BYTES = 64 << 10


def _is_table(path: Path) -> bool:
    """Return whether a file of lines is a table: its first line is an object with messages and an
    id, or one of several with messages.

    A single object with messages is the body of a request, and so a conversation.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
        if not head.startswith(b"{") or b'"messages"' not in head:
            return False
        file.seek(0)
        line = next((line for line in file if line.strip(b"\xef\xbb\xbf \t\r\n")), b"")
        has_more = any(following.strip() for following in file)
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return False
    if not isinstance(row, dict) or {"role", "type"} & row.keys() or "messages" not in row:
        return False
    return has_more or "id" in row


def bytes_column(values: Sequence[bytes | None]) -> pa.Array:
    """Return the values as an array, without `pa.array`: that one imports pandas where it is, which
    takes every process most of a second."""
    valid = np.packbits(np.array([value is not None for value in values], bool), bitorder="little")
    ends = np.cumsum([0, *[len(value or b"") for value in values]], dtype=np.int64)
    buffers = [pa.py_buffer(each) for each in (valid, ends, b"".join(filter(None, values)))]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


def texts_column(values: Sequence[str | None]) -> pa.Array:
    """Return the texts as an array, without pandas (`bytes_column`)."""
    encoded = [None if value is None else value.encode() for value in values]
    return bytes_column(encoded).cast(pa.string())


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
    """Return how many rows a source has, if that is known without reading it."""
    if source.kind == "conversation":
        return 1
    if source.kind == "parquet":
        try:
            return int(pq.read_metadata(source.path).num_rows)
        except (OSError, pa.ArrowException):
            return 1  # a row with a problem
    return None


def _of_files(files: list[Source]) -> Rows:
    table = pa.table(
        {
            "id": texts_column([file.name for file in files]),
            "file": bytes_column([os.fsencode(file.path) for file in files]),
        }
    )
    return Rows(table, tuple((file.name, file.size, file.mtime_ns) for file in files))


def id_type(source: Source) -> pa.DataType:
    """Return the type of a table's ids; raises UnreadableTableError if it cannot be read."""

    if source.kind == "lines":
        return pa.string()
    try:
        schema = _schema(source)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(source, error) from None
    _columns(source, schema)
    kind = schema.field("id").type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _schema(source: Source) -> pa.Schema:
    if source.kind == "parquet":
        return pq.read_schema(source.path)
    with pa.memory_map(str(source.path)) as mapped:
        return _ipc(mapped).schema


def _ipc(mapped: pa.MemoryMappedFile) -> Any:
    """Return a reader of Arrow's file format, or of its stream format."""

    try:
        return pa.ipc.open_file(mapped)
    except pa.ArrowInvalid:
        mapped.seek(0)
        return pa.ipc.open_stream(mapped)


def table_rows(source: Source, limits: Limits, *, alone: bool) -> Iterator[Rows]:
    """Yield the rows of a table, each time no more than a part may have.

    A table that is `alone`, the whole input, keeps its ids, and is raised as UnreadableTableError
    if it cannot be read; else an id is a text with the table's name before it, and what cannot
    be read is a row with a problem.
    """

    batches = _lines(source) if source.kind == "lines" else _record_batches(source)
    kind = pa.string()
    start = 0
    while True:
        try:
            batch = next(batches, None)
        except (OSError, pa.ArrowException, UnreadableTableError) as error:
            unreadable = _unreadable(source, error)
            if alone and start == 0:
                raise unreadable from None
            problem = str(unreadable) if start == 0 else f"from row {start} on, {unreadable}"
            ids = pa.nulls(1, kind) if alone else texts_column([source.name])
            table = pa.table({"id": ids, "problem": texts_column([problem])})
            yield Rows(table, (source.name, source.size, source.mtime_ns, start, "problem"))
            return
        if batch is None:
            return
        kind = batch.schema.field("id").type
        for table in _cut(batch, limits):
            identity = (source.name, source.size, source.mtime_ns, start, len(table))
            yield Rows(table if alone else _with_names(table, source.name, start), identity)
            start += len(table)


def _unreadable(source: Source, error: Exception) -> UnreadableTableError:
    if isinstance(error, UnreadableTableError):
        return error
    reason = " ".join(str(getattr(error, "strerror", None) or error).split())
    return UnreadableTableError(source.path, f"cannot be read: {reason}", "is it complete?")


def _record_batches(source: Source) -> Iterator[pa.Table]:
    """Yield the columns id, messages and query of a table, some rows at a time."""

    if source.kind == "parquet":
        # Streamed by pages: a row group of millions of rows is never in memory.
        with pq.ParquetFile(source.path, buffer_size=1 << 20, pre_buffer=False) as file:
            columns = _columns(source, file.schema_arrow)
            sizes = [file.metadata.row_group(group) for group in range(file.num_row_groups)]
            size = sum(group.total_byte_size for group in sizes)
            mean = max(1, size // max(1, file.metadata.num_rows))
            rows = max(1, min(MAX_ROWS, MAX_BYTES // mean))
            for batch in file.iter_batches(rows, columns=columns, use_threads=False):
                yield _plain(pa.Table.from_batches([batch]))
        return
    with pa.memory_map(str(source.path)) as mapped:
        reader = _ipc(mapped)
        columns = _columns(source, reader.schema)
        count = getattr(reader, "num_record_batches", None)
        batches = reader if count is None else map(reader.get_batch, range(count))
        for batch in batches:
            yield _plain(pa.Table.from_batches([batch]).select(columns))


def _plain(table: pa.Table) -> pa.Table:
    """Return a table whose columns hold values, not places in a dictionary."""

    kinds = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(kinds))


def _columns(source: Source, schema: pa.Schema) -> list[str]:
    """Return the columns to read; raises UnreadableTableError if some are missing."""

    for name in ("id", "messages"):
        if name not in schema.names:
            raise UnreadableTableError(
                source.path,
                f"no column {name!r} (it has {', '.join(schema.names[:8]) or 'none'})",
                "columns are id, messages (the JSON of a list of messages) and, if there are any, "
                "query",
            )
    columns = ["id", "messages", *(["query"] if "query" in schema.names else [])]
    for name in columns[1:]:
        kind = schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if kind not in _texts():
            raise UnreadableTableError(
                source.path,
                f"column {name!r} is of type {kind}",
                "pass texts, a conversation as the JSON of its list of messages",
            )
    return columns


def _texts() -> tuple[pa.DataType, ...]:
    views = [pa.string_view(), pa.binary_view()]
    return (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.null(), *views)


def _lines(source: Source) -> Iterator[pa.Table]:
    """Yield the lines of a table in JSON Lines; the worker reads what is in them."""

    def table() -> pa.Table:
        ids = [f"{first + row}" for row in range(len(lines))]
        return pa.table({"id": texts_column(ids), "line": bytes_column(lines)})

    lines: list[bytes] = []
    size = first = 0
    with source.path.open("rb") as file:
        for line in file:
            if not line.strip():
                continue
            if lines and (len(lines) == MAX_ROWS or size + len(line) > MAX_BYTES):
                yield table()
                first += len(lines)
                lines, size = [], 0
            lines.append(line)
            size += len(line)
    if lines:
        yield table()


def _cut(table: pa.Table, limits: Limits) -> Iterator[pa.Table]:
    """Yield the table in pieces of at most this many rows and bytes; a longer row is alone."""

    column = "line" if "line" in table.column_names else "messages"
    texts = table[column]
    if pa.types.is_null(texts.type):
        sizes: list[int | None] = [0] * len(table)
    else:
        sizes = pc.binary_length(texts.cast(pa.large_binary())).to_pylist()
    start = held = 0
    for row, length in enumerate(sizes):
        size = length or 0
        if row > start and (row - start == limits.rows or held + size > limits.bytes):
            yield table.slice(start, row - start)
            limits.made()
            start, held = row, 0
        held += size
    if start < len(table):
        yield table.slice(start)
        limits.made()


def _with_names(table: pa.Table, name: str, start: int) -> pa.Table:
    """Return the rows of one of many tables: an id is a text, with the table's name before it."""

    ids = [
        f"{name}#{_id_text(value, start + row)}"
        for row, value in enumerate(table["id"].to_pylist())
    ]
    return table.set_column(0, "id", texts_column(ids))


def _id_text(value: Any, row: int) -> str:
    if value is None:
        return str(row)
    return as_unicode(value if isinstance(value, str) else json.dumps(value, default=str))
