"""Values that formats share: their compact JSON, and the paths of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from json import JSONEncoder
from operator import is_
from reprlib import Repr
from typing import Any

_encode = JSONEncoder(
    ensure_ascii=False,
    separators=(",", ":"),
    default=lambda value: dict(value) if isinstance(value, Mapping) else str(value),
).encode


def is_same_list(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether two lists have the same objects."""
    return len(one) == len(other) and all(map(is_, one, other))


def compact_json(value: object) -> str:
    """Return a value as JSON without blanks, or its `str` if it isn't JSON; used to count and to
    compare.

    Never fails: a value that JSON cannot hold (nested thousands deep, cyclic, a tuple as a key)
    becomes a bounded text.

    >>> compact_json({"path": "a.py", "limit": 20})
    '{"path":"a.py","limit":20}'
    """
    try:
        return _encode(value)
    # Any error: `default=str` runs the code of whatever object is in the value.
    except Exception:
        return _bounded.repr(value)


class _Bounded(Repr):
    """A bounded `repr` of inputs that aren't JSON: nested too deeply, cyclic, or with odd keys."""

    def repr1(self, x: object, level: int) -> str:
        try:
            return super().repr1(x, level)
        except Exception:  # a number with more digits than Python prints, a container that raises
            return f"<{type(x).__name__}>"


_bounded = _Bounded()
_bounded.maxlevel = 12
_bounded.maxdict = _bounded.maxlist = _bounded.maxtuple = 200
_bounded.maxstring = _bounded.maxother = 4000


Path = tuple[str | int, ...]
"""Keys and indices from the entry to the string."""

Places = list[Path | None]
"""The path of each piece's text in an entry; None if it must not change."""
