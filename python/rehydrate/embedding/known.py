"""What is known of a function that embeds: its space, its breaker, the calls left behind."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Any

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._concurrency.loops import CancelledError
from rehydrate.embedding import cache
from rehydrate.embedding.breaker import Breaker
from rehydrate.embedding.calls import BusyError
from rehydrate.embedding.protocol import RowsError, unit_rows
from rehydrate.failing import OwnWordsError, words_of

if TYPE_CHECKING:
    from rehydrate.embedding.protocol import Rows

MAX_LEFT_BEHIND = 4
"""Calls of one function that may be under way with nobody waiting for them."""

MAX_SAID_CHARACTERS = 300

_numbers = count(1)


_UNNAMED = "own:"


def unnamed_space() -> str:
    """The name of a vector space that nothing else in this process has."""
    return f"{_UNNAMED}{next(_numbers)}"


def is_unnamed(space: str) -> bool:
    """Whether that name means something in this process only."""
    return space.startswith(_UNNAMED)


class Known:
    """Shared by everyone who calls the same function, in whatever thread."""

    def __init__(self, space: str, breaker: Breaker) -> None:
        """Nothing is known yet but the name of the space."""
        self.space = space
        self.breaker = breaker
        self._dim: int | None = None
        self._left_behind = 0
        self._lock = ForkSafeLock()

    def read(self, found: Any, texts: list[str]) -> tuple[Rows, int]:
        """An answer as rows, and how many were not finite; ValueError where it fits nothing."""
        rows, broken = unit_rows(found, len(texts))
        with self._lock:
            self._dim = self._dim or rows.shape[1]
            if rows.shape[1] != self._dim:
                raise RowsError(
                    f"{rows.shape[1]} dimensions where there were {self._dim} before; "
                    "make another rehydrate.Embedder for another model"
                )
        return rows, broken

    def check_that_it_answers(self) -> None:
        """Raise BusyError where too many calls are still under way with nobody waiting."""
        if self._left_behind >= MAX_LEFT_BEHIND:
            raise BusyError(f"{self._left_behind} earlier calls have not come back")

    def left_behind(self) -> None:
        """A call goes on by itself."""
        with self._lock:
            self._left_behind += 1

    def came_back(self, texts: list[str], found: Any, error: BaseException | None) -> None:
        """Its answer is too late for whoever asked, but the next to ask finds it in the cache."""
        with self._lock:
            self._left_behind -= 1
        try:
            if error is not None:
                raise error
            rows, _ = self.read(found, texts)
        except CancelledError:
            pass
        except BaseException as wrong:
            self.breaker.failed(said(wrong))
        else:  # no success to the breaker: it may have been far too late
            cache.SHARED.put(self.space, texts, rows)


class KnownFunctions:
    """What is known of bare callables, each by identity and as long as it lives.

    A bound method is a new object at each mention: it is known by its object and its function.
    """

    def __init__(self) -> None:
        """Know none."""
        self._known: dict[tuple[int, int], tuple[weakref.ref[Any], Known]] = {}
        self._lock = ForkSafeLock()

    def known(self, function: Callable[..., Any], unknown: Known) -> Known:
        """What is known of `function`; `unknown` for one not seen before."""
        owner = getattr(function, "__self__", None)
        method = getattr(function, "__func__", None)
        subject = function if method is None or owner is None else owner
        key = (id(subject), id(method))
        with self._lock:
            seen = self._known.get(key)
            if seen is not None and seen[0]() is subject:
                return seen[1]
            try:
                reference = weakref.ref(subject, lambda gone: self._forget(key, gone))
            except TypeError:  # its type allows no weak references: nothing is remembered of it
                return unknown
            self._known[key] = (reference, unknown)
            return unknown

    def _forget(self, key: tuple[int, int], gone: weakref.ref[Any]) -> None:
        # Without the lock: this runs wherever memory is freed, also while it is held.
        seen = self._known.get(key)
        if seen is not None and seen[0] is gone:
            del self._known[key]

    def __len__(self) -> int:
        """How many are known."""
        return len(self._known)


_at_work: ContextVar[tuple[Any, ...]] = ContextVar("rehydrate_embedders_at_work", default=())


class RecursiveEmbedderError(OwnWordsError, RuntimeError):
    """An embedder asks for itself."""


@contextmanager
def not_by_itself(function: Callable[..., Any]) -> Iterator[None]:
    """Raise RecursiveEmbedderError where `function` is asked for while it answers, by itself: each
    call has a thread, so that nothing else would end the recursion."""
    at_work = _at_work.get()
    if any(other == function for other in at_work):
        raise RecursiveEmbedderError("it compacts with itself as the embedder")
    token = _at_work.set((*at_work, function))
    try:
        yield
    finally:
        _at_work.reset(token)


def said(error: BaseException) -> str:
    """An error in a few words: its type, and what this package says itself."""
    words = words_of(error, "embedder")
    return words if len(words) <= MAX_SAID_CHARACTERS else f"{words[:MAX_SAID_CHARACTERS]}..."
