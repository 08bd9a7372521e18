"""The cache of a process: what was worked out of texts, and how much memory that may take."""

from __future__ import annotations

from rehydrate import _engine
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.embedding.cache import DEFAULT_CAPACITY_BYTES as _VECTOR_BYTES
from rehydrate.embedding.cache import SHARED as _VECTORS
from rehydrate.errors import InvalidArgumentError

DEFAULT_LIMIT_BYTES = _engine.CACHE_BYTES + _VECTOR_BYTES
"""256 MiB of counts, words and the like; 64 MiB of vectors of models beside the built-in one."""
LEAST_LIMIT_BYTES = 1 << 20

_lock = ForkSafeLock()
_limit_bytes = DEFAULT_LIMIT_BYTES


def cache_limit(limit_bytes: int | None = None) -> int:
    """The most bytes that the process's cache takes; with ``limit_bytes`` this is it from now on.

    A smaller limit holds at once: the older half of what is too much goes first. A fifth of it is
    for vectors of models beside the built-in one. Forked children have the same limit. What is not
    in the cache is worked out again, so a limit costs time and never a result.

    Raises InvalidArgumentError below 1 MiB.

    >>> cache_limit() == DEFAULT_LIMIT_BYTES
    True
    >>> cache_limit(64 << 20)
    67108864
    >>> cache_limit(DEFAULT_LIMIT_BYTES) >> 20
    320
    """
    global _limit_bytes  # noqa: PLW0603  one cache a process
    if limit_bytes is None:
        return _limit_bytes
    if type(limit_bytes) is not int or limit_bytes < LEAST_LIMIT_BYTES:
        raise InvalidArgumentError(
            f"limit_bytes is {limit_bytes!r}; pass a whole number from {LEAST_LIMIT_BYTES} "
            "(1 MiB) up"
        )
    vector_bytes = limit_bytes * _VECTOR_BYTES // DEFAULT_LIMIT_BYTES
    with _lock:
        _engine.limit_cache(limit_bytes - vector_bytes)
        _VECTORS.limit(vector_bytes)
        _limit_bytes = limit_bytes
    return limit_bytes


def cached_bytes() -> int:
    """What the process's cache takes now, by its own account.

    >>> cached_bytes() <= cache_limit()
    True
    """
    return _engine.cached_bytes() + _VECTORS.bytes_held


def clear_cache() -> None:
    """Forget all that was worked out of texts; it is worked out again where it is wanted.

    >>> clear_cache()
    >>> cached_bytes()
    0
    """
    _engine.clear_cache()
    _VECTORS.clear()
