"""lazy_property: a property that is computed on first access and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class lazy_property(Generic[T]):  # noqa: N801 - a decorator
    """`functools.cached_property` without the lock that it holds up to Python 3.11.

    All instances share that lock: threads wait for each other, and a child process that is forked
    meanwhile waits for ever. Two threads may compute the same value; both get an equal one.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        """Keep the method."""
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, instance: Any, owner: type) -> T:
        """Compute the value; from then on the instance's own attribute hides this descriptor."""
        value = self._compute(instance)
        instance.__dict__[self._name] = value
        return value
