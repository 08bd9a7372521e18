"""Checks of arguments that many entry points share: types, choices, callables and timeouts.

Each raises InvalidArgumentError, which names the argument, its value and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rehydrate.errors import InvalidArgumentError

__all__ = ["check_callable", "check_choice", "check_timeout", "check_type"]


def check_type(name: str, value: object, kinds: type | tuple[type, ...], remedy: str) -> None:
    """Refuse a value of none of these types; a bool is no number.

    >>> check_type("model", 3, str, "pass the model's name")
    Traceback (most recent call last):
    rehydrate.errors.InvalidArgumentError: model is of type int; pass the model's name
    """
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise InvalidArgumentError(f"{name} is of type {type(value).__name__}; {remedy}")


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Refuse a value that is none of these words; a part of one is answered with "did you mean".

    >>> check_choice("side", "le", ("left", "up"))
    Traceback (most recent call last):
    rehydrate.errors.InvalidArgumentError: side is 'le'; did you mean 'left'? choose one of \
'left', 'up'
    """
    words = tuple(choices)
    if isinstance(value, str) and value in words:
        return
    near = [one for one in words if isinstance(value, str) and value and value.lower() in one]
    meant = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    raise InvalidArgumentError(
        f"{name} is {value!r}; {meant}choose one of {', '.join(map(repr, words))}"
    )


def check_callable(name: str, value: object, remedy: str) -> None:
    """Refuse a value that cannot be called.

    >>> check_callable("clock", 3, "pass a function")
    Traceback (most recent call last):
    rehydrate.errors.InvalidArgumentError: clock is of type int; pass a function
    """
    if not callable(value):
        raise InvalidArgumentError(f"{name} is of type {type(value).__name__}; {remedy}")


MAX_TIMEOUT = 1e7
"""Seconds, a third of a year. Threads cannot wait longer."""


def check_timeout(name: str, value: object) -> float | None:
    """Return a number of seconds from 0 up, or None for no limit.

    >>> check_timeout("timeout", -1)
    Traceback (most recent call last):
    rehydrate.errors.InvalidArgumentError: timeout is -1; pass a number of seconds from 0 up, or \
None
    """
    if value is None:
        return None
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not value >= 0:
        raise InvalidArgumentError(
            f"{name} is {value!r}; pass a number of seconds from 0 up, or None"
        )
    return float(min(value, MAX_TIMEOUT))
