"""Embedder: a callable of the caller's as a model: batches, a timeout, a circuit breaker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rehydrate._concurrency.loops import CancelledError
from rehydrate.embedding.breaker import Breaker, State
from rehydrate.embedding.calls import BusyError, UnansweredError, call_within
from rehydrate.embedding.known import Known, KnownFunctions, not_by_itself, said, unnamed_space
from rehydrate.embedding.protocol import Attempt
from rehydrate.errors import EmbedderError, InvalidArgumentError

if TYPE_CHECKING:
    from rehydrate.embedding.protocol import Rows

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
    ``timeout_s`` seconds for each batch (None: as long as it takes). After ``failures_to_open``
    failures in a row it is left alone for ``cool_down_s`` seconds, then tried once. Whatever goes
    wrong, the vectors that came are used, and a compaction goes on without the others.

    Vectors are cached by text, and must depend on nothing else. Two embedders share them only
    where both name the same ``space``; pass the same object again, or name the space, so that
    each message is embedded once across calls. Raises InvalidArgumentError for an argument outside
    its limits.

    >>> def embed(texts):
    ...     return [[len(text), 1.0] for text in texts]
    >>> embedder = Embedder(embed, batch_size=32, timeout_s=2.0)
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
        timeout_s: float | None = TIMEOUT_S,
        failures_to_open: int = FAILURES_TO_OPEN,
        cool_down_s: float = COOL_DOWN_S,
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
        for name, seconds in (("timeout_s", timeout_s), ("cool_down_s", cool_down_s)):
            if seconds is None and name == "timeout_s":
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
        self._timeout_s = timeout_s
        self._clock = clock
        self._known = Known(
            space or unnamed_space(),
            Breaker(failures_to_open=failures_to_open, cool_down_s=cool_down_s, clock=clock),
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
        is_cut_short = left_s is not None and (self._timeout_s is None or left_s < self._timeout_s)
        try:
            known.check_that_it_answers()
            with not_by_itself(self._function):
                found = call_within(
                    self._function,
                    texts,
                    wait_s=left_s if is_cut_short else self._timeout_s,
                    timeout_s=self._timeout_s,
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
