"""The pass that caps tool results: what is long is shown in part, its whole kept under a handle."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any

from rehydrate import _engine
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.compiler.caps import LEAST_TOKENS, Capped, Caps, cap_text, fits
from rehydrate.compiler.caps.cutting import fair_share
from rehydrate.compiler.caps.results import Text, results_of
from rehydrate.compiler.counts import COUNTER
from rehydrate.compiler.originals import About, Originals, digest_of
from rehydrate.compiler.passes.changing import Change, Changes
from rehydrate.compiler.target import Target
from rehydrate.ir.prompt import PromptIR
from rehydrate.messages import Message

__all__ = ["CapToolResults", "cap_tool_results"]

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
                    for call, texts in groupby(results.texts, key=attrgetter("call"))
                    if call not in asked_for
                    for change in self._cap(list(texts), target.originals, changes)
                ]
                changes.add(results.position, changed)
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
            share = max(fair_share(sizes, limit), min(limit, LEAST_TOKENS))
        for text in texts:
            capped = self._cache.cap(text, share, self.caps)
            if capped is None:
                continue
            handle: str | None = ""
            if originals is not None:
                handle = changes.keep(originals, text.text, About(tool, text.call))
            if handle is not None:
                kept = handle or "no originals kept"
                note = f"{capped.kind}, {capped.omitted:,} tokens left out, {kept}"
                yield Change(text.path, capped.render(handle), note)


cap_tool_results = CapToolResults()
