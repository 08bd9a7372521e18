"""What is known of a function that embeds: its space, its breaker, the calls left behind.

Embedder: a callable of the caller's as a model: batches, a timeout, a circuit breaker.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Any

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._concurrency.loops import CancelledError
from rehydrate._text import OwnWordsError, words_of
from rehydrate.embedding import cache
from rehydrate.embedding.protocol import Attempt, RowsError, unit_rows
from rehydrate.embedding.resilient import Breaker, BusyError, State, UnansweredError, call_within
from rehydrate.errors import EmbedderError, InvalidArgumentError

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


BATCH_SIZE = 64
MAX_BATCH_CHARS = 200_000
"""Characters a batch may have: a text longer than this is a batch of its own."""
TIMEOUT_S = 10.0
FAILURES_TO_OPEN = 3
COOL_DOWN_S = 30.0


class Embedder:
    """A function ``list[str] -> array`` of shape (texts, dimensions), made safe to depend on.

    The function may be sync or async (inside ``acompact_context`` it runs on the caller's event
    loop, on asyncio and trio alike); arrays, lists and tensors will do. It is asked for at most
    ``batch_size`` texts or ``max_batch_chars`` characters at a time, in a thread, and given
    ``timeout`` seconds for each batch (None: as long as it takes). After ``failures_to_open``
    failures in a row it is left alone for ``cool_down`` seconds, then tried once. Whatever goes
    wrong, the vectors that came are used, and a compaction goes on without the others.

    Vectors are cached by text, and must depend on nothing else. Two embedders share them only
    where both name the same ``space``; pass the same object again, or name the space, so that
    each message is embedded once across calls. Raises InvalidArgumentError for an argument outside
    its limits.

    >>> def embed(texts):
    ...     return [[len(text), 1.0] for text in texts]
    >>> embedder = Embedder(embed, batch_size=32, timeout=2.0)
    >>> embedder.embed(["four", ""]).shape
    (2, 2)
    >>> embedder.state
    'closed'
    """

    def __init__(
        self,
        function: Callable[[list[str]], Any],
        *,
        batch_size: int = BATCH_SIZE,
        max_batch_chars: int = MAX_BATCH_CHARS,
        timeout: float | None = TIMEOUT_S,
        failures_to_open: int = FAILURES_TO_OPEN,
        cool_down: float = COOL_DOWN_S,
        space: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the function and its limits; `clock` tells seconds, for tests."""
        if not callable(function):
            raise InvalidArgumentError(
                f"Embedder: function is of type {type(function).__name__}; "
                "pass a callable of list[str] -> array of shape (texts, dimensions)"
            )
        for name, whole in (
            ("batch_size", batch_size),
            ("max_batch_chars", max_batch_chars),
            ("failures_to_open", failures_to_open),
        ):
            if not isinstance(whole, int) or isinstance(whole, bool) or whole < 1:
                raise InvalidArgumentError(
                    f"Embedder: {name} is {whole!r}; pass a whole number from 1 up"
                )
        for name, seconds in (("timeout", timeout), ("cool_down", cool_down)):
            if seconds is None and name == "timeout":
                continue
            if (
                not isinstance(seconds, (int, float))
                or isinstance(seconds, bool)
                or not 0 < seconds <= threading.TIMEOUT_MAX
            ):
                raise InvalidArgumentError(
                    f"Embedder: {name} is {seconds!r}; pass a number of seconds above 0"
                )
        if space is not None and not (isinstance(space, str) and space):
            raise InvalidArgumentError(
                f"Embedder: space is {space!r}; pass a name for the model behind the function, "
                "or None"
            )
        self._function = function
        self._batch_size = batch_size
        self._max_batch_chars = max_batch_chars
        self._timeout = timeout
        self._clock = clock
        self._known = Known(
            space or unnamed_space(),
            Breaker(failures_to_open=failures_to_open, cool_down=cool_down, clock=clock),
        )

    @property
    def space(self) -> str:
        """The name of its vector space: the one given, or one that nothing else has."""
        return self._known.space

    @space.setter
    def space(self, name: str) -> None:
        raise AttributeError(f"an Embedder keeps its space; make another: Embedder(space={name!r})")

    @property
    def state(self) -> State:
        """The circuit breaker: "closed" (calls are made), "open" (not now), "half-open" (one)."""
        return self._known.breaker.state

    def embed(self, texts: Sequence[str], *, deadline: float | None = None) -> Rows:
        """Vectors of the texts, shape (texts, dimensions), float32, each of length 1.

        A row of zeros is no vector: not given, not a number, or not reached by `deadline`, an
        instant of ``time.monotonic``. Raises EmbedderError where there is not one vector.
        """
        attempt = self.attempt(texts, deadline=deadline)
        if attempt.rows is None:
            why = "; ".join(attempt.troubles) or f"none of {len(texts)} texts reached in time"
            raise EmbedderError(
                f"{getattr(self._function, '__name__', 'the function')} gave no vectors: {why}"
            )
        return attempt.rows

    def attempt(self, texts: Sequence[str], *, deadline: float | None = None) -> Attempt:
        """The same without raising: what came, and what went wrong, once each."""
        import numpy as np

        found: list[tuple[slice, Rows]] = []
        troubles: dict[str, None] = {}
        for batch in self._batches(texts):
            left_s = None if deadline is None else deadline - self._clock()
            if left_s is not None and left_s <= 0:
                break
            if not self._known.breaker.allows():
                troubles[str(self._known.breaker)] = None
                break
            try:
                rows, trouble = self._ask(list(texts[batch]), left_s)
            except _OutOfTimeError:
                break
            except Exception as error:
                troubles[said(error)] = None
                if isinstance(error, UnansweredError):
                    break  # whatever else there is to ask would wait as long
                continue
            found.append((batch, rows))
            if trouble:
                troubles[trouble] = None
        if not found:
            return Attempt(None, tuple(troubles))
        rows = np.zeros((len(texts), found[0][1].shape[1]), np.float32)
        for batch, some in found:
            rows[batch] = some
        return Attempt(rows, tuple(troubles))

    def _batches(self, texts: Sequence[str]) -> Iterator[slice]:
        start = chars = 0
        for end, text in enumerate(texts):
            is_full = end - start == self._batch_size or chars + len(text) > self._max_batch_chars
            if is_full and end > start:
                yield slice(start, end)
                start, chars = end, 0
            chars += len(text)
        if start < len(texts):
            yield slice(start, len(texts))

    def _ask(self, texts: list[str], left_s: float | None) -> tuple[Rows, str]:
        """One batch: its rows, and what was wrong with some of them."""
        known = self._known
        is_cut_short = left_s is not None and (self._timeout is None or left_s < self._timeout)
        try:
            known.check_that_it_answers()
            with not_by_itself(self._function):
                found = call_within(
                    self._function,
                    texts,
                    wait_s=left_s if is_cut_short else self._timeout,
                    timeout=self._timeout,
                    abandoned=known,
                )
            rows, broken = known.read(found, texts)
        except CancelledError:
            raise _OutOfTimeError from None
        except UnansweredError as error:
            if is_cut_short and not isinstance(error, BusyError):
                raise _OutOfTimeError from None
            known.breaker.failed(said(error))
            raise
        except Exception as error:
            known.breaker.failed(said(error))
            raise
        known.breaker.succeeded()
        return rows, f"{broken} of its vectors are not finite" if broken else ""


class _OutOfTimeError(Exception):
    """The time was over, or the caller gone, while a batch was under way: nobody's failure."""


_functions = KnownFunctions()
"""The bare callables of this process."""


def of_function(function: Callable[[list[str]], Any]) -> Embedder:
    """A bare callable with the usual limits; what is known of it is kept as long as it lives."""
    embedder = Embedder(function)
    embedder._known = _functions.known(function, embedder._known)
    return embedder
