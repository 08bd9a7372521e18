"""cut parts: what stands in texts of this conversation of which the prompt shows a part or nothing.

A result that was capped, a repetition that became a reference, a section that was cut, and the long
texts of messages that were compacted away: the windows that match come with the lines around them.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Unpack

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.entry_id import EntryId
from rehydrate.messages import PieceKind
from rehydrate.prompt.counting import counted_sections
from rehydrate.prompt.entries import History
from rehydrate.prompt.originals import TRUST as TOOL_TRUST
from rehydrate.prompt.request import TimeRange
from rehydrate.prompt.section import FULL_TRUST, Priority, Provenance, Section
from rehydrate.prompt.sources.conversation import LeftOut, Lookups
from rehydrate.prompt.sources.passages import Match, Passages, excerpt
from rehydrate.prompt.sources.source import Found, HydrationSource, SourceRequest, SourceSettings

NAME = "cut parts"
MOST_TEXTS = 3
"""So many texts an answer brings lines of."""
MOST_CHARACTERS = 64_000_000
"""Of all texts whose windows this process holds; those asked for longest ago go first."""


@dataclass(slots=True, eq=False)
class PartlyShown:
    """A text that the prompt shows in part, or not at all."""

    name: str
    """Of what it stands in: the number of a message, the id of a section."""
    text: str
    shown: str = ""
    """What the prompt has in its place."""
    item: str = ""
    """Of what it stands in, as `Provenance.items` name it."""
    source: str = "conversation"
    origin: str = ""
    time: datetime | None = None
    trust: float = FULL_TRUST
    handle: str | None = None
    """Where the whole is, once somebody had to know."""


HandleOf = Callable[[PartlyShown], str | None]
"""Keeps the whole and says where; None where it is not kept."""


def cut_parts(
    partly_shown: Callable[[], Sequence[PartlyShown]],
    left_out: LeftOut,
    *,
    handle_of: HandleOf,
    seen: Callable[[], str],
    lookups: Collection[str] = (),
    most_tokens: int,
    whole_tokens: int,
    name: str = NAME,
    **settings: Unpack[SourceSettings],
) -> HydrationSource:
    """The lines that match the query, word for word, with their numbers and the handle.

    ``seen`` gives what the prompt shows. ``most_tokens`` are brought of each text. Of what was left
    out, pieces of more than ``whole_tokens`` are looked through, since they never come whole. With
    a `time_range` only texts of that time are.
    """
    settings.setdefault("priority", Priority.NORMAL)
    index = _Index()
    long = _LongTexts(Lookups(frozenset(lookups)), whole_tokens)

    def run(request: SourceRequest) -> Found:
        texts = (*partly_shown(), *long.of(*left_out()))
        if not texts:
            return Found(off="the prompt shows all texts of the conversation whole")
        best: dict[int, list[Match]] = {}
        for match in index.of(texts).best(request.query):
            if _is_meant(texts[match.text], request.time_range):
                best.setdefault(match.text, []).append(match)
        visible = seen() if best else ""
        lines = frozenset(visible.split("\n"))
        sections = [
            _section(texts[place], matches, handle_of(texts[place]), (visible, lines), most_tokens)
            for place, matches in list(best.items())[:MOST_TEXTS]
        ]
        return Found(tuple(counted_sections([one for one in sections if one is not None])))

    return HydrationSource(name, run, kind="conversation", blocking=False, **settings)


def _is_meant(text: PartlyShown, time_range: TimeRange | None) -> bool:
    if time_range is None:
        return True
    after, before = time_range
    if text.time is None:
        return after is None and before is None
    return (after is None or text.time >= after) and (before is None or text.time < before)


def _section(
    of: PartlyShown,
    matches: Sequence[Match],
    handle: str | None,
    seen: tuple[str, Collection[str]],
    most_tokens: int,
) -> Section | None:
    visible, lines = seen
    fresh = [match for match in matches if of.text[slice(*match.span)].strip() not in visible]
    content, spans = excerpt(of.text, fresh, most_tokens, lines)
    if not spans:
        return None
    whole = handle or of.item
    return Section(
        f"{NAME}:{of.name}",
        content,
        Provenance(
            of.source,
            origin=of.origin,
            items=tuple([f"{whole}[{span.start}:{span.end}]" for span in spans]),
            time=of.time,
            trust=of.trust,
        ),
        relevance=min(max(matches[0].worth, 0.0), 1.0),
        title=f"message {of.name}" if of.source == "conversation" else of.name,
        handle=handle,
        metadata={"part_of": of.item} if of.item else {},
    )


class _LongTexts:
    """The texts of messages that were left out and are too long to come whole."""

    def __init__(self, lookups: Lookups, whole_tokens: int) -> None:
        self._lookups = lookups
        self._whole_tokens = whole_tokens
        self._last: tuple[History | None, tuple[PartlyShown, ...]] = (None, ())

    def of(self, history: History, times: Sequence[datetime]) -> tuple[PartlyShown, ...]:
        if self._last[0] is not history:
            self._last = history, tuple(self._read(*self._lookups.of(history, times)))
        return self._last[1]

    def _read(self, history: History, times: Sequence[datetime]) -> Iterator[PartlyShown]:
        if sum(history.tokens) <= self._whole_tokens:
            return
        for unit in history.conversation.units:
            tokens = sum(history.tokens[member] for member in unit.members)
            if tokens <= self._whole_tokens or unit.is_system:
                continue
            for message in self._lookups.unit(unit).messages:
                place = history.entry_index(message.index)
                for piece in message.pieces:
                    if piece.kind is not PieceKind.THINKING and piece.text.strip():
                        yield PartlyShown(
                            str(place),
                            piece.text,
                            item=EntryId.of(place),
                            time=times[message.index],
                            trust=TOOL_TRUST if message.answers else FULL_TRUST,
                        )


class _Index:
    """The windows of the last texts that were looked through."""

    def __init__(self) -> None:
        self._texts: tuple[PartlyShown, ...] = ()
        self._passages: Passages | None = None

    def of(self, texts: Sequence[PartlyShown]) -> Passages:
        """Those of these texts, the last ones where they are the same."""
        passages, known = self._passages, self._texts
        is_known = len(known) == len(texts) and all(map(_is_same, known, texts))
        if passages is None or not is_known:
            passages = Passages([(each.text, each.shown) for each in texts])
            self._texts, self._passages = tuple(texts), passages
        _hold(self, passages.characters)
        return passages

    def forget(self) -> None:
        """Others need the room."""
        self._texts, self._passages = (), None


def _is_same(one: object, other: object) -> bool:
    return one is other


_held: OrderedDict[int, tuple[weakref.ref[_Index], int]] = OrderedDict()
_held_lock = ForkSafeLock()


def _hold(index: _Index, characters: int) -> None:
    """Note that these windows are in use, and let go of those that were not for longest."""
    with _held_lock:
        _held[id(index)] = weakref.ref(index), characters
        _held.move_to_end(id(index))
        while len(_held) > 1 and sum(size for _, size in _held.values()) > MOST_CHARACTERS:
            _, (reference, _) = _held.popitem(last=False)
            if (old := reference()) is not None:
                old.forget()
