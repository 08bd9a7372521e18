"""ToolDef: a tool's definition, for every provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rehydrate._check import check_type
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats.calls import tool_definition
from rehydrate.messages import Provider
from rehydrate.prompt.section import Provenance


@dataclass(frozen=True, slots=True)
class ToolDef:
    """A tool's name, description and JSON Schema. ``raw`` is the caller's own definition.

    >>> ToolDef.read({"name": "grep", "description": "Search.", "input_schema": {"type": "object"}})
    ToolDef(name='grep', description='Search.')
    """

    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)
    raw: Mapping[str, Any] | None = field(default=None, hash=False, repr=False)
    """The definition that came in. Its own provider gets the very same object."""
    provider: str = field(default="", repr=False)
    """The provider whose shape `raw` has."""
    tokens: int | None = field(default=None, repr=False)
    provenance: Provenance = field(default=Provenance("tools"), repr=False)

    def __post_init__(self) -> None:
        """Check the fields."""
        check_type("a tool's name", self.name, str, "pass its name")
        check_type(f"tool {self.name!r}: schema", self.schema, Mapping, "pass a JSON Schema")

    @classmethod
    def read(cls, tool: Any) -> ToolDef:
        """Read a definition in the shape of Anthropic, OpenAI chat or OpenAI Responses.

        A tool that the provider itself runs (Anthropic's ``bash_20250124``, OpenAI's
        ``web_search``) has no schema. Only its own provider can get it. Raises
        InvalidArgumentError for any other shape.
        """
        if isinstance(tool, ToolDef):
            return tool
        if not isinstance(tool, Mapping):
            raise InvalidArgumentError(
                f"a tool is of type {type(tool).__name__}; pass its definition as a dict"
            )
        function = tool.get("function")
        if isinstance(function, Mapping):
            return cls._from(function, function.get("parameters"), tool, "openai_chat")
        if tool.get("type") == "function":
            return cls._from(tool, tool.get("parameters"), tool, "openai_responses")
        if "input_schema" in tool:
            return cls._from(tool, tool["input_schema"], tool, "anthropic")
        if isinstance(tool.get("type"), str):
            provider = "anthropic" if "name" in tool else "openai_responses"
            return cls(str(tool.get("name", tool["type"])), raw=tool, provider=provider)
        raise InvalidArgumentError(
            f"a tool has the keys {sorted(map(str, tool))}; pass one of Anthropic's (name, "
            "input_schema) or OpenAI's (type, function)"
        )

    @classmethod
    def _from(
        cls, named: Mapping[str, Any], schema: Any, raw: Mapping[str, Any], provider: str
    ) -> ToolDef:
        """Take name and description from the object that holds them in this provider's shape."""
        name = named.get("name")
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError(f"a tool's name is {name!r}; pass a string")
        description = named.get("description") or ""
        return cls(name, str(description), schema or {"type": "object"}, raw, provider)

    @property
    def is_hosted(self) -> bool:
        """Whether the provider itself runs it: then it has no schema."""
        return self.raw is not None and not self.schema

    def render(self, provider: Provider) -> Mapping[str, Any]:
        """Return its definition for a provider; its own provider gets `raw`.

        Raises InvalidArgumentError for a tool that another provider runs itself.
        """
        if self.raw is not None and self.provider == provider:
            return self.raw
        if self.is_hosted:
            raise InvalidArgumentError(
                f"tool {self.name!r} is run by {self.provider} itself and cannot be compiled for "
                f"{provider}; leave it out, or define it with a schema"
            )
        return tool_definition(provider, self.name, self.description, self.schema)
