"""Text helpers: error texts that are safe to show, results of tools as text, JSON, plurals.

An exception's text may hold a password, a connection string or a customer's data. So where a
source, a tool, an embedder or a memory fails, the model, `degraded` and telemetry get only the
exception's type. To see the text, set the level of one logger::

    logging.getLogger("rehydrate.errors").setLevel(logging.DEBUG)

Its own level counts, not the root's: a program that logs everything does not log this by accident.

Each degradation is a warning of the logger ``rehydrate``, once for each cause: `warn_once`.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

from rehydrate._native import as_unicode, plain
from rehydrate.errors import RehydrateError

LOGGER = "rehydrate.errors"
T = TypeVar("T")


class OwnMessageError(Exception):
    """An error that this package raises and catches itself, with a message of its own."""


def logged_type(error: BaseException, part: str) -> str:
    """Return the exception's type; its text goes to the logger if that is enabled.

    >>> logged_type(RuntimeError("password=hunter2"), "source billing")
    'RuntimeError'
    """
    if "logging" in sys.modules:  # slow to import; a program that set a level has imported it
        import logging  # waits for another thread that imports it

        log = logging.getLogger(LOGGER)
        if log.level and log.isEnabledFor(logging.DEBUG):
            log.debug("%s failed", part, exc_info=error)
    return type(error).__name__


_MAX_CAUSES = 1_000
_warned: set[str] = set()


def warn_once(logger: str, cause: str) -> None:
    """Log a warning, the first time that this process has this cause. It must be safe to show."""
    if cause not in _warned and len(_warned) < _MAX_CAUSES:
        _warned.add(cause)
        import logging  # slow to import

        logging.getLogger(logger).warning("%s", cause)


def safe_error_text(error: BaseException, part: str) -> str:
    """Return the exception's type; if this package raised it, the message too.

    >>> safe_error_text(KeyError("hunter2"), "memory")
    'KeyError'
    >>> from rehydrate.errors import InvalidArgumentError
    >>> safe_error_text(InvalidArgumentError("k is 0; pass a number from 1 up"), "memory")
    'InvalidArgumentError: k is 0; pass a number from 1 up'
    """
    name = logged_type(error, part)
    if not isinstance(error, (RehydrateError, OwnMessageError)):
        return name
    return f"{name}: {' '.join(str(error).split())}"


def notebook_html(*shown: object) -> str:
    """Return the texts of objects below one another, as a notebook shows them: ``_repr_html_``.

    A long table scrolls in its cell.

    >>> notebook_html("<b>", 4).partition(">")[2]
    '&lt;b&gt;\\n4</pre>'
    """
    from html import escape

    text = escape("\n".join(map(str, shown)))
    return f'<pre style="max-height: 30em; overflow: auto">{text}</pre>'


def shown_in_notebooks(cls: type[T]) -> type[T]:
    """Have a notebook show the text of each object of this class. A named tuple has no bases."""
    cls._repr_html_ = notebook_html  # type: ignore[attr-defined]
    return cls


NOTHING = "(nothing returned)"


class EndlessResultError(OwnMessageError, ValueError):
    """A value that contains itself."""


def result_text(value: Any) -> str:
    """Return a string unchanged, None in words, anything else as compact JSON.

    Dataclasses, named tuples and pydantic's models become objects, sets and tuples lists, times ISO
    8601, bytes their text or base64; anything else that is not JSON becomes its `str`. Raises
    EndlessResultError for a value that contains itself.

    >>> result_text({"berth": 4, "free": True})
    '{"berth":4,"free":true}'
    """
    if value is None:
        return NOTHING
    if not isinstance(value, str) or isinstance(value, Enum):
        value = _json(value)
    return as_unicode(value)


def is_utf8(text: str) -> bool:
    """Return whether UTF-8 can hold the text: it has no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_json(value: Any, **layout: Any) -> str:
    """Return JSON that UTF-8 can hold: with half a surrogate pair in it, all is escaped.

    `layout` are options of `json.dumps`.

    >>> print(as_json(["é"]), as_json(["é\\ud83d"]))
    ["é"] ["\\u00e9\\ud83d"]
    """
    text = json.dumps(value, ensure_ascii=False, **layout)
    return text if is_utf8(text) else json.dumps(value, **layout)


def json_value(value: object) -> str | dict[Any, Any]:
    """Return bytes in base64, and any mapping as a dict; a `default` of `json.dumps`.

    >>> json_value(b"PNG")
    'UE5H'
    """
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def failure_text(error: BaseException, name: str) -> str:
    """Return the text for the model on an unexpected exception: its type.

    >>> failure_text(KeyError("password=hunter2"), "berths")
    'berths failed (KeyError)'
    """
    kind = logged_type(error, name)
    return (
        f"{name} failed: {error}"
        if isinstance(error, OwnMessageError)
        else f"{name} failed ({kind})"
    )


def plural(count: int, one: str, many: str = "") -> str:
    """Return a number and its noun.

    >>> plural(1, "line"), plural(4_900, "match", "matches")
    ('1 line', '4,900 matches')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def error_text(error: BaseException) -> str:
    """Return an error's type and message; never raises itself.

    >>> error_text(ValueError("no such berth"))
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
        return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise EndlessResultError("the result holds itself, or is nested too deeply") from None
