"""The conversation as it grows: each entry is read and counted once, when it comes.

PartlyShownTexts: the texts of entries of which the prompt shows a part, the rest being cut.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

from rehydrate import formats
from rehydrate.entry_id import EntryId
from rehydrate.errors import InvalidMessageError, RehydrateError
from rehydrate.formats._reading import as_sequence
from rehydrate.formats.rendering import RENDERERS
from rehydrate.messages import Message, PieceKind, Provider
from rehydrate.prompt.counting import entry_tokens
from rehydrate.prompt.entries import History
from rehydrate.prompt.originals import TRUST as TOOL_TRUST
from rehydrate.prompt.section import FULL_TRUST
from rehydrate.prompt.sources.cut_parts import PartlyShown


class EntriesMark(NamedTuple):
    """How far the entries went at a time."""

    length: int
    turn: int | None
    said_last: str


class Entries:
    """What was added, in order: nothing is changed, and taken out only with a prompt that nobody
    got."""

    __slots__ = ("_dicts", "_entries", "_own", "_said_last", "_times", "_tokens", "format", "turn")

    def __init__(self, format: str) -> None:  # noqa: A002  the field's word
        """Start empty."""
        self.format = format
        self._entries: list[Any] = []
        self._dicts: list[Any] = []  # the same as they are sent, an SDK's objects as dicts
        provider = RENDERERS.get(cast(Provider, format))
        self._own = provider.own if provider else _as_it_is
        self._tokens: list[int] = []
        self._times = array("d")
        self._said_last = ""
        self.turn: int | None = None
        """Where the user spoke last."""

    def __len__(self) -> int:
        """How many there are."""
        return len(self._entries)

    def extend(self, entries: Sequence[Any], at: float) -> None:
        """Add entries, all or none; raises InvalidMessageError for what is no message.

        ``at`` is when they were said, in seconds since 1970, unless they say so themselves.
        """
        added = tuple(as_sequence(entries))
        try:
            read, dicts = formats.read(added, self.format)
        except InvalidMessageError:
            formats.check_own(added, self.format)  # it may be known whose entry it is
            raise
        formats.check_own(dicts, self.format)
        tokens = entry_tokens(read, len(added))
        last = next((each for each in reversed(read.messages) if each.is_user_turn), None)
        if last is not None:
            self.turn, self._said_last = len(self._entries) + last.index, last.text
        self._times.extend([_time_of(entry, at) for entry in dicts])
        self._entries += added
        self._dicts += map(self._own, dicts)
        self._tokens += tokens

    def mark(self) -> EntriesMark:
        """How far they go now."""
        return EntriesMark(len(self._entries), self.turn, self._said_last)

    def back_to(self, mark: EntriesMark) -> None:
        """Take out what was added since."""
        for column in (self._entries, self._dicts, self._tokens, self._times):
            del column[mark.length :]
        self.turn, self._said_last = mark.turn, mark.said_last

    def since(self, place: int) -> History:
        """Those from a place on."""
        return self.at_places(range(place, len(self._entries)))

    def at_places(self, places: Iterable[int]) -> History:
        """Those at these places, as they came."""
        places = tuple(places)
        return History(
            tuple([self._dicts[place] for place in places]),
            self.format,
            tuple([self._tokens[place] for place in places]),
            places,
        )

    def with_texts_of(self, places: Sequence[int], shown: History) -> History:
        """What is shown of these places, with the texts that came; thinking that was left out stays
        so."""
        without = formats.FORMATS[self.format].without_thinking
        came = self.at_places(places)
        longer = [
            position
            for position, (entry, now) in enumerate(zip(came.entries, shown.entries, strict=True))
            if entry is not now and without([entry])[0] != now
        ]
        if not longer:
            return shown
        entries, tokens = list(shown.entries), list(shown.tokens)
        for position in longer:
            entries[position], tokens[position] = came.entries[position], came.tokens[position]
        return History(tuple(entries), shown.format, tuple(tokens), came.entry_indices)

    def left_out(self, visible: Iterable[int]) -> tuple[History, list[datetime]]:
        """Those that stand at none of these places, and when each was said."""
        shown = set(visible)
        places = [place for place in range(len(self._entries)) if place not in shown]
        return self.at_places(places), [self.said_at(place) for place in places]

    def tokens_since(self, place: int) -> int:
        """Of the entries from a place on."""
        return sum(self._tokens[place:])

    def said_last(self) -> str:
        """The words of the last user turn; "" where there is none."""
        return self._said_last

    def at(self, place: int) -> Any:
        """The entry at a place."""
        return self._dicts[place]

    def said_at(self, place: int) -> datetime:
        """When the entry at a place was said."""
        return datetime.fromtimestamp(self._times[place], UTC)

    def all(self, until: int | None = None) -> list[Any]:
        """Every entry, in order, or the first so many."""
        return self._entries[:until]


def _as_it_is(entry: Any) -> Any:
    return entry


def _time_of(entry: Any, default: float) -> float:
    """When the entry says that it was said, as a line of a transcript does; else the default."""
    said = entry.get("timestamp") if isinstance(entry, Mapping) else None
    if not isinstance(said, str):
        return default
    try:
        time = datetime.fromisoformat(said)
        # In UTC, where the first day of the year 1 may be one of the year 0.
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        return default


class PartlyShownTexts:
    """Those of one conversation; what is the same object as last time is not read again."""

    __slots__ = ("_by_place", "_last")

    def __init__(self) -> None:
        """None yet."""
        self._by_place: dict[int, tuple[Any, tuple[PartlyShown, ...]]] = {}
        self._last: tuple[History | None, tuple[PartlyShown, ...]] = (None, ())

    def of(
        self, shown: History, entry_at: Callable[[int], Any], said_at: Callable[[int], datetime]
    ) -> tuple[PartlyShown, ...]:
        """Of each entry that is not shown as it came, the texts that differ."""
        if self._last[0] is shown:
            return self._last[1]
        known, self._by_place = self._by_place, {}
        for position, entry in enumerate(shown.entries):
            place = shown.entry_index(position)
            original = entry_at(place)
            if entry is original:
                continue
            found = known.get(place)
            if found is None or found[0] is not entry:
                differing = _differing(original, entry, shown.format, place, said_at(place))
                found = entry, tuple(differing)
            self._by_place[place] = found
        texts = tuple([text for _, each in self._by_place.values() for text in each])
        self._last = shown, texts
        return texts


def _differing(
    original: Any,
    entry: Any,
    format: str,  # noqa: A002  the field's word
    place: int,
    time: datetime,
) -> Iterator[PartlyShown]:
    try:
        was, now = (formats.parse([one], format).messages for one in (original, entry))
    except RehydrateError:  # a line that means something beside others only
        return
    if not was:
        return
    texts, shown = _texts(was), _texts(now)
    pairs: Sequence[tuple[str, str]]
    if len(texts) == len(shown):
        pairs = list(zip(texts, shown, strict=True))
    else:
        pairs = [(text, "\n".join(shown)) for text in texts if text not in shown]
    trust = TOOL_TRUST if any(message.answers for message in was) else FULL_TRUST
    for text, part in pairs:
        if text != part:
            yield PartlyShown(
                str(place),
                text,
                part,
                item=EntryId.of(place),
                time=time,
                trust=trust,
            )


def _texts(messages: Sequence[Message]) -> list[str]:
    pieces = [piece for message in messages for piece in message.pieces]
    return [piece.text for piece in pieces if piece.kind is not PieceKind.THINKING]
