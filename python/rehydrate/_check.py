"""Checks of arguments that many entry points share: types, choices, numbers and timeouts.

Each raises InvalidArgumentError, which names the argument, its value and the remedy.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from rehydrate.errors import InvalidArgumentError


def shown(value: object, most: int = 80) -> str:
    """Return a value as an error names it, cut where it is long, of a number of any length.

    >>> shown("a" * 90)[-6:], shown(10**5000)
    ('aaa...', 'a whole number of 16,610 bits')
    """
    try:
        text = repr(value)
    except Exception:  # an int of more digits than Python writes, or a class without a way
        kind = type(value).__name__
        return f"a whole number of {value.bit_length():,} bits" if isinstance(value, int) else kind
    return text if len(text) <= most else f"{text[:most]}..."


def check_type(name: str, value: object, kinds: type | tuple[type, ...], remedy: str) -> None:
    """Refuse a value of none of these types; a bool is not a number.

    >>> check_type("model", 3, str, "pass the model's name")
    Traceback (most recent call last):
    rehydrate.errors.InvalidArgumentError: model is of type int; pass the model's name
    """
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise InvalidArgumentError(f"{name} is of type {type(value).__name__}; {remedy}")


def check_path(name: str, value: Any, remedy: str) -> None:
    """Refuse a value that can be no path.

    >>> check_path("path", b"m.db", "pass the path of a file")
    Traceback (most recent call last):
    rehydrate.errors.InvalidArgumentError: path is of type bytes; pass the path of a file
    """
    check_type(name, value, (str, os.PathLike), remedy)
    try:
        is_one = b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        is_one = False
    if not is_one:
        raise InvalidArgumentError(
            f"{name} is {shown(os.fspath(value))}, with a character that no file's name has; "
            f"{remedy}"
        )


def check_known(
    owner: str, given: Iterable[str], known: Iterable[str], remedy: str = "its options are"
) -> None:
    """Refuse a name that is not among those that are known.

    >>> check_known("hydrate has no", ["budget"], ["thread", "timeout"])
    Traceback (most recent call last):
    rehydrate.errors.InvalidArgumentError: hydrate has no 'budget'; its options are thread, timeout
    """
    known = list(known)
    if unknown := sorted(set(given).difference(known)):
        names = ", ".join(known)
        raise InvalidArgumentError(f"{owner} {unknown[0]!r}; {remedy} {names}")


def check_list(name: str, value: object, remedy: str) -> None:
    """Refuse a value that is not an iterable, and one text or mapping in place of a list of them.

    >>> check_list("tools", {"name": "ls"}, "pass a list of tool definitions")
    Traceback (most recent call last):
    rehydrate.errors.InvalidArgumentError: tools is of type dict; pass a list of tool definitions
    """
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise InvalidArgumentError(f"{name} is of type {type(value).__name__}; {remedy}")


def check_methods(name: str, value: object, methods: str, remedy: str) -> None:
    """Refuse a value that lacks one of these methods, whose names are separated by blanks.

    >>> check_methods("memory", 3, "add recall", "pass a rehydrate.Memory")
    Traceback (most recent call last):
    rehydrate.errors.InvalidArgumentError: memory is of type int; pass a rehydrate.Memory
    """
    if not all(callable(getattr(value, method, None)) for method in methods.split()):
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
        f"{name} is {shown(value)}; {meant}choose one of {', '.join(map(repr, words))}"
    )


def check_whole(
    name: str, value: Any, least: int = 0, most: int | None = None, *, or_none: bool = False
) -> None:
    """Refuse a value that is not a whole number in this range; a bool is not a number.

    >>> check_whole("threads", 0, 1, 256)
    Traceback (most recent call last):
    rehydrate.errors.InvalidArgumentError: threads is 0; pass a whole number from 1 to 256
    """
    if value is None and or_none:
        return
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or value < least or (most is not None and value > most):
        range_ = f"from {least} up" if most is None else f"from {least} to {most}"
        end = ", or None" if or_none else ""
        raise InvalidArgumentError(f"{name} is {shown(value)}; pass a whole number {range_}{end}")


def check_share(name: str, value: Any) -> None:
    """Refuse a value that is not a number from 0 to 1; a bool is not a number.

    >>> check_share("trust", 2)
    Traceback (most recent call last):
    rehydrate.errors.InvalidArgumentError: trust is 2; pass a number from 0 to 1
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= 1:
        raise InvalidArgumentError(f"{name} is {shown(value)}; pass a number from 0 to 1")


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
            f"{name} is {shown(value)}; pass a number of seconds from 0 up, or None"
        )
    return float(min(value, MAX_TIMEOUT))


def refuse_copy(name: str, remedy: str) -> NoReturn:
    """Refuse to pickle or copy what has locks, files or an owner.

    >>> refuse_copy("a Memory", "open its file again")
    Traceback (most recent call last):
    rehydrate.errors.InvalidArgumentError: a Memory cannot be pickled or copied; open its file again
    """
    raise InvalidArgumentError(f"{name} cannot be pickled or copied; {remedy}")
