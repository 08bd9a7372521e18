"""Originals: where the whole of a shortened text is kept, and how it is got back byte for byte.

A text is put here before anything says that it is, so that no notice ever names what is not there.
A handle counts only where it was given out: one that stands in a content by chance or by malice
is text, and asking for it is an UnknownHandleError.
"""

from __future__ import annotations

import sys
from base64 import b32encode
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.errors import (
    InvalidArgumentError,
    OriginalGoneError,
    OriginalsFullError,
    UnknownHandleError,
)

__all__ = ["About", "HeldOriginals", "MemoryOriginals", "Originals", "digest_of"]


MAX_BYTES = 256 * 2**20
KIND = "original"
"""Of the memories that hold originals: no other memory can be read through them."""
TRUST = 0.5
"""What a tool returned may be anybody's words."""

_PREFIX = "orig_"
_REMEMBERED = 65_536


class About(NamedTuple):
    """Where an original came from."""

    tool: str = ""
    call: str = ""
    """The id of the tool call that it answers."""


class Originals(Protocol):
    """A place for the whole of what a prompt shows in part."""

    def put(self, text: str, /, *, about: About = ...) -> str:
        """Keep the text and give its handle, the same one for the same text. Raises where the text
        is not kept: then it stays whole in the prompt."""

    def get(self, handle: str, /) -> str:
        """The text, byte for byte; raises UnknownHandleError for a handle never given out."""


class _Held(NamedTuple):
    text: str
    bytes: int
    """When it was put: a string grows when somebody asks for its UTF-8."""


class HeldOriginals:
    """Originals in this process, for any number of threads.

    Beyond ``max_bytes`` those go first that were put or asked for longest ago. Every compilation
    puts again what its prompt shows in part, so what is visible is what is newest. Texts are held,
    not copied. Use one for each tenant.

    >>> held = HeldOriginals()
    >>> handle = held.put("all of it")
    >>> handle, held.get(handle)
    ('orig_vhh7ct57t2hzgfssmrwpmoggtm', 'all of it')
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        """Hold at most so many bytes."""
        if type(max_bytes) is not int or max_bytes < 1:
            raise InvalidArgumentError(f"max_bytes is {max_bytes!r}; pass a whole number from 1 up")
        self._max_bytes = max_bytes
        self._lock = ForkSafeLock()
        self._texts: OrderedDict[str, _Held] = OrderedDict()
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._bytes = 0

    @property
    def held_bytes(self) -> int:
        """Of all texts held."""
        return self._bytes

    def __len__(self) -> int:
        """How many texts are held."""
        return len(self._texts)

    def put(self, text: str, /, *, about: About = About()) -> str:  # noqa: ARG002, B008
        """Hold the text; raises OriginalsFullError for one that is larger than all the room."""
        handle = _PREFIX + b32encode(digest_of(text)).decode().rstrip("=").lower()
        size = sys.getsizeof(text)
        if size > self._max_bytes:
            raise OriginalsFullError(size, self._max_bytes)
        with self._lock:
            if handle not in self._texts:
                self._texts[handle] = _Held(text, size)
                self._bytes += size
                self._gone.pop(handle, None)
                while self._bytes > self._max_bytes:
                    self._drop_oldest()
            self._texts.move_to_end(handle)
        return handle

    def get(self, handle: str, /) -> str:
        """The text; raises OriginalGoneError where it had to make room, else UnknownHandleError."""
        with self._lock:
            if handle in self._texts:
                self._texts.move_to_end(handle)
                return self._texts[handle].text
            if handle in self._gone:
                raise OriginalGoneError(handle, self._max_bytes)
        raise UnknownHandleError(handle, "originals")

    def _drop_oldest(self) -> None:
        handle, held = self._texts.popitem(last=False)
        self._bytes -= held.bytes
        self._gone[handle] = None
        if len(self._gone) > _REMEMBERED:
            self._gone.popitem(last=False)


class _Memory(Protocol):
    """A memory, as far as originals need one: `rehydrate.Memory` is one."""

    def add(self, items: Any, /, *, namespace: str | None = None) -> Sequence[Any]: ...

    def get(self, handle: str, /, *, namespace: str | None = None) -> Any: ...


class MemoryOriginals:
    """Originals in a memory, durably: cold, of kind "original", with the tool as provenance.

    What is in the file is exact, but for what a memory does not write: secrets, which it takes out
    (open it with ``redact=False`` to keep them), and halves of surrogate pairs. Of such a text the
    exact bytes are held in this process, and what the memory has is the answer after it has ended.

    >>> import tempfile
    >>> from rehydrate import Memory
    >>> with tempfile.TemporaryDirectory() as folder, Memory.open(f"{folder}/m.db") as memory:
    ...     originals = MemoryOriginals(memory.within("alice"))
    ...     originals.get(originals.put("all of it", about=About("Read", "toolu_1")))
    'all of it'
    """

    def __init__(
        self,
        memory: _Memory,
        *,
        namespace: str | None = None,
        thread: str = "",
        held: HeldOriginals | None = None,
    ) -> None:
        """Take the memory, the namespace unless it is bound to one, and the conversation's name."""
        if not callable(getattr(memory, "add", None)):
            raise InvalidArgumentError(
                f"memory is of type {type(memory).__name__}; pass a rehydrate.Memory"
            )
        self._memory = memory
        self._namespace = namespace
        self._thread = thread
        self._held = held or HeldOriginals()
        self._lock = ForkSafeLock()
        self._handles: OrderedDict[bytes, str] = OrderedDict()
        self._exact: OrderedDict[str, str] = OrderedDict()

    def put(self, text: str, /, *, about: About = About()) -> str:  # noqa: B008
        """Write the text, unless it is there already; raises what the memory raises."""
        digest = digest_of(text)
        with self._lock:
            known = self._handles.get(digest)
            is_exact = known not in self._exact
        if known is not None and self._is_there(known):
            if not is_exact:
                self._held.put(text)
            return known
        from rehydrate.memory.items import MemoryItem

        writable = _writable(text)
        item = MemoryItem(
            writable,
            kind=KIND,
            tier="cold",
            source=_writable(f"conversation/{self._thread}" if self._thread else "tool-results"),
            thread=_writable(self._thread),
            tool=_writable(about.tool),
            trust=TRUST,
            metadata={"call": _writable(about.call)} if about.call else {},
        )
        (added,) = self._memory.add([item], namespace=self._namespace)
        handle = str(added.handle)
        with self._lock:
            if writable is not text or added.redactions:
                self._exact[handle] = self._held.put(text)
                _bound(self._exact)
            self._handles[digest] = handle
            _bound(self._handles)
        return handle

    def get(self, handle: str, /) -> str:
        """The text; raises UnknownHandleError, for another kind of memory's handle too."""
        with self._lock:
            held = self._exact.get(handle)
        if held is not None:
            try:
                return self._held.get(held)
            except UnknownHandleError:  # it had to make room: what the memory has is left
                pass
        item = self._memory.get(handle, namespace=self._namespace)
        if item.kind != KIND:
            raise UnknownHandleError(handle, item.namespace)
        text: str = item.text
        return text

    def _is_there(self, handle: str) -> bool:
        """Whether the memory holds it still: it may have been purged, or made room."""
        try:
            self._memory.get(handle, namespace=self._namespace)
        except UnknownHandleError:
            return False
        return True


def digest_of(text: str) -> bytes:
    """128 bits by which a text is known; halves of surrogate pairs are bytes like any other."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _bound(kept: OrderedDict[Any, Any]) -> None:
    if len(kept) > _REMEMBERED:
        kept.popitem(last=False)


def _writable(text: str) -> str:
    """The text as UTF-8 can say it: the very same one where it can."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
