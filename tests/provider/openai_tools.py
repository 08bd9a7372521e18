"""Rules of both OpenAI APIs for tools and tool_choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.provider.errors import RefusedError

NAME = r"^[a-zA-Z0-9_-]+$"


def check_choice(request: Mapping[str, Any]) -> None:
    for key in ("tool_choice", "parallel_tool_calls"):
        if request.get(key) is not None and not request.get("tools"):
            words = (
                f"Invalid value for '{key}': '{key}' is only allowed when 'tools' are specified."
            )
            raise RefusedError(words, param=key)


def check_functions(functions: Sequence[Mapping[str, Any]], where: str) -> None:
    """A schema must be an object's; a strict one requires all properties and allows no others."""
    for index, function in enumerate(functions):
        param = where.format(index)
        schema, name = function.get("parameters"), function["name"]
        if schema is None or (schema == {} and not function.get("strict")):
            continue
        if schema.get("type") != "object":
            words = """schema must be a JSON Schema of 'type: "object"', got 'type: """
            raise _invalid(name, f'{words}"{schema.get("type")}"\'.', param)
        if not function.get("strict"):
            continue
        if schema.get("additionalProperties") is not False:
            words = "In context=(), 'additionalProperties' is required to be supplied and to be"
            raise _invalid(name, f"{words} false.", param)
        if set(schema.get("required", ())) != set(schema.get("properties", ())):
            words = "In context=(), 'required' is required to be supplied and to be an array"
            raise _invalid(name, f"{words} including every key in properties.", param)


def _invalid(name: str, words: str, param: str) -> RefusedError:
    words = f"Invalid schema for function '{name}': {words}"
    return RefusedError(words, param=param, code="invalid_function_parameters")
