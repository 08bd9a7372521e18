"""Originals: stores the whole of each shortened text, and returns it byte for byte.

A text is stored before a notice names its handle, so every handle in a notice works. A handle is
valid only where it was given out. One that is in some content by chance or by malice is only
text: asking for it raises UnknownHandleError.
"""

from __future__ import annotations

import sys
from base64 import b32encode
from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rehydrate._check import check_methods, check_whole
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._native import as_unicode
from rehydrate.errors import (
    OriginalGoneError,
    OriginalsFullError,
    UnknownHandleError,
)

if TYPE_CHECKING:
    from rehydrate.memory.memory import Memory

__all__ = ["About", "HeldOriginals", "MemoryOriginals", "Originals", "text_digest"]


MAX_BYTES = 256 * 2**20
KIND = "original"
"""The kind of the memory items that hold originals. No other item can be read through them."""
TRUST = 0.5
"""Anybody may have written what a tool returned."""

_PREFIX = "orig_"
_MAX_ENTRIES = 65_536


class About(NamedTuple):
    """Where an original came from."""

    tool: str = ""
    call: str = ""
    """The id of the tool call that it answers."""


class Originals(Protocol):
    """A store for the whole of the texts that a prompt shows in part."""

    def put(self, text: str, /, *, about: About = ...) -> str:
        """Store the text and return its handle; the same text has the same handle.

        Raises where the text is not stored. Then it stays whole in the prompt.
        """

    def get(self, handle: str, /) -> str:
        """Return the text, byte for byte; raises UnknownHandleError for a handle not given out."""


class HeldOriginals:
    """Originals in the memory of this process, for any number of threads.

    Above ``max_bytes`` the least recently used texts are dropped. Every compilation stores again
    what its prompt shows in part, so the texts of the last prompt are the newest. Texts are held,
    not copied. Use one store for each tenant.

    >>> held = HeldOriginals()
    >>> handle = held.put("all of it")
    >>> handle, held.get(handle)
    ('orig_vhh7ct57t2hzgfssmrwpmoggtm', 'all of it')
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        """Set the limit."""
        check_whole("max_bytes", max_bytes, 1)
        self._max_bytes = max_bytes
        self._lock = ForkSafeLock()
        self._texts: OrderedDict[str, tuple[str, int]] = OrderedDict()
        """Each text with its size then: a string grows when somebody asks for its UTF-8."""
        self._dropped: OrderedDict[str, None] = OrderedDict()
        self._bytes = 0

    @property
    def held_bytes(self) -> int:
        """The size of all texts held."""
        return self._bytes

    def __len__(self) -> int:
        """Return the number of texts held."""
        return len(self._texts)

    def put(self, text: str, /, *, about: About = About()) -> str:  # noqa: ARG002, B008
        """Hold the text; raises OriginalsFullError for one larger than ``max_bytes``."""
        handle = handle_of_text(text)
        size = sys.getsizeof(text)
        if size > self._max_bytes:
            raise OriginalsFullError(size, self._max_bytes)
        with self._lock:
            if handle not in self._texts:
                self._texts[handle] = text, size
                self._bytes += size
                self._dropped.pop(handle, None)
                while self._bytes > self._max_bytes:
                    self._drop_oldest()
            self._texts.move_to_end(handle)
        return handle

    def get(self, handle: str, /) -> str:
        """Return the text.

        Raises OriginalGoneError for a text that was dropped to make room, and UnknownHandleError
        for a handle that was not given out.
        """
        with self._lock:
            if handle in self._texts:
                self._texts.move_to_end(handle)
                return self._texts[handle][0]
            if handle in self._dropped:
                raise OriginalGoneError(handle, self._max_bytes)
        raise UnknownHandleError(handle, "originals")

    def _drop_oldest(self) -> None:
        handle, (_, size) = self._texts.popitem(last=False)
        self._bytes -= size
        self._dropped[handle] = None
        _evict_oldest(self._dropped)


class MemoryOriginals:
    """Originals in a memory, durably: cold items of kind "original", with the tool they are from.

    A memory redacts secrets (open it with ``redact=False`` to keep them) and cannot write halves of
    surrogate pairs. The exact text of such an original is held in this process only; a later
    process gets the text that the memory has.

    >>> import tempfile
    >>> from rehydrate import Memory
    >>> with tempfile.TemporaryDirectory() as folder, Memory.open(f"{folder}/m.db") as memory:
    ...     originals = MemoryOriginals(memory.within("alice"))
    ...     originals.get(originals.put("all of it", about=About("Read", "toolu_1")))
    'all of it'
    """

    def __init__(
        self,
        memory: Memory,
        *,
        namespace: str | None = None,
        thread: str = "",
        held: HeldOriginals | None = None,
    ) -> None:
        """Take a memory, its namespace unless it is bound to one, and the conversation's name."""
        check_methods("memory", memory, "add", "pass a rehydrate.Memory")
        self._memory = memory
        self._namespace = namespace
        self._thread = thread
        self._held = held or HeldOriginals()
        self._lock = ForkSafeLock()
        self._handles: OrderedDict[bytes, str] = OrderedDict()
        self._held_handles: OrderedDict[str, str] = OrderedDict()
        """By a handle in the memory, the handle of the exact text in this process."""

    def put(self, text: str, /, *, about: About = About()) -> str:  # noqa: B008
        """Write the text, unless it is there already; raises what the memory raises."""
        digest = text_digest(text)
        with self._lock:
            written = self._handles.get(digest)
            is_exact = written not in self._held_handles
        if written is not None and self._is_there(written):
            if not is_exact:
                self._held.put(text)
            return written
        from rehydrate.memory.items import MemoryItem

        writable = as_unicode(text)
        item = MemoryItem(
            writable,
            kind=KIND,
            tier="cold",
            source=as_unicode(f"conversation/{self._thread}" if self._thread else "tool-results"),
            thread=as_unicode(self._thread),
            tool=as_unicode(about.tool),
            trust=TRUST,
            metadata={"call": as_unicode(about.call)} if about.call else {},
        )
        (added,) = self._memory.add([item], namespace=self._namespace)
        handle = str(added.handle)
        with self._lock:
            if writable != text or added.redactions:
                self._held_handles[handle] = self._held.put(text)
                _evict_oldest(self._held_handles)
            self._handles[digest] = handle
            _evict_oldest(self._handles)
        return handle

    def get(self, handle: str, /) -> str:
        """Return the text; raises UnknownHandleError, also for the handle of any other item."""
        with self._lock:
            held_handle = self._held_handles.get(handle)
        if held_handle is not None:
            try:
                return self._held.get(held_handle)
            except UnknownHandleError:  # it was dropped to make room: use the memory's text
                pass
        item = self._memory.get(handle, namespace=self._namespace)
        if item.kind != KIND:
            raise UnknownHandleError(handle, item.namespace)
        text: str = item.text
        return text

    def _is_there(self, handle: str) -> bool:
        """Whether the memory still has the item: it may have been purged or evicted."""
        try:
            self._memory.get(handle, namespace=self._namespace)
        except UnknownHandleError:
            return False
        return True


def text_digest(text: str) -> bytes:
    """Return 128 bits that identify a text; halves of surrogate pairs are bytes like any other."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def handle_of_text(text: str) -> str:
    """Return the handle of a text that is held in this process or in a thread.

    >>> handle_of_text("all of it")
    'orig_vhh7ct57t2hzgfssmrwpmoggtm'
    """
    return _PREFIX + b32encode(text_digest(text)).decode().rstrip("=").lower()


def _evict_oldest(entries: OrderedDict[Any, Any]) -> None:
    if len(entries) > _MAX_ENTRIES:
        entries.popitem(last=False)
