"""Properties that are worked out when first asked for, and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class once(Generic[T]):  # noqa: N801 - a decorator
    """`functools.cached_property` without the lock that it holds up to Python 3.11.

    That lock is one for all instances: it makes threads wait for each other, and a child forked
    meanwhile wait for ever. Two threads may work the same value out; both get an equal one.
    """

    def __init__(self, work_out: Callable[[Any], T]) -> None:
        """Keep the method."""
        self._work_out = work_out
        self._name = work_out.__name__
        self.__doc__ = work_out.__doc__

    def __get__(self, instance: Any, owner: type) -> T:
        """Work the value out; from then on the instance's own attribute hides this one."""
        value = self._work_out(instance)
        instance.__dict__[self._name] = value
        return value
