"""Tool results shown in part: long ones by their caps, and those that repeat what is above.

The engine finds the kind of a long text (JSON, log, diff, code, text) and cuts it; it finds the
runs of lines that an earlier entry has (`_native.Echoes`), and holds the texts of the history, not
copies of them. `cap_tool_results` and `remove_echoes` are the passes: they store the whole of each
text under a handle. `TextChanges` are what a pass puts in place of texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import _native, formats
from rehydrate._check import check_whole
from rehydrate._text import safe_error_text
from rehydrate.entry_id import EntryId
from rehydrate.messages import Message
from rehydrate.prompt.counting import prompt_tokens, upper_bound
from rehydrate.prompt.entries import COUNTER
from rehydrate.prompt.ir import PromptIR, Target, traced
from rehydrate.prompt.originals import About, Originals
from rehydrate.prompt.request import MAX_TOKENS

if TYPE_CHECKING:
    from rehydrate.formats._reading import Path


DEFAULT_TOKENS = 8_000
MIN_TOKENS = 400
ROWS = 100
LOG_LINES = 200
NOTICE_TOKENS = 128
"""Maximum tokens of a notice, with a handle of 128 characters. They are reserved, so that a text
with its notice is within the cap and is never capped again."""


class Kind(StrEnum):
    """The kind of a text."""

    JSON = "json"
    JSON_LINES = "json_lines"
    DIFF = "diff"
    MATCHES = "matches"
    LIST = "list"
    CODE = "code"
    LOG = "log"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Caps:
    """Maximum tokens (o200k_base) of a tool's result, its notice included.

    >>> caps = Caps(by_tool={"Read": 16_000, "get_schema": None})
    >>> caps.tokens("Read"), caps.tokens("Bash"), caps.tokens("get_schema")
    (16000, 8000, None)
    """

    default_tokens: int | None = DEFAULT_TOKENS
    by_tool: Mapping[str, int | None] = field(default_factory=dict, hash=False)
    """Caps by the name of the tool; None: never capped."""
    rows: int = ROWS
    """Maximum number of rows of a list that is cut, from its start."""
    log_lines: int = LOG_LINES
    """Maximum number of last lines of a log that is cut."""

    def __post_init__(self) -> None:
        """Check every field; raises InvalidArgumentError."""
        caps = {"default_tokens": self.default_tokens} | {
            f"by_tool[{tool!r}]": tokens for tool, tokens in self.by_tool.items()
        }
        for name, tokens in caps.items():
            check_whole(f"caps: {name}", tokens, MIN_TOKENS, MAX_TOKENS, or_none=True)
        check_whole("caps: rows", self.rows, 1)
        check_whole("caps: log_lines", self.log_lines, 1)

    def tokens(self, tool: str = "") -> int | None:
        """Return the cap of a tool's results; None: never capped."""
        return self.by_tool.get(tool, self.default_tokens)


class Capped(NamedTuple):
    """A text that is shown in part."""

    body: str
    """The shown part."""
    kind: Kind
    omitted: int
    """Number of omitted tokens."""

    def render(self, handle: str = "") -> str:
        """Return the body with its notice."""
        return self.body + notice(self.omitted, handle)


def cap_text(
    text: str, limit: int, *, tool: str = "", rows: int = ROWS, log_lines: int = LOG_LINES
) -> Capped | None:
    """Return the text in at most `limit` tokens, its notice included; None if it fits whole.

    A capped text fits, so capping it again changes nothing, whatever it says. Takes time in
    proportion to the text.

    >>> capped = cap_text("word " * 10_000, 8_000)
    >>> print(capped.render()[-91:].strip())
    [truncated: 2129 tokens omitted. call again with stricter filters to see specific parts.]
    """
    capped = _native.cap_text(text, limit, NOTICE_TOKENS, COUNTER, tool, rows, log_lines)
    return capped and Capped(capped[0], Kind(capped[1]), capped[2])


def notice(omitted: int, handle: str = "") -> str:
    """Return the notice that `omitted` tokens are missing, and the handle of the whole.

    Notices are never read back: one that is in some content is content like any other.

    >>> print(notice(1_000).strip())
    [truncated: 1000 tokens omitted. call again with stricter filters to see specific parts.]
    >>> print(notice(1_000, "orig_a").splitlines()[-1])
    [kept whole as orig_a]
    """
    return _native.notice(omitted, handle)


@dataclass(frozen=True, slots=True)
class CapToolResults:
    """The pass that caps the tool results of a history.

    `cap_tool_results` has the default caps. What the model asked for by `request_context` has a
    budget of its own, so it stays whole. The cap of any other result depends on that result alone,
    so the prompt of one turn extends the prompt of the turn before. Entries that came in are never
    changed: a capped one is a new object with the same ids, in the same position. Media, and blocks
    that are not plain text, stay as they are.
    """

    caps: Caps = field(default_factory=Caps)
    name: str = "cap_tool_results"

    def __call__(self, ir: PromptIR, target: Target) -> PromptIR:
        """Return the IR with capped tool results, and a trace of them."""
        history = ir.history
        changes = TextChanges(self.name, ir, target)
        limits = [*self.caps.by_tool.values(), self.caps.default_tokens]
        least = min([tokens for tokens in limits if tokens is not None], default=None)
        if history.entries and least is not None:
            start, _ = target.settled_rows(self, ir)
            rows = history.rows_from(start)
            long = _native.long_results(rows, start, history.tokens, least)
            if long:
                capped = _native.capped_results(
                    history.rows_from(0),  # all of it, for the names of the tools
                    long,
                    history.entries,
                    formats.FORMATS[history.format].places,
                    self.caps,
                    COUNTER,
                    MIN_TOKENS,
                    NOTICE_TOKENS,
                )
                changes.shorten(capped)
            target.note_settled(self, ir, changes.first_position())
        return changes.applied()


cap_tool_results = CapToolResults()


MAX_HANDLE_CHARS = 128


class TextChanges:
    """The changes of one pass to the entries of a history."""

    def __init__(self, pass_name: str, ir: PromptIR, target: Target) -> None:
        """Start without changes."""
        self._pass_name, self._ir, self._target = pass_name, ir, target
        self._texts: dict[int, dict[Path, str]] = {}
        """By an entry's position, its new texts by their paths."""
        self._notes: list[str] = []
        self._degraded: list[str] = []

    def shorten(self, found: Iterable[tuple[int, Sequence[_native.ShortenedText]]]) -> None:
        """Shorten these texts of the entries at these positions, and keep the whole of each.

        One that cannot be kept stays whole; `applied` reports that. What the model asked for by
        `request_context` has a budget of its own, so it stays whole too.
        """
        late_bound_calls = {section.tool_call_id for section in self._ir.late_bound}
        originals = self._target.originals
        for position, texts in found:
            for each in texts:
                if each.call in late_bound_calls:
                    continue
                handle = "" if originals is None else self._kept(originals, each)
                if handle is not None:
                    self._texts.setdefault(position, {})[each.path] = each.shown(handle)
                    name, kept = self._ir.history.entry_id(position), handle or "no originals kept"
                    self._notes.append(f"{name} {each.note()}, {kept}")

    def _kept(self, originals: Originals, shortened: _native.ShortenedText) -> str | None:
        """Store the whole of a text and return its handle; None if it cannot be stored."""
        try:
            about = About(shortened.tool, shortened.call)
            handle = originals.put(shortened.text, about=about)
            if not isinstance(handle, str) or not 0 < len(handle) <= MAX_HANDLE_CHARS:
                raise ValueError(f"the handle isn't a string of 1 to {MAX_HANDLE_CHARS} characters")
        except Exception as error:
            problem = (
                f"{self._pass_name}: {safe_error_text(error, 'originals')}; the result stays whole"
            )
            if problem not in self._degraded:
                self._degraded.append(problem)
            return None
        return handle

    def first_position(self) -> int:
        """Return the position of the first entry that changes; after the last one if none does.

        It is 0 if a text could not be stored: the next prompt tries again.
        """
        if self._degraded:
            return 0
        return min(self._texts, default=len(self._ir.history.entries))

    def applied(self, *notes: str) -> PromptIR:
        """Return the IR with these changes and a trace of them. Changed entries are new objects."""
        ir, history = self._ir, self._ir.history
        entries: dict[int, Any] = {}
        messages: dict[int, Message] = {}
        if self._texts:
            format_ = formats.FORMATS[history.format]
            by_index = {each.index: each for each in history.messages_from(min(self._texts))}
            for position, texts in self._texts.items():
                message, entry = by_index[position], history.entries[position]
                places = format_.places(entry, position)
                pieces = [
                    piece if path is None else piece._replace(text=texts.get(path, piece.text))
                    for piece, path in zip(message.pieces, places, strict=True)
                ]
                messages[position] = message._replace(pieces=tuple(pieces))
                entries[position] = format_.replace(entry, texts)
            counts = _native.message_tokens([*messages.values()], ir.counter)
            tokens = dict(zip(messages, counts, strict=True))
            history = history.with_changed_entries(entries, messages, tokens)
        meta = replace(ir.meta, degraded=(*ir.meta.degraded, *self._degraded))
        ids = [history.entry_id(position) for position in self._texts]
        after = ir.replace(history=history, meta=meta)
        return traced(self._pass_name, ir, after, ids, (*notes, *self._notes, *self._degraded))


LEAST_CHARACTERS = 1_000
"""A shorter repetition stays, since a reference costs tokens too."""


@dataclass(frozen=True, slots=True)
class RemoveEchoes:
    """The pass that removes from tool results what their call or an earlier entry has already.

    One line replaces a run of lines that is above, in a tool's input, a result or a message. It
    says where the run is, and has the handle of the whole result, so the text can be read back
    even if that entry is left out later. Two lines are equal if they differ only in the number that
    a tool put before them. A reference never leads to a text that an earlier pass has cut, nor to
    another reference. Without originals nothing is removed. Nothing is removed from results that
    the model asked for by `request_context`.

    The pass runs before `prune` and after it. If a prompt must be pruned even without its echoes,
    it is pruned with them: otherwise a name could be lost together with the entry that a reference
    leads to. The second run then removes the echoes from what is kept.
    """

    least_characters: int = LEAST_CHARACTERS
    name: str = "remove_echoes"
    _echoes: _native.Echoes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Start without a conversation; raises InvalidArgumentError for what isn't a length."""
        check_whole("remove_echoes: least_characters", self.least_characters, 0, MAX_TOKENS)
        object.__setattr__(self, "_echoes", _native.Echoes(self.least_characters))

    def __call__(self, ir: PromptIR, target: Target) -> PromptIR:
        """Return the IR without echoes, and a trace of it."""
        prune_traces = [trace for trace in ir.meta.trace if trace.name == "prune"]
        if prune_traces and not any(trace.changed for trace in prune_traces):
            return ir  # the first run has removed them
        after = self._without_echoes(ir, target)
        tokens = upper_bound(prompt_tokens(after), target.provider)
        if prune_traces or after.history is ir.history or tokens <= ir.budget.soft_tokens:
            return after
        return traced(self.name, ir, ir, (), ["left to what is kept: the prompt is pruned first"])

    def _without_echoes(self, ir: PromptIR, target: Target) -> PromptIR:
        changes = TextChanges(self.name, ir, target)
        history = ir.history
        if target.originals is None:
            return changes.applied("nothing is removed: there is no place to keep the originals")
        if not history.entries:
            return changes.applied()
        changed_ids = {name for trace in ir.meta.trace for name in trace.changed}
        indices = enumerate(history.indices) if changed_ids else ()
        changed = {n for n, index in indices if EntryId.of(index) in changed_ids}
        settled, known = (0, None) if changed_ids else target.settled_rows(self, ir)
        places = formats.FORMATS[history.rows.format].places
        rest = history.entries, places, changed, history.is_by_row
        hashes, echoes = self._echoes.find(history.rows_from(settled), settled, known, *rest)
        if hashes is None:
            hashes, echoes = self._echoes.find(history.rows_from(0), 0, None, *rest)
        changes.shorten(echoes)
        same = min(changes.first_position(), min(changed, default=len(history.entries)))
        target.note_settled(self, ir, same, hashes)
        return changes.applied()


remove_echoes = RemoveEchoes()
