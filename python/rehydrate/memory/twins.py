"""The async twin of a method: the same call in a worker thread, for asyncio and trio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def awaitable(method: Callable[P, R]) -> Callable[P, Awaitable[R]]:
    """`method` in a worker thread, so that the event loop goes on.

    An async embedder runs on the caller's own loop. Cancelling leaves the thread to finish by
    itself, so that whether a write was done is then unknown; adding the same again is harmless.
    """

    @wraps(method)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> R:
        import anyio.to_thread

        from rehydrate.embedding.loops import lending_the_callers_loop

        with lending_the_callers_loop():
            return await anyio.to_thread.run_sync(
                partial(method, *args, **kwargs), abandon_on_cancel=True
            )

    twin.__name__ = f"a{method.__name__.rstrip('_')}"
    twin.__qualname__ = f"Memory.{twin.__name__}"
    twin.__doc__ = f"`{method.__name__}` in a worker thread, for asyncio and trio alike."
    return twin
