"""The cut-parts source: lines of texts of which the prompt shows a part, or nothing.

Such texts are a capped tool result, a repetition that became a reference, a section that was cut,
and the long texts of messages that were compacted away. The windows that match the query come with
the lines around them.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import is_
from typing import Unpack

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.entry_id import EntryId
from rehydrate.messages import PieceKind
from rehydrate.prompt.counting import counted_sections
from rehydrate.prompt.entries import History
from rehydrate.prompt.originals import TRUST as TOOL_TRUST
from rehydrate.prompt.request import TimeRange
from rehydrate.prompt.section import FULL_TRUST, Priority, Provenance, Section
from rehydrate.prompt.sources.conversation import HiddenEntries, LookupFilter
from rehydrate.prompt.sources.passages import Match, Passages, excerpt
from rehydrate.prompt.sources.source import (
    Found,
    HydrationSource,
    SourceRequest,
    SourceSettings,
    in_time_range,
)
from rehydrate.prompt.splicing import VisibleText

NAME = "cut parts"
MAX_TEXTS = 3
"""Maximum number of texts that an answer has lines of."""
MAX_CACHED_CHARS = 64_000_000
"""Characters of all texts whose windows this process caches; the least recently used go first."""


@dataclass(slots=True, eq=False)
class PartlyShown:
    """A text of which the prompt shows a part, or nothing."""

    name: str
    """The number of its message, or the id of its section."""
    text: str
    shown: str = ""
    """The text that the prompt shows in its place."""
    item: str = ""
    """The item that it belongs to, as in `Provenance.items`."""
    source: str = "conversation"
    origin: str = ""
    time: datetime | None = None
    trust: float = FULL_TRUST
    handle: str | None = None
    """The handle of the whole text; None until it is first needed."""


HandleOf = Callable[[PartlyShown], str | None]
"""Stores the whole text and returns its handle; None if it cannot be stored."""


def cut_parts(
    partly_shown: Callable[[], Sequence[PartlyShown]],
    hidden_entries: HiddenEntries,
    *,
    handle_of: HandleOf,
    visible_text: Callable[[], VisibleText],
    lookup_tools: Collection[str] = (),
    max_tokens: int,
    whole_tokens: int,
    **settings: Unpack[SourceSettings],
) -> HydrationSource:
    """Return a source of the lines that match the query, with their numbers and the handle.

    ``visible_text`` returns what the prompt shows; its lines are not repeated. Each text brings at
    most ``max_tokens``. Of the hidden entries, those of more than ``whole_tokens`` are searched:
    no answer has room for the whole of them. With a `time_range` only texts of that time are
    searched.
    """
    settings.setdefault("priority", Priority.NORMAL)
    cache = _PassageCache()
    long_texts = _LongTexts(LookupFilter(frozenset(lookup_tools)), whole_tokens)

    def run(request: SourceRequest) -> Found:
        texts = (*partly_shown(), *long_texts.of(*hidden_entries()))
        if not texts:
            return Found(off="the prompt shows all texts of the conversation whole")
        matches_by_text: dict[int, list[Match]] = {}
        for match in cache.passages(texts).best(request.query):
            if _is_in_time_range(texts[match.text], request.time_range):
                matches_by_text.setdefault(match.text, []).append(match)
        visible = visible_text() if matches_by_text else VisibleText.of(())
        sections = [
            _section(texts[index], matches, handle_of(texts[index]), visible, max_tokens)
            for index, matches in list(matches_by_text.items())[:MAX_TEXTS]
        ]
        return Found(tuple(counted_sections([each for each in sections if each is not None])))

    return HydrationSource(NAME, run, kind="conversation", blocking=False, **settings)


def _is_in_time_range(text: PartlyShown, time_range: TimeRange | None) -> bool:
    if time_range is None:
        return True
    if text.time is None:
        return time_range == (None, None)
    return in_time_range(text.time, time_range)


def _section(
    text: PartlyShown,
    matches: Sequence[Match],
    handle: str | None,
    visible: VisibleText,
    max_tokens: int,
) -> Section | None:
    """Return the excerpt of a text as a section; None if the prompt shows all of it."""
    new = [match for match in matches if text.text[slice(*match.span)].strip() not in visible.text]
    content, spans = excerpt(text.text, new, max_tokens, visible.lines)
    if not spans:
        return None
    whole = handle or text.item
    return Section(
        f"{NAME}:{text.name}",
        content,
        Provenance(
            text.source,
            origin=text.origin,
            items=tuple([f"{whole}[{span.start}:{span.end}]" for span in spans]),
            time=text.time,
            trust=text.trust,
        ),
        relevance=min(max(matches[0].relevance, 0.0), 1.0),
        title=f"message {text.name}" if text.source == "conversation" else text.name,
        handle=handle,
        metadata={"part_of": text.item} if text.item else {},
    )


class _LongTexts:
    """The texts of hidden entries that are too long for any answer."""

    def __init__(self, lookups: LookupFilter, whole_tokens: int) -> None:
        self._lookups = lookups
        self._whole_tokens = whole_tokens
        self._last: tuple[History | None, tuple[PartlyShown, ...]] = (None, ())

    def of(self, history: History, times: Sequence[datetime]) -> tuple[PartlyShown, ...]:
        if self._last[0] is not history:
            texts = self._read(*self._lookups.without_lookups(history, times))
            self._last = history, tuple(texts)
        return self._last[1]

    def _read(self, history: History, times: Sequence[datetime]) -> Iterator[PartlyShown]:
        if sum(history.tokens) <= self._whole_tokens:
            return
        for unit in history.conversation.units:
            tokens = sum(history.tokens[member] for member in unit.members)
            if tokens <= self._whole_tokens or unit.is_system:
                continue
            for message in self._lookups.unit_without_lookups(unit).messages:
                index = history.entry_index(message.index)
                for piece in message.pieces:
                    if piece.kind is not PieceKind.THINKING and piece.text.strip():
                        yield PartlyShown(
                            str(index),
                            piece.text,
                            item=EntryId.of(index),
                            time=times[message.index],
                            trust=TOOL_TRUST if message.answers else FULL_TRUST,
                        )


class _PassageCache:
    """The windows of the texts that were searched last."""

    def __init__(self) -> None:
        self._texts: tuple[PartlyShown, ...] = ()
        self._passages: Passages | None = None

    def passages(self, texts: Sequence[PartlyShown]) -> Passages:
        """Return the windows of these texts, from the cache if they are the same objects."""
        passages, cached = self._passages, self._texts
        is_cached = len(cached) == len(texts) and all(map(is_, cached, texts))
        if passages is None or not is_cached:
            passages = Passages([(each.text, each.shown) for each in texts])
            self._texts, self._passages = tuple(texts), passages
        _mark_used(self, passages.characters)
        return passages

    def clear(self) -> None:
        """Drop the windows, to make room for those of others."""
        self._texts, self._passages = (), None


_caches: OrderedDict[int, tuple[weakref.ref[_PassageCache], int]] = OrderedDict()
_caches_lock = ForkSafeLock()


def _mark_used(cache: _PassageCache, characters: int) -> None:
    """Note that a cache is in use, and clear the least recently used ones beyond the limit."""
    with _caches_lock:
        _caches[id(cache)] = weakref.ref(cache), characters
        _caches.move_to_end(id(cache))
        while len(_caches) > 1 and sum(size for _, size in _caches.values()) > MAX_CACHED_CHARS:
            _, (reference, _) = _caches.popitem(last=False)
            if (old := reference()) is not None:
                old.clear()
