"""Changes to texts of a history: originals kept first, entries made anew, and the trace of it.

The pass that caps tool results: what is long is shown in part, its whole kept under a handle.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import _engine, formats
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._text import words_of
from rehydrate.messages import Message
from rehydrate.prompt.caps import MIN_TOKENS, Capped, Caps, cap_text, fits
from rehydrate.prompt.caps.cutting import MAX_HANDLE_CHARS, fair_share
from rehydrate.prompt.caps.results import Text, results_of
from rehydrate.prompt.counting import COUNTER
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.originals import About, Originals, digest_of
from rehydrate.prompt.target import Target, traced

if TYPE_CHECKING:
    from rehydrate.formats._reading import Path

__all__ = ["CapToolResults", "cap_tool_results"]


class Change(NamedTuple):
    """A text that is to stand in a place of an entry, and what is said of that in the trace."""

    path: Path
    text: str
    note: str


class Changes:
    """What one pass does to the entries of a history."""

    def __init__(self, name: str) -> None:
        """Nothing yet, by the pass of this name."""
        self._name = name
        self._by_position: dict[int, Sequence[Change]] = {}
        self._degraded: list[str] = []

    def keep(self, originals: Originals, text: str, about: About) -> str | None:
        """The handle of the text; None where it is not kept, and so has to stay as it is."""
        try:
            handle = originals.put(text, about=about)
            if not isinstance(handle, str) or not 0 < len(handle) <= MAX_HANDLE_CHARS:
                raise ValueError(f"the handle is no string of 1 to {MAX_HANDLE_CHARS} characters")
        except Exception as error:
            said = f"{self._name}: {words_of(error, 'originals')}; the result stays whole"
            if said not in self._degraded:
                self._degraded.append(said)
            return None
        return handle

    def add(self, position: int, changes: Sequence[Change]) -> None:
        """Note the changes to the entry at this position."""
        if changes:
            self._by_position[position] = changes

    def apply(
        self, ir: PromptIR, messages: Sequence[Message], notes: Sequence[str] = ()
    ) -> PromptIR:
        """The IR with these changes and a trace of them; `messages` are its history's, read."""
        history = ir.history
        said = list(notes)
        ids = []
        if self._by_position:
            entries = {}
            by_index = {message.index: message for message in messages}
            made = []
            for position, changes in self._by_position.items():
                texts = {change.path: change.text for change in changes}
                ids.append(history.entry_id(position))
                said += [f"{ids[-1]} {change.note}" for change in changes]
                message, entry = by_index[position], history.entries[position]
                places = formats.FORMATS[history.format].places(entry, position)
                pieces = [
                    piece if path is None else piece._replace(text=texts.get(path, piece.text))
                    for piece, path in zip(message.pieces, places, strict=True)
                ]
                made.append(message._replace(pieces=tuple(pieces)))
                entries[position] = formats.FORMATS[history.format].replace(entry, texts)
            counts = _engine.message_tokens(made, ir.counter) if history.tokens else []
            history = history.reworded(
                entries,
                {message.index: message for message in made},
                {message.index: count for message, count in zip(made, counts, strict=False)},
            )
        meta = replace(ir.meta, degraded=(*ir.meta.degraded, *self._degraded))
        after = ir.replace(history=history, meta=meta)
        return traced(self._name, ir, after, ids, (*said, *self._degraded))


NAME = "cap_tool_results"
_REMEMBERED = 256


class _Cache:
    """What capping made of a text, by the text's digest: history is compiled turn after turn."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._counts: OrderedDict[bytes, int] = OrderedDict()
        self._capped: OrderedDict[tuple[Any, ...], Capped | None] = OrderedDict()

    def tokens(self, text: str) -> int:
        """Of a text; counting megabytes anew in every turn would take longer than the rest."""
        digest = digest_of(text)
        with self._lock:
            if digest in self._counts:
                self._counts.move_to_end(digest)
                return self._counts[digest]
        count = _engine.count(text, COUNTER)
        with self._lock:
            self._counts[digest] = count
            if len(self._counts) > _REMEMBERED:
                self._counts.popitem(last=False)
        return count

    def cap(self, text: Text, limit: int, caps: Caps) -> Capped | None:
        if fits(text.text, limit):
            return None
        key = (digest_of(text.text), limit, text.tool, caps.rows, caps.log_lines)
        with self._lock:
            if key in self._capped:
                self._capped.move_to_end(key)
                return self._capped[key]
        rows, log_lines = caps.rows, caps.log_lines
        capped = cap_text(text.text, limit, tool=text.tool, rows=rows, log_lines=log_lines)
        with self._lock:
            self._capped[key] = capped
            if len(self._capped) > _REMEMBERED:
                self._capped.popitem(last=False)
        return capped


@dataclass(frozen=True, slots=True)
class CapToolResults:
    """Caps the tool results of a history; `cap_tool_results` is this with the default caps.

    What the model asked for by `request_context` had a budget of its own and stays whole. What
    becomes of any other result depends on it alone, so the prompt of one turn extends that of the
    turn before. The entries that came in are never changed: one that is capped is a new object,
    with the same ids, in the same place. Media, and blocks that are not plain text, stay as they
    are.
    """

    caps: Caps = field(default_factory=Caps)
    name: str = NAME
    _cache: _Cache = field(default_factory=_Cache, repr=False, compare=False)

    def __call__(self, ir: PromptIR, target: Target) -> PromptIR:
        """The IR with its tool results capped, and a trace of it."""
        history = ir.history
        changes = Changes(self.name)
        messages: Sequence[Message] = ()
        limits = [*self.caps.by_tool.values(), self.caps.default_tokens]
        least = min([tokens for tokens in limits if tokens is not None], default=None)
        if history.entries and least is not None:
            messages = history.messages
            asked_for = {section.carrier for section in ir.late_bound}
            counts = history.tokens

            def is_long(position: int, texts: Sequence[str]) -> bool:
                if counts and counts[position] <= least:
                    return False
                return not fits("".join(texts), least)

            for results in results_of(messages, history.entries, history.format, is_long):
                changed = [
                    change
                    for call, texts in groupby(results.texts, key=attrgetter("tool_call_id"))
                    if call not in asked_for
                    for change in self._cap(list(texts), target.originals, changes)
                ]
                changes.add(results.entry_index, changed)
        return changes.apply(ir, messages)

    def _cap(
        self, texts: Sequence[Text], originals: Originals | None, changes: Changes
    ) -> Iterator[Change]:
        """What is to stand in the place of the texts of one result."""
        tool = texts[0].tool
        limit = self.caps.tokens(tool)
        if limit is None:
            return
        share = limit
        if len(texts) > 1:
            sizes = [self._cache.tokens(text.text) for text in texts]
            if sum(sizes) <= limit:
                return
            share = max(fair_share(sizes, limit), min(limit, MIN_TOKENS))
        for text in texts:
            capped = self._cache.cap(text, share, self.caps)
            if capped is None:
                continue
            handle: str | None = ""
            if originals is not None:
                handle = changes.keep(originals, text.text, About(tool, text.tool_call_id))
            if handle is not None:
                kept = handle or "no originals kept"
                note = f"{capped.kind}, {capped.omitted:,} tokens left out, {kept}"
                yield Change(text.path, capped.render(handle), note)


cap_tool_results = CapToolResults()
