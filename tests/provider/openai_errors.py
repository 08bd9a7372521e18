"""Validation errors with OpenAI's messages, made from pydantic's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from tests.provider.errors import RefusedError
from tests.provider.shapes import TAG

_GOT = {
    "NoneType": "null",
    "str": "a string",
    "int": "an integer",
    "float": "a decimal",
    "bool": "a boolean",
    "list": "an array",
}
_EXPECTED = {
    "list_type": "an array of objects",
    "dict_type": "an object",
    "model_type": "an object",
    "string_type": "a string",
    "int_type": "an integer",
    "float_type": "a decimal",
    "bool_type": "a boolean",
}


def check_openai(model: type[BaseModel], request: object) -> None:
    try:
        model.model_validate(request)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        make_error = _ERRORS.get(first["type"], _wrong_type)
        raise make_error(_parameter(first["loc"]), first) from None


def _parameter(path: tuple[Any, ...]) -> str:
    where = ""
    for step in path:
        if isinstance(step, int):
            where += f"[{step}]"
        elif not step.startswith(TAG):
            where += f".{step}" if where else step
    return where


def _unknown(where: str, _error: Any) -> RefusedError:
    return RefusedError(f"Unknown parameter: '{where}'.", param=where, code="unknown_parameter")


def _missing(where: str, _error: Any) -> RefusedError:
    words = f"Missing required parameter: '{where}'."
    return RefusedError(words, param=where, code="missing_required_parameter")


def _no_value(where: str, error: Any) -> RefusedError:
    names = error["ctx"]["expected"].replace(" or ", ", ").split(", ")
    return _supported(where, error["input"], names)


def _no_tag(where: str, error: Any) -> RefusedError:
    where = f"{where}.{'role' if where.startswith('messages[') and '.' not in where else 'type'}"
    tag = error["ctx"]["tag"].removeprefix(TAG)
    if not tag:
        return _missing(where, error)
    return _supported(where, tag, error["ctx"]["expected_tags"].replace(TAG, "").split(", "))


def _supported(where: str, value: object, names: list[str]) -> RefusedError:
    *first, last = names
    comma = "," if len(first) > 1 else ""
    listed = f"{', '.join(first)}{comma} and {last}" if first else last
    words = f"Invalid value: '{value}'. Supported values are: {listed}."
    return RefusedError(words, param=where, code="invalid_value")


def _empty(where: str, error: Any) -> RefusedError:
    what = "array" if error["type"] == "too_short" else "string"
    article = "an" if what == "array" else "a"
    words = f"Invalid '{where}': empty {what}. Expected {article} {what} with minimum length 1, but"
    return RefusedError(f"{words} got an empty {what} instead.", param=where, code=f"empty_{what}")


def _too_long(where: str, error: Any) -> RefusedError:
    words = (
        f"Invalid '{where}': string too long. Expected a string with maximum length "
        f"{error['ctx']['max_length']}, but got a string with length {len(error['input'])} instead."
    )
    return RefusedError(words, param=where, code="string_above_max_length")


def _no_match(where: str, error: Any) -> RefusedError:
    words = (
        f"Invalid '{where}': string does not match pattern. Expected a string that matches the "
        f"pattern '{error['ctx']['pattern']}'."
    )
    return RefusedError(words, param=where, code="invalid_value")


def _wrong_type(where: str, error: Any) -> RefusedError:
    got = _GOT.get(type(error["input"]).__name__, "an object")
    expected = _EXPECTED.get(error["type"], error["msg"])
    if where.endswith(("content", "output")) and error["type"] == "list_type":
        expected = "one of a string or array of objects"  # the API also accepts a string
    words = f"Invalid type for '{where}': expected {expected}, but got {got} instead."
    return RefusedError(words, param=where, code="invalid_type")


_ERRORS: Mapping[str, Callable[[str, Any], RefusedError]] = {
    "extra_forbidden": _unknown,
    "missing": _missing,
    "literal_error": _no_value,
    "union_tag_invalid": _no_tag,
    "too_short": _empty,
    "string_too_short": _empty,
    "string_too_long": _too_long,
    "string_pattern_mismatch": _no_match,
}
