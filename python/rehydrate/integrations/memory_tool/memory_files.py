"""MemoryFiles: the memory tool's files in a Memory's database, for any loop and any provider.

FileLog: files in a stored thread, changed by one process at a time and read by any.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import urandom
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from rehydrate import _native
from rehydrate._check import check_share, check_type, check_whole
from rehydrate._concurrency.async_wrappers import stored
from rehydrate._native import REDACTED, chunks
from rehydrate._text import failure_text, safe_error_text
from rehydrate.context.records import Row, reading, rows_of
from rehydrate.errors import (
    InvalidArgumentError,
    RehydrateError,
    StoreConflictError,
    StoreError,
)
from rehydrate.formats.calls import ToolCall
from rehydrate.integrations.host_thread import RehydrateWarning
from rehydrate.memory.items import MemoryItem
from rehydrate.memory.tools import memory_of_tool

if TYPE_CHECKING:
    from rehydrate.agent.tools import Tool
    from rehydrate.context.threads import Threads
    from rehydrate.memory.memory import Memory
    from rehydrate.memory.store import ThreadRow, ThreadStore


NAME = "memory"
ROOT = "/memories"
KIND = "memory_file"
TRUST = 0.5
"""A model wrote it, from whatever it had read: it is not the user's word."""
_MAX_TRIES = 100
"""Each try that fails is one that another writer won."""
_MAX_ROUNDS = 5
_SLACK_BYTES = 256 * 1024
"""Old versions are left alone up to this many bytes, and up to twice the size of the files. What is
left of them, some 80 bytes each, is not looked at again for as many."""


@dataclass(frozen=True, slots=True)
class FileLimits:
    """Limits on the files of one namespace. What goes beyond is refused, and nothing is dropped.

    >>> FileLimits(max_files=50).max_file_bytes
    1000000
    """

    max_file_bytes: int = 1_000_000
    max_bytes: int = 10_000_000
    """For all files together."""
    max_files: int = 1_000

    def __post_init__(self) -> None:
        """Refuse a value that cannot be a limit."""
        for name in ("max_file_bytes", "max_bytes", "max_files"):
            check_whole(f"FileLimits: {name}", getattr(self, name), 1)


class FileOptions(TypedDict, total=False):
    """The options of `MemoryFiles`."""

    namespace: str | None
    threads: Threads | None
    limits: FileLimits
    trust: float
    overwrites: bool


class MemoryFiles:
    """Files below /memories, which a model views and edits by the six commands of the memory tool.

    A file's text comes back byte for byte; it is in the stored thread ``/memories`` of the memory's
    namespace, with every version. Its passages are items of the memory, of kind ``memory_file`` and
    with the path as source, so that `Memory.search`, hydration and compaction find them. Commands
    of any number of processes are carried out one after the other, each whole. Secrets are removed
    from a file before anything is written, as the memory is set to.

    ``run(arguments)`` answers a command of a loop of your own. ``definition(provider)``,
    ``handles(call)`` and ``handle(call)`` are a tool for any provider, `tool` is one for an
    `Interpreter`. `RehydrateMemoryTool` is one for Anthropic's SDK.

    >>> import tempfile
    >>> from rehydrate import Memory
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Memory.open(f"{folder}/m.db", namespace="alice") as memory:
    ...         files = MemoryFiles(memory)
    ...         path = "/memories/ports.md"
    ...         create = {"command": "create", "path": path, "file_text": "Staging: 8443."}
    ...         files.run(create)
    ...         memory.search("which port has staging?")[0].item.source
    'File created successfully at: /memories/ports.md'
    '/memories/ports.md'
    """

    name = NAME

    def __init__(
        self,
        memory: Memory,
        *,
        namespace: str | None = None,
        threads: Threads | None = None,
        limits: FileLimits = FileLimits(),
        trust: float = TRUST,
        overwrites: bool = False,
    ) -> None:
        """Take the memory; it must be bound to a namespace unless one is given.

        ``threads`` holds the files where the memory's store is not `Memory.open`'s. ``trust`` is
        that of the passages. With ``overwrites``, a create command replaces a file that is there.
        """
        self._memory = memory_of_tool(memory, namespace)
        assert self._memory.namespace is not None
        check_type("limits", limits, FileLimits, "pass FileLimits(...)")
        self._log = FileLog(_threads_of(memory, threads), self._memory.namespace)
        self._limits = limits
        check_share("trust", trust)
        self._trust = trust
        self._overwrites = bool(overwrites)
        self._indexed: dict[str, str] | None = None
        """The files whose passages the memory has."""

    def run(self, arguments: Mapping[str, Any]) -> str:
        """Carry out a command, and return its answer or its error, for the model to read.

        Raises StoreError if the database cannot be used.
        """
        return self.answer(arguments)[0]

    def answer(self, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """Carry out a command; return the answer, and whether it is an error."""
        for _ in range(_MAX_TRIES):
            files = self._log.read()
            text, is_error, changed, rows = _native.memory_command(
                arguments,
                files.texts,
                not files.records,
                self._memory.redactor,
                self._limits,
                self._overwrites,
            )
            if rows and not self._log.write(files, rows):
                continue
            if changed or not (is_error or files.texts == self._indexed):
                self._index(changed)
            return text, is_error
        return "Error: the files are changed by others all the time; try again", True

    arun = stored(run)
    aanswer = stored(answer)

    def texts(self) -> dict[str, str]:
        """Return the text of each file, by path."""
        return dict(sorted(self._log.read().texts.items()))

    def clear(self) -> None:
        """Delete all files, with their versions and their passages, as a purge does."""
        self._log.clear()
        self._memory.purge(thread=ROOT)

    atexts = stored(texts)
    aclear = stored(clear)

    @staticmethod
    def definition(provider: str) -> dict[str, Any]:
        """Return the tool as a request to `provider` lists it, as a function with a schema.

        Anthropic's models know the tool without: send ``{"type": "memory_20250818", "name":
        "memory"}`` to them.

        >>> MemoryFiles.definition("openai_responses")["name"]
        'memory'
        """
        return _native.memory_tool(provider)

    @staticmethod
    def handles(call: Any) -> bool:
        """Return whether `call` is a call of this tool, in any provider's shape."""
        read = ToolCall.read(call)
        return read is not None and read.name == NAME

    def handle(self, call: Any) -> Any:
        """Return the result of a call, in the shape of the call's provider."""
        read = ToolCall.of_tool(call, NAME)
        try:
            text, is_error = self.answer(read.arguments())
        except InvalidArgumentError as error:  # its arguments are not JSON
            text, is_error = f"Error: {error}", True
        except RehydrateError as error:  # the store's: do not show the model its path
            text, is_error = f"{failure_text(error, NAME)}; go on without it", True
        return read.result(text, is_error=is_error)

    ahandle = stored(handle)

    @property
    def tool(self) -> Tool:
        """The tool for ``Interpreter(tools=[...])``."""
        from rehydrate.agent.tools import Tool, ToolError

        def call(**arguments: Any) -> str:
            text, is_error = self.answer(arguments)
            if is_error:
                raise ToolError(text)
            return text

        about = self.definition("anthropic")
        return Tool(NAME, about["description"], about["input_schema"], call)

    def _index(self, changed: Iterable[str]) -> None:
        """Bring the passages up to date with the files.

        They are those of the files that the command changed, and of those that others changed or
        redacted since this process looked last. It looks at the files again then, so that the last
        one to do so has seen the last change. What a crash left undone is done by the first command
        of the next process.
        """
        try:
            for _ in range(_MAX_ROUNDS):
                texts, before = self._log.read().texts, self._indexed
                paths = None
                if before is not None:
                    both = before.keys() | texts.keys()
                    paths = {*changed, *(p for p in both if before.get(p) != texts.get(p))}
                if paths is None or paths:
                    update_passages(self._memory, texts, paths, self._trust)
                self._indexed = texts
                if self._log.read().texts == texts:
                    return
        except StoreError as error:
            self._indexed = None
            why = safe_error_text(error, "rehydrate")
            warnings.warn(
                f"the files are written, and searches do not find the change yet: {why}",
                RehydrateWarning,
                stacklevel=3,
            )


def update_passages(
    memory: Memory, texts: Mapping[str, str], paths: Iterable[str] | None, trust: float
) -> None:
    """Add the passages of these files that are new, then forget those that are gone.

    None as paths: all files, and what the memory has of others goes.
    """
    sources = None if paths is None else sorted(paths)
    held = memory.list(threads=[ROOT], sources=sources, limit=None)
    stored = {(item.source, item.text): item.handle for item in held}
    wanted: dict[tuple[str, str], MemoryItem] = {}
    for path in texts if sources is None else sources:
        for chunk in chunks(texts.get(path, "")):
            if chunk.body.strip():
                item = MemoryItem(
                    chunk.text, kind=KIND, source=path, thread=ROOT, tool=NAME, trust=trust
                )
                item = memory.as_stored(item)
                wanted[item.source, item.text] = item
    if new := [item for key, item in wanted.items() if key not in stored]:
        memory.add(new)
    if gone := [handle for key, handle in stored.items() if key not in wanted]:
        memory.forget(gone)
        if _redactions_in(wanted) > _redactions_in(stored):
            # `forget` leaves bytes. A purge of anything takes them, so of a source that nobody has.
            memory.purge(source=f"{ROOT}/\n{urandom(16).hex()}")


def _redactions_in(passages: Iterable[tuple[str, str]]) -> int:
    return sum(text.count(REDACTED) for _, text in passages)


def _threads_of(memory: Memory, threads: Threads | None) -> Any:
    from rehydrate.context.threads import Threads

    if threads is not None:
        check_type("threads", threads, Threads, "pass Threads.open(path)")
        return threads.native
    store = memory._store
    found = getattr(store, "threads", None)
    if found is None:
        raise InvalidArgumentError(
            f"the memory's store is a {type(store).__name__}, which holds no threads; pass "
            "threads=Threads.open(path)"
        )
    return found


class Files(NamedTuple):
    """All files at one moment."""

    texts: dict[str, str]
    """By path."""
    records: int = 0
    """The number of the log's records. A change is written only if it still has as many."""
    row: ThreadRow | None = None
    """The store's mark of the log; it differs after any change."""


class FileLog:
    """The files of a namespace, as a log of their versions in the thread ``/memories``.

    `write` changes all files of a command or none, and only if nobody has changed any since they
    were read. A file's text comes back byte for byte.
    """

    def __init__(self, store: ThreadStore, namespace: str) -> None:
        """Take an open store; nothing is written before the first change."""
        self._store = store
        self._namespace = namespace
        self._files = Files({})
        self._tidy_bytes = 0

    def read(self) -> Files:
        """Return the files as they are on disk now."""
        row = self._store.thread(self._namespace, ROOT)
        if row is None:
            self._files = Files({})
        elif self._files.row != row:
            # Read from the start: a record that was read before may have been redacted since.
            rows = rows_of(self._store, self._namespace, ROOT)
            with reading():
                self._files = Files(_native.memory_texts(rows, {}), len(rows), row)
        return self._files

    def write(self, files: Files, rows: Sequence[Row]) -> bool:
        """Add the records of a command; they are on disk then.

        Return False, with nothing written, if the files are no longer as they were read.
        """
        try:
            row = self._store.append_records(self._namespace, ROOT, files.records, rows)
        except StoreConflictError:
            return False
        added = sum(len(body.encode()) for _, _, body in rows)
        # Other bytes than were read and written: a record was redacted meanwhile.
        is_known = row[4] == added + (files.row[4] if files.row else 0)
        texts = _native.memory_texts(rows, files.texts)
        self._files = Files(texts, row[3], row if is_known else None)
        self._tidy(self._files)
        return True

    def clear(self) -> None:
        """Delete all files and their versions."""
        self._store.purge_thread(self._namespace, ROOT)

    def _tidy(self, files: Files) -> None:
        """Empty the versions that are no longer the file's, if they take most of the room."""
        held = sum(len(text.encode()) for text in files.texts.values())
        if files.row is None or files.row[4] < max(3 * held, self._tidy_bytes) + _SLACK_BYTES:
            return
        stale = _native.memory_stale(rows_of(self._store, self._namespace, ROOT), files.texts)
        try:
            self._store.replace_records(self._namespace, ROOT, files.records, stale)
        except StoreConflictError:
            return  # the process that wrote meanwhile does it
        row = self._store.thread(self._namespace, ROOT)
        self._tidy_bytes = 0 if row is None else row[4]
