"""Reports of an IR: its table (`explain`), its changes (`diff`), and the laws it breaks (`verify`).

    print(ir.explain())
    print(ir.diff(other))
    for broken in ir.verify():
        print(broken)        # two sections have the id 'notes' (once)

Every IR that is sent must keep the laws. It keeps them after all passes. Before the passes it may
break those of budget and order, because the passes establish these.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rehydrate import _native
from rehydrate._text import plural, shown_in_notebooks
from rehydrate.errors import InvalidMessageError, Violation
from rehydrate.formats import validate

if TYPE_CHECKING:
    from rehydrate.prompt.request import Budget
    from rehydrate.prompt.section import PromptContent, SourceReport, Trace


class PromptRow(NamedTuple):
    """A tool, a section, a run of history entries, or something that was left out."""

    kind: Literal["tool", "section", "history", "late_bound", "cut", "dropped"]
    """``late_bound``: a section that the model asked for; the row of the history contains its
    tokens too. ``cut``: the missing part of a section."""
    id: str
    """``tools.grep``, a section's id, ``history[4]``, ``history[4-17]``, or ``history[4..17]``
    where entries between are missing."""
    source: str
    tokens: int
    reason: str = ""
    """Why it is kept, cut or dropped."""
    priority: str = ""
    mode: str = ""
    stability: str = ""
    position: str = ""
    trust: float = 1.0
    relevance: float | None = None
    min_tokens: int = 0
    breakpoint: bool = False
    """Whether the provider caches the prefix that ends here."""
    handle: str | None = None
    """The handle of the whole text."""
    first: int = 0
    """The position in the IR of a tool, a section or the first entry of a run. For dropped entries
    it is the index in the caller's list."""
    last: int = 0
    """The same for the last entry of a run."""
    entries: int = 1
    """The number of entries in a run."""

    @property
    def is_kept(self) -> bool:
        """Whether it is in the prompt."""
        return self.kind not in ("cut", "dropped")


@shown_in_notebooks
class PromptExplanation(NamedTuple):
    """Rows in the order in which a provider reads them, then what was left out.

    With the reports of the sources and the traces of the passes.
    """

    rows: tuple[PromptRow, ...]
    tokens: int
    before_tokens: int
    budget: Budget
    counter: str
    sources: tuple[SourceReport, ...]
    trace: tuple[Trace, ...]
    degraded: tuple[str, ...]

    @property
    def by_source(self) -> dict[str, int]:
        """The tokens of each source that are in the prompt, in the order of the prompt."""
        sums: dict[str, int] = {}
        for row in self.rows:
            if row.is_kept:
                sums[row.source] = sums.get(row.source, 0) + row.tokens
            if row.kind == "late_bound":
                sums["history"] = sums.get("history", 0) - row.tokens
        return sums

    def to_dict(self) -> dict[str, Any]:
        """Return the table as JSON values."""
        from rehydrate.prompt.serialize import plain

        values: dict[str, Any] = plain(self)
        return values

    def __str__(self) -> str:
        """Return the budget, the rows, the sources and the passes, as plain text."""
        return _native.explanation_text(self)


def explain(ir: PromptContent) -> PromptExplanation:
    """Return the IR as a table."""
    meta = ir.meta
    return PromptExplanation(
        tuple(_native.prompt_rows(ir)),
        ir.tokens,
        meta.before_tokens,
        ir.budget,
        ir.counter,
        meta.sources,
        meta.trace,
        meta.degraded,
    )


@shown_in_notebooks
class Why(NamedTuple):
    """Whether a prompt shows an entry or a section, and why; ``str()`` of it is a sentence."""

    id: str
    """``history[4]``, a section's, or the name of a source."""
    shown: Literal["whole", "in part", "not"]
    reason: str
    tokens: int = 0
    """Those that the prompt shows of it."""
    omitted_tokens: int = 0
    """Those that it does not show, if they are known."""
    handle: str | None = None
    """The handle of the whole text, for `fetch_whole` and `originals`."""

    def __str__(self) -> str:
        """Return the id, what is shown of it, the tokens and the reason."""
        shown = "not shown" if self.shown == "not" else f"shown {self.shown}"
        omitted = f", {self.omitted_tokens:,} omitted" if self.omitted_tokens else ""
        whole = f"the whole is {self.handle}" if self.handle else ""
        about = "; ".join(filter(None, [self.reason, whole]))
        line = f"{self.id}: {shown} ({plural(self.tokens, 'token')}{omitted})"
        return f"{line}: {about}" if about else line


Kind = Literal["added", "removed", "changed", "moved"]
_SIGNS: dict[Kind, str] = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}
_MAX_LINES = 20
"""The text shows at most this many changes of sections, of tools and of entries."""


class Change(NamedTuple):
    """One change of a section, a tool or an entry."""

    id: str
    """A section's id, ``tools.<name>``, or ``history[12]``."""
    kind: Kind
    before_tokens: int = 0
    after_tokens: int = 0
    fields: tuple[str, ...] = ()
    """The fields that changed, where `kind` is "changed"."""

    def __str__(self) -> str:
        """Return the change as one line."""
        before, after = self.before_tokens, self.after_tokens
        sizes = {"added": f"+{after:,} tokens", "removed": f"-{before:,} tokens"}
        change = sizes.get(self.kind, f"{before:,} -> {after:,} tokens")
        tokens = change if before != after else ""
        details = "; ".join(filter(None, [", ".join(self.fields), tokens]))
        return f"{_SIGNS[self.kind]} {self.id} {self.kind}" + (f": {details}" if details else "")


@shown_in_notebooks
class IRDiff(NamedTuple):
    """The changes from one IR to another. It is false if there are none."""

    before_tokens: int
    after_tokens: int
    sections: tuple[Change, ...] = ()
    tools: tuple[Change, ...] = ()
    history: tuple[Change, ...] = ()
    breakpoints_added: tuple[str, ...] = ()
    breakpoints_removed: tuple[str, ...] = ()
    request: tuple[str, ...] = ()
    """The fields of the request that differ: ``query``, ``budget`` ..."""

    def __bool__(self) -> bool:
        """Whether anything changed."""
        return any(self[2:])

    def __str__(self) -> str:
        """Return the tokens, then a line for each change."""
        head = f"{self.before_tokens:,} -> {self.after_tokens:,} tokens"
        if not self:
            return f"{head}; nothing changed"
        lines = [f"request.{name} changed" for name in self.request]
        for changes in (self.sections, self.tools, self.history):
            lines += map(str, changes[:_MAX_LINES])
            if len(changes) > _MAX_LINES:
                lines.append(f"  and {len(changes) - _MAX_LINES:,} more")
        lines += [f"breakpoint +{mark}" for mark in self.breakpoints_added]
        lines += [f"breakpoint -{mark}" for mark in self.breakpoints_removed]
        return "\n  ".join([head, *lines])


def diff(before: PromptContent, after: PromptContent) -> IRDiff:
    """Return the changes from `before` to `after`; the field ``meta`` is not compared."""
    sections, tools, entries, request = _native.prompt_changes(before, after)
    return IRDiff(
        before.tokens,
        after.tokens,
        tuple(sections),
        tuple(tools),
        tuple(entries),
        tuple(mark for mark in after.breakpoints if mark not in before.breakpoints),
        tuple(mark for mark in before.breakpoints if mark not in after.breakpoints),
        tuple(request),
    )


class Law(StrEnum):
    """The name of a law."""

    COUNTED = "counted"
    """Every section, tool and entry of the history has a token count."""
    BUDGET = "budget"
    """The prompt is within the hard budget. It is over the soft one only if what must stay is
    larger, or if ``meta.outcome`` says why."""
    PRESENT = "present"
    """The system prompt, the last user turn and all critical sections are there."""
    TOOL_PAIRS = "tool_pairs"
    """Every tool call is with its results, as the provider requires."""
    PROVIDER_RULES = "provider_rules"
    """The history breaks no other rule of the provider."""
    STATIC_FIRST = "static_first"
    """Static sections come before dynamic ones."""
    BREAKPOINTS = "breakpoints"
    """There are at most 4 breakpoints, each once, in the order of the prompt, each on a static
    end."""
    ONCE = "once"
    """Ids are unique. No item, and no part of one, is in two sections, late-bound ones
    included. A late-bound section is in a result that the history has."""
    PROVENANCE = "provenance"
    """All content has a provenance."""
    TRUST = "trust"
    """A derived section has no more trust than the least trusted of its parents."""
    ROLES = "roles"
    """Content that is not fully trusted is never in the system role."""


class BrokenLaw(NamedTuple):
    """One law that one part of the prompt breaks."""

    law: Law
    subject: str
    """The part: a section's id, ``history[12]``, ``tools``, or "" for the whole prompt."""
    message: str

    def __str__(self) -> str:
        """Return one line: the part, its problem, the law."""
        return f"{self.message} ({self.law.value})"


def verify(ir: PromptContent, *, violations: Sequence[Violation] | None = None) -> list[BrokenLaw]:
    """Return the broken laws, in the order of the laws; empty for a lawful IR.

    Nearly all the time goes into reading and validating the history. It is read once; a caller that
    has just validated it passes the ``violations`` of ``rehydrate.validate``, without those of the
    caller's own input.
    """
    if violations is None:
        try:
            violations = validate(ir.history.entries, ir.history.format)
        except InvalidMessageError as error:
            violations = [Violation(error.index or 0, "no_message", str(error))]
    broken = _native.broken_laws(ir, [*violations])
    return [BrokenLaw(Law(law), part, message) for law, part, message in broken]
