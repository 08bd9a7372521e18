"""The sources of a conversation: what the prompt no longer shows of it.

`conversation` finds whole messages, `cut_parts` lines of texts of which the prompt shows a part, or
nothing: a capped tool result, a repetition that became a reference, a section that was cut, and the
long texts of messages that were compacted away. The windows that match come with the lines around
them.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import is_
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.compact.signals import Deadline, Embedded, model_vectors, vector_arguments
from rehydrate.embedding.choice import Choice, choice_of
from rehydrate.entry_id import EntryId
from rehydrate.messages import Message, PieceKind, Unit
from rehydrate.prompt.counting import counted_sections
from rehydrate.prompt.entries import History
from rehydrate.prompt.originals import TRUST as TOOL_TRUST
from rehydrate.prompt.request import TimeRange
from rehydrate.prompt.section import FULL_TRUST, Priority, Provenance, Section, changed
from rehydrate.prompt.sources.memory import UNRELATED
from rehydrate.prompt.sources.passages import (
    MIN_CONFIDENCE,
    Match,
    Passages,
    excerpt,
    prepare,
    relevances,
)
from rehydrate.prompt.sources.source import (
    Found,
    HydrationSource,
    SourceRequest,
    SourceSettings,
    in_time_range,
)
from rehydrate.prompt.splicing import VisibleText

if TYPE_CHECKING:
    from rehydrate import _native
    from rehydrate.prompt.request import TimeRange


HiddenEntries = Callable[[], tuple[History, Sequence[datetime]]]
"""Returns the entries that the prompt does not show, and the time of each."""

LIMIT = 200
"""Maximum number of units."""
MAX_TOKENS = 8_000
MIN_RELEVANCE = 0.15
"""Units with less are left out; the best match has 1.0. On LoCoMo this brings 0.962 of the evidence
for 3,150 tokens; 0.1 brings no more for 3,400 (`benches/python/needles.py`)."""
MIN_COSINE = 0.35
"""With a cosine from here up, of the caller's model, a query is found although few of its words
occur here. Of questions about other conversations with such words 2% reach it, of a conversation's
own questions three quarters (MiniLM)."""


def conversation(
    hidden_entries: HiddenEntries,
    *,
    name: str = "conversation",
    limit: int = LIMIT,
    lookup_tools: Collection[str] = (),
    max_tokens: int = MAX_TOKENS,
    embedder: Any = "auto",
    embedder_timeout: float | None = None,
    place: Callable[[int], str] | None = None,
    **settings: Unpack[SourceSettings],
) -> HydrationSource:
    """Return a source of the messages that match the query, unchanged and in their order.

    A call and its results are one section. With a `time_range` only messages of that time match; if
    none of them matches the query, all of them do. The best units are taken until their tokens
    reach ``max_tokens``; each counts a quarter of it at most, since the caller may take a part of a
    longer one.

    ``lookup_tools`` are tools that look up what is stored elsewhere. Their calls and results are
    left out: the same content is found where it is stored, and would come twice. ``embedder`` is
    that of `compact_context`; a model of the caller's embeds the best fifth, for at most
    ``embedder_timeout`` seconds. ``place`` names an entry of another conversation by its index;
    reading those may take a while.
    """
    choice = choice_of(embedder)
    priority = settings.setdefault("priority", Priority.NORMAL)
    lookups = LookupFilter(frozenset(lookup_tools))
    last: _Searched | None = None

    def section_of(unit: Unit, history: History, times: Sequence[datetime]) -> Section:
        unit = lookups.unit_without_lookups(unit)
        return _section(unit, history, times, name, priority, place)

    def run(request: SourceRequest) -> Found:
        nonlocal last
        history, times = lookups.without_lookups(*hidden_entries())
        if not history.entries:
            return Found(off="the prompt shows the whole conversation")
        searched = last  # one read and one write: calls may come from several threads
        if searched is None or searched.history is not history:
            last = searched = _Searched(history, times, section_of, embed=choice.has_builtin)
        units = searched.units
        deadline = None
        if embedder_timeout is not None:
            deadline = Deadline.within(embedder_timeout)
        of_units, problems = _relevances(searched, request.query, choice, deadline)
        if request.time_range is not None:
            of_units = _in_time_range(request.time_range, units, times, of_units)
        ranked = sorted(
            (index for index in searched.candidates if of_units[index] > 0),
            key=lambda index: -of_units[index],
        )
        chosen = sorted(_best_fitting(ranked[:limit], units, history, max_tokens))
        sections = [
            changed(section, relevance=min(max(of_units[index], 0.0), 1.0))
            for index, section in zip(chosen, searched.sections(chosen), strict=True)
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


class _Searched:
    """A history that is searched: the engine's analysis, and a section for each unit found so far.

    A prompt hides the same until the next compaction, so the calls of many turns search one
    history. They may come from several threads; two that make a value at once make the same one.
    """

    def __init__(
        self,
        history: History,
        times: Sequence[datetime],
        section_of: Callable[[Unit, History, Sequence[datetime]], Section],
        *,
        embed: bool,
    ) -> None:
        self.history = history
        self.conversation = history.conversation
        self.units = self.conversation.units
        self.candidates = [n for n, unit in enumerate(self.units) if not unit.is_system]
        """The indices of the units that may be found."""
        self.indices = [message.index for message in self.conversation.messages]
        self._times = times
        self._section_of = section_of
        self._embed = embed
        self._prepared: _native.Prepared | None = None
        self._sections: dict[int, Section] = {}

    @property
    def prepared(self) -> _native.Prepared:
        """The analysis; it is made at the first query."""
        if self._prepared is None:
            self._prepared = prepare(self.conversation, embed=self._embed)
        return self._prepared

    def sections(self, units: Sequence[int]) -> list[Section]:
        """Return the section of each unit, with its tokens; without content for lookups alone."""
        new = [index for index in units if index not in self._sections]
        made = [self._section_of(self.units[index], self.history, self._times) for index in new]
        self._sections.update(zip(new, counted_sections(made), strict=True))
        return [self._sections[index] for index in units]


def _relevances(
    searched: _Searched,
    query: str,
    embedder: Choice,
    deadline: Deadline | None,
) -> tuple[list[float], tuple[str, ...]]:
    """Return the relevance of each unit, and the problems with the caller's model.

    A unit has the relevance of its best message, lowered where the confidence is low. Without a
    query every unit has 1.0.
    """
    if not query.strip() or not searched.units:
        return [1.0] * len(searched.units), ()
    conversation, prepared = searched.conversation, searched.prepared
    embedded = Embedded()
    if embedder.model is not None:
        embedded = model_vectors(
            embedder.model,
            conversation,
            prepared,
            query,
            calibrated=True,
            embed_all=False,
            deadline=deadline,
        )
    vectors, problems = embedded
    of_messages, confidence = relevances(prepared, query, **vector_arguments(vectors))
    if vectors is not None and (cosine := vectors.query_similarity()) >= MIN_COSINE:
        confidence = max(confidence, cosine)  # found in other words
    if confidence < MIN_CONFIDENCE:
        return [0.0] * len(searched.units), problems
    by_message = dict(zip(searched.indices, of_messages, strict=True))
    best = [max([by_message[member] for member in unit.members]) for unit in searched.units]
    factor = min(1.0, 2 * confidence)
    return [each * factor if each >= MIN_RELEVANCE else 0.0 for each in best], problems


def _best_fitting(
    ranked: Sequence[int], units: Sequence[Unit], history: History, max_tokens: int
) -> list[int]:
    """Return the first of the ranked units, until their tokens reach the maximum."""
    chosen, remaining = [], max_tokens
    for index in ranked:
        chosen.append(index)
        tokens = sum(history.tokens[member] for member in units[index].members)
        remaining -= min(tokens, max_tokens // 4)
        if remaining <= 0:
            break
    return chosen


def _section(
    unit: Unit,
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
        "\n\n".join(filter(None, map(message_text, unit.messages))),
        Provenance(
            name,
            items=tuple(map(EntryId.of if place is None else place, indices)),
            time=time,
            trust=TOOL_TRUST if has_tool else FULL_TRUST,
        ),
        priority=priority,
        title=f"{where}, {time:%Y-%m-%d %H:%M} UTC",
    )


def message_text(message: Message) -> str:
    """Return the role, the texts and the calls of a message; thinking is left out."""
    pieces = [piece for piece in message.pieces if piece.kind != PieceKind.THINKING]
    texts = [
        f"[calls {piece.text}]" if piece.kind == PieceKind.TOOL_INPUT else piece.text
        for piece in pieces
        if piece.text.strip()
    ]
    if message.images:  # a section holds no media, but its reader must know that there were some
        many = "s" if message.images > 1 else ""
        texts.append(f"[{message.images} image{many} or document{many} stood here]")
    return f"{message.role}: " + "\n".join(texts) if texts else ""


_TimedHistory: TypeAlias = tuple[History, Sequence[datetime]]


class LookupFilter:
    """Removes the calls of lookup tools, and their results, from a conversation."""

    def __init__(self, tool_names: frozenset[str]) -> None:
        """Remove the calls of the tools with these names."""
        self._tool_names = tool_names
        self._last: tuple[History, _TimedHistory] | None = None

    def without_lookups(self, history: History, times: Sequence[datetime]) -> _TimedHistory:
        """Return the entries, and their times, without those that hold nothing but lookups."""
        if not self._tool_names:
            return history, times
        last = self._last
        if last is None or last[0] is not history:  # cached: reading it takes longest
            last = self._last = (history, self._filtered(history, times))
        return last[1]

    def unit_without_lookups(self, unit: Unit) -> Unit:
        """Return the unit without its lookups and their results.

        A call or a result is removed only if it is a piece of its own.
        """
        ids = {call for message in unit.messages for call in self._lookup_ids(message)}
        if not ids:
            return unit
        return unit._replace(messages=tuple([_without_calls(each, ids) for each in unit.messages]))

    def _filtered(self, history: History, times: Sequence[datetime]) -> _TimedHistory:
        removed: set[int] = set()
        for unit in history.conversation.units:
            rest = self.unit_without_lookups(unit)
            if rest is not unit and not any(map(_has_content, rest.messages)):
                removed.update(unit.members)
        if not removed:
            return history, times
        kept = [index for index in range(len(history.entries)) if index not in removed]
        return history.select(kept), [times[index] for index in kept]

    def _lookup_ids(self, message: Message) -> list[str]:
        """Return the ids of the lookups that the message calls."""
        inputs = [piece.text for piece in message.pieces if piece.kind is PieceKind.TOOL_INPUT]
        if len(inputs) != len(message.calls):
            return []
        calls = zip(message.calls, inputs, strict=True)
        return [id_ for id_, text in calls if text.partition(" ")[0] in self._tool_names]


def _without_calls(message: Message, ids: set[str]) -> Message:
    """Return the message without the pieces of these calls, and of their results."""
    removed: set[int] = set()
    for kind, piece_ids in (
        (PieceKind.TOOL_INPUT, message.calls),
        (PieceKind.TOOL_RESULT, message.answers),
    ):
        indices = [index for index, piece in enumerate(message.pieces) if piece.kind is kind]
        if len(indices) == len(piece_ids):
            removed |= {index for index, id_ in zip(indices, piece_ids, strict=True) if id_ in ids}
    pieces = [piece for index, piece in enumerate(message.pieces) if index not in removed]
    return message._replace(pieces=tuple(pieces))


def _has_content(message: Message) -> bool:
    """Whether the message has an image, or a text that is not thinking."""
    pieces = [piece for piece in message.pieces if piece.kind is not PieceKind.THINKING]
    return message.images > 0 or any(piece.text.strip() for piece in pieces)


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
