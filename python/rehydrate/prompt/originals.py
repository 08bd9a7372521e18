"""Originals: stores the whole of each shortened text, and returns it byte for byte.

A text is stored before a notice names its handle, so every handle in a notice works. A handle is
valid only if it was given out. One that is in some content by chance or by malice is only
text: asking for it raises UnknownHandleError.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rehydrate._check import check_methods
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._native import HeldOriginals, as_unicode, handle_of_text
from rehydrate.errors import UnknownHandleError

if TYPE_CHECKING:
    from rehydrate.memory.memory import Memory

__all__ = ["About", "HeldOriginals", "MemoryOriginals", "Originals"]

KIND = "original"
"""The kind of the memory items that hold originals. No other item can be read through them."""
TRUST = 0.5
"""Anybody may have written what a tool returned."""

_MAX_ENTRIES = 65_536


class About(NamedTuple):
    """The place that an original came from."""

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
        self._handles: OrderedDict[str, str] = OrderedDict()
        """By the name that a text has by itself, its handle in the memory."""
        self._held_handles: OrderedDict[str, str] = OrderedDict()
        """By a handle in the memory, the handle of the exact text in this process."""

    def put(self, text: str, /, *, about: About = About()) -> str:  # noqa: B008
        """Write the text, unless it is there already; raises what the memory raises."""
        name = handle_of_text(text)
        with self._lock:
            written = self._handles.get(name)
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
            self._handles[name] = handle
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


def _evict_oldest(entries: OrderedDict[Any, Any]) -> None:
    if len(entries) > _MAX_ENTRIES:
        entries.popitem(last=False)
