"""Failing parts: what may be said of an exception, and where its text can be read.

An exception's text may hold anything: a password, a connection string, a customer's data. So where
a source, a tool, an embedder or a memory fails, the model, `degraded` and telemetry are told the
exception's type alone. Who wants the text sets the level of one logger::

    logging.getLogger("rehydrate.errors").setLevel(logging.DEBUG)

Its own level counts, not the root's: a program that logs everything does not log this by accident.

What a tool returns, as the text that the model reads.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import sys
from collections.abc import Mapping, Set
from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import Any

from rehydrate.errors import RehydrateError

LOGGER = "rehydrate.errors"


class OwnWordsError(Exception):
    """Raised by this package and caught by it, with words that are its own."""


def type_of(error: BaseException, part: str) -> str:
    """The exception's type; its text goes to the logger, where that was asked for.

    >>> type_of(RuntimeError("password=hunter2"), "source billing")
    'RuntimeError'
    """
    if "logging" in sys.modules:  # slow to import; who set a level has imported it
        import logging  # waits where another thread is at it

        log = logging.getLogger(LOGGER)
        if log.level and log.isEnabledFor(logging.DEBUG):
            log.debug("%s failed", part, exc_info=error)
    return type(error).__name__


def words_of(error: BaseException, part: str) -> str:
    """The exception's type, and of what this package raises the message too.

    >>> words_of(KeyError("hunter2"), "memory")
    'KeyError'
    >>> from rehydrate.errors import InvalidArgumentError
    >>> words_of(InvalidArgumentError("k is 0; pass a number from 1 up"), "memory")
    'InvalidArgumentError: k is 0; pass a number from 1 up'
    """
    name = type_of(error, part)
    if not isinstance(error, (RehydrateError, OwnWordsError)):
        return name
    return f"{name}: {' '.join(str(error).split())}"


NOTHING = "(nothing returned)"


class EndlessResultError(OwnWordsError, ValueError):
    """A value that holds itself."""


def result_text(value: Any) -> str:
    """A string as it is, None in words, anything else as compact JSON.

    Dataclasses, named tuples and pydantic's models are objects, sets and tuples lists, times ISO
    8601, bytes their text or base64; what JSON has no words for is its `str`. Raises
    EndlessResultError for a value that holds itself.

    >>> result_text({"berth": 4, "free": True})
    '{"berth":4,"free":true}'
    """
    if value is None:
        return NOTHING
    if not isinstance(value, str) or isinstance(value, Enum):
        value = _json(value)
    return as_unicode(value)


def as_unicode(text: str) -> str:
    """The text without halves of surrogate pairs, which no request can carry.

    >>> as_unicode("caf\\udce9")
    'caf\\ufffd'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return str(text)


def failed(error: BaseException, name: str) -> str:
    """What the model is told of an exception that nobody wrote for it: its type.

    >>> failed(KeyError("password=hunter2"), "berths")
    'berths failed (KeyError)'
    """
    kind = type_of(error, name)
    return (
        f"{name} failed: {error}" if isinstance(error, OwnWordsError) else f"{name} failed ({kind})"
    )


def said(error: BaseException) -> str:
    """An error's type and message, of which nothing may fail in its turn.

    >>> said(ValueError("no such berth"))
    'ValueError: no such berth'
    """
    try:
        message = str(error)
    except Exception:
        message = "its message cannot be read"
    name = type(error).__name__
    return as_unicode(f"{name}: {message}" if message else name)


def _json(value: Any) -> str:
    try:
        return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise EndlessResultError("the result holds itself, or is nested too deeply") from None


def _plain(value: Any) -> Any:  # noqa: PLR0911  a table of kinds
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, Mapping):
        return {_key(key): _plain(one) for key, one in value.items()}
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: _plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, (list, tuple, Set)):
        return [_plain(one) for one in value]
    if callable(dump := getattr(value, "model_dump", None)) and not isinstance(value, type):
        return _plain(dump(mode="json"))
    return _plain_scalar(value)


def _plain_scalar(value: Any) -> Any:  # noqa: PLR0911
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (bytes, bytearray)):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode("ascii")
    for kind in (str, bool, int, float):
        if isinstance(value, kind):
            return kind(value)
    if callable(to_list := getattr(value, "tolist", None)):  # numpy's
        return to_list()
    return str(value)


def _key(key: Any) -> str:
    plain = _plain(key)
    return plain if isinstance(plain, str) else json.dumps(plain)
