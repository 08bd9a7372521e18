"""The error tree: every error names the value, the limit and the remedy.

    RehydrateError                     anything this package raises on purpose
    |-- InvalidArgumentError           ValueError: an argument outside its limits
    |   |-- UnknownFormatError         a `format=` that is not in the table of formats
    |   |-- MissingNamespaceError      a call on a memory that names no namespace
    |   |-- OtherNamespaceError        a call on a bound memory that names another namespace
    |   |-- UnreadableIRError          a PromptIR that is not JSON, or JSON that is not a PromptIR
    |   `-- UnreadableSessionError     FileError: a file that holds no session, or cannot be read
    |-- InvalidMessageError            ValueError and TypeError: an entry that is not a message
    |   `-- UnknownBlockError          a call or a result that no format can pair
    |-- MissingPackageError            ImportError: an optional package that is not installed
    |-- InvalidConversationError       ValueError: messages that a provider would refuse
    |-- EmbedderError                  RuntimeError: an embedder that gave no vector at all
    |-- BudgetExceededError            ValueError: a prompt or a job with no room in its budget
    |-- UnknownHandleError             KeyError: a memory that its namespace does not hold
    |   `-- OriginalGoneError          the original of a shortened text, removed to make room
    |-- OriginalsFullError             ValueError: a text larger than the limit for originals
    |-- UnknownThreadError             LookupError: a thread that its namespace does not have
    |-- FileError                      a file or folder that cannot be used
    |   |-- ModelError                 RuntimeError: a model, or the library that runs it
    |   `-- StoreError                 RuntimeError: a memory's file that cannot be used
    |       |-- StoreBusyError         others kept it locked for too long
    |       |-- StoreFullError         no room left on the disk
    |       |-- StoreReadOnlyError     a write to a read-only store
    |       |-- StoreClosedError       a call after `close()`
    |       |-- StoreCorruptError      the file is damaged
    |       |-- StoreConflictError     another process wrote to the thread
    |       |-- NotAStoreError         the file is something else
    |       |-- NewerStoreError        written by a later version of this package
    |       `-- PurgeIncompleteError   a purge that left files behind
    |-- ProviderError                  RuntimeError: a model's provider that gave no answer
    |   |-- ContextOverflowError       the prompt is longer than the model's window
    |   |-- RateLimitError             too many requests, or too many tokens, for now
    |   |-- ProviderUnavailableError   it is down, overloaded, or did not answer in time
    |   `-- RequestRefusedError        it will never accept this request
    `-- InternalError                  RuntimeError: a panic in the core; a bug, please report it

Errors keep their values as attributes, so that a program can act on them without parsing text.
They survive pickling, so that they cross a process boundary whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self


class Violation(NamedTuple):
    """One provider rule that one message breaks.

    `index` points into the caller's list, `rule` is a stable name from the table of
    `rehydrate.validate`, `message` is for people.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    rule: str
    message: str

    def __str__(self) -> str:
        """Return one line: place, problem, rule."""
        return f"message {self.index}: {self.message} ({self.rule})"


class RehydrateError(Exception):
    """Anything this package raises on purpose."""

    _message = ""

    def __str__(self) -> str:
        """Return one line: the class's sentence about the attributes, else its arguments."""
        return self._message.format(self=self) if self._message else super().__str__()


class FileError(RehydrateError):
    """The base of errors about a file or folder: ``path``, the ``problem`` and the ``remedy``."""

    _message = "{self.path}: {self.problem}; {self.remedy}"

    def __init__(self, path: object, problem: str, remedy: str) -> None:
        """Take the file, folder or name, its problem, and the remedy."""
        self.path = str(path)
        self.problem = problem
        self.remedy = remedy
        super().__init__(self.path, problem, remedy)


class InvalidArgumentError(RehydrateError, ValueError):
    """An argument outside its limits; the message names argument, value, limit and remedy."""


class UnknownFormatError(InvalidArgumentError):
    """A `format=` that is not in the table of formats; `known` are the names that are.

    >>> print(UnknownFormatError("cohere", ["anthropic", "plain"]))
    format is 'cohere'; choose one of 'auto', 'anthropic', 'plain'
    """

    def __init__(self, value: object, known: Iterable[str]) -> None:
        """Take the unknown name and the known ones."""
        self.known = tuple(known)
        super().__init__(value, self.known)

    def __str__(self) -> str:
        """Name the value and the choices."""
        names = ", ".join(map(repr, ("auto", *self.known)))
        return f"format is {self.args[0]!r}; choose one of {names}"


class MissingNamespaceError(InvalidArgumentError):
    """A call on a memory or on threads that names no namespace, if they have none of their own.

    >>> print(MissingNamespaceError("search"))
    search names no namespace; pass namespace=, or bind one: open(path, namespace="alice"), or \
memory.within("alice")
    """

    _message = (
        "{self.args[0]} names no namespace; pass namespace=, or bind one: "
        'open(path, namespace="alice"), or memory.within("alice")'
    )


class OtherNamespaceError(InvalidArgumentError):
    """A call on a memory that is bound to one namespace, for another one.

    >>> print(OtherNamespaceError("search", "bob", "alice"))
    search is for the namespace 'bob', and this memory is bound to 'alice'; leave namespace= out, \
or call it on a memory without a namespace of its own
    """

    _message = (
        "{self.args[0]} is for the namespace {self.namespace!r}, and this memory is bound to "
        "{self.bound!r}; leave namespace= out, or call it on a memory without a namespace of its "
        "own"
    )

    def __init__(self, operation: str, namespace: str, bound: str) -> None:
        """Take the name of the operation, the namespace that was passed, and its own."""
        super().__init__(operation, namespace, bound)
        self.namespace = namespace
        self.bound = bound


class UnreadableIRError(InvalidArgumentError):
    """A PromptIR that cannot be read from JSON or written as such.

    `place` is the path in it, `names` are the fields that are unknown or missing.

    >>> print(UnreadableIRError("sections[3]", "has no field 'colour'", "leave it out", ["colour"]))
    sections[3] has no field 'colour'; leave it out
    """

    def __init__(self, place: str, problem: str, remedy: str, names: Iterable[str] = ()) -> None:
        """Take the place, its problem, the remedy, and the names of the fields."""
        self.place = place
        self.problem = problem
        self.remedy = remedy
        self.names = tuple(names)
        super().__init__(place, problem, remedy, self.names)

    def __str__(self) -> str:
        """Name the place, the problem and the remedy."""
        return f"{self.place or 'the IR'} {self.problem}; {self.remedy}"


class UnreadableSessionError(FileError, InvalidArgumentError):
    """A file that holds no session, or one that cannot be read; `path` is the file.

    >>> print(UnreadableSessionError("a.jsonl", "line 3 is not JSON", "delete the line"))
    a.jsonl: line 3 is not JSON; delete the line
    """


class InvalidMessageError(RehydrateError, ValueError, TypeError):
    """An entry that is not a message: a ValueError (wrong data) and a TypeError (wrong argument).

    `index` is the entry's index in the list (None: the list itself is wrong), `part` the place
    inside the entry.

    >>> print(InvalidMessageError(3, "content", 17, "a string, a list or None", "pass str(17)"))
    message 3: content is an int, expected a string, a list or None; pass str(17)
    """

    def __init__(
        self, index: int | None, part: str, value: object, expected: str, remedy: str
    ) -> None:
        """Store the value's type only: the value may be huge, secret or impossible to pickle."""
        if not isinstance(value, _TypeName):  # it is one after unpickling
            is_empty = isinstance(value, str) and not value
            value = _TypeName("empty string" if is_empty else type(value).__name__)
        super().__init__(index, part, value, expected, remedy)
        self.index = index
        self.part = part
        self.value_type = str(value)
        self.expected = expected
        self.remedy = remedy

    def at(self, index: int) -> Self:
        """Return the same error of an entry that has another index in the caller's list.

        >>> error = InvalidMessageError(0, "content", 17, "a string", "pass str(17)")
        >>> error.at(12).index
        12
        """
        return type(self)(index, *self.args[1:])

    def __str__(self) -> str:
        """Name the place, what is there, what was expected and the remedy."""
        place = "messages" if self.index is None else f"message {self.index}"
        subject = f"{place}: {self.part}" if self.part else place
        noun = _with_article(self.value_type)
        return f"{subject} is {noun}, expected {self.expected}; {self.remedy}"


_LONGEST_NAME = 80


class UnknownBlockError(InvalidMessageError):
    """A block of a format that is not in the table: its calls and results cannot be paired.

    A compaction would drop one half of a pair. `block` is its type or key, `formats` are those that
    can be read.

    >>> print(UnknownBlockError(3, "content[0]", "toolUse", ["anthropic"], "convert it"))
    message 3: content[0] is 'toolUse', a foreign block whose call or result cannot be paired \
(formats here: anthropic); convert it
    """

    def __init__(
        self, index: int | None, part: str, block: str, formats: Iterable[str], remedy: str
    ) -> None:
        """Take the place, the block's type or key, the known formats, and the way out."""
        self.block = block[:_LONGEST_NAME]
        self.formats = tuple(formats)
        super().__init__(index, part, {}, f"a block of {', '.join(self.formats)}", remedy)
        self.args = (index, part, self.block, self.formats, remedy)

    def __str__(self) -> str:
        """Name the place, the block, the formats and the way out."""
        known = ", ".join(self.formats)
        return (
            f"message {self.index}: {self.part} is {self.block!r}, a foreign block whose call or "
            f"result cannot be paired (formats here: {known}); {self.remedy}"
        )


class InvalidConversationError(RehydrateError, ValueError):
    """Messages that a provider would refuse; `violations` lists every reason."""

    def __init__(self, violations: Iterable[Violation]) -> None:
        """Take the result of `rehydrate.validate`."""
        self.violations = tuple(violations)
        super().__init__(self.violations)

    def __str__(self) -> str:
        """Count the violations and show the first five."""
        count = len(self.violations)
        shown = "; ".join(str(violation) for violation in self.violations[:5])
        more = f"; and {count - 5} more" if count > 5 else ""
        return f"{count} violation{'' if count == 1 else 's'}: {shown}{more}"


class BudgetExceededError(RehydrateError, ValueError):
    """The required parts of a prompt, or a whole job, need more tokens than the budget.

    >>> print(BudgetExceededError("section 'tools'", 900, 800, "raise budget or lower min_tokens"))
    section 'tools' needs 900 tokens, budget is 800; raise budget or lower min_tokens
    """

    _message = (
        "{self.subject} needs {self.needed_tokens:,} tokens, {self.limit} is "
        "{self.budget_tokens:,}; {self.remedy}"
    )

    def __init__(
        self,
        subject: str,
        needed_tokens: int,
        budget_tokens: int,
        remedy: str,
        limit: str = "budget",
    ) -> None:
        """Take the name of the part that needs tokens, how many it needs, how many there are, the
        remedy, and the name of the limit."""
        super().__init__(subject, needed_tokens, budget_tokens, remedy, limit)
        self.limit = limit
        self.subject = subject
        self.needed_tokens = needed_tokens
        self.budget_tokens = budget_tokens
        self.remedy = remedy


class MissingPackageError(RehydrateError, ImportError):
    """An optional package that is not installed; `name` is the package, or an extra of ours.

    >>> print(MissingPackageError("langchain-core", "makes LangChain's messages"))
    langchain-core is not installed, which makes LangChain's messages; pip install 'langchain-core'
    """

    _message = "{self.name} is not installed, which {self.args[1]}; pip install {self.name!r}"

    def __init__(self, package: str, purpose: str) -> None:
        """Take the package's name and its purpose here."""
        super().__init__(package, purpose)
        self.name = package


class EmbedderError(RehydrateError, RuntimeError):
    """An embedder that was called directly gave no vector at all, or could not be loaded.

    A compaction never raises it: it goes on without vectors, and ``stats.degraded`` says so.
    """


class ModelError(FileError, RuntimeError):
    """An embedding model, or the library that runs it, that cannot be used.

    `path` is its file, folder or name.

    >>> print(ModelError("/models/minilm/model.onnx", "no such file", "convert the model again"))
    /models/minilm/model.onnx: no such file; convert the model again
    """


class UnknownHandleError(RehydrateError, KeyError):
    """A handle that the namespace does not hold: forgotten, purged, or of another namespace.

    >>> print(UnknownHandleError("mem_0", "alice"))
    namespace 'alice' holds no 'mem_0'; it was forgotten, or it belongs to another namespace
    """

    _message = (
        "namespace {self.namespace!r} holds no {self.handle!r}; "
        "it was forgotten, or it belongs to another namespace"
    )

    def __init__(self, handle: object, namespace: str) -> None:
        """Take the handle and the namespace of the call."""
        super().__init__(handle, namespace)
        self.handle = handle
        self.namespace = namespace


class OriginalGoneError(UnknownHandleError):
    """An original that was stored here once and was removed to make room.

    >>> print(OriginalGoneError("orig_a", 1_000))
    'orig_a' made room for newer originals (limit 1,000 bytes); call the tool again, or raise \
max_bytes
    """

    _message = (
        "{self.handle!r} made room for newer originals (limit {self.max_bytes:,} bytes); "
        "call the tool again, or raise max_bytes"
    )

    def __init__(self, handle: str, max_bytes: int) -> None:
        """Take the handle and the limit."""
        super().__init__(handle, "originals")
        self.args = (handle, max_bytes)
        self.max_bytes = max_bytes


class OriginalsFullError(RehydrateError, ValueError):
    """A text that is larger than the limit for all originals: it was not stored, and stays whole.

    >>> print(OriginalsFullError(2_000, 1_000))
    an original needs 2,000 bytes, max_bytes is 1,000; raise max_bytes
    """

    _message = (
        "an original needs {self.needed_bytes:,} bytes, max_bytes is {self.max_bytes:,}; "
        "raise max_bytes"
    )

    def __init__(self, needed_bytes: int, max_bytes: int) -> None:
        """Take the needed bytes and the limit."""
        super().__init__(needed_bytes, max_bytes)
        self.needed_bytes = needed_bytes
        self.max_bytes = max_bytes


class StoreError(FileError, RuntimeError):
    """A memory's file that cannot be used; `path` is the file.

    >>> print(StoreBusyError("/m.db", "locked by another process for 30 s", "try again"))
    /m.db: locked by another process for 30 s; try again
    """


class StoreBusyError(StoreError):
    """Other processes kept the store locked for longer than a call waits."""


class StoreFullError(StoreError):
    """No room left on the disk: nothing was written, what is there can be read."""


class StoreReadOnlyError(StoreError):
    """A write to a store that was opened read-only, or whose file may not be written."""


class StoreClosedError(StoreError):
    """A call on a memory after it was closed."""


class StoreCorruptError(StoreError):
    """The file itself is damaged. (A damaged index never raises: it is rebuilt.)"""


class NotAStoreError(StoreError):
    """The file is something else: another program's database, or no database."""


class NewerStoreError(StoreError):
    """The file was written by a later version of this package; it was not touched."""


class PurgeIncompleteError(StoreError):
    """A purge deleted its items, but files that hold traces of them could not be removed.

    `problem` names the files. Purging again, once they can be removed, finishes it.
    """


class StoreConflictError(StoreError):
    """Another process or `Context` wrote to a thread since this one read it; nothing was written.

    Open the thread again: it then holds what the other one wrote.
    """


class UnknownThreadError(RehydrateError, LookupError):
    """A thread that the namespace does not have.

    >>> print(UnknownThreadError("t-42", "alice"))
    namespace 'alice' has no thread 't-42'; Threads.list() names those it has
    """

    _message = (
        "namespace {self.namespace!r} has no thread {self.thread!r}; "
        "Threads.list() names those it has"
    )

    def __init__(self, thread: str, namespace: str) -> None:
        """Take the thread's name and the namespace."""
        self.thread = thread
        self.namespace = namespace
        super().__init__(thread, namespace)


class ProviderError(RehydrateError, RuntimeError):
    """A model's provider gave no answer; ``status`` is that of HTTP, None if there was none.

    >>> print(ProviderError("anthropic", 500, "Internal server error"))
    anthropic answered 500: Internal server error
    """

    def __init__(
        self,
        provider: str,
        status: int | None,
        message: str,
        retry_after_seconds: float | None = None,
    ) -> None:
        """Take the provider's message, and its retry time if it gave one."""
        super().__init__(provider, status, message, retry_after_seconds)
        self.provider = provider
        self.status = status
        self.message = message
        self.retry_after_seconds = retry_after_seconds

    def __str__(self) -> str:
        """Name the provider, the status and its message."""
        said = "gave no answer" if self.status is None else f"answered {self.status}"
        return f"{self.provider} {said}: {self.message}"


class ContextOverflowError(ProviderError):
    """The prompt is longer than the model's window: compact it and send it again."""


class RateLimitError(ProviderError):
    """Too many requests, or too many tokens, for now: send it again later."""


class ProviderUnavailableError(ProviderError):
    """The provider is down, overloaded, out of reach, or did not answer in time: try again."""


class RequestRefusedError(ProviderError):
    """The provider will never accept this request, however often it is sent."""


class InternalError(RehydrateError, RuntimeError):
    """A panic in the core. The message names the place; the input was not changed."""


class _TypeName(str):
    """A type's name in place of the value, also after unpickling."""

    __slots__ = ()


def _with_article(noun: str) -> str:
    if noun == "NoneType":
        return "None"
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


__all__ = [
    name
    for name, each in [*globals().items()]
    if each is Violation or (isinstance(each, type) and issubclass(each, RehydrateError))
]
