"""Threads: the conversations in a store, which outlive the process they are held in."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from datetime import datetime
from functools import partial
from os import PathLike
from time import time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, Self

from rehydrate import _native
from rehydrate._check import check_choice, check_list, check_type, check_whole, refuse_copy
from rehydrate._concurrency.async_wrappers import Closing, hand_over, stored
from rehydrate._concurrency.workers import STORING
from rehydrate._jsonl import lines_of, write_lines
from rehydrate._native import checked_namespace, handle_of_text, resolve_namespace
from rehydrate.context.records import (
    Kind,
    Record,
    Row,
    as_records,
    entries_of,
    from_lines,
    header,
    redacted_records,
    rows_of,
)
from rehydrate.context.stored import Stored
from rehydrate.errors import InvalidArgumentError, StoreConflictError, UnknownThreadError
from rehydrate.formats import FORMATS
from rehydrate.memory.items import MemoryLimits, moment_of
from rehydrate.memory.store import open_store, verify_place

if TYPE_CHECKING:
    from rehydrate._native import ContextStore
    from rehydrate.memory.store import SharedStore, ThreadStore

Durability = Literal["entry", "turn"]
DURABILITIES: tuple[Durability, ...] = ("entry", "turn")
_KEEP_ATTEMPTS = 100
"""Each one that fails is one that another writer won."""


class StoredThreadInfo(NamedTuple):
    """One thread of a store."""

    name: str
    created: datetime
    changed: datetime
    records: int
    """Entries and prompts that were written."""
    bytes: int


class StoredConversation(NamedTuple):
    """A thread as the file has it, all of one moment."""

    entries: tuple[Any, ...]
    times: tuple[datetime, ...]
    """The time of each entry."""
    format: str
    """The format of the entries."""
    store: ContextStore
    """Its context store, as of the last entry."""


class Threads(Closing):
    """The threads of one file or server, which may be a memory's too, for any number of contexts.

    A context that is made with ``threads=`` and ``thread=`` begins where that thread ended, also
    after a crash: its next prompt extends the last one that was sent, byte for byte. With
    ``durability="entry"`` each entry is on disk when `Context.add` returns; with ``"turn"`` when
    the next prompt is made, or the context is closed. A thread belongs to one `Context` at a time:
    where a second one has written, the first gets StoreConflictError and must be opened again.

    >>> import tempfile
    >>> from rehydrate import Context
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Threads.open(f"{folder}/threads.db", namespace="alice") as threads:
    ...         Context(threads=threads, thread="t-42").add({"role": "user", "content": "Hello."})
    ...     with Threads.open(f"{folder}/threads.db", namespace="alice") as threads:
    ...         Context(threads=threads, thread="t-42").history
    [{'role': 'user', 'content': 'Hello.'}]
    """

    def __init__(
        self,
        store: SharedStore,
        *,
        namespace: str | None = None,
        durability: Durability = "entry",
    ) -> None:
        """Take an open store; `open` makes one."""
        check_choice("durability", durability, DURABILITIES)
        self._store = store
        self._namespace = None if namespace is None else checked_namespace(namespace)
        self.durability: Durability = durability

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        *,
        namespace: str | None = None,
        durability: Durability = "entry",
        read_only: bool = False,
    ) -> Self:
        """Open the file, or create it; raises StoreError if it cannot be used.

        ``path`` may be a URL, ``postgresql://user@host/database``: then the threads are on a
        server, as those of `Memory.open` do.
        """
        where = verify_place(path)
        check_choice("durability", durability, DURABILITIES)
        if namespace is not None:
            checked_namespace(namespace)
        store = open_store(where, limits=MemoryLimits(), read_only=read_only)
        return cls(store, namespace=namespace, durability=durability)

    @classmethod
    async def aopen(
        cls,
        path: str | PathLike[str],
        *,
        namespace: str | None = None,
        durability: Durability = "entry",
        read_only: bool = False,
    ) -> Self:
        """`open` for asyncio and trio, with the same arguments, result and errors."""
        work = partial(
            cls.open, path, namespace=namespace, durability=durability, read_only=read_only
        )
        return await hand_over(work, STORING)

    @property
    def native(self) -> ThreadStore:
        """The records of the threads, for `Context`."""
        return self._store.threads

    @property
    def path(self) -> str:
        """Path of the file."""
        return self._store.path

    def namespace_for(self, namespace: str | None, call: str, *threads: str) -> str:
        """Return the namespace of a call that names these threads.

        Raises MissingNamespaceError, and InvalidArgumentError for anything but a name.
        """
        for name in threads:
            check_type("thread", name, str, "pass the name of a conversation")
        return resolve_namespace(call, namespace if namespace != "" else None, self._namespace)

    def list(self, *, namespace: str | None = None) -> builtins.list[StoredThreadInfo]:
        """Return the threads of a namespace, the last changed first."""
        found = self.native.threads(self.namespace_for(namespace, "list"))
        return [
            StoredThreadInfo(name, moment_of(created), moment_of(changed), records, size)
            for name, created, changed, records, size in found
        ]

    def history(
        self, thread: str, *, namespace: str | None = None
    ) -> builtins.list[tuple[datetime, object]]:
        """Return the entries of a thread, each with its time; raises UnknownThreadError."""
        read = self.stored_thread(thread, namespace, "history")
        entries = entries_of([each.entry for each in read.entries], read.format)
        times = [moment_of(int(each.time * 1e3)) for each in read.entries]
        return [*zip(times, entries, strict=True)]

    def read(self, thread: str, *, namespace: str | None = None) -> StoredConversation:
        """Return a thread with its entries and its context store; raises UnknownThreadError."""
        stored = self.stored_thread(thread, namespace, "read")
        entries, store = stored.entries_and_store()
        times = tuple([moment_of(int(each.time * 1e3)) for each in stored.entries])
        return StoredConversation(tuple(entries.all()), times, stored.format, store)

    def store(self, thread: str, *, namespace: str | None = None) -> ContextStore:
        """Return the context store of a thread, as of its last entry; raises UnknownThreadError."""
        return self.stored_thread(thread, namespace, "store").entries_and_store()[1]

    def render_store(self, thread: str, budget_tokens: int, *, namespace: str | None = None) -> str:
        """Return the context store of a thread as markdown, with names from all its entries."""
        entries, store = self.stored_thread(thread, namespace, "render_store").entries_and_store()
        whole = entries.at_indices(range(len(entries)))
        return store.render(budget_tokens, conversation=whole.conversation)

    def stored_thread(self, thread: str, namespace: str | None, call: str) -> Stored:
        """Return the content of a thread's records; raises UnknownThreadError."""
        return Stored.of(self._rows(thread, namespace, call))

    def keep(
        self,
        thread: str,
        text: str,
        *,
        format: str = "anthropic",  # noqa: A002  the field's word
        namespace: str | None = None,
    ) -> str:
        """Keep a whole text with a thread's entries, and return its handle for `fetch_whole`.

        A thread that is not there yet is made, for entries in this format. The text is stored as it
        is. Raises StoreConflictError if others write to the thread all the time.

        >>> import tempfile
        >>> from rehydrate.context import ThreadReader
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Threads.open(f"{folder}/threads.db", namespace="alice") as threads:
        ...         handle = threads.keep("t-42", "4,000 lines of a log")
        ...         ThreadReader(threads, "t-42").whole(handle)
        '4,000 lines of a log'
        """
        where = self.namespace_for(namespace, "keep", thread)
        check_type("text", text, str, "pass the text that is to be kept")
        check_choice("format", format, FORMATS)
        handle = handle_of_text(text)
        kept = Record(Kind.ORIGINAL, time(), {"handle": handle, "text": text})
        for attempt in range(_KEEP_ATTEMPTS):
            found = self.native.thread(where, thread)
            known = 0 if found is None else found[3]
            records = [kept] if known else [header(format), kept]
            rows = [record.row for record in records]
            try:
                self.native.append_records(where, thread, known, rows)
                break
            except StoreConflictError:  # another process was quicker
                if attempt == _KEEP_ATTEMPTS - 1:
                    raise
        return handle

    def fork(
        self,
        thread: str,
        new: str,
        *,
        entries: int | None = None,
        namespace: str | None = None,
    ) -> None:
        """Copy a thread, or its first ``entries``, under a new name; nothing in it changes.

        The first prompt of the copy extends the last one that was made from no more entries.
        Raises UnknownThreadError, and StoreConflictError if ``new`` is a thread already.
        """
        where = self.namespace_for(namespace, "fork", new)
        check_whole("entries", entries, or_none=True)
        rows = self._rows(thread, namespace, "fork")
        kept = [rows[number] for number in _native.counting_records(rows, entries)]
        there = sum(row[0] == Kind.ENTRY for row in kept)
        if entries is not None and there < entries:
            raise InvalidArgumentError(
                f"entries is {entries:,}, and the thread has {there:,}; pass at most that"
            )
        (first,) = as_records(kept[:1])
        begun = header(first.content["format"], forked_from=thread, at=entries)
        self.native.append_records(where, new, 0, [begun.row, *kept[1:]])

    def export_thread(
        self, thread: str, path: str | PathLike[str], *, namespace: str | None = None
    ) -> int:
        """Write a thread as JSON Lines, a record per line; return how many lines there are.

        Only the file's owner may read it. `import_thread` reads it.
        """
        rows = self._rows(thread, namespace, "export_thread")
        where = self.namespace_for(namespace, "export_thread")
        return write_lines(path, _native.exported_lines(rows, where, thread))

    def import_thread(
        self, path: str | PathLike[str], *, thread: str | None = None, namespace: str | None = None
    ) -> str:
        """Make a thread from a file of `export_thread`, under its name or another; return the name.

        Raises InvalidArgumentError for a file that isn't one, before anything is written, and
        StoreConflictError if there is a thread of that name.
        """
        from rehydrate.context.continued import check_log  # it loads what makes prompts

        where = self.namespace_for(namespace, "import_thread", thread or "")
        name, records = from_lines(lines_of(path))
        rows = [record.row for record in records]
        check_log(rows)
        new = name if thread is None else thread
        self.native.append_records(where, new, 0, rows)
        return new

    def redact(
        self, thread: str, texts: str | Iterable[str], *, namespace: str | None = None
    ) -> int:
        """Replace these texts by ``[redacted]`` wherever they were said, to the last byte.

        Return the number of records that were changed. A `Context` of the thread is to be opened
        again. Its next prompt starts a new prefix where the last one showed one of the texts.

        Keys and numbers go too where a tool was called with them or gave them, and what JSON within
        a text escapes. What says what something is stays: names of fields, roles, types, ids, and
        names of called tools. All of ``texts``, one or several, go at once.

        Raises UnknownThreadError, StoreConflictError if others wrote to the thread meanwhile, and
        InvalidArgumentError for a blank text, or one without which the thread couldn't be read;
        then nothing is changed.

        >>> import tempfile
        >>> from rehydrate import Context
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Threads.open(f"{folder}/threads.db", namespace="alice") as threads:
        ...         context = Context(threads=threads, thread="t-42")
        ...         context.add({"role": "user", "content": "The user's PIN is 4821."})
        ...         threads.redact("t-42", ["4821", "user"])
        ...         [entry for _, entry in threads.history("t-42")]
        1
        [{'role': 'user', 'content': "The [redacted]'s PIN is [redacted]."}]
        """
        if not isinstance(texts, str):
            check_list("texts", texts, "pass the text that is to go, or several")
        from rehydrate.context.continued import check_redacted  # it loads what makes prompts

        wanted = [texts] if isinstance(texts, str) else list(texts)
        for text in wanted:
            check_type("a text", text, str, "pass what is to go, word for word")
            if not text.strip():
                raise InvalidArgumentError("a text is empty; pass what is to go, word for word")
        where = self.namespace_for(namespace, "redact", thread)
        rows = self._rows(thread, namespace, "redact")
        bodies, kept = redacted_records(rows, wanted)
        if bodies:
            check_redacted(rows, bodies)
            # A record more, which takes back nothing: a Context that still has the texts is refused
            # by the number of records.
            kept = kept or [Record(Kind.UNDO, time(), {"to": len(rows)}).row]
        # Without bodies it erases what an earlier call, which was cut off, left on the disk.
        self.native.replace_records(where, thread, len(rows), bodies, kept)
        return len(bodies)

    def purge(self, thread: str, *, namespace: str | None = None) -> int:
        """Delete a thread and leave no byte of it in any file; return how many records it had.

        `Memory.purge(everything=True)` deletes all threads of its namespace too.
        """
        where = self.namespace_for(namespace, "purge", thread)
        return self.native.purge_thread(where, thread)

    alist = stored(list)  # noqa: A003  the method, not the builtin
    ahistory = stored(history)
    aread = stored(read)
    astore = stored(store)
    arender_store = stored(render_store)
    akeep = stored(keep)
    afork = stored(fork)
    aexport_thread = stored(export_thread)
    aimport_thread = stored(import_thread)
    aredact = stored(redact)
    apurge = stored(purge)

    def close(self) -> None:
        """Wait for running writes, then close the file."""
        self._store.close()

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied: one store has one owner."""
        refuse_copy("a Threads store", "pass its path and open it there")

    def _rows(self, thread: str, namespace: str | None, call: str) -> builtins.list[Row]:
        where = self.namespace_for(namespace, call, thread)
        rows = rows_of(self.native, where, thread)
        if not rows:
            raise UnknownThreadError(thread, where)
        return rows
