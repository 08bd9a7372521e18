"""Entries: the conversation as it grows; each entry is read and counted once, when it is added.

PartlyShownTexts: the texts of entries of which the prompt shows only a part. EntryOriginals: whole
texts by their handles. Remainders: what an answer had no room for, by its handle.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, NamedTuple, cast

from rehydrate import formats
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.entry_id import EntryId
from rehydrate.errors import InvalidMessageError, RehydrateError, UnknownHandleError
from rehydrate.formats._reading import as_sequence
from rehydrate.formats.rendering import RENDERERS
from rehydrate.messages import PROVIDER_OF, Message, PieceKind, Provider
from rehydrate.prompt.counting import entry_tokens
from rehydrate.prompt.entries import History
from rehydrate.prompt.originals import TRUST as TOOL_TRUST, About, HeldOriginals, handle_of_text
from rehydrate.prompt.section import FULL_TRUST, Section
from rehydrate.prompt.sources.cut_parts import PartlyShown


class StoredEntry(NamedTuple):
    """An entry as a thread's log has it."""

    entry: Any
    time: float
    """In seconds since 1970."""
    tokens: int


class Entries:
    """All entries that were added, in order. They are never changed, and removed only with a
    prompt that nobody received."""

    __slots__ = (
        "_dicts",
        "_entries",
        "_own",
        "_taken_back",
        "_times",
        "_tokens",
        "_turns",
        "format",
        "unknown",
    )

    def __init__(self, format: str) -> None:  # noqa: A002  the field's word
        """Start empty."""
        self.format = format
        self._entries: list[Any] = []
        self._dicts: list[Any] = []  # the same as they are sent, an SDK's objects as dicts
        provider = RENDERERS.get(cast(Provider, format))
        self._own = provider.own if provider else _as_it_is
        self._tokens: list[int] = []
        self._times = array("d")
        self._turns: list[int] = []  # the indices of the user's turns
        self._taken_back: tuple[int, frozenset[int]] = (0, frozenset())
        self.unknown: dict[str, int] = {}
        """Types of blocks that no format knows, and how many were added."""

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def extend(self, entries: Sequence[Any], at: float) -> None:
        """Add all entries or none; raises InvalidMessageError for what is not a message.

        ``at`` is their time in seconds since 1970, unless they have one of their own.
        """
        self._extend(entries, None, at)

    def _extend(self, entries: Sequence[Any], tokens: Sequence[int] | None, at: float) -> None:
        added = tuple(as_sequence(entries))
        try:
            read, dicts = formats.read(added, self.format)
        except InvalidMessageError:
            formats.check_own(added, self.format)  # it may name the provider whose entry it is
            raise
        formats.check_own(dicts, self.format)
        counted = entry_tokens(read, len(added)) if tokens is None else tokens
        start = len(self._entries)
        self._turns += [start + each.index for each in read.messages if each.is_user_turn]
        for name, count in read.unknown.items():
            self.unknown[name] = self.unknown.get(name, 0) + count
        self._times.extend([_time_of(entry, at) for entry in dicts])
        self._entries += added
        self._dicts += map(self._own, dicts)
        self._tokens += counted

    def restore(self, stored: Sequence[StoredEntry]) -> None:
        """Start with entries that were added before, by another process; they are not counted
        again."""
        if stored:
            self._extend([each.entry for each in stored], [each.tokens for each in stored], 0.0)
            self._times = array("d", [each.time for each in stored])

    def back_to(self, length: int) -> None:
        """Remove what was added after there were so many entries."""
        for column in (self._entries, self._dicts, self._tokens, self._times):
            del column[length:]
        del self._turns[bisect_left(self._turns, length) :]
        self._taken_back = 0, frozenset()

    @property
    def turn(self) -> int | None:
        """The index of the last user turn that was not taken back."""
        if not self._turns:
            return None
        gone = self.taken_back
        return next((index for index in reversed(self._turns) if index not in gone), None)

    @property
    def taken_back(self) -> frozenset[int]:
        """The indices of the entries that the user took back, and of those that were there before:
        a transcript may have branches, and lines again."""
        if self.format not in PROVIDER_OF:
            return frozenset()
        count, found = self._taken_back
        if count != len(self._dicts):
            found = formats.taken_back(self._dicts, self.format)
            found |= formats.repeated(self._dicts, self.format)
            self._taken_back = len(self._dicts), found
        return found

    def since(self, index: int) -> History:
        """Return the entries from an index on, without those that were taken back."""
        return self.between(index, len(self._entries))

    def between(self, start: int, end: int) -> History:
        """Return the entries from an index to another, without those that were taken back."""
        gone = self.taken_back
        return self.at_indices([index for index in range(start, end) if index not in gone])

    def at_indices(self, indices: Iterable[int]) -> History:
        """Return the entries at these indices, as they were added."""
        indices = tuple(indices)
        return History(
            tuple([self._dicts[index] for index in indices]),
            self.format,
            tuple([self._tokens[index] for index in indices]),
            indices,
        )

    def with_texts_of(self, indices: Sequence[int], shown: History) -> History:
        """Return the shown entries with the texts that were added; thinking that was dropped stays
        dropped.

        ``indices`` are those of the shown entries.
        """
        without = formats.FORMATS[self.format].without_thinking
        added = self.at_indices(indices)
        shortened = [
            position
            for position, (entry, now) in enumerate(zip(added.entries, shown.entries, strict=True))
            if entry is not now and without([entry])[0] != now
        ]
        if not shortened:
            return shown
        entries, tokens = list(shown.entries), list(shown.tokens)
        for position in shortened:
            entries[position], tokens[position] = added.entries[position], added.tokens[position]
        return History(tuple(entries), shown.format, tuple(tokens), added.entry_indices)

    def left_out(self, visible: Iterable[int]) -> tuple[History, list[datetime]]:
        """Return the entries at none of these indices, and the time of each."""
        shown = {*visible, *self.taken_back}
        indices = [index for index in range(len(self._entries)) if index not in shown]
        return self.at_indices(indices), [self.time_at(index) for index in indices]

    def tokens_since(self, index: int) -> int:
        """Return the tokens of the entries from an index on."""
        return sum(self._tokens[index:])

    def last_user_text(self) -> str:
        """Return the text of the last user turn; "" where there is none."""
        turn = self.turn
        if turn is None:
            return ""
        return formats.parse([self._dicts[turn]], self.format).messages[0].text

    def at(self, index: int) -> Any:
        """Return the entry at an index."""
        return self._dicts[index]

    def time_at(self, index: int) -> datetime:
        """Return the time of the entry at an index."""
        return datetime.fromtimestamp(self._times[index], UTC)

    def tokens_at(self, index: int) -> int:
        """Return the tokens of the entry at an index."""
        return self._tokens[index]

    def seconds_at(self, index: int) -> float:
        """Return the time of the entry at an index in seconds since 1970."""
        return self._times[index]

    def all(self, until: int | None = None) -> list[Any]:
        """Return all entries, in order, or those before the index ``until``."""
        return self._entries[:until]


def _as_it_is(entry: Any) -> Any:
    return entry


def _time_of(entry: Any, default: float) -> float:
    """Return the entry's own time, as a line of a transcript has it; else the default."""
    timestamp = entry.get("timestamp") if isinstance(entry, Mapping) else None
    if not isinstance(timestamp, str):
        return default
    try:
        time = datetime.fromisoformat(timestamp)
        # In UTC, where the first day of the year 1 may be one of the year 0.
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        return default


class PartlyShownTexts:
    """One conversation's. An entry that is the same object as last time is not read again."""

    __slots__ = ("_by_index", "_last")

    def __init__(self) -> None:
        """Start with nothing read."""
        self._by_index: dict[int, tuple[Any, tuple[PartlyShown, ...]]] = {}
        self._last: tuple[History | None, tuple[PartlyShown, ...]] = (None, ())

    def of(self, shown: History, entries: Entries) -> tuple[PartlyShown, ...]:
        """Return the texts that differ, of each entry that is not shown as it was added."""
        if self._last[0] is shown:
            return self._last[1]
        known, self._by_index = self._by_index, {}
        for position, entry in enumerate(shown.entries):
            index = shown.entry_index(position)
            original = entries.at(index)
            if entry is original:
                continue
            found = known.get(index)
            if found is None or found[0] is not entry:
                differing = _differing(original, entry, shown.format, index, entries.time_at(index))
                found = entry, tuple(differing)
            self._by_index[index] = found
        texts = tuple([text for _, each in self._by_index.values() for text in each])
        self._last = shown, texts
        return texts


def _differing(
    original: Any,
    entry: Any,
    format: str,  # noqa: A002  the field's word
    index: int,
    time: datetime,
) -> Iterator[PartlyShown]:
    try:
        was, now = (formats.parse([one], format).messages for one in (original, entry))
    except RehydrateError:  # a line that has a meaning only with others
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
                str(index),
                text,
                part,
                item=EntryId.of(index),
                time=time,
                trust=trust,
            )


def _texts(messages: Sequence[Message]) -> list[str]:
    pieces = [piece for message in messages for piece in message.pieces]
    return [piece.text for piece in pieces if piece.kind is not PieceKind.THINKING]


PREFIX = "rest_"
MAX_REMAINDERS = 16
"""The oldest go first. What is in them can be found again by asking again."""


class Remainders:
    """Sections by handle."""

    def __init__(self, stored: Mapping[str, tuple[Section, ...]] | None = None) -> None:
        """Start with those that the thread's log has, the oldest first."""
        self._kept: OrderedDict[str, tuple[Section, ...]] = OrderedDict(stored or {})
        self._drop_oldest()
        self._saved = set(self._kept)

    def put(self, sections: Sequence[Section]) -> str:
        """Keep sections in their order and return their handle; the same ones have the same.

        >>> Remainders().put([])
        'rest_7d64c5272e'
        """
        named = "\0".join(f"{section.id}\0{section.content}" for section in sections)
        hashed = blake2b(named.encode("utf-8", "surrogatepass"), digest_size=5)
        handle = PREFIX + hashed.hexdigest()
        self._kept.pop(handle, None)  # to the end; a call at the same time misses it at worst
        self._kept[handle] = tuple(sections)
        self._drop_oldest()
        return handle

    def get(self, handle: str) -> tuple[Section, ...]:
        """Return what is kept under the handle; raises UnknownHandleError."""
        if handle not in self._kept:
            raise UnknownHandleError(handle, "remainders")
        return self._kept[handle]

    def take(self, others: Remainders) -> None:
        """Keep those of others too."""
        self._kept |= others._kept
        self._drop_oldest()

    def unsaved(self) -> dict[str, tuple[Section, ...]]:
        """Return what a log must have for these handles to work after a restart."""
        return {name: kept for name, kept in self._kept.items() if name not in self._saved}

    def note_saved(self, handles: Iterable[str]) -> None:
        """Note that the log has them."""
        self._saved = {*self._saved, *handles} & self._kept.keys()

    def _drop_oldest(self) -> None:
        while len(self._kept) > MAX_REMAINDERS:
            self._kept.popitem(last=False)


_LEAST_CHARACTERS = 64
"""No text so short is shown in part."""


class EntryOriginals:
    """The originals of one stored thread, for any number of threads of the process.

    Most texts that are shortened are texts of the thread's own entries. They are not stored again:
    they are found by their hashes, which are made when somebody asks for one. Any other text is
    `unsaved` until the thread's log has it.
    """

    def __init__(self, entries: Entries, stored: Mapping[str, str]) -> None:
        """Take the entries, and the texts that the log has, by handle."""
        self._entries = entries
        self._stored = dict(stored)
        self._held = HeldOriginals()
        self._unsaved: dict[str, str] = {}
        self._hashed = 0
        self._places: dict[str, tuple[int, int]] = {}
        """Of an entry's text, by its handle: the entry's index and the number among its texts."""
        self._lock = ForkSafeLock()

    def put(self, text: str, /, *, about: About = About()) -> str:  # noqa: B008
        """Keep the text and return its handle; the same text has the same handle."""
        handle = self._held.put(text, about=about)
        with self._lock:
            if handle not in self._stored:
                self._unsaved[handle] = text
        return handle

    def get(self, handle: str, /) -> str:
        """Return the text, byte for byte; raises UnknownHandleError for a handle not given out."""
        try:
            return self._held.get(handle)
        except UnknownHandleError:  # of an earlier process, or it had to make room
            pass
        with self._lock:
            text = self._stored.get(handle) or self._unsaved.get(handle)
            if text is None:
                self._hash_new_entries()
                text = self._text_of_entry(handle)
        if text is None:
            raise UnknownHandleError(handle, "originals")
        return text

    def unsaved(self) -> dict[str, str]:
        """Return the texts that a log must have for their handles to work after a restart."""
        with self._lock:
            if self._unsaved:
                self._hash_new_entries()
                for handle in self._unsaved.keys() & self._places.keys():
                    del self._unsaved[handle]
            return dict(self._unsaved)

    def note_saved(self, saved: Mapping[str, str]) -> None:
        """Note that the log has these texts."""
        with self._lock:
            self._stored |= saved
            for handle in saved:
                self._unsaved.pop(handle, None)

    def _hash_new_entries(self) -> None:
        if self._hashed > len(self._entries):  # a prompt that nobody received was undone
            self._places.clear()
            self._hashed = 0
        for index in range(self._hashed, len(self._entries)):
            for number, text in enumerate(self._texts_of(index)):
                self._places.setdefault(handle_of_text(text), (index, number))
        self._hashed = len(self._entries)

    def _text_of_entry(self, handle: str) -> str | None:
        place = self._places.get(handle)
        if place is None:
            return None
        index, number = place
        return next(text for at, text in enumerate(self._texts_of(index)) if at == number)

    def _texts_of(self, index: int) -> Iterator[str]:
        for message in self._entries.at_indices([index]).messages:
            for piece in message.pieces:
                if len(piece.text) >= _LEAST_CHARACTERS:
                    yield piece.text
