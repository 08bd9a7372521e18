"""A prompt in its two forms, and what is between them: the target of a compilation and its passes.

`PromptIR` is the prompt before it has any provider's shape. `CompiledPrompt` has it; its segments
state the source and the cost of each part. A `Target` is what a pass reads besides the IR.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, count
from operator import is_not, itemgetter
from typing import Any, Literal, NamedTuple, Self, TypeVar

from rehydrate._check import check_choice, check_type
from rehydrate._native import check_outline
from rehydrate._text import notebook_html
from rehydrate.compact.options import GRANULARITIES
from rehydrate.compact.outline import OutlineSize
from rehydrate.embedding.choice import BUILTIN, Choice
from rehydrate.errors import Violation
from rehydrate.messages import MESSAGES_KEY, PROVIDERS, Provider
from rehydrate.prompt import reports, serialize
from rehydrate.prompt.entries import History
from rehydrate.prompt.originals import Originals
from rehydrate.prompt.reports import BrokenLaw, IRDiff, PromptExplanation
from rehydrate.prompt.request import NO_POLICY, THRESHOLD_BETA, ProviderPolicy, edit_betas
from rehydrate.prompt.section import (
    CompositionMode,
    Priority,
    PromptContent,
    Provenance,
    Section,
    Stability,
    Trace,
)


@dataclass(frozen=True, slots=True)
class PromptIR(PromptContent):
    """The content of one prompt: sections, tools, history, budget, and the record of its making.

    It is frozen: a pass returns a new one.
    """

    def verify(self, *, violations: Sequence[Violation] | None = None) -> list[BrokenLaw]:
        """Return the laws that it breaks; empty for a prompt that may be sent.

        ``violations`` are those of the history, if the caller has validated it already.

        >>> from rehydrate.prompt import Provenance, Section
        >>> twice = Section("notes", "Port 8443.", Provenance("hot"), tokens=4)
        >>> print(PromptIR(sections=(twice, twice)).verify()[0])
        two sections have the id 'notes' (once)
        """
        return reports.verify(self, violations=violations)

    def explain(self) -> PromptExplanation:
        """Return a table: where each part is, its cost and source, what was left out and why.

        >>> from rehydrate.prompt import Provenance, Section
        >>> notes = Section("notes", "Port 8443.", Provenance("hot"), tokens=4)
        >>> [(row.id, row.tokens) for row in PromptIR(sections=(notes,)).explain().rows]
        [('notes', 4)]
        """
        return reports.explain(self)

    def _repr_html_(self) -> str:
        """Return the table of `explain`, as a notebook shows it."""
        return notebook_html(self.explain())

    def diff(self, other: PromptIR) -> IRDiff:
        """Return the changes from this one to the other.

        >>> from rehydrate.prompt import Provenance, Section
        >>> notes = Section("notes", "Port 8443.", Provenance("hot"), tokens=4)
        >>> print(PromptIR().diff(PromptIR(sections=(notes,))))
        0 -> 4 tokens
          + notes added: +4 tokens
        """
        return reports.diff(self, other)

    def to_dict(self) -> dict[str, Any]:
        """Return the IR as JSON values; message objects become dicts.

        Raises UnreadableIRError, with the path in the IR, for a value that JSON cannot hold.
        """
        return serialize.ir_to_dict(self)

    def to_json(self, indent: int | None = None) -> str:
        """Return `to_dict` as JSON text.

        >>> PromptIR.from_json(PromptIR().to_json()) == PromptIR()
        True
        """
        return serialize.as_json(self.to_dict(), indent)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_dict` returned; the result equals the IR it was called on.

        Raises UnreadableIRError, with the path in the document, for an unknown or missing field, a
        value of another type, and a document of a newer version.
        """
        return serialize.ir_from_dict(cls, document)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` wrote; raises as `from_dict` does."""
        return cls.from_dict(serialize.from_json(text))


COMPACTION_BETA = "compact-2026-09-04"
"""The beta of Anthropic's API that each request with a signed compaction block must name
(https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand)."""


_SYSTEM_BETAS = {
    "clear_at": "mid-conversation-system-clear-at-2026-08-21",
    "output_config": "mid-conversation-output-config-2026-07-01",
}
"""The betas of the keys that a system message amid the others may have
(https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages)."""


class ProviderSummary(NamedTuple):
    """A summary that a provider wrote, in its own form.

    It is sent back as it is, first, in place of the messages that it is of.
    """

    messages: tuple[Any, ...]
    """Anthropic: an assistant message with a signed compaction block. OpenAI Responses: the items
    of the compacted window, one of them encrypted."""
    text: str = ""
    """Its text; "" if it is encrypted."""
    tokens: int | None = None
    """Its size as the provider counts it; None: it is counted here."""


def section_of(
    summary: ProviderSummary, id_: str, provider: Provider, trust: float, valid_until: int
) -> Section:
    """Return the section that holds a summary.

    Thinking in entries with an index from ``valid_until`` on may be refused after it: it was made
    when the summary was there and not in the prompt
    (https://platform.claude.com/docs/en/build-with-claude/compaction-background).
    """
    return Section(
        id_,
        summary.messages,
        Provenance(id_, trust=trust),
        tokens=summary.tokens,
        priority=Priority.CRITICAL,
        mode=CompositionMode.ADDITIVE,
        stability=Stability.STATIC,
        native_to=provider,
        metadata={"thinking_valid_until": valid_until},
    )


def betas_of(provider: Provider, messages: Sequence[Any]) -> tuple[str, ...]:
    """Return the betas of Anthropic's API that a prompt of these messages needs."""
    if provider != "anthropic":
        return ()
    contents = [each.get("content") for each in messages]
    lists = [each for each in contents if isinstance(each, (list, tuple))]
    blocks = [block for each in lists for block in each if isinstance(block, Mapping)]
    summaries = [block for block in blocks if block.get("type") == "compaction"]
    signed = dict.fromkeys([each.get("signature") is not None for each in summaries])
    betas = [COMPACTION_BETA if each else THRESHOLD_BETA for each in signed]
    betas += [
        beta for key, beta in _SYSTEM_BETAS.items() if any(each.get(key) for each in messages)
    ]
    return tuple(betas)


USUAL_MINIMUM_PREFIX = 1_024
"""Tokens: the shortest prefix that a provider caches, for a model that no table of ours has."""


class Segment(NamedTuple):
    """One tool, system block or message of the prompt as it is sent.

    Segments are in the order in which a provider reads them: tools, system, messages.
    """

    id: str
    """``tools[0]``, a section's id, or ``history[12]``."""
    kind: Literal["tool", "system", "message"]
    tokens: int
    digest: str
    """128 bits, hexadecimal, of what is sent, without cache marks. Two prompts share a prefix as
    far as their digests are equal."""
    stability: str
    blocks: int = 1
    """Content blocks in it. A provider's cache looks back over a limited number of blocks."""
    breakpoint: bool = False
    """Whether the provider caches the prefix that ends here."""


def tokens_of(segments: Iterable[Segment]) -> int:
    """Return the tokens of all these segments."""
    return sum(map(_tokens, segments))


def shared_segments(one: Sequence[Segment], other: Sequence[Segment]) -> int:
    """Return how many segments at the beginning of two prompts are the same, by their digests.

    >>> rules = Segment("rules", "system", 900, "a1", "static")
    >>> shared_segments([rules, rules._replace(digest="b2")], [rules._replace(breakpoint=True)])
    1
    """
    # Nearly all segments of the next prompt are the same objects.
    for index in compress(count(), map(is_not, one, other)):
        if one[index].digest != other[index].digest:
            return index
    return min(len(one), len(other))


_tokens = itemgetter(2)


@dataclass(frozen=True, slots=True)
class CompiledPrompt:
    """A prompt ready to send.

    ``request`` holds the arguments of the provider's SDK: ``client.messages.create(model=...,
    max_tokens=..., **compiled.request)`` for Anthropic, ``client.chat.completions.create(...)`` and
    ``client.responses.create(...)`` for OpenAI, ``client.converse(modelId=..., ...)`` for Bedrock.
    For Gemini it is the body of ``generateContent``: google-genai takes its ``contents`` as such,
    and the other fields as ``config``. For the AI SDK it is what ``generateText`` takes, with the
    tools as data by their names.
    """

    provider: Provider
    request: dict[str, Any] = field(hash=False)
    ir: PromptIR = field(repr=False)
    """The IR after all passes, from which the request was rendered."""
    segments: tuple[Segment, ...] = field(repr=False)
    model: str = ""

    @property
    def tokens(self) -> int:
        """The tokens of the whole prompt, in the IR's counter."""
        return tokens_of(self.segments)

    @property
    def messages(self) -> list[Any]:
        """The messages, OpenAI Responses' input items, or Gemini's contents."""
        messages: list[Any] = self.request[MESSAGES_KEY.get(self.provider, "messages")]
        return messages

    @property
    def betas(self) -> tuple[str, ...]:
        """The betas of Anthropic's API that it needs: ``client.beta.messages.create(betas=...)``.

        Empty, unless it begins with a summary that the API wrote (docs/background.md), or its
        policy has the API shorten it.
        """
        of_messages = betas_of(self.provider, self.messages)
        return tuple(dict.fromkeys((*of_messages, *edit_betas(self.request))))

    def explain(self) -> PromptExplanation:
        """Return the table of its IR."""
        return self.ir.explain()

    def _repr_html_(self) -> str:
        """Return its place and the table of `explain`, as a notebook shows them."""
        place = f"{self.provider} {self.model}".rstrip()
        return notebook_html(f"prompt for {place}: {self.tokens:,} tokens", self.explain())

    def to_dict(self) -> dict[str, Any]:
        """Return the request, the segments and the IR as JSON values.

        Message objects in the IR become dicts. `PromptIR.from_dict` reads the IR from it too.
        """
        return serialize.document(
            serialize.COMPILED_KIND,
            provider=self.provider,
            model=self.model,
            request=serialize.plain(self.request, "request"),
            segments=serialize.plain(self.segments, "segments"),
            ir=self.ir.to_dict(),
        )

    def to_json(self, indent: int | None = None) -> str:
        """Return `to_dict` as JSON text."""
        return serialize.as_json(self.to_dict(), indent)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_dict` returned; raises UnreadableIRError as `PromptIR.from_dict` does."""
        return serialize.compiled_from_dict(cls, PromptIR, document)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` wrote; raises as `from_dict` does."""
        return cls.from_dict(serialize.from_json(text))


T = TypeVar("T")


class RenderCache:
    """Facts about the rows of a conversation, for prompts that extend one another.

    It serves one compilation at a time, and keeps what it noted last. Messages must not be
    changed while it is in use.
    """

    __slots__ = ("_notes", "sections", "valid")

    def __init__(self) -> None:
        """Start empty."""
        self._notes: dict[Hashable, tuple[object, int, Any]] = {}
        self.sections: Mapping[str, Section] = {}
        """The sections that the last prompt had after deduplication, by their ids."""
        self.valid: Sequence[Segment] = ()
        """The system and the messages of the last prompt, if it broke no rule."""

    def known(self, what: Hashable, history: History) -> tuple[int, Any]:
        """Return how many of the history's first rows were noted, and the value of that note."""
        stamp, rows, value = self._notes.get(what, (None, 0, None))
        return min(rows, history.rows_of(stamp)), value

    def note(self, what: Hashable, history: History, value: Any, rows: int | None = None) -> None:
        """Note a value of this history's first rows; None: of all of them."""
        self._notes[what] = history.stamp, len(history.entries) if rows is None else rows, value

    def grown(self, extend: Callable[[T, History, int], T], empty: Any, history: History) -> T:
        """Return a value of all rows. ``extend`` returns one with the rows from a position on."""
        rows, found = self.known(extend, history)
        value, count = found or (empty, 0)
        if rows < count:
            value, count = empty, 0
        size = len(history.entries)
        value = extend(value, history, count) if count < size else value
        self.note(extend, history, (value, size))
        return value


@dataclass(frozen=True, slots=True)
class Target:
    """The provider and the settings of a compilation: what a pass reads besides the IR."""

    provider: Provider = "anthropic"
    model: str = ""
    originals: Originals | None = None
    """The store in which a pass keeps the whole of a text that it shortens. None: nowhere."""
    minimum_prefix: int = USUAL_MINIMUM_PREFIX
    """Tokens. The provider does not cache a shorter prefix."""
    thinking: str = "auto"
    """How to treat the model's thinking after a change: "auto" leaves it out where the model
    refuses it there, "keep" keeps it."""
    granularity: str = "message"
    """How prune treats an entry: "message" keeps or drops it whole, "excerpt" may keep some of its
    blocks."""
    outline: OutlineSize = False
    """Whether prune lists the names in what it leaves out, and in how many tokens."""
    embedder: Choice = BUILTIN
    """The model that compares entries and sections with the turn's query."""
    render_cache: RenderCache = field(default_factory=RenderCache, repr=False, compare=False)
    """The facts about the last prompt's rows."""
    policy: ProviderPolicy = NO_POLICY
    """The request's options of caching, and of shortening by the provider."""
    waits: bool = True
    """Whether prune waits for the end of a turn whose open tool loop the model may refuse after any
    cut."""

    def __post_init__(self) -> None:
        """Check the fields that a caller's options set; raises InvalidArgumentError."""
        check_choice("provider", self.provider, PROVIDERS)
        check_type("model", self.model, str, "pass the model's name, or leave it out")
        check_choice("thinking", self.thinking, ("auto", "keep"))
        check_choice("granularity", self.granularity, GRANULARITIES)
        check_outline(self.outline)
        check_type("policy", self.policy, ProviderPolicy, "pass a ProviderPolicy()")

    def keep(self, text: str) -> str | None:
        """Store a text that is left out, and return its handle; None if it is not stored.

        The text is left out in either case, since a prompt over its budget cannot be sent. Then the
        record of it has no handle.
        """
        if self.originals is None:
            return None
        try:
            return str(self.originals.put(text))
        except Exception:
            return None

    def settled_rows(self, step: Hashable, ir: PromptIR) -> tuple[int, Any]:
        """Return how many first rows this pass would leave as they are again, and its own note.

        None after a change of the store of originals, or of the late-bound sections there were.
        """
        rows, note = self.render_cache.known((step, "settled"), ir.history)
        if rows:
            originals, late_bound, value = note
            if originals is self.originals and ir.late_bound[: len(late_bound)] == late_bound:
                return rows, value
        return 0, None

    def note_settled(self, step: Hashable, ir: PromptIR, rows: int, value: Any = None) -> None:
        """Note of the IR that a pass got how many first rows it leaves as they are."""
        note = self.originals, ir.late_bound, value
        self.render_cache.note((step, "settled"), ir.history, note, rows)


Pass = Callable[[PromptIR, Target], PromptIR]
"""A pure function from one IR to the next. It adds one entry to ``meta.trace``."""


def pass_name(step: Pass) -> str:
    """Return the name of a pass in the trace: its `name`, or else the function's."""
    return str(getattr(step, "name", None) or getattr(step, "__name__", type(step).__name__))


def traced(
    name: str,
    before: PromptIR,
    after: PromptIR,
    changed: Iterable[str] = (),
    notes: Iterable[str] = (),
) -> PromptIR:
    """Return `after` with a trace entry for the pass.

    >>> traced("nothing", PromptIR(), PromptIR()).meta.trace[-1].name
    'nothing'
    """
    entry = Trace(name, before.tokens, after.tokens, tuple(changed), tuple(notes))
    return after.replace(meta=replace(after.meta, trace=(*after.meta.trace, entry)))


def was_pruned(ir: PromptIR) -> bool:
    """Return whether compiling dropped or shortened entries to meet the budget."""
    return any(trace.name == "prune" and trace.changed for trace in ir.meta.trace)
