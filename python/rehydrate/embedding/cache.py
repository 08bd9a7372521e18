"""A bounded cache of vectors, shared by calls and threads: each text is embedded once per space."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rehydrate._concurrency.locks import ForkSafeLock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Row = NDArray[np.float32]

DEFAULT_CAPACITY_BYTES = 64 << 20
"""Room for about 40,000 vectors of 384 dimensions."""

_ENTRY_BYTES = 256
"""Bytes of an entry besides its numbers: key, array head, link in the order (measured)."""

_Key = tuple[str, bytes]


class VectorCache:
    """Rows by (space, hash of the text); the least recently used are dropped first.

    >>> import numpy as np
    >>> cache = VectorCache()
    >>> cache.put("a space", ["hello"], np.ones((1, 2), np.float32))
    >>> cache.get("a space", ["hello", "unknown"])
    [array([1., 1.], dtype=float32), None]
    """

    def __init__(self, capacity_bytes: int = DEFAULT_CAPACITY_BYTES) -> None:
        """Start empty, with a capacity of `capacity_bytes`."""
        self.capacity_bytes = capacity_bytes
        self._rows: OrderedDict[_Key, Row] = OrderedDict()
        self._bytes = 0
        self._lock = ForkSafeLock()

    def get(self, space: str, texts: Sequence[str]) -> list[Row | None]:
        """Return the row of each text, or None where it is not cached."""
        keys = _keys(space, texts)
        with self._lock:
            found = [self._rows.get(key) for key in keys]
            for key, row in zip(keys, found, strict=True):
                if row is not None:
                    self._rows.move_to_end(key)
        return found

    def put(self, space: str, texts: Sequence[str], rows: Iterable[Row]) -> None:
        """Cache the rows of these texts; rows of zeros are not vectors and are skipped."""
        # Copies: a view would keep the whole batch alive.
        kept = [
            (key, row.copy())
            for key, row in zip(_keys(space, texts), rows, strict=True)
            if row.any()
        ]
        with self._lock:
            for key, row in kept:
                row.flags.writeable = False
                old = self._rows.pop(key, None)
                self._bytes += _cost(row) - (0 if old is None else _cost(old))
                self._rows[key] = row
            self._shrink()

    def limit(self, capacity_bytes: int) -> None:
        """Set the capacity to `capacity_bytes`."""
        with self._lock:
            self.capacity_bytes = capacity_bytes
            self._shrink()

    def _shrink(self) -> None:
        while self._bytes > self.capacity_bytes:
            _, dropped = self._rows.popitem(last=False)
            self._bytes -= _cost(dropped)

    def clear(self) -> None:
        """Remove all rows."""
        with self._lock:
            self._rows.clear()
            self._bytes = 0

    def __len__(self) -> int:
        """Number of rows held."""
        return len(self._rows)

    @property
    def bytes_held(self) -> int:
        """Bytes counted for the rows; never above the capacity."""
        return self._bytes


def _keys(space: str, texts: Sequence[str]) -> list[_Key]:
    from hashlib import blake2b

    return [
        (space, blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest())
        for text in texts
    ]


def _cost(row: Row) -> int:
    return int(row.nbytes) + _ENTRY_BYTES


SHARED = VectorCache()
"""The cache that all models of a process share."""
