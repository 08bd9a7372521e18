"""MemoryFiles: the memory tool's files in a Memory's database, for any loop and any provider."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rehydrate._check import check_share, check_type
from rehydrate._concurrency.async_wrappers import stored
from rehydrate._text import as_unicode, failure_text, safe_error_text
from rehydrate.errors import InvalidArgumentError, RehydrateError, StoreError
from rehydrate.formats.calls import ToolCall, tool_definition
from rehydrate.integrations.host_thread import RehydrateWarning
from rehydrate.integrations.memory_tool import commands
from rehydrate.integrations.memory_tool.commands import ROOT, FileLimits, Refusal
from rehydrate.integrations.memory_tool.definition import DESCRIPTION, NAME, SCHEMA
from rehydrate.integrations.memory_tool.file_log import FileLog, Files
from rehydrate.memory.folder import chunks
from rehydrate.memory.items import MemoryItem
from rehydrate.memory.tools import memory_of_tool

if TYPE_CHECKING:
    from rehydrate.agent.tools import Tool
    from rehydrate.context.threads import Threads
    from rehydrate.memory.memory import Memory


KIND = "memory_file"
TOOL = "memory"


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
                chunk.text, kind=KIND, source=path, thread=thread, tool=TOOL, trust=trust
            )
            yield memory.as_stored(item)


TRUST = 0.5
"""A model wrote it, from whatever it had read: it is not the user's word."""
_MAX_TRIES = 100
"""Each try that fails is one that another writer won."""
_MAX_ROUNDS = 5


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
        self._log = FileLog(_native(memory, threads), self._memory.namespace, ROOT)
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
        if not isinstance(arguments, Mapping):
            return f"Error: the arguments are {arguments!r}; send an object", True
        try:
            return self._run(arguments), False
        except Refusal as refusal:
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
            outcome = commands.run(arguments, files.texts, overwrites=self._overwrites)
            changes, removed = self._without_secrets(outcome.changes)
            self._check_limits(files, changes)
            if changes and not self._log.write(files, changes):
                continue
            if changes or not self._is_indexed:
                self._index(changes)
            answer = outcome.answer({**files.texts, **{k: v or "" for k, v in changes.items()}})
            if removed:
                answer += f"\nSecrets were left out of the file: {', '.join(removed)}."
            return answer
        raise Refusal("Error: the files are changed by others all the time; try again")

    def _without_secrets(
        self, changes: Mapping[str, str | None]
    ) -> tuple[dict[str, str | None], list[str]]:
        """Return the changes without secrets, and which kinds there were."""
        redactor = self._memory.redactor
        if redactor is None:
            return dict(changes), []
        kept: dict[str, str | None] = {}
        kinds: set[str] = set()
        for path, text in changes.items():
            if text is not None and redactor(path).redactions:
                raise Refusal("Error: the path holds a secret; choose another name")
            found = None if text is None else redactor(text)
            kept[path] = None if found is None else found.text
            kinds |= {each.name for each in found.redactions} if found else set()
        return kept, sorted(kinds)

    def _check_limits(self, files: Files, changes: Mapping[str, str | None]) -> None:
        limits = self._limits
        sizes = {path: len(text.encode()) for path, text in changes.items() if text is not None}
        if not sizes:
            return
        path, size = max(sizes.items(), key=lambda each: each[1])
        if size > limits.max_file_bytes:
            raise Refusal(
                f"Error: {path} would have {size:,} bytes, and a file at most "
                f"{limits.max_file_bytes:,}; divide it, or leave out what is not needed"
            )
        others = [text for path, text in files.texts.items() if path not in changes]
        if len(others) + len(sizes) > limits.max_files:
            raise Refusal(
                f"Error: there would be more than {limits.max_files:,} files; delete some first"
            )
        total = sum(len(text.encode()) for text in others) + sum(sizes.values())
        if total > limits.max_bytes:
            raise Refusal(
                f"Error: the files would have {total:,} bytes, and all together at most "
                f"{limits.max_bytes:,}; delete what is not needed first"
            )

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


def _native(memory: Memory, threads: Threads | None) -> Any:
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
