"""ToolDef: a tool as every provider can be told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rehydrate.checking import check_type
from rehydrate.errors import InvalidArgumentError
from rehydrate.ir.section import Provenance


@dataclass(frozen=True, slots=True)
class ToolDef:
    """A tool's name, what it does and its JSON Schema; ``raw`` is the provider's own definition.

    >>> ToolDef.read({"name": "grep", "description": "Search.", "input_schema": {"type": "object"}})
    ToolDef(name='grep', description='Search.')
    """

    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)
    raw: Mapping[str, Any] | None = field(default=None, hash=False, repr=False)
    """As it came in, and of which provider: rendered for that one it is the very same object."""
    provider: str = field(default="", repr=False)
    tokens: int | None = field(default=None, repr=False)
    provenance: Provenance = field(default=Provenance("tools"), repr=False)

    def __post_init__(self) -> None:
        """Refuse what is no tool."""
        check_type("a tool's name", self.name, str, "pass its name")
        check_type(f"tool {self.name!r}: schema", self.schema, Mapping, "pass a JSON Schema")

    @classmethod
    def read(cls, tool: Any) -> ToolDef:
        """From Anthropic's, OpenAI chat's or Responses' shape.

        A tool that the provider itself runs (Anthropic's ``bash_20250124``, OpenAI's
        ``web_search``) has no schema and can be rendered for its own provider only.
        """
        if isinstance(tool, ToolDef):
            return tool
        if not isinstance(tool, Mapping):
            raise InvalidArgumentError(
                f"a tool is of type {type(tool).__name__}; pass its definition as a dict"
            )
        function = tool.get("function")
        if isinstance(function, Mapping):
            return cls._of(function, function.get("parameters"), tool, "openai_chat")
        if tool.get("type") == "function":
            return cls._of(tool, tool.get("parameters"), tool, "openai_responses")
        if "input_schema" in tool:
            return cls._of(tool, tool["input_schema"], tool, "anthropic")
        if isinstance(tool.get("type"), str):
            provider = "anthropic" if "name" in tool else "openai_responses"
            return cls(str(tool.get("name", tool["type"])), raw=tool, provider=provider)
        raise InvalidArgumentError(
            f"a tool has the keys {sorted(map(str, tool))}; pass one of Anthropic's (name, "
            "input_schema) or OpenAI's (type, function)"
        )

    @classmethod
    def _of(
        cls, about: Mapping[str, Any], schema: Any, raw: Mapping[str, Any], provider: str
    ) -> ToolDef:
        name = about.get("name")
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError(f"a tool's name is {name!r}; pass a string")
        description = about.get("description") or ""
        return cls(name, str(description), schema or {"type": "object"}, raw, provider)

    @property
    def is_hosted(self) -> bool:
        """Whether the provider itself runs it: it has no schema of its own."""
        return self.raw is not None and not self.schema
