"""cap_tool_results: shows long tool results in part, and stores the whole under a handle."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any

from rehydrate import _engine
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.prompt.caps import MIN_TOKENS, Capped, Caps, cap_text, fits
from rehydrate.prompt.counting import COUNTER
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.originals import About, Originals, text_digest
from rehydrate.prompt.passes.text_changes import TextChange, TextChanges
from rehydrate.prompt.target import Target
from rehydrate.prompt.tool_results import Text, results_of

__all__ = ["CapToolResults", "cap_tool_results"]


NAME = "cap_tool_results"
_MAX_CACHED = 256


class _LRUCache:
    """The results that were used last, by key, for any number of threads."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._results: OrderedDict[Any, Any] = OrderedDict()

    def get(self, key: Any, compute: Callable[[], Any]) -> Any:
        """Return the result of this key; `compute` makes it where it is missing."""
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
        result = compute()
        with self._lock:
            self._results[key] = result
            if len(self._results) > _MAX_CACHED:
                self._results.popitem(last=False)
        return result


class _Cache:
    """Token counts and capped texts, by the text's digest: each turn compiles the history again."""

    def __init__(self) -> None:
        self._counts = _LRUCache()
        self._capped = _LRUCache()

    def tokens(self, text: str) -> int:
        """Return the tokens of a text. Counting megabytes takes longer than everything else."""
        count: int = self._counts.get(text_digest(text), lambda: _engine.count(text, COUNTER))
        return count

    def cap(self, text: Text, limit: int, caps: Caps) -> Capped | None:
        """Return the text within the limit; None where it stays whole."""
        if fits(text.text, limit):
            return None
        tool, rows, log_lines = text.tool, caps.rows, caps.log_lines
        key = text_digest(text.text), limit, tool, rows, log_lines
        capped: Capped | None = self._capped.get(
            key, lambda: cap_text(text.text, limit, tool=tool, rows=rows, log_lines=log_lines)
        )
        return capped


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
    name: str = NAME
    _cache: _Cache = field(default_factory=_Cache, repr=False, compare=False)

    def __call__(self, ir: PromptIR, target: Target) -> PromptIR:
        """Return the IR with capped tool results, and a trace of them."""
        history = ir.history
        changes = TextChanges(self.name)
        limits = [*self.caps.by_tool.values(), self.caps.default_tokens]
        least = min([tokens for tokens in limits if tokens is not None], default=None)
        if history.entries and least is not None:
            start, _ = target.settled_rows(self, ir)
            late_bound_calls = {section.tool_call_id for section in ir.late_bound}
            counts = history.tokens

            def is_long(position: int, texts: Sequence[str]) -> bool:
                if counts and counts[position] <= least:
                    return False
                return not fits("".join(texts), least)

            for results in results_of(history, start, is_long):
                capped = [
                    change
                    for call, texts in groupby(results.texts, key=attrgetter("tool_call_id"))
                    if call not in late_bound_calls
                    for change in self._cap(list(texts), target.originals, changes)
                ]
                changes.add(results.position, capped)
            target.note_settled(self, ir, changes.first_position(ir))
        return changes.apply(ir)

    def _cap(
        self, texts: Sequence[Text], originals: Originals | None, changes: TextChanges
    ) -> Iterator[TextChange]:
        """Cap the texts of one result, which share its limit."""
        tool = texts[0].tool
        limit = self.caps.tokens(tool)
        if limit is None:
            return
        share = limit
        if len(texts) > 1:
            sizes = [self._cache.tokens(text.text) for text in texts]
            if sum(sizes) <= limit:
                return
            share = max(_engine.fair_share(sizes, limit), min(limit, MIN_TOKENS))
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
                yield TextChange(text.path, capped.render(handle), note)


cap_tool_results = CapToolResults()
