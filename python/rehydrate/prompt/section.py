"""The parts of a prompt: Section, ToolDef, and PromptContent with the records of its making.

A section states where it is from and how it may be cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import IntEnum, StrEnum
from operator import attrgetter
from typing import Any, Literal, NamedTuple, Self

from rehydrate._check import check_type, check_whole
from rehydrate._native import (
    FreeNames,
    check_provenance,
    check_section,
    read_tool,
    tool_definition,
)
from rehydrate.entry_id import EntryId
from rehydrate.errors import InvalidArgumentError
from rehydrate.messages import Provider
from rehydrate.prompt.entries import History
from rehydrate.prompt.request import MAX_TOKENS, Budget, ContextRequest

FULL_TRUST = 1.0
"""The trust that the system role needs. Content with less goes into a fence, in the user role."""


class Priority(IntEnum):
    """The order in which sections go when room is short: a whole level before the next one."""

    LOW = 1
    NORMAL = 2
    HIGH = 3
    CRITICAL = 4
    """Never left out and never cut. BudgetExceededError if these alone exceed the budget."""


class CompositionMode(StrEnum):
    """How a section combines with the others."""

    HIERARCHICAL = "hierarchical"
    """Instructions: an earlier one outranks a later one."""
    CONSTRAINT = "constraint"
    """Rules that always hold. They are never cut and never left out."""
    ADDITIVE = "additive"
    """Facts. They may be cut: those that are left still hold."""
    CONTEXTUAL = "contextual"
    """Background for this turn. It may be cut or left out."""


class Stability(StrEnum):
    """Whether a section is the same in the next turn."""

    STATIC = "static"
    DYNAMIC = "dynamic"


class Position(StrEnum):
    """Where a section prefers to be among its neighbours. Models read the edges best."""

    START = "start"
    MIDDLE = "middle"
    END = "end"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where content came from. All content of a prompt has one.

    Raises InvalidArgumentError for a value outside its limits.

    >>> Provenance("semantic", items=("mem_1",), trust=0.5).trust
    0.5
    """

    source: str
    """The hydration source that found it: "history", "semantic", "knowledge"..."""
    items: tuple[str, ...] = ()
    """The ids of its parts: handles of memories, ids of messages, paths of documents. An item that
    the model sees already is not sent again."""
    origin: str = ""
    """Where the source found it: a file, an address, a tool, a conversation."""
    thread: str = ""
    tool: str = ""
    principal: str = ""
    time: datetime | None = None
    """The time it was written or said."""
    trust: float = FULL_TRUST
    """0 to 1. Content derived from several sections has the least trust of them."""
    parents: tuple[str, ...] = ()
    """Ids of the sections it was derived from."""

    def __post_init__(self) -> None:
        """Check the fields."""
        check_provenance(self)


@dataclass(frozen=True, slots=True)
class Section:
    """One piece of a prompt.

    ``content`` is a text, or messages in the format of the IR's history. ``tokens`` is its count;
    None if it is not counted yet. Raises InvalidArgumentError for a value outside its limits.

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
    """A cut leaves at least this many. 0: the section may be left out."""
    priority: Priority = Priority.NORMAL
    relevance: float = 0.5
    """0 to 1. It decides among sections of one priority."""
    mode: CompositionMode = CompositionMode.CONTEXTUAL
    stability: Stability = Stability.DYNAMIC
    position: Position = Position.MIDDLE
    title: str = ""
    """The heading above it; "" for none."""
    anchor: int | None = None
    """A dynamic section is before the entry with this index in the caller's list. None: before
    the last user turn. Once sent it stays there, so that the next prompt extends this one."""
    late_bound: bool = False
    """Whether the model itself asked for it, in the middle of a turn."""
    tool_call_id: str = ""
    """The tool call that asked for a late-bound section. The section is in the call's
    result."""
    handle: str | None = None
    """The handle of the whole text, if this is a part of it."""
    native_to: str = ""
    """The provider whose own messages the content is: a summary that it wrote (`ProviderSummary`).
    To it they are sent as they are, before all other messages. "" for any other content."""
    metadata: dict[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Check the fields, and convert the names of enum members."""
        check_section(self, Provenance, _ENUMS)

    @property
    def trust(self) -> float:
        """The trust of its provenance, 0 to 1."""
        return self.provenance.trust

    @property
    def is_static(self) -> bool:
        """Whether it is the same in the next turn."""
        return self.stability is Stability.STATIC

    @property
    def is_system(self) -> bool:
        """Whether it is in the system role: it is static, a text and fully trusted."""
        return self.is_static and self.trust >= FULL_TRUST and isinstance(self.content, str)

    @property
    def must_stay_whole(self) -> bool:
        """Whether it may neither be cut nor left out."""
        return self.priority is Priority.CRITICAL or self.mode is CompositionMode.CONSTRAINT


def changed(section: Section, **values: Any) -> Section:
    """Return the section with other values, unchecked. It takes a third of `replace`'s time.

    >>> changed(Section("note", "Port 8443.", Provenance("wiki")), tokens=5).tokens
    5
    """
    copy = object.__new__(Section)
    for put, value in zip(_PUT, _ALL_OF(section), strict=True):
        put(copy, value)
    for name, value in values.items():
        object.__setattr__(copy, name, value)
    return copy


def free_ids(taken: Iterable[str] = ()) -> FreeNames:
    """Return ids of sections that are free: ``note~2`` if there is a ``note``."""
    return FreeNames(taken, "~")


_FIELDS = tuple([each.name for each in fields(Section)])
_ALL_OF = attrgetter(*_FIELDS)
_PUT = tuple([getattr(Section, name).__set__ for name in _FIELDS])
_ENUMS: dict[str, type[Any]] = {
    "priority": Priority,
    "mode": CompositionMode,
    "stability": Stability,
    "position": Position,
}


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
    """The definition that came in. Its own provider gets the same object."""
    provider: str = field(default="", repr=False)
    """The provider whose shape `raw` has."""
    tokens: int | None = field(default=None, repr=False)
    provenance: Provenance = field(default=Provenance("tools"), repr=False)

    def __post_init__(self) -> None:
        """Check the fields."""
        check_type("a tool's name", self.name, str, "pass its name")
        tool = f"tool {self.name!r}"
        check_type(f"{tool}: description", self.description, str, "pass a text")
        check_type(f"{tool}: schema", self.schema, Mapping, "pass a JSON Schema")
        check_whole(f"{tool}: tokens", self.tokens, 0, MAX_TOKENS, or_none=True)

    @classmethod
    def read(cls, tool: Any) -> ToolDef:
        """Read a definition in the shape of Anthropic, OpenAI chat, OpenAI Responses, Bedrock,
        Gemini (one function declaration), or the AI SDK and MCP (name, inputSchema).

        A tool that the provider itself runs (Anthropic's ``bash_20250124``, OpenAI's
        ``web_search``) has no schema. Only its own provider can get it. Raises
        InvalidArgumentError for any other shape.
        """
        return tool if isinstance(tool, ToolDef) else cls(*read_tool(tool))

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


SourceStatus = Literal["ok", "late", "failed", "off"]


class SourceReport(NamedTuple):
    """One source's result and time."""

    name: str
    status: SourceStatus = "ok"
    sections: int = 0
    tokens: int = 0
    elapsed_ms: float = 0.0
    detail: str = ""
    """Why the source is missing, in words; "" if it is not."""


class DroppedSection(NamedTuple):
    """A section, an entry or a part of one that was left out, and why."""

    section: str
    """Its id; ``history[12]`` for an entry of the history."""
    tokens: int
    reason: str
    handle: str | None = None
    """The handle of the whole text."""
    priority: str = ""
    by: str = ""
    """The source or pass that left it out."""

    @property
    def of_entry(self) -> bool:
        """Whether it is of an entry of the history."""
        return EntryId.index_of(self.section) is not None

    @classmethod
    def of(
        cls, section: Section, reason: str, by: str, tokens: int | None = None, handle: str = ""
    ) -> DroppedSection:
        """Return the record of a section; without ``tokens`` it has those of the whole."""
        return cls(
            section.id,
            (section.tokens or 0) if tokens is None else tokens,
            reason,
            handle or section.handle or section.metadata.get("handle"),
            section.priority.name.lower(),
            by,
        )


class Trace(NamedTuple):
    """The changes of one pass."""

    name: str
    before_tokens: int
    after_tokens: int
    changed: tuple[str, ...] = ()
    """Ids of the sections and entries (``history[12]``) that it changed or left out."""
    notes: tuple[str, ...] = ()
    elapsed_ms: float = 0.0


class Outcome(StrEnum):
    """Whether the prompt fits its soft budget; it never exceeds the hard one."""

    FITS = "fits"
    """Within the soft budget, or not yet checked."""
    WAITS = "waits"
    """Over the soft budget until the turn ends: a change now could break the model's thinking."""
    OVER_BUDGET = "over_budget"
    """Over the soft budget: the parts that must stay do not fit into it."""


@dataclass(frozen=True, slots=True)
class Meta:
    """The record of how a prompt was made."""

    sources: tuple[SourceReport, ...] = ()
    dropped: tuple[DroppedSection, ...] = ()
    trace: tuple[Trace, ...] = ()
    """One entry for each pass, in the order in which they ran."""
    before_tokens: int = 0
    """The tokens of everything that the sources found."""
    degraded: tuple[str, ...] = ()
    """The problems: each says what failed, and what was used instead."""
    outcome: Outcome = Outcome.FITS
    """Whether the prompt fits its soft budget, and if not, why."""


@dataclass(frozen=True, slots=True)
class PromptContent:
    """The fields of a PromptIR, and the values that depend on them alone."""

    request: ContextRequest = field(default_factory=ContextRequest)
    sections: tuple[Section, ...] = ()
    tools: tuple[ToolDef, ...] = ()
    history: History = field(default_factory=History)
    late_bound: tuple[Section, ...] = ()
    """Sections that the model asked for in the middle of a turn. Each is in the history, in the
    result of the call `tool_call_id`. It is rendered and counted there, and leaves with it."""
    counter: str = "o200k_base"
    """The encoding in which all tokens are counted."""
    breakpoints: tuple[str, ...] = ()
    """Ids in the order of the prompt: "tools", a section's, ``history[12]``. The provider
    caches the prefix that ends with each."""
    meta: Meta = field(default_factory=Meta)

    @property
    def budget(self) -> Budget:
        """The budget of the request."""
        return self.request.budget

    @property
    def tokens(self) -> int:
        """The tokens of sections, tools and history, without fences. Uncounted ones add 0."""
        return (
            sum([section.tokens or 0 for section in self.sections])
            + sum([tool.tokens or 0 for tool in self.tools])
            + self.history.total_tokens
        )

    def section(self, id: str) -> Section:  # noqa: A002  the field's word
        """Return the section with this id; raises KeyError."""
        for section in self.sections:
            if section.id == id:
                return section
        raise KeyError(id)

    def replace(self, **changes: Any) -> Self:
        """Return the same prompt with other values in these fields."""
        kept = {name: getattr(self, name) for name in PromptContent.__slots__}
        return type(self)(**kept | changes)

    def with_sections(self, sections: Sequence[Section]) -> Self:
        """Return the same prompt with these sections."""
        return self.replace(sections=tuple(sections))
