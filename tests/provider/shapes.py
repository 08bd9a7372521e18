"""Shapes of requests as pydantic models made from tables, and their errors in each API's words.

Anthropic's API is pydantic itself, so its errors are passed on; OpenAI's are worded anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    create_model,
)
from pydantic.fields import FieldInfo

from tests.provider.refused import Refused

_STRICT = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)
_LOOSE = ConfigDict(extra="allow", strict=True)

NEEDED = ...
_TAG = "#"  # how the tags of OpenAI's unions begin, to leave them out of a parameter's name


def shape(called: str, /, *, loose: bool = False, **fields: Any) -> type[BaseModel]:
    """A model of exactly these fields: a type is required, a (type, default) is not."""
    table = {
        # A name that pydantic keeps for itself is known to it by another.
        f"{key}_": (_of(value)[0], Field(_of(value)[1], alias=key))
        for key, value in fields.items()
    }
    return create_model(called, __config__=_LOOSE if loose else _STRICT, **table)


def _of(value: Any) -> tuple[Any, Any]:
    return value if isinstance(value, tuple) else (value, NEEDED)


def literal(*values: str) -> Any:
    return Literal[values]


def text(**limits: Any) -> Any:
    field: FieldInfo = Field(**limits)
    return Annotated[str, field]


def some(item: Any, **limits: Any) -> Any:
    """A list of items."""
    return Annotated[list[item], Field(**limits)]


def string_or(items: Any, block_type: str) -> Any:
    """Blocks; a string is the short form of one text block."""

    def as_blocks(content: object) -> object:
        return [{"type": block_type, "text": content}] if isinstance(content, str) else content

    return Annotated[items, BeforeValidator(as_blocks)]


def by_type(models: Mapping[str, type[BaseModel]], key: str = "type", default: str = "") -> Any:
    """A union told apart by one field, whose tags do not show in the name of a parameter."""

    def tag(value: object) -> str:
        found = value.get(key, default) if isinstance(value, dict) else default
        return f"{_TAG}{found}"

    union: Any = None
    for name, model in models.items():
        member = Annotated[model, Tag(f"{_TAG}{name}")]
        union = member if union is None else union | member
    return Annotated[union, Discriminator(tag)]


def check_anthropic(model: type[BaseModel], request: object) -> None:
    try:
        model.model_validate(request)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        words = first["msg"].replace("'type_' | 'type'", "'type'")
        raise Refused(f"{where}: {words}") from None


def check_openai(model: type[BaseModel], request: object) -> None:
    try:
        model.model_validate(request)
    except ValidationError as error:
        raise _in_openai_words(error.errors(include_url=False)[0]) from None


def _in_openai_words(error: Any) -> Refused:
    where = ""
    for part in error["loc"]:
        if isinstance(part, int):
            where += f"[{part}]"
        elif not part.startswith(_TAG):
            where += f".{part}" if where else part
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return Refused(f"Unknown parameter: '{where}'.", param=where, code="unknown_parameter")
    if kind == "missing":
        words = f"Missing required parameter: '{where}'."
        return Refused(words, param=where, code="missing_required_parameter")
    if kind in ("literal_error", "union_tag_invalid"):
        return _unsupported(where, error, context)
    if kind in ("too_short", "string_too_short"):
        what, code = ("array", "empty_array") if kind == "too_short" else ("string", "empty_string")
        words = f"Invalid '{where}': empty {what}. Expected {_a(what)} with minimum length 1, but"
        return Refused(f"{words} got an empty {what} instead.", param=where, code=code)
    if kind == "string_too_long":
        words = (
            f"Invalid '{where}': string too long. Expected a string with maximum length "
            f"{context['max_length']}, but got a string with length {len(error['input'])} instead."
        )
        return Refused(words, param=where, code="string_above_max_length")
    if kind == "string_pattern_mismatch":
        words = (
            f"Invalid '{where}': string does not match pattern. Expected a string that matches the "
            f"pattern '{context['pattern']}'."
        )
        return Refused(words, param=where, code="invalid_value")
    expected = kind.removesuffix("_type").replace("list", "array").replace("dict", "object")
    got = _NAMES.get(type(error["input"]).__name__, "an object")
    words = f"Invalid type for '{where}': expected {_a(expected)}, but got {got} instead."
    return Refused(words, param=where, code="invalid_type")


_NAMES = {
    "NoneType": "null",
    "str": "a string",
    "int": "an integer",
    "float": "a decimal",
    "bool": "a boolean",
    "list": "an array",
}


def _unsupported(where: str, error: Any, context: Mapping[str, Any]) -> Refused:
    if error["type"] == "union_tag_invalid":
        value = context["tag"].removeprefix(_TAG)
        known = context["expected_tags"].replace(_TAG, "")
        where = f"{where}.{'role' if where.startswith('messages[') else 'type'}"
        where = where.replace(".role", ".type") if ".content[" in where else where
    else:
        value, known = error["input"], context["expected"].replace(" or ", ", ")
    names = [name.strip() for name in known.split(",")]
    listed = ", ".join(names[:-1]) + f", and {names[-1]}" if len(names) > 1 else names[0]
    words = f"Invalid value: '{value}'. Supported values are: {listed}."
    return Refused(words, param=where, code="invalid_value")


def _a(what: str) -> str:
    return f"{'an' if what[0] in 'aeiou' else 'a'} {what}"
