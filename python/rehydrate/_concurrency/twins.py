"""Async twins: `af` of `f`, the same call in a worker thread, for asyncio and trio."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from keyword import iskeyword
from typing import Any, ParamSpec, TypeVar

from rehydrate._concurrency.handover import hand_over
from rehydrate._concurrency.pool import COMPUTING, STORING, WorkerPool

P = ParamSpec("P")
R = TypeVar("R")

_DOC = """{first}

The async twin of `{name}`, for asyncio and trio: the same arguments, result and errors, in a thread
of the package's own; the event loop goes on. Async embedders and sources run on the caller's own
loop and are cancelled with the caller. Otherwise cancelling leaves what has begun to finish by
itself{unknown}.
"""
_UNKNOWN = ": whether a write was done is then unknown, and adding the same again is harmless"


def stored(method: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """The twin of what reads or writes a memory."""
    return _twin(method, STORING, _UNKNOWN)


def computed(function: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """The twin of what computes."""
    return _twin(function, COMPUTING)


def _twin(
    function: Callable[P, R], pool: WorkerPool, unknown: str = ""
) -> Callable[P, Coroutine[Any, Any, R]]:
    @wraps(function)  # its `__wrapped__` is what gives the twin the function's signature
    async def twin(*args: P.args, **kwargs: P.kwargs) -> R:
        return await hand_over(partial(function, *args, **kwargs), pool)

    name = function.__name__
    own = f"a{name.rstrip('_')}"
    twin.__name__ = f"{own}_" if iskeyword(own) else own
    twin.__qualname__ = f"{function.__qualname__.removesuffix(name)}{twin.__name__}"
    first = " ".join((function.__doc__ or "").partition("\n\n")[0].split())
    twin.__doc__ = _DOC.format(first=first, name=name, unknown=unknown)
    return twin
