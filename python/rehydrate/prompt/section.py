"""Section: one piece of a prompt, what it may cost, how far it is trusted, where it is from.

ToolDef: a tool as every provider can be told of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any

from rehydrate._check import check_type
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats.calls import tool_definition
from rehydrate.messages import Provider

FULL_TRUST = 1.0
"""What may stand in the system role. Anything less is fenced, and the user's."""


class Priority(IntEnum):
    """How late a section goes when room is short: all of a level before any of the next."""

    LOW = 1
    NORMAL = 2
    HIGH = 3
    CRITICAL = 4
    """Never left out and never cut: if these alone exceed the budget, that is an error."""


class CompositionMode(StrEnum):
    """How a section goes together with the others."""

    HIERARCHICAL = "hierarchical"
    """Instructions: an earlier one outranks a later one."""
    CONSTRAINT = "constraint"
    """Rules that hold whatever else is said: whole, or an error; never cut."""
    ADDITIVE = "additive"
    """Facts that add up with others: may be cut, and what is left still holds."""
    CONTEXTUAL = "contextual"
    """Background for this turn: may be cut, or go."""


class Stability(StrEnum):
    """Whether a section is the same in the next turn."""

    STATIC = "static"
    DYNAMIC = "dynamic"


class Position(StrEnum):
    """Where among its neighbours a section wants to stand; models read the edges best."""

    START = "start"
    MIDDLE = "middle"
    END = "end"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where content came from: no byte of a prompt is without one.

    >>> Provenance("semantic", items=("mem_1",), trust=0.5).trust
    0.5
    """

    source: str
    """The hydration source that brought it, as in "history", "semantic", "knowledge"."""
    items: tuple[str, ...] = ()
    """What it is made of: handles of memories, ids of messages, paths of documents. What is
    visible once, by these, is not sent again."""
    origin: str = ""
    """Where the source had it from: a file, an address, a tool, a conversation."""
    thread: str = ""
    tool: str = ""
    principal: str = ""
    time: datetime | None = None
    """When it was said."""
    trust: float = FULL_TRUST
    """How far it is trusted, 0 to 1; what is made from several, as far as the least of them."""
    parents: tuple[str, ...] = ()
    """Ids of the sections it was derived from."""

    def __post_init__(self) -> None:
        """Refuse what is no provenance."""
        check_type("provenance.source", self.source, str, "name what brought the content")
        if not self.source:
            raise InvalidArgumentError("provenance.source is empty; name what brought the content")
        if not (isinstance(self.trust, (int, float)) and 0 <= self.trust <= 1):
            raise InvalidArgumentError(f"trust is {self.trust!r}; pass a number from 0 to 1")


@dataclass(frozen=True, slots=True)
class Section:
    """One piece of a prompt.

    ``content`` is a text, or messages in the format of the IR's history. ``tokens`` is what it
    costs; None where nobody counted yet. Raises InvalidArgumentError for a value outside its
    limits.

    >>> rule = Section(
    ...     "house-rules", "Never push to main.", provenance=Provenance("system"),
    ...     priority=Priority.CRITICAL, mode=CompositionMode.CONSTRAINT, stability=Stability.STATIC,
    ... )
    >>> rule.is_system
    True
    """

    id: str
    content: str | tuple[Any, ...]
    provenance: Provenance
    tokens: int | None = None
    min_tokens: int = 0
    """What cutting leaves of it at least; 0: it may go as a whole."""
    priority: Priority = Priority.NORMAL
    relevance: float = 0.5
    """To this turn, 0 to 1: decides among sections of one priority."""
    mode: CompositionMode = CompositionMode.CONTEXTUAL
    stability: Stability = Stability.DYNAMIC
    position: Position = Position.MIDDLE
    title: str = ""
    """What a reader sees above it; "" for nothing."""
    anchor: int | None = None
    """A dynamic section's place in the history: before this entry. None: before the last user
    turn. Once sent it stays there, so that the next prompt extends this one."""
    late_bound: bool = False
    """Brought in by the model's own request in the middle of a turn."""
    carrier: str = ""
    """Of a late-bound section the id of that call: the call's result is where it stands."""
    handle: str | None = None
    """Where the whole can be fetched, if this is not all of it."""
    metadata: dict[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Check every field, and make enums of their names."""
        if not self.id:
            raise InvalidArgumentError("a section's id is empty; give it a name of its own")
        if not isinstance(self.content, str):
            if not isinstance(self.content, Sequence):
                kind = type(self.content).__name__
                raise InvalidArgumentError(
                    f"section {self.id!r}: content is of type {kind}; pass a text or messages"
                )
            object.__setattr__(self, "content", tuple(self.content))
        check_type("section: id", self.id, str, "pass a name")
        check_type(
            f"section {self.id!r}: provenance",
            self.provenance,
            Provenance,
            'pass Provenance("wiki")',
        )
        for name, kind in _NAMED.items():
            value = getattr(self, name)
            if type(value) is not kind:
                object.__setattr__(self, name, _member(self.id, name, kind, value))
        if not (isinstance(self.relevance, (int, float)) and 0 <= self.relevance <= 1):
            raise InvalidArgumentError(
                f"section {self.id!r}: relevance is {self.relevance!r}; pass a number from 0 to 1"
            )
        for name in ("tokens", "min_tokens"):
            count = getattr(self, name)
            if count is not None and not (type(count) is int and 0 <= count < math.inf):
                raise InvalidArgumentError(
                    f"section {self.id!r}: {name} is {count!r}; pass a whole number from 0 up"
                )

    @property
    def trust(self) -> float:
        """How far its content is trusted, 0 to 1."""
        return self.provenance.trust

    @property
    def is_static(self) -> bool:
        """Whether it is the same in the next turn."""
        return self.stability is Stability.STATIC

    @property
    def is_system(self) -> bool:
        """Whether it may stand in the system role: static, text and fully trusted."""
        return self.is_static and self.trust >= FULL_TRUST and isinstance(self.content, str)

    @property
    def must_stay_whole(self) -> bool:
        """Whether it may neither be cut nor left out."""
        return self.priority is Priority.CRITICAL or self.mode is CompositionMode.CONSTRAINT


def changed(section: Section, **values: Any) -> Section:
    """The section with other values, which need no check: a third of what `replace` takes.

    >>> changed(Section("note", "Port 8443.", Provenance("wiki")), tokens=5).tokens
    5
    """
    copy = object.__new__(Section)
    for name in _FIELDS:
        object.__setattr__(copy, name, values[name] if name in values else getattr(section, name))
    return copy


_FIELDS = tuple([each.name for each in fields(Section)])
_NAMED: dict[str, type[Any]] = {
    "priority": Priority,
    "mode": CompositionMode,
    "stability": Stability,
    "position": Position,
}


def _member(section: str, name: str, kind: type[Any], value: Any) -> Any:
    try:
        if isinstance(value, str) and issubclass(kind, IntEnum):
            return kind[value.upper()]
        return kind(value)
    except (KeyError, ValueError):
        known = ", ".join(repr(str(member.name).lower()) for member in kind)
        raise InvalidArgumentError(
            f"section {section!r}: {name} is {value!r}; choose one of {known}"
        ) from None


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

    def render(self, provider: Provider) -> Mapping[str, Any]:
        """Its definition for a provider; one of the provider's own is the very same object.

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
