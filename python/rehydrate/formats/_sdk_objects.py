"""Objects of the providers' SDKs among messages, as the dicts that the SDK itself would send.

`{"role": "assistant", "content": response.content}`, `response.choices[0].message`, or the items of
`response.output` stand in many programs' histories. They are pydantic models: what has a
`model_dump` is read by it. Dicts are never copied, unless something in them has to be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rehydrate.errors import InvalidMessageError
from rehydrate.formats._reading import is_langchain_message

__all__ = ["as_dicts"]

_MAX_DEPTH = 6
"""A block in a result in a message is three levels down."""
_MESSAGE_KEYS = ("role", "content")
_WHOLE_RESPONSES = {
    "choices": "pass its choices[0].message",
    "output": "pass its output, item by item",
}


def as_dicts(entries: Sequence[Any]) -> Sequence[Any]:
    """The entries with dicts in the place of an SDK's objects; the very same sequence where there
    are none.

    Raises InvalidMessageError for a whole response and for an object that cannot be read.

    >>> entries = [{"role": "user", "content": "hi"}]
    >>> as_dicts(entries) is entries
    True
    """
    read: list[Any] = []
    is_changed = False
    for index, entry in enumerate(entries):
        found = entry if is_langchain_message(entry) else _entry(entry, index)
        is_changed = is_changed or found is not entry
        read.append(found)
    return read if is_changed else entries


def _entry(entry: Any, index: int) -> Any:
    if not _is_model(entry):
        return _value(entry, index, 0)
    for key, remedy in _WHOLE_RESPONSES.items():
        if isinstance(getattr(entry, key, None), list) and not hasattr(entry, "role"):
            raise InvalidMessageError(index, "", entry, "a message", remedy)
    if hasattr(entry, "stop_reason") and hasattr(entry, "usage"):
        # Anthropic's response: what else it has is refused in a request.
        return {key: _value(getattr(entry, key, None), index, 1) for key in _MESSAGE_KEYS}
    found = _dumped(entry, index)
    if "role" in found:  # chat answers nulls for all that it did not say
        return {key: found[key] for key in found if found[key] is not None or key == "content"}
    return found


def _value(value: Any, index: int, depth: int) -> Any:
    """The value with dicts for objects; itself where it holds none."""
    kind = type(value)
    if kind is str or value is None or depth > _MAX_DEPTH:
        return value
    if isinstance(value, Mapping):
        changed = {}
        for key, inner in list(value.items()):  # another thread may change it meanwhile
            if type(inner) is not str and (found := _value(inner, index, depth + 1)) is not inner:
                changed[key] = found
        return {**value, **changed} if changed else value
    if kind is list or kind is tuple:
        found = [_value(inner, index, depth + 1) for inner in value]
        return value if all(map(_is_same, found, value)) else kind(found)
    return _dumped(value, index) if _is_model(value) else value


def _is_same(one: object, other: object) -> bool:
    return one is other


def _is_model(value: object) -> bool:
    return callable(getattr(value, "model_dump", None)) and not isinstance(value, (type, Mapping))


def _dumped(value: Any, index: int) -> dict[str, Any]:
    """As the SDKs send it: what was never set is left out."""
    try:
        try:
            found = value.model_dump(mode="json", exclude_unset=True, by_alias=True)
        except TypeError:  # it only looks like pydantic's
            found = value.model_dump()
    except Exception as error:
        remedy = f"its model_dump failed ({type(error).__name__}); convert it to a dict"
        raise InvalidMessageError(index, "", value, "a message or a part of one", remedy) from error
    if not isinstance(found, dict):
        raise InvalidMessageError(index, "", value, "a model of a mapping", "convert it to a dict")
    return found
