"""Shapes of requests: pydantic models that are made from tables of fields.

Anthropic's API uses pydantic, so its error messages are pydantic's. OpenAI's are in openai_errors.
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

from tests.provider.errors import RefusedError

_STRICT = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)
_LOOSE = ConfigDict(extra="allow", strict=True)

NEEDED = ...
TAG = "#"  # begins the tags of OpenAI's unions, which aren't part of a parameter's path


def shape(name: str, /, *, loose: bool = False, **fields: Any) -> type[BaseModel]:
    """Return a model of exactly these fields: a type is required, a (type, default) is not."""
    table = {
        # With a suffix, because pydantic reserves some names; the alias is the real one.
        f"{key}_": (_of(value)[0], Field(_of(value)[1], alias=key))
        for key, value in fields.items()
    }
    return create_model(name, __config__=_LOOSE if loose else _STRICT, **table)


def _of(value: Any) -> tuple[Any, Any]:
    return value if isinstance(value, tuple) else (value, NEEDED)


def literal(*values: str) -> Any:
    return Literal[values]


def text(**limits: Any) -> Any:
    field: FieldInfo = Field(**limits)
    return Annotated[str, field]


def some(item: Any, **limits: Any) -> Any:
    """Return the type of a list of items."""
    return Annotated[list[item], Field(**limits)]


def string_or(items: Any, block_type: str) -> Any:
    """Return the type of a list of blocks; a string stands for one text block."""

    def as_blocks(content: object) -> object:
        return [{"type": block_type, "text": content}] if isinstance(content, str) else content

    return Annotated[items, BeforeValidator(as_blocks)]


def by_type(models: Mapping[str, type[BaseModel]], key: str = "type", default: str = "") -> Any:
    """Return a union that one field discriminates; its tags aren't part of a parameter's path."""

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
        raise RefusedError(f"{where}: {words}") from None
