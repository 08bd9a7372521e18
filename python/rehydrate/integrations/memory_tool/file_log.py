"""FileLog: files in a stored thread, changed by one process at a time and read by any."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate.context.records import Kind, Record, header, records_of
from rehydrate.errors import StoreConflictError
from rehydrate.prompt.counting import text_tokens

if TYPE_CHECKING:
    from rehydrate.memory.store import ThreadStore

FORMAT = "plain"
"""Each version of a file is an entry: a message with the file's text and, next to it, its path."""
_SLACK_BYTES = 256 * 1024
"""Old versions are left alone up to so many bytes, and up to twice the size of the files. What is
left of them, some 80 bytes each, is not looked at again for as many."""


class Files(NamedTuple):
    """All files at one moment."""

    texts: Mapping[str, str]
    """By path."""
    records: int = 0
    """How many records the log has: a change is written only where it still has as many."""
    row: tuple[Any, ...] | None = None
    """What the store says of the log; it differs after any change."""


class FileLog:
    """The files of a namespace, as a log of their versions in the thread ``/memories``.

    `write` changes all files of a command or none, and only where nobody has changed any since they
    were read. A file's text comes back byte for byte.
    """

    def __init__(self, store: ThreadStore, namespace: str, thread: str) -> None:
        """Take an open store; nothing is written before the first change."""
        self._store = store
        self._namespace = namespace
        self._thread = thread
        self._files = Files({})
        self._tidy_bytes = 0

    def read(self) -> Files:
        """Return the files as they are on disk now."""
        row = self._store.thread(self._namespace, self._thread)
        if row is None:
            self._files = Files({})
        elif self._files.row != tuple(row):
            # Read from the start: a record that was read before may have been redacted since.
            texts: dict[str, str] = {}
            records = records_of(self._store, self._namespace, self._thread)
            for record in records:
                _apply(texts, record)
            self._files = Files(texts, len(records), tuple(row))
        return self._files

    def write(self, files: Files, changes: Mapping[str, str | None]) -> bool:
        """Write the new texts of some files, None for a file that goes; they are on disk then.

        Return False, with nothing written, where the files are no longer as they were read.
        """
        now = time.time()
        records = [_version(path, text, now) for path, text in changes.items()]
        if not files.records:
            records.insert(0, header(FORMAT))
        rows = [record.row for record in records]
        try:
            row = self._store.append_records(self._namespace, self._thread, files.records, rows)
        except StoreConflictError:
            return False
        added = sum(len(body.encode()) for _, _, body in rows)
        texts = dict(files.texts)
        for record in records:
            _apply(texts, record)
        # Other bytes than were read and written: a record was redacted meanwhile.
        is_known = row[4] == added + (files.row[4] if files.row else 0)
        self._files = Files(texts, row[3], tuple(row) if is_known else None)
        self._tidy(self._files)
        return True

    def clear(self) -> None:
        """Delete all files and their versions."""
        self._store.purge_thread(self._namespace, self._thread)

    def _tidy(self, files: Files) -> None:
        """Empty the versions that are no longer the file's, where they take most of the room."""
        held = sum(len(text.encode()) for text in files.texts.values())
        if files.row is None or files.row[4] < max(3 * held, self._tidy_bytes) + _SLACK_BYTES:
            return
        records = records_of(self._store, self._namespace, self._thread)
        last = {record.content["entry"].get("path"): n for n, record in enumerate(records)
                if record.kind is Kind.ENTRY}  # fmt: skip
        current = {number for path, number in last.items() if path in files.texts}
        empty = _version("", None, 0.0).body
        bodies = [
            (number, empty)
            for number, record in enumerate(records)
            if record.kind is Kind.ENTRY
            and number not in current
            and record.content["entry"].get("path")
        ]
        try:
            self._store.replace_records(self._namespace, self._thread, files.records, bodies)
        except StoreConflictError:
            return  # whoever wrote meanwhile does it
        row = self._store.thread(self._namespace, self._thread)
        self._tidy_bytes = 0 if row is None else row[4]


def _version(path: str, text: str | None, now: float) -> Record:
    entry = {"role": "assistant", "content": text or "", "path": path}
    if text is None:
        entry["removed"] = path
    (tokens,) = text_tokens([text or ""])
    return Record(Kind.ENTRY, now, {"entry": entry, "tokens": tokens})


def _apply(texts: dict[str, str], record: Record) -> None:
    if record.kind is not Kind.ENTRY:
        return
    entry = record.content["entry"]
    if "removed" in entry:
        texts.pop(entry["path"], None)
    else:
        texts[entry["path"]] = entry["content"]
