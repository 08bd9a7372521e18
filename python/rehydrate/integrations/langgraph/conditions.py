"""Conditions of a LangGraph store: filters on values, and patterns of namespaces."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rehydrate.errors import InvalidArgumentError

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
ANY_LABEL = "*"


def matches(value: Mapping[str, Any], conditions: Mapping[str, Any] | None) -> bool:
    """Return whether a value meets all conditions; a dot in a name goes one level down.

    Raises InvalidArgumentError for an unknown operator.

    >>> matches({"user": {"age": 41}}, {"user.age": {"$gte": 18}})
    True
    """
    return all(_holds(_found(value, name), wanted) for name, wanted in (conditions or {}).items())


def _found(value: Any, name: str) -> Any:
    if isinstance(value, Mapping) and name in value:
        return value[name]
    head, dot, rest = name.partition(".")
    if dot and isinstance(value, Mapping) and head in value:
        return _found(value[head], rest)
    return None


def _holds(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping) and any(str(name).startswith("$") for name in wanted):
        return all(_compared(found, name, limit) for name, limit in wanted.items())
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            _holds(found.get(name), part) for name, part in wanted.items()
        )
    return bool(found == wanted)


def _compared(found: Any, name: str, limit: Any) -> bool:
    compare = _OPERATORS.get(name)
    if compare is None:
        known = ", ".join(_OPERATORS)
        raise InvalidArgumentError(f"filter has no operator {name!r}; the operators are {known}")
    try:
        return bool(compare(found, limit))
    except TypeError:  # a text is neither more nor less than a number
        return False


def text_of(value: Any, name: str = "") -> str:
    r"""Return a value's texts and numbers as lines, each after its name; one alone has none.

    >>> text_of({"text": "Staging listens on 8443."})
    'Staging listens on 8443.'
    >>> text_of({"title": "Ports", "hosts": ["a", "b"]})
    'title: Ports\nhosts: a\nhosts: b'
    """
    lines = list(_lines(value, name))
    return lines[0][1] if len(lines) == 1 else "\n".join(": ".join(line) for line in lines)


def _lines(value: Any, name: str) -> Iterable[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _lines(part, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _lines(part, name)
    elif value is not None and value != "":
        yield name, str(value)


def fits(namespace: Sequence[str], match_type: str, path: Sequence[str]) -> bool:
    """Return whether a namespace begins with a path (`prefix`) or ends with it (`suffix`).

    >>> fits(("users", "alice", "notes"), "prefix", ("users", "*"))
    True
    """
    if match_type not in ("prefix", "suffix"):
        raise InvalidArgumentError(f"match_type is {match_type!r}; pass 'prefix' or 'suffix'")
    if len(namespace) < len(path):
        return False
    start = len(namespace) - len(path) if match_type == "suffix" else 0
    labels = namespace[start : start + len(path)]
    return all(one in (ANY_LABEL, label) for one, label in zip(path, labels, strict=True))
