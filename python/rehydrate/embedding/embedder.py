"""Embedder: a caller's function as a model, with batches, a timeout and a circuit breaker.

`FunctionState` is what all callers of one function share: its space, its breaker and the number of
its calls that nobody waits for any more.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Any

from rehydrate import _native
from rehydrate._check import check_methods, check_whole
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._concurrency.loops import CancelledError
from rehydrate._text import OwnMessageError, safe_error_text
from rehydrate.embedding.protocol import Attempt, RowsError, unit_rows
from rehydrate.embedding.resilient import Breaker, BusyError, State, UnansweredError, call_within
from rehydrate.errors import EmbedderError, InvalidArgumentError

if TYPE_CHECKING:
    from rehydrate.embedding.protocol import Rows


MAX_ABANDONED = 4
"""Maximum number of abandoned calls of one function: under way, and nobody waits for them."""

MAX_MESSAGE_CHARACTERS = 300

_numbers = count(1)


_UNNAMED = "own:"


def unnamed_space() -> str:
    """Return the name of a vector space that nothing else in this process has."""
    return f"{_UNNAMED}{next(_numbers)}"


def is_unnamed(space: str) -> bool:
    """Return whether that name is valid in this process only."""
    return space.startswith(_UNNAMED)


class FunctionState:
    """The state of a function, shared by all its callers in all threads."""

    def __init__(self, space: str, breaker: Breaker) -> None:
        """Start with only the name of the space and the breaker."""
        self.space = space
        self.breaker = breaker
        self._dim: int | None = None
        self._abandoned_calls = 0
        self._lock = ForkSafeLock()

    @property
    def dim(self) -> int:
        """Components of its vectors; 0 before the first."""
        return self._dim or 0

    def read(self, found: Any, texts: list[str]) -> tuple[Rows, int]:
        """Return an answer as rows, and how many were not finite; ValueError for a wrong shape."""
        rows, broken = unit_rows(found, len(texts))
        with self._lock:
            self._dim = self._dim or rows.shape[1]
            if rows.shape[1] != self._dim:
                raise RowsError(
                    f"{rows.shape[1]} dimensions where there were {self._dim} before; "
                    "make another rehydrate.Embedder for another model"
                )
        return rows, broken

    def check_not_busy(self) -> None:
        """Raise BusyError if too many abandoned calls are still under way."""
        if self._abandoned_calls >= MAX_ABANDONED:
            raise BusyError(f"{self._abandoned_calls} earlier calls have not come back")

    def abandoned(self) -> None:
        """Count a call that nobody waits for any more."""
        with self._lock:
            self._abandoned_calls += 1

    def finished(self, texts: list[str], found: Any, error: BaseException | None) -> None:
        """Take the answer of an abandoned call: too late for its caller, but cached for the
        next."""
        with self._lock:
            self._abandoned_calls -= 1
        try:
            if error is not None:
                raise error
            rows, _ = self.read(found, texts)
        except CancelledError:
            pass
        except BaseException as wrong:
            self.breaker.failed(short_message(wrong))
        else:  # not a success for the breaker: it may have been far too late
            _native.cache_vectors(self.space, texts, rows)


_at_work: ContextVar[tuple[Any, ...]] = ContextVar("rehydrate_embedders_at_work", default=())


class RecursiveEmbedderError(OwnMessageError, RuntimeError):
    """An embedder calls itself."""


@contextmanager
def refuse_recursion(function: Callable[..., Any]) -> Iterator[None]:
    """Raise RecursiveEmbedderError if `function` calls itself while it answers: each call has a
    thread of its own, so nothing else would end the recursion."""
    at_work = _at_work.get()
    if any(other == function for other in at_work):
        raise RecursiveEmbedderError("it compacts with itself as the embedder")
    token = _at_work.set((*at_work, function))
    try:
        yield
    finally:
        _at_work.reset(token)


def short_message(error: BaseException) -> str:
    """Return an error in a few words: its type, and the message if it is this package's own."""
    words = safe_error_text(error, "embedder")
    return words if len(words) <= MAX_MESSAGE_CHARACTERS else f"{words[:MAX_MESSAGE_CHARACTERS]}..."


BATCH_SIZE = 64
MAX_BATCH_CHARS = 200_000
"""Maximum characters of a batch; a longer text is a batch of its own."""
TIMEOUT_S = 10.0
FAILURES_TO_OPEN = 3
COOL_DOWN_S = 30.0


class Embedder:
    """A function ``list[str] -> array`` of shape (texts, dimensions), made safe to depend on.

    The function may be sync or async (inside ``acompact_context`` it runs on the caller's event
    loop, on asyncio and trio alike). It may return arrays, lists or tensors. It is called in a
    thread, with at most ``batch_size`` texts or ``max_batch_chars`` characters, and has ``timeout``
    seconds for each batch (None: no limit). After ``failures_to_open`` failures in a row it is not
    called for ``cool_down`` seconds, then tried once. After a failure the vectors that came are
    used, and a compaction goes on without the others.

    Vectors are cached by text, and must depend on nothing else. Two embedders share them only where
    both have the same ``space``. Pass the same object again, or name the space, so that each
    message is embedded once across calls. Raises InvalidArgumentError for an argument outside its
    limits.

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
        """Take the function and its limits; `clock` returns seconds, for tests."""
        remedy = "pass a callable of list[str] -> array of shape (texts, dimensions)"
        check_methods("Embedder: function", function, "__call__", remedy)
        for name, whole in (
            ("batch_size", batch_size),
            ("max_batch_chars", max_batch_chars),
            ("failures_to_open", failures_to_open),
        ):
            check_whole(f"Embedder: {name}", whole, 1)
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
        self._state = FunctionState(
            space or unnamed_space(),
            Breaker(failures_to_open=failures_to_open, cool_down=cool_down, clock=clock),
        )

    @property
    def space(self) -> str:
        """The name of its vector space: the one passed, or one that nothing else has."""
        return self._state.space

    @space.setter
    def space(self, name: str) -> None:
        raise AttributeError(f"an Embedder keeps its space; make another: Embedder(space={name!r})")

    @property
    def state(self) -> State:
        """State of the circuit breaker: "closed" (calls allowed), "open" (none), "half-open"
        (one)."""
        return self._state.breaker.state

    def embed(self, texts: Sequence[str], *, deadline: float | None = None) -> Rows:
        """Return vectors of the texts, shape (texts, dimensions), float32, each of length 1.

        A row of zeros is not a vector: not returned, not a number, or not reached by `deadline`, an
        instant of ``time.monotonic``. Raises EmbedderError if there is no vector at all.
        """
        import numpy as np

        if isinstance(texts, str):
            raise InvalidArgumentError("texts is one string, expected a list of them; pass [text]")
        if not len(texts):
            return np.zeros((0, self._state.dim), np.float32)
        attempt = self.attempt(texts, deadline=deadline)
        if attempt.rows is None:
            why = "; ".join(attempt.troubles) or f"none of {len(texts)} texts reached in time"
            raise EmbedderError(
                f"{getattr(self._function, '__name__', 'the function')} gave no vectors: {why}"
            )
        return attempt.rows

    def attempt(self, texts: Sequence[str], *, deadline: float | None = None) -> Attempt:
        """Like `embed`, without raising: return the rows that came, and each failure once."""
        import numpy as np

        found: list[tuple[slice, Rows]] = []
        troubles: dict[str, None] = {}
        for batch in self._batches(texts):
            left_s = None if deadline is None else deadline - self._clock()
            if left_s is not None and left_s <= 0:
                break
            if not self._state.breaker.allows():
                troubles[str(self._state.breaker)] = None
                break
            try:
                rows, trouble = self._ask(list(texts[batch]), left_s)
            except _OutOfTimeError:
                break
            except Exception as error:
                troubles[short_message(error)] = None
                if isinstance(error, UnansweredError):
                    break  # the remaining batches would wait as long
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
        """Embed one batch: return its rows, and the problems of some of them."""
        state = self._state
        is_cut_short = left_s is not None and (self._timeout is None or left_s < self._timeout)
        try:
            state.check_not_busy()
            with refuse_recursion(self._function):
                found = call_within(
                    self._function,
                    texts,
                    wait_s=left_s if is_cut_short else self._timeout,
                    timeout=self._timeout,
                    abandoned=state.abandoned,
                    finished=state.finished,
                )
            rows, broken = state.read(found, texts)
        except CancelledError:
            raise _OutOfTimeError from None
        except UnansweredError as error:
            if is_cut_short and not isinstance(error, BusyError):
                raise _OutOfTimeError from None
            state.breaker.failed(short_message(error))
            raise
        except Exception as error:
            state.breaker.failed(short_message(error))
            raise
        state.breaker.succeeded()
        return rows, f"{broken} of its vectors are not finite" if broken else ""


class _OutOfTimeError(Exception):
    """Time was up, or the caller gone, while a batch was under way; no failure of the function."""


_functions: dict[tuple[int, int], tuple[weakref.ref[Any], FunctionState]] = {}
"""The states of the bare callables of this process, each by identity and as long as it lives."""
_functions_lock = ForkSafeLock()


def of_function(function: Callable[[list[str]], Any]) -> Embedder:
    """Return a bare callable with the default limits; its state is kept as long as it lives."""
    embedder = Embedder(function)
    # A bound method is a new object at each mention: its object and its function identify it.
    owner, method = getattr(function, "__self__", None), getattr(function, "__func__", None)
    subject = function if method is None or owner is None else owner
    key = (id(subject), id(method))

    def forget(gone: weakref.ref[Any]) -> None:
        # Without the lock: this runs whenever memory is freed, also while it is held.
        seen = _functions.get(key)
        if seen is not None and seen[0] is gone:
            del _functions[key]

    with _functions_lock:
        seen = _functions.get(key)
        if seen is not None and seen[0]() is subject:
            embedder._state = seen[1]
        else:
            with suppress(TypeError):  # its type allows no weak references, so no state is kept
                _functions[key] = (weakref.ref(subject, forget), embedder._state)
    return embedder
