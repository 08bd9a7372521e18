"""The sources of a conversation: what the prompt no longer shows of it.

`conversation` finds whole messages, `cut_parts` lines of texts of which the prompt shows a part, or
nothing: a capped tool result, a repetition that became a reference, a section that was cut, and the
long texts of messages that were compacted away. The windows that match come with the lines around
them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Unpack
from weakref import WeakKeyDictionary

from rehydrate import _native
from rehydrate._check import check_methods
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._native import Passages
from rehydrate.compact.signals import Deadline, model_vectors
from rehydrate.embedding.choice import Choice, choice_of
from rehydrate.entry_id import EntryId
from rehydrate.messages import PieceKind, Unit
from rehydrate.prompt.counting import counted_sections
from rehydrate.prompt.entries import COUNTER, History
from rehydrate.prompt.originals import TRUST as TOOL_TRUST
from rehydrate.prompt.request import TimeRange
from rehydrate.prompt.section import FULL_TRUST, Priority, Provenance, Section, changed
from rehydrate.prompt.sources.memory import UNRELATED
from rehydrate.prompt.sources.source import (
    Found,
    HydrationSource,
    SourceRequest,
    SourceSettings,
    in_time_range,
)
from rehydrate.prompt.splicing import Match, VisibleText, excerpt

HiddenEntries = Callable[[], tuple[History, Sequence[datetime]]]
"""Returns the entries that the prompt does not show, and the time of each."""

LIMIT = 200
"""Maximum number of units."""
MAX_TOKENS = 8_000
MIN_RELEVANCE = 0.15
"""Units with less are left out; the best match has 1.0. On LoCoMo this brings 0.962 of the evidence
for 3,150 tokens; 0.1 brings no more for 3,400 (`benches/python/needles.py`)."""


def conversation(
    hidden: Hidden | HiddenEntries,
    *,
    name: str = "conversation",
    limit: int = LIMIT,
    max_tokens: int = MAX_TOKENS,
    embedder: Any = "auto",
    embedder_timeout: float | None = None,
    place: Callable[[int], str] | None = None,
    **settings: Unpack[SourceSettings],
) -> HydrationSource:
    """Return a source of the messages that match the query, unchanged and in their order.

    ``hidden`` returns the messages and their times, as `Context.left_out` does.

    A call and its results are one section. With a `time_range` only messages of that time match; if
    none of them matches the query, all of them do. The best units are taken until their tokens
    reach ``max_tokens``; each counts a quarter of it at most, since the caller may take a part of a
    longer one.

    ``embedder`` is that of `compact_context`; a model of the caller's embeds the best fifth, for at
    most ``embedder_timeout`` seconds. ``place`` names an entry of another conversation by its
    index; reading those may take a while.
    """
    if not isinstance(hidden, Hidden):
        check_methods("hidden", hidden, "__call__", "pass a function, such as context.left_out")
    entries = hidden if isinstance(hidden, Hidden) else Hidden(hidden)
    choice = choice_of(embedder)
    priority = settings.setdefault("priority", Priority.NORMAL)

    def run(request: SourceRequest) -> Found:
        read = entries.read()
        history, times, units = read.history, read.times, read.units
        if not history.entries:
            return Found(off="the prompt shows the whole conversation")

        def section_of(index: int) -> Section:
            text = _native.unit_text(read.said, index)
            return _section(units[index], text, history, times, name, priority, place)

        deadline = None
        if embedder_timeout is not None:
            deadline = Deadline.within(embedder_timeout)
        of_units, problems = _relevances(read, request.query, choice, deadline)
        if request.time_range is not None:
            of_units = _in_time_range(request.time_range, units, times, of_units)
        relevant = (index for index in read.candidates if of_units[index] > 0)
        ranked = sorted(relevant, key=of_units.__getitem__, reverse=True)
        chosen = sorted(_best_fitting(ranked[:limit], read, max_tokens))
        sections = [
            changed(section, relevance=min(max(of_units[index], 0.0), 1.0))
            for index, section in zip(chosen, read.sections(name, chosen, section_of), strict=True)
            if section.content
        ]
        return Found(tuple(sections), degraded=problems)

    blocking = place is not None
    return HydrationSource(name, run, kind="conversation", blocking=blocking, **settings)


def _in_time_range(
    time_range: TimeRange, units: Sequence[Unit], times: Sequence[datetime], relevances: list[float]
) -> list[float]:
    """Return the relevance of each unit, 0.0 outside of the range.

    If no unit in the range is relevant, each of them gets `UNRELATED`.
    """
    is_inside = [
        any(in_time_range(times[member], time_range) for member in unit.members) for unit in units
    ]
    inside = [
        relevance if is_in else 0.0 for relevance, is_in in zip(relevances, is_inside, strict=True)
    ]
    return inside if any(inside) else [UNRELATED * is_in for is_in in is_inside]


class Hidden:
    """The entries that a prompt does not show, without the calls of lookup tools and their results.

    A prompt hides the same until the next compaction, so it is read once and searched by many
    calls. They may come from several threads; two that make a value at once make the same one.
    """

    def __init__(self, entries: HiddenEntries, lookup_tools: Collection[str] = ()) -> None:
        """Take a function that returns the entries, and the tools that look up what is stored
        elsewhere: the same content is found where it is stored, and would come twice."""
        self._entries = entries
        self._tools = frozenset(lookup_tools)
        self._last: _Read | None = None

    def read(self) -> _Read:
        """Return what is hidden now: the same object until it changes."""
        given, times = self._entries()
        last = self._last
        if last is None or last.given is not given:
            last = self._last = _Read(given, times, self._tools)
        return last


class _Read:
    """The hidden entries, and what was found out about them."""

    def __init__(
        self, given: History, times: Sequence[datetime], lookup_tools: frozenset[str]
    ) -> None:
        self.given = self.history = given
        self.times = times
        self.said, gone = _native.without_calls(given.conversation, lookup_tools)
        """The messages without these calls; entries of lookups alone are gone."""
        if gone:
            kept = [n for n in range(len(given.entries)) if n not in set(gone)]
            self.history, self.times = given.select(kept), [times[n] for n in kept]
            self.said, _ = _native.without_calls(self.history.conversation, lookup_tools)
        self.units = self.history.conversation.units
        self.candidates = [n for n, unit in enumerate(self.units) if not unit.is_system]
        """The indices of the units that may be found."""
        self._prepared: dict[bool, _native.Prepared] = {}
        self._sections: dict[tuple[str, int], Section] = {}
        self._long_texts: dict[int, tuple[PartlyShown, ...]] = {}

    def tokens(self, unit: Unit) -> int:
        """Return the tokens of a unit."""
        return sum(self.history.tokens[member] for member in unit.members)

    def prepared(self, *, embed: bool) -> _native.Prepared:
        """Return the engine's analysis; it is made at the first query."""
        if embed not in self._prepared:
            self._prepared[embed] = _native.Prepared(
                self.history.conversation,
                weight_of=_native.Scoring.named("balanced").weight_of,
                counter=COUNTER,
                embed=embed,
                calibrated=True,
                asked=True,
            )
        return self._prepared[embed]

    def sections(
        self, name: str, units: Sequence[int], make: Callable[[int], Section]
    ) -> list[Section]:
        """Return a source's section of each unit, with its tokens; without content for lookups
        alone."""
        new = [index for index in units if (name, index) not in self._sections]
        made = counted_sections([make(index) for index in new])
        self._sections.update(zip([(name, index) for index in new], made, strict=True))
        return [self._sections[name, index] for index in units]

    def long_texts(self, whole_tokens: int) -> tuple[PartlyShown, ...]:
        """Return the texts of units of more than this many tokens."""
        if whole_tokens not in self._long_texts:
            self._long_texts[whole_tokens] = tuple(self._texts_over(whole_tokens))
        return self._long_texts[whole_tokens]

    def _texts_over(self, whole_tokens: int) -> Iterator[PartlyShown]:
        for unit in self.said.units:
            if self.tokens(unit) <= whole_tokens or unit.is_system:
                continue
            for message in unit.messages:
                index = self.history.entry_index(message.index)
                for text, kind in message.pieces:
                    if kind is not PieceKind.THINKING and text.strip():
                        yield PartlyShown(
                            str(index),
                            text,
                            item=EntryId.of(index),
                            time=self.times[message.index],
                            trust=TOOL_TRUST if message.answers else FULL_TRUST,
                        )


def _relevances(
    read: _Read, query: str, embedder: Choice, deadline: Deadline | None
) -> tuple[list[float], tuple[str, ...]]:
    """Return the relevance of each unit, and the problems with the caller's model.

    A unit has the relevance of its best message, lowered where the confidence is low. Without a
    query every unit has 1.0.
    """
    if not query.strip() or not read.units:
        return [1.0] * len(read.units), ()
    conversation = read.history.conversation
    prepared = read.prepared(embed=embedder.has_builtin)
    model = embedder.model
    vectors, problems, _ = model_vectors(model, conversation, prepared, query, deadline=deadline)
    of_messages, confidence = prepared.relevances(query, vectors)
    by_message = dict(zip(conversation.indices, of_messages, strict=True))
    best = [max([by_message[member] for member in unit.members]) for unit in read.units]
    factor = min(1.0, 2 * confidence)
    return [each * factor if each >= MIN_RELEVANCE else 0.0 for each in best], problems


def _best_fitting(ranked: Sequence[int], read: _Read, max_tokens: int) -> list[int]:
    """Return the first of the ranked units, until their tokens reach the maximum."""
    chosen, remaining = [], max_tokens
    for index in ranked:
        chosen.append(index)
        remaining -= min(read.tokens(read.units[index]), max_tokens // 4)
        if remaining <= 0:
            break
    return chosen


def _section(
    unit: Unit,
    text: str,
    history: History,
    times: Sequence[datetime],
    name: str,
    priority: Priority,
    place: Callable[[int], str] | None,
) -> Section:
    indices = [history.entry_index(member) for member in unit.members]
    time = times[unit.members[0]]
    has_tool = any(message.answers for message in unit.messages)
    where = f"message {indices[0]}" if place is None else f"thread {place(indices[0])}"
    return Section(
        f"{name}:{indices[0] if place is None else place(indices[0])}",
        text,
        Provenance(
            name,
            items=tuple(map(EntryId.of if place is None else place, indices)),
            time=time,
            trust=TOOL_TRUST if has_tool else FULL_TRUST,
        ),
        priority=priority,
        title=f"{where}, {time:%Y-%m-%d %H:%M} UTC",
    )


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
    hidden: Hidden,
    *,
    handle_of: HandleOf,
    visible_text: Callable[[], VisibleText],
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

    def run(request: SourceRequest) -> Found:
        texts = (*partly_shown(), *hidden.read().long_texts(whole_tokens))
        if not texts:
            return Found(off="the prompt shows all texts of the conversation whole")
        matches_by_text: dict[int, list[Match]] = {}
        for match in _passages(hidden, texts).best(request.query):
            if _is_in_time_range(texts[match.text], request.time_range):
                matches_by_text.setdefault(match.text, []).append(match)
        visible = visible_text() if matches_by_text else VisibleText()
        sections = [
            _part_section(texts[index], matches, handle_of(texts[index]), visible, max_tokens)
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


def _part_section(
    text: PartlyShown,
    matches: Sequence[Match],
    handle: str | None,
    visible: VisibleText,
    max_tokens: int,
) -> Section | None:
    """Return the excerpt of a text as a section; None if the prompt shows all of it."""
    new = [each for each in matches if not visible.shows(text.text[slice(*each.span)].strip())]
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
            items=tuple([f"{whole}[{start}:{end}]" for start, end in spans]),
            time=text.time,
            trust=text.trust,
        ),
        relevance=min(max(matches[0].relevance, 0.0), 1.0),
        title=f"message {text.name}" if text.source == "conversation" else text.name,
        handle=handle,
        metadata={"part_of": text.item} if text.item else {},
    )


_passages_of: WeakKeyDictionary[object, tuple[Sequence[PartlyShown], Passages]] = (
    WeakKeyDictionary()
)
"""By source, the windows of the texts that it searched last; the least recently used ones first."""
_passages_lock = ForkSafeLock()


def _passages(owner: object, texts: Sequence[PartlyShown]) -> Passages:
    """Return the windows of the texts that a source searches; the last ones for the same texts."""
    with _passages_lock:
        known, passages = _passages_of.pop(owner, ((), None))
        if passages is None or known != texts:
            passages = Passages([(each.text, each.shown) for each in texts])
        _passages_of[owner] = texts, passages
        while (
            len(_passages_of) > 1
            and sum(each.characters for _, each in _passages_of.values()) > MAX_CACHED_CHARS
        ):
            del _passages_of[next(iter(_passages_of))]
    return passages
