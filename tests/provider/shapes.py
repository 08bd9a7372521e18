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
TAG = "#"  # how the tags of OpenAI's unions begin, which say nothing of where a parameter is


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
        return f"{TAG}{found}"

    union: Any = None
    for name, model in models.items():
        member = Annotated[model, Tag(f"{TAG}{name}")]
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
