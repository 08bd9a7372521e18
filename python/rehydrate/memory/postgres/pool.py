"""Pool: connections to a server that are used again, at most so many at once."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg import Connection

_IDLE_SECONDS = 600.0
"""Connections that nobody used for so long are closed by the next use of the pool."""


class NoneFreeError(Exception):
    """All connections were in use for as long as the caller would wait."""


class Pool:
    """Connections, made by the thread that needs one, so that it learns at once why it gets none.

    psycopg's pool connects in threads of its own, which wait twice as long after each failure: it
    came back 6.5 s after a server that was away for 8. A forked child has none of them.
    """

    def __init__(self, connect: Callable[[], Connection[Any]], size: int) -> None:
        """Take what connects, and how many connections there may be."""
        self.size = size
        self._connect = connect
        self._free = threading.Semaphore(size)
        self._idle: deque[tuple[Connection[Any], float]] = deque()
        self._is_closed = False

    @contextmanager
    def connection(self, seconds: float) -> Iterator[Connection[Any]]:
        """Lend a connection; raises NoneFreeError, and what connecting raises."""
        if not self._free.acquire(timeout=seconds):
            raise NoneFreeError
        try:
            connection = self._taken() or self._connect()
            try:
                yield connection
            finally:
                self._put_back(connection)
        finally:
            self._free.release()

    def drop_idle(self) -> None:
        """Close the connections that nobody uses: the server that they lead to was restarted."""
        while (connection := self._taken()) is not None:
            _close(connection)

    def close(self) -> None:
        """Close the idle connections now, and the others when they are put back."""
        self._is_closed = True
        self.drop_idle()

    def _taken(self) -> Connection[Any] | None:
        with suppress(IndexError):
            return self._idle.pop()[0]
        return None

    def _put_back(self, connection: Connection[Any]) -> None:
        from psycopg.pq import TransactionStatus

        is_idle = connection.info.transaction_status == TransactionStatus.IDLE
        if not is_idle or self._is_closed:
            _close(connection)
            return
        now = time.monotonic()
        self._idle.append((connection, now))
        # The last used is used first, so the oldest stand in front.
        with suppress(IndexError):
            while now - self._idle[0][1] > _IDLE_SECONDS:
                _close(self._idle.popleft()[0])


def _close(connection: Connection[Any]) -> None:
    with suppress(Exception):
        connection.close()
