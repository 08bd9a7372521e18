"""MemoryStore: what any backend of a memory does. `rehydrate.testing` checks that one does it."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Protocol, Unpack, runtime_checkable

from rehydrate.memory.items import (
    Added,
    Filters,
    Fusion,
    Hit,
    MemoryItem,
    MemoryStats,
    Recalled,
    Tier,
    Vectors,
    VerifyReport,
)


@runtime_checkable
class MemoryStore(Protocol):
    """Where memories are kept: the file that `Memory.open` opens, or a backend of yours.

    Every call names a namespace, and what is in another one does not exist for it. Implementations
    are safe to share between threads. What is added is found by the next call, and is still there
    after a crash. Errors are those of `rehydrate.errors`.
    """

    def add(
        self, items: Sequence[MemoryItem], *, namespace: str, vectors: Vectors | None = None
    ) -> builtins.list[Added]:
        """Keep all of the items or none. The same text from the same source is one item.

        Handles follow from namespace, source and text: an export comes back under the same ones.
        """

    def get(self, handle: str, *, namespace: str) -> MemoryItem:
        """The item, its text as it was added. Raises UnknownHandleError."""

    def list(
        self,
        *,
        namespace: str,
        limit: int | None = 100,
        newest_first: bool = True,
        **filters: Unpack[Filters],
    ) -> builtins.list[MemoryItem]:
        """Items in the order in which they were added, newest first or oldest first."""

    def search(
        self,
        query: str,
        limit: int = 5,
        *,
        namespace: str,
        fusion: Fusion | None = None,
        vectors: Vectors | None = None,
        **filters: Unpack[Filters],
    ) -> builtins.list[Hit]:
        """The items that match best, best first; by words, parts of words and meaning."""

    def recall(
        self,
        texts: Sequence[str],
        k: int = 3,
        *,
        namespace: str,
        vectors: Vectors | None = None,
    ) -> builtins.list[builtins.list[Recalled]]:
        """Of each text the k items nearest in meaning, nearest first.

        With `vectors`, of each row; the texts may be left out then.
        """

    def forget(self, handles: str | Sequence[str], *, namespace: str) -> int:
        """Remove items; how many there were."""

    def purge(
        self,
        *,
        namespace: str,
        source: str | None = None,
        thread: str | None = None,
        everything: bool = False,
    ) -> int:
        """Remove all of a source, of a thread, or of the namespace; how many items there were."""

    def set_tier(self, handles: str | Sequence[str], tier: Tier, *, namespace: str) -> int:
        """Move items to a tier; how many were in another one."""

    def link(self, handle: str, relation: str, other: str, *, namespace: str) -> bool:
        """Say what an item has to do with another; whether that is new.

        Raises UnknownHandleError where the namespace does not hold both.
        """

    def stats(self, *, namespace: str) -> MemoryStats:
        """Figures of the namespace."""

    def namespaces(self) -> builtins.list[str]:
        """Those that something was added to and that were not purged, in alphabetical order."""

    def verify(self) -> VerifyReport:
        """Check everything that is stored."""

    def rebuild(self, *, namespace: str | None = None) -> int:
        """Make the index of a namespace, or of all, anew; how many items it holds."""

    def close(self) -> None:
        """Let go of what is held; a second time does nothing."""
