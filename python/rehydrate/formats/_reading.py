"""Values that formats share: their JSON, their texts' paths, the summaries of a provider's own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from json import JSONEncoder
from operator import is_
from reprlib import Repr
from typing import Any

from rehydrate.errors import InvalidArgumentError


def json_object(value: object) -> dict[str, Any] | None:
    """Return an object, or a text that is the JSON of one, as a dict; None for anything else.

    >>> json_object('{"path": "src"}'), json_object("src")
    ({'path': 'src'}, None)
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def arguments(value: Any) -> str:
    """Return a tool call's input as OpenAI has it: a JSON string; a string stays as it is."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"the input of a tool call can't be written as JSON ({error}); pass what JSON holds"
        ) from error


_encode = JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


def is_same_list(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether two lists have the very same objects."""
    return len(one) == len(other) and all(map(is_, one, other))


def compact_json(value: object) -> str:
    """Return a value as JSON without blanks, or its `str` if it is no JSON; used to count and to
    compare.

    Never fails: what JSON cannot hold (nested thousands deep, cyclic, a tuple as a key) becomes a
    bounded text.

    >>> compact_json({"path": "a.py", "limit": 20})
    '{"path":"a.py","limit":20}'
    """
    try:
        return _encode(value)
    # Any error: `default=str` runs the code of whatever object is in the value.
    except Exception:
        return _bounded.repr(value)


class _Bounded(Repr):
    """A bounded `repr` of inputs that are no JSON: nested too deeply, cyclic, or with odd keys."""

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
"""The path of each piece's text in an entry; None where it must not change."""


def state_blocks(entry: Mapping[str, Any]) -> Any:
    """Return the summaries that the provider itself wrote, where LiteLLM puts them; None without.

    >>> state_blocks({"provider_specific_fields": {"compaction_blocks": [{"type": "compaction"}]}})
    [{'type': 'compaction'}]
    """
    fields = entry.get("provider_specific_fields")
    return (fields.get("compaction_blocks") or None) if isinstance(fields, Mapping) else None
