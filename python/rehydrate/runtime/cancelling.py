"""is_cancellation: whether an exception is the event loop's way to cancel."""

from __future__ import annotations

import anyio


def is_cancellation(error: BaseException) -> bool:
    """Whether a task is cancelled by it: trio's comes as a group where a nursery had several tasks,
    as when a connection is opened."""
    cancelled = anyio.get_cancelled_exc_class()
    if isinstance(error, BaseExceptionGroup):
        return error.split(cancelled)[1] is None
    return isinstance(error, cancelled)
