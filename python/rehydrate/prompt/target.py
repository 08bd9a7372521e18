"""Target, Pass and RenderCache: the settings of a compilation, its steps, and what it remembers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from rehydrate.compact.outline import OutlineSize
from rehydrate.embedding.choice import BUILTIN, Choice
from rehydrate.messages import Provider
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import USUAL_MINIMUM_PREFIX, PromptIR, Segment
from rehydrate.prompt.originals import Originals
from rehydrate.prompt.section import Section, Trace

T = TypeVar("T")


class RenderCache:
    """What was found out about the rows of a conversation, for prompts that extend one another.

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
    """Where a pass stores the whole of a text that it shortens. None: nowhere."""
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
    """What is known of the last prompt's rows."""

    def keep(self, text: str) -> str | None:
        """Store a text that is left out, and return its handle; None where it is not stored.

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
