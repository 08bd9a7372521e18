"""MemoryFiles: the memory tool's files in a Memory's database, for any loop and any provider.

FileLog: files in a stored thread, changed by one process at a time and read by any.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from rehydrate import _native
from rehydrate._check import check_share, check_type
from rehydrate._concurrency.async_wrappers import stored
from rehydrate._native import chunks, tool_definition
from rehydrate._text import as_unicode, failure_text, safe_error_text
from rehydrate.context.records import Kind, Record, as_records, header, rows_of
from rehydrate.errors import (
    InvalidArgumentError,
    RehydrateError,
    StoreConflictError,
    StoreError,
)
from rehydrate.formats.calls import ToolCall
from rehydrate.integrations.host_thread import RehydrateWarning
from rehydrate.integrations.memory_tool.definition import (
    DESCRIPTION,
    NAME,
    ROOT,
    SCHEMA,
    FileLimits,
)
from rehydrate.memory.items import MemoryItem
from rehydrate.memory.tools import memory_of_tool
from rehydrate.prompt.counting import text_tokens

if TYPE_CHECKING:
    from rehydrate.agent.tools import Tool
    from rehydrate.context.threads import Threads
    from rehydrate.memory.memory import Memory
    from rehydrate.memory.store import ThreadStore


KIND = "memory_file"


def update_passages(
    memory: Memory, thread: str, texts: Mapping[str, str], paths: Iterable[str] | None, trust: float
) -> None:
    """Add the passages of these files that are new, then forget those that are gone.

    None as paths: all files, and what the memory has of others goes.
    """
    sources = None if paths is None else sorted(paths)
    stored: dict[tuple[str, str], str] = {
        (item.source, item.text): item.handle
        for item in memory.list(threads=[thread], sources=sources, limit=None)
    }
    wanted = {
        (item.source, item.text): item
        for path in (texts if sources is None else sources)
        if path in texts
        for item in _passages(memory, path, texts[path], thread, trust)
    }
    new = [item for key, item in wanted.items() if key not in stored]
    gone = [handle for key, handle in stored.items() if key not in wanted]
    if new:
        memory.add(new)
    if gone:
        memory.forget(gone)


def _passages(
    memory: Memory, path: str, text: str, thread: str, trust: float
) -> Iterable[MemoryItem]:
    for chunk in chunks(text):
        if chunk.body.strip():
            item = MemoryItem(
                chunk.text, kind=KIND, source=path, thread=thread, tool=NAME, trust=trust
            )
            yield memory.as_stored(item)


TRUST = 0.5
"""A model wrote it, from whatever it had read: it is not the user's word."""
_MAX_TRIES = 100
"""Each try that fails is one that another writer won."""
_MAX_ROUNDS = 5


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
        limits: FileLimits = FileLimits(),  # noqa: B008  it is frozen
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
        self._log = FileLog(_threads_of(memory, threads), self._memory.namespace, ROOT)
        self._limits = limits
        check_share("trust", trust)
        self._trust = trust
        self._overwrites = bool(overwrites)
        self._is_indexed = False

    def run(self, arguments: Mapping[str, Any]) -> str:
        """Carry out a command, and return its answer or its error, for the model to read.

        Raises StoreError where the database cannot be used.
        """
        return self.answer(arguments)[0]

    def answer(self, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """Carry out a command; return the answer, and whether it is an error."""
        try:
            return self._run(arguments), False
        except _Refusal as refusal:
            return as_unicode(str(refusal)), True

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
        return tool_definition(provider, NAME, DESCRIPTION, SCHEMA)

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

        return Tool(NAME, DESCRIPTION, SCHEMA, call)

    def _run(self, arguments: Mapping[str, Any]) -> str:
        for _ in range(_MAX_TRIES):
            files = self._log.read()
            new, answer, is_error, edited = _native.memory_command(
                arguments, files.texts, self._overwrites
            )
            if is_error:
                raise _Refusal(answer)
            changes, removed = self._without_secrets(new)
            self._check_limits(files, changes)
            if changes and not self._log.write(files, changes):
                continue
            if changes or not self._is_indexed:
                self._index(changes)
            if edited is not None:
                path, line = edited
                answer += _native.memory_snippet(changes[path] or "", line)
            if removed:
                answer += f"\nSecrets were left out of the file: {', '.join(removed)}."
            return answer
        raise _Refusal("Error: the files are changed by others all the time; try again")

    def _without_secrets(
        self, changes: dict[str, str | None]
    ) -> tuple[dict[str, str | None], list[str]]:
        """Return the changes without secrets, and which kinds there were."""
        redactor = self._memory.redactor
        if redactor is None:
            return changes, []
        kept: dict[str, str | None] = {}
        kinds: set[str] = set()
        for path, text in changes.items():
            if text is not None and redactor(path).redactions:
                raise _Refusal("Error: the path holds a secret; choose another name")
            found = None if text is None else redactor(text)
            kept[path] = None if found is None else found.text
            kinds |= {each.name for each in found.redactions} if found else set()
        return kept, sorted(kinds)

    def _check_limits(self, files: Files, changes: dict[str, str | None]) -> None:
        limits = self._limits
        excess = _native.memory_excess(
            files.texts, changes, limits.max_file_bytes, limits.max_bytes, limits.max_files
        )
        if excess is not None:
            raise _Refusal(excess)

    def _index(self, changes: Mapping[str, str | None]) -> None:
        """Bring the passages up to date with the files.

        Whoever changes a file brings its passages up to date and then looks at the files again, so
        that the last one to do so has seen the last change. What a crash left undone is done by the
        first command of the next process.
        """
        paths = set(changes) if self._is_indexed else None
        try:
            for _ in range(_MAX_ROUNDS):
                files = self._log.read()
                update_passages(self._memory, ROOT, files.texts, paths, self._trust)
                now = self._log.read()
                if now.texts == files.texts:
                    self._is_indexed = True
                    return
                if paths is not None:
                    both = files.texts.keys() | now.texts.keys()
                    paths |= {p for p in both if files.texts.get(p) != now.texts.get(p)}
            self._is_indexed = False  # others write all the time: the next command looks again
        except StoreError as error:
            self._is_indexed = False
            why = safe_error_text(error, "rehydrate")
            warnings.warn(
                f"the files are written, and searches do not find the change yet: {why}",
                RehydrateWarning,
                stacklevel=4,
            )


class _Refusal(Exception):  # noqa: N818  it is an answer, not an error of the program
    """Its message is the answer to the model; nothing was changed."""


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


FORMAT = "plain"
"""Each version of a file is an entry: a message with the file's text and, next to it, its path."""
_SLACK_BYTES = 256 * 1024
"""Old versions are left alone up to so many bytes, and up to twice the size of the files. What is
left of them, some 80 bytes each, is not looked at again for as many."""


class Files(NamedTuple):
    """All files at one moment."""

    texts: dict[str, str]
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
            records = as_records(rows_of(self._store, self._namespace, self._thread))
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
        records = as_records(rows_of(self._store, self._namespace, self._thread))
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
