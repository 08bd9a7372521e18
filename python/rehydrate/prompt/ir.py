"""PromptIR: everything that goes into one prompt, before it has any provider's shape.

CompiledPrompt: a prompt in a provider's shape, with what it costs and where it came from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Self

from rehydrate import formats
from rehydrate._check import check_choice, check_type
from rehydrate.entry_id import EntryId
from rehydrate.errors import Violation
from rehydrate.messages import Conversation, Message, PieceKind, Provider
from rehydrate.prompt import diff, explain, laws, serialize
from rehydrate.prompt.explain import PromptExplanation
from rehydrate.prompt.request import Budget, ContextRequest
from rehydrate.prompt.section import Section, ToolDef

_LONG_INPUT = 500
"""A tool's input of so many characters is read again rather than held: a message is 300 bytes."""

SourceStatus = Literal["ok", "late", "failed", "off"]


class SourceReport(NamedTuple):
    """What one source brought, and how long it took."""

    name: str
    status: SourceStatus = "ok"
    sections: int = 0
    tokens: int = 0
    elapsed_ms: float = 0.0
    detail: str = ""
    """Of a source that is left out: why, in words."""


class DroppedSection(NamedTuple):
    """What is not in the prompt though it might have been, and why."""

    section: str
    """Its id; ``history[12]`` for an entry of the history."""
    tokens: int
    reason: str
    handle: str | None = None
    """Where the whole can be fetched."""
    priority: str = ""
    by: str = ""
    """The source or the pass that left it out."""


class Trace(NamedTuple):
    """What one pass did."""

    name: str
    before_tokens: int
    after_tokens: int
    changed: tuple[str, ...] = ()
    """Ids of the sections, and ``history[12]`` for entries, that it changed or left out."""
    notes: tuple[str, ...] = ()
    elapsed_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class History:
    """The conversation: the caller's own entries, in order, in one format.

    ``tokens`` holds the count of each entry, or is empty where nobody counted yet. The entries are
    read once; they must not be changed as long as the history is in use.
    """

    entries: tuple[Any, ...] = ()
    format: str = "plain"
    tokens: tuple[int, ...] = ()
    places: tuple[int, ...] = ()
    """Where each entry stood in the list that came in; empty: all of it is here."""
    _read: dict[str, Any] = field(
        default_factory=dict, init=False, repr=False, compare=False, hash=False
    )

    def __post_init__(self) -> None:
        """Refuse what is no history."""
        if type(self.entries) is not tuple:
            check_type("history: entries", self.entries, (list, tuple), "pass a list of messages")
            object.__setattr__(self, "entries", tuple(self.entries))
        check_choice("history: format", self.format, ("auto", *formats.FORMATS))

    @property
    def total_tokens(self) -> int:
        """Of all its entries."""
        return sum(self.tokens)

    def place(self, position: int) -> int:
        """Where the entry stood in the list that came in."""
        return self.places[position] if self.places else position

    def entry_id(self, position: int) -> EntryId:
        """The id of the entry at this position."""
        return EntryId.of(self.place(position))

    @property
    def conversation(self) -> Conversation:
        """Its entries, read and grouped into units; raises InvalidMessageError."""
        found: Conversation | None = self._read.get("conversation")
        if found is None:
            found, entries = formats.read(self.entries, self.format)
            if entries is not self.entries:
                object.__setattr__(self, "entries", tuple(entries))
            self._read["conversation"] = found
        return found

    @property
    def messages(self) -> tuple[Message, ...]:
        """Its entries, read; raises InvalidMessageError."""
        found: tuple[Message, ...] | None = self._read.get("messages")
        resting: _Resting | None = self._read.get("resting")
        if found is None and resting is not None:
            return resting.messages_of(self)
        return self.conversation.messages if found is None else found

    def rest(self) -> None:
        """Keep of what was read what is small beside the entries; the others are read again where
        they are wanted: the long inputs of tools, which are texts of their own."""
        # The lines of a transcript are read in the light of others: all of them, or none.
        if self.format != "claude_code":
            self._read["resting"] = _Resting.of(self.messages)
        # In this order: another thread may be reading.
        self._read.pop("messages", None)
        self._read.pop("conversation", None)

    def with_tokens(self, tokens: Sequence[int], conversation: Conversation | None = None) -> Self:
        """The same, counted; what was read of it is not read again. ``conversation`` is all of it,
        read, where somebody has."""
        name = self.format if conversation is None else conversation.format
        made = type(self)(self.entries, name, tuple(tokens), self.places)
        made._read.update(self._read)
        if conversation is not None:
            made._read["conversation"] = conversation
        return made

    def reworded(
        self,
        entries: Mapping[int, Any],
        messages: Mapping[int, Message],
        tokens: Mapping[int, int],
    ) -> Self:
        """The same with other entries at these positions, which say the same in other words:
        `messages` are these entries, read, so that nothing is read again, and `tokens` theirs."""
        kept = tuple([entries.get(place, entry) for place, entry in enumerate(self.entries)])
        counts = tuple([tokens.get(place, count) for place, count in enumerate(self.tokens)])
        made = type(self)(kept, self.format, counts, self.places)
        read = tuple([messages.get(each.index, each) for each in self.messages])
        made._read["messages"] = read
        whole: Conversation | None = self._read.get("conversation")
        if whole is not None:
            units = [
                unit
                if messages.keys().isdisjoint(unit.members)
                else unit._replace(
                    messages=tuple([messages.get(each.index, each) for each in unit.messages])
                )
                for unit in whole.units
            ]
            made._read["conversation"] = whole._replace(messages=read, units=tuple(units))
        return made

    def followed_by(self, new: Self) -> Self:
        """The same, and after it what came since; what was read is not read again."""
        both = type(self)(
            self.entries + new.entries,
            self.format,
            self.tokens + new.tokens,
            (self.places or tuple(range(len(self.entries)))) + new.places,
        )
        # The lines of a transcript are read in the light of others: it is read as a whole.
        if self.format != "claude_code":
            start = len(self.entries)
            shifted = [each._replace(index=each.index + start) for each in new.messages]
            both._read["messages"] = (*self.messages, *shifted)
        return both


class _Resting(NamedTuple):
    """The messages of a history, without the texts of those that are read again."""

    messages: tuple[Message, ...]
    again: tuple[int, ...]

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Self:
        """The messages at rest."""
        again = tuple([place for place, each in enumerate(messages) if _has_long_input(each)])
        light = list(messages)
        for place in again:
            light[place] = light[place]._replace(pieces=())
        return cls(tuple(light), again)

    def messages_of(self, history: History) -> tuple[Message, ...]:
        """The messages with all their texts."""
        whole = list(self.messages)
        entries = [history.entries[whole[place].index] for place in self.again]
        read = formats.parse(entries, history.format).messages
        for place, message in zip(self.again, read, strict=True):
            whole[place] = whole[place]._replace(pieces=message.pieces)
        return tuple(whole)


def _has_long_input(message: Message) -> bool:
    if not message.calls:
        return False
    inputs = [len(text) for text, kind in message.pieces if kind is PieceKind.TOOL_INPUT]
    return sum(inputs) > _LONG_INPUT


@dataclass(frozen=True, slots=True)
class Meta:
    """How a prompt came to be: what each source brought, what went and why, what each pass did."""

    sources: tuple[SourceReport, ...] = ()
    dropped: tuple[DroppedSection, ...] = ()
    trace: tuple[Trace, ...] = ()
    before_tokens: int = 0
    """Of everything the sources brought."""
    degraded: tuple[str, ...] = ()

    @property
    def latency_ms(self) -> dict[str, float]:
        """By source, how long it took."""
        return {source.name: source.elapsed_ms for source in self.sources}


@dataclass(frozen=True, slots=True)
class PromptIR:
    """Sections, tools, history, budget and how they came to be: frozen, passes return new ones."""

    request: ContextRequest = field(default_factory=ContextRequest)
    sections: tuple[Section, ...] = ()
    tools: tuple[ToolDef, ...] = ()
    history: History = field(default_factory=History)
    late_bound: tuple[Section, ...] = ()
    """What the model asked for in the middle of a turn. It stands in the history, in the result of
    the call that its `carrier` names, is rendered and counted there, and goes with it."""
    counter: str = "o200k_base"
    """By what all its tokens are counted."""
    breakpoints: tuple[str, ...] = ()
    """Where the cache is told to keep the prefix: ids after which one stands ("tools", a
    section's, ``history[12]``), in the order of the prompt."""
    meta: Meta = field(default_factory=Meta)

    @property
    def budget(self) -> Budget:
        """That of the request."""
        return self.request.budget

    @property
    def tokens(self) -> int:
        """Of all that is in it; what nobody counted yet is 0."""
        return (
            sum(section.tokens or 0 for section in self.sections)
            + sum(tool.tokens or 0 for tool in self.tools)
            + self.history.total_tokens
        )

    @property
    def compression_ratio(self) -> float:
        """Tokens left of what the sources brought; 1.0 where there was nothing."""
        return self.tokens / self.meta.before_tokens if self.meta.before_tokens else 1.0

    def section(self, id: str) -> Section:  # noqa: A002  the field's word
        """The section with this id; raises KeyError."""
        for section in self.sections:
            if section.id == id:
                return section
        raise KeyError(id)

    def replace(self, **changes: Any) -> Self:
        """The same with these fields changed."""
        return replace(self, **changes)

    def with_sections(self, sections: Sequence[Section]) -> Self:
        """The same with these sections."""
        return replace(self, sections=tuple(sections))

    def verify(self, *, violations: Sequence[Violation] | None = None) -> list[laws.BrokenLaw]:
        """Every law that it breaks, of those that hold of a prompt that is to be sent; empty: none.

        ``violations`` are those of the history, where the caller has validated it already.

        >>> from rehydrate.prompt import Provenance, Section
        >>> twice = Section("notes", "Port 8443.", Provenance("hot"), tokens=4)
        >>> print(PromptIR(sections=(twice, twice)).verify()[0])
        two sections have the id 'notes' (once)
        """
        return laws.verify(self, violations=violations)

    def explain(self) -> explain.PromptExplanation:
        """What stands where, what it costs, where it is from, what went and why: a table.

        >>> from rehydrate.prompt import Provenance, Section
        >>> notes = Section("notes", "Port 8443.", Provenance("hot"), tokens=4)
        >>> [(row.id, row.tokens) for row in PromptIR(sections=(notes,)).explain().rows]
        [('notes', 4)]
        """
        return explain.explain(self)

    def diff(self, other: PromptIR) -> diff.IRDiff:
        """What changed from this one to the other.

        >>> from rehydrate.prompt import Provenance, Section
        >>> notes = Section("notes", "Port 8443.", Provenance("hot"), tokens=4)
        >>> print(PromptIR().diff(PromptIR(sections=(notes,))))
        0 -> 4 tokens
          + notes added: +4 tokens
        """
        return diff.diff(self, other)

    def to_dict(self) -> dict[str, Any]:
        """All of it as values that JSON has; message objects become dicts.

        Raises UnreadableIRError, which names the place, for a value that JSON has no word for.
        """
        return serialize.ir_to_dict(self)

    def to_json(self, indent: int | None = None) -> str:
        """All of it as JSON.

        >>> PromptIR.from_json(PromptIR().to_json()) == PromptIR()
        True
        """
        return serialize.as_json(self.to_dict(), indent)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """What `to_dict` made, equal to what it was made of.

        Raises UnreadableIRError, which names the place, for an unknown or missing field, a value of
        another type, and what a newer version wrote.
        """
        return serialize.ir_from_dict(cls, document)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """What `to_json` wrote; raises as `from_dict` does."""
        return cls.from_dict(serialize.from_json(text))


USUAL_MINIMUM_PREFIX = 1_024
"""Tokens that a prefix needs for a provider to keep it, where no table says otherwise."""


class Segment(NamedTuple):
    """A stretch of the prompt as it goes over the wire: a tool, a system block, a message, in the
    order in which a provider reads them (tools, system, messages)."""

    id: str
    """``tools[0]``, a section's id, or ``history[12]``."""
    kind: Literal["tool", "system", "message"]
    tokens: int
    digest: str
    """128 bits, hexadecimal, of what is sent, cache marks aside: two prompts share a prefix as far
    as their digests are equal."""
    stability: str
    blocks: int = 1
    """Content blocks in it: a cache looks back over so many at most."""
    breakpoint: bool = False
    """Whether the cache is told to keep the prefix that ends here."""


@dataclass(frozen=True, slots=True)
class CompiledPrompt:
    """What is sent.

    ``request`` holds the arguments of the provider's SDK: ``client.messages.create(model=...,
    max_tokens=..., **compiled.request)`` for Anthropic, ``client.chat.completions.create(...)`` and
    ``client.responses.create(...)`` for OpenAI.
    """

    provider: Provider
    request: dict[str, Any] = field(hash=False)
    ir: PromptIR = field(repr=False)
    """What it was rendered from, after all passes."""
    segments: tuple[Segment, ...] = field(repr=False)
    model: str = ""

    @property
    def tokens(self) -> int:
        """Of the whole prompt, in the IR's counter."""
        return sum(segment.tokens for segment in self.segments)

    @property
    def messages(self) -> list[Any]:
        """The messages, or OpenAI Responses' input items."""
        key = "input" if self.provider == "openai_responses" else "messages"
        messages: list[Any] = self.request[key]
        return messages

    def explain(self) -> PromptExplanation:
        """What stands where in it, as a table: that of its IR."""
        return self.ir.explain()

    def to_dict(self) -> dict[str, Any]:
        """The request, its segments and the IR as values that JSON has.

        Message objects in the IR become dicts; `PromptIR.from_dict` reads the IR in it too.
        """
        return serialize.compiled_to_dict(self)

    def to_json(self, indent: int | None = None) -> str:
        """All of it as JSON."""
        return serialize.as_json(self.to_dict(), indent)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """What `to_dict` made; raises UnreadableIRError as `PromptIR.from_dict` does."""
        return serialize.compiled_from_dict(cls, PromptIR, document)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """What `to_json` wrote; raises as `from_dict` does."""
        return cls.from_dict(serialize.from_json(text))
