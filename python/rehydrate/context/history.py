"""Entries: the conversation as it grows; each entry is read and counted once, when it is added.

PromptState: the state after the last prompt.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import formats
from rehydrate._native import as_sequence, own_entry
from rehydrate.context.records import Kind, Record, checked_seconds, entries_of, kept_entries
from rehydrate.errors import (
    InvalidArgumentError,
    InvalidMessageError,
    Violation,
)
from rehydrate.messages import PROVIDER_OF
from rehydrate.prompt.entries import History, entry_tokens
from rehydrate.prompt.serialize import plain

if TYPE_CHECKING:
    from rehydrate._native import ContextStore
    from rehydrate.cost.prefix import PrefixReport
    from rehydrate.prompt.ir import CompiledPrompt, PromptIR
    from rehydrate.prompt.section import Section

    Waiting = Mapping[str, tuple[Section, ...]]
    """The sections of each tool call that was answered and whose result is not added yet."""

UNTIL = "summarised_until"
"""The key of a summary's metadata, the index of the first entry that it is not of."""
Same = Callable[[Any, Any], bool]
"""Whether two entries say the same."""


class StoredEntry(NamedTuple):
    """An entry as a thread's log has it."""

    entry: Any
    time: float
    """Seconds since 1970."""
    tokens: int


class Entries:
    """All entries that were added, in order. They are never changed, and removed only with a
    prompt that nobody received."""

    def __init__(self, format: str, *, is_stored: bool = False) -> None:  # noqa: A002
        """Start empty."""
        self.format = format
        self.is_stored = is_stored
        """Whether they must be as a record holds them: values that JSON cannot hold are refused."""
        self._entries: list[Any] = []
        self._dicts: list[Any] = []  # the same as they are sent, an SDK's objects as dicts
        self._tokens: list[int] = []
        self._times = array("d")
        self._turns: list[int] = []  # the indices of the user's turns
        self._taken_back: tuple[int, frozenset[int]] = (0, frozenset())
        self.unknown: dict[str, int] = {}
        """Types of blocks that no format knows, and how many were added."""

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def extend(self, entries: Sequence[Any], at: float, format: str = "") -> None:  # noqa: A002
        """Add all entries or none; raises InvalidMessageError for what is not a message.

        ``at`` is their time in seconds since 1970, unless they have one of their own. With
        ``format`` all that was added becomes that of this format too.
        """
        self._extend(entries, None, at, format or self.format)

    def become(self, format: str) -> None:  # noqa: A002  the field's word
        """Read what was added as entries of this format; raises InvalidMessageError, and changes
        nothing, for what this format does not hold."""
        fresh = Entries(format, is_stored=self.is_stored)
        fresh._extend(self._entries, None, 0.0, format)
        fresh._times = self._times
        vars(self).update(vars(fresh))

    def _extend(
        self,
        entries: Sequence[Any],
        tokens: Sequence[int] | None,
        at: float,
        format: str,  # noqa: A002  the field's word
    ) -> None:
        added = tuple(as_sequence(entries))
        try:
            read, dicts = formats.read(added, format)
        except InvalidMessageError:
            formats.check_own(added, format)  # it may name the provider whose entry it is
            raise
        formats.check_own(dicts, format)
        start = len(self._entries)
        dicts = [own_entry(format, entry) for entry in dicts]
        if self.is_stored and tokens is None:
            dicts = kept_entries(dicts, format, start)
        counted = entry_tokens(read, len(added)) if tokens is None else tokens
        if format != self.format:
            self.become(format)
        self._turns += [start + each.index for each in read.messages if each.is_user_turn]
        for name, count in read.unknown.items():
            self.unknown[name] = self.unknown.get(name, 0) + count
        self._times.extend([_time_of(entry, at) for entry in dicts])
        self._entries += added
        self._dicts += dicts
        self._tokens += counted

    def restore(self, stored: Sequence[StoredEntry]) -> None:
        """Start with entries that were added before, by another process; they are not counted
        again."""
        if stored:
            tokens = [each.tokens for each in stored]
            entries = entries_of([each.entry for each in stored], self.format)
            self._extend(entries, tokens, 0.0, self.format)
            self._times = array("d", [each.time for each in stored])

    def back_to(self, length: int) -> None:
        """Keep only the first `length` entries."""
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

    def parted_by(self, message: Any) -> list[Violation]:
        """Return the rules about calls that a user's message would break here: it would be before
        results that are still to come."""
        last_turn = self.since(0 if self.turn is None else self.turn)
        called = Counter([call for each in last_turn.messages for call in each.calls])
        if called <= Counter([answer for each in last_turn.messages for answer in each.answers]):
            return []
        entries = list(last_turn.entries)
        before = {(each.index, each.rule) for each in formats.validate(entries, self.format)}
        after = formats.validate([*entries, message], self.format)
        return [
            each._replace(index=last_turn.entry_index(each.index))
            for each in after
            if each.rule == "unanswered_tool_call" and (each.index, each.rule) not in before
        ]

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
        return self.at_indices(self.indices(start, end))

    def indices(self, start: int, end: int) -> Sequence[int]:
        """Return the indices from one to another, without those that were taken back."""
        gone = self.taken_back
        if not gone:
            return range(start, end)
        return [index for index in range(start, end) if index not in gone]

    def token_counts(self, indices: Iterable[int]) -> Iterator[int]:
        """Yield the tokens of the entries at these indices."""
        return map(self._tokens.__getitem__, indices)

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

    def read_into(self, store: ContextStore) -> None:
        """Have a context store read the entries that were added since it last did."""
        store.leave_out(self.taken_back)
        start, end = store.seen, len(self._entries)
        if start < end:
            store.update(self.since(start).numbered_messages, end)

    def records_from(self, start: int) -> Iterator[Record]:
        """Yield the records of the entries from an index on."""
        for index in range(start, len(self._entries)):
            entry, time, tokens = self.stored_at(index)
            value = entry if isinstance(entry, dict) else plain(entry, f"history[{index}]")
            yield Record(Kind.ENTRY, time, {"entry": value, "tokens": tokens})

    def tokens_since(self, index: int) -> int:
        """Return the tokens of the entries from an index on."""
        return sum(self._tokens[index:])

    def last_user_text(self) -> str:
        """Return the text of the last user turn; "" if there is none."""
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

    def stored_at(self, index: int) -> StoredEntry:
        """Return the entry at an index as a log has it."""
        return StoredEntry(self._dicts[index], self._times[index], self._tokens[index])

    def shared_with(self, others: Sequence[Any], start: int, same: Same) -> int:
        """Return with how many of the entries from an index on a list begins."""
        pairs = zip(islice(self._entries, start, None), others, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1] or same(*pair), pairs))

    def index_of(self, entry: Any) -> int | None:
        """Return the index of an entry: of the same object, else of the last equal one."""
        same = next((index for index, one in enumerate(self._entries) if one is entry), None)
        if same is not None:
            return same
        last = reversed(range(len(self._entries)))
        of_type = (n for n in last if type(self._entries[n]) is type(entry))
        return next((n for n in of_type if self._entries[n] == entry), None)

    def all(self, until: int | None = None) -> list[Any]:
        """Return all entries, in order, or those before the index ``until``."""
        return self._entries[:until]


def _time_of(entry: Any, default: float) -> float:
    """Return the entry's own time, as a line of a transcript has it; else the default."""
    timestamp = entry.get("timestamp") if isinstance(entry, Mapping) else None
    if not isinstance(timestamp, str):
        return default
    try:
        time = datetime.fromisoformat(timestamp)
        return checked_seconds("timestamp", time if time.tzinfo else time.replace(tzinfo=UTC))
    except (ValueError, InvalidArgumentError):
        return default


class PromptState(NamedTuple):
    """The state that a prompt changes. A prompt replaces it as a whole, or not at all."""

    ir: PromptIR | None = None
    """The IR of the last prompt."""
    sent: CompiledPrompt | None = None
    """The last prompt that was given out."""
    prefix: PrefixReport | None = None
    """The way that prompt extends the one before."""
    seen: int = 0
    """The number of entries that the last prompt was made from."""
    turn: int | None = None
    """The index of the user turn it was made in."""
    job_tokens: int = 0
    prompts: int = 0
    compactions: int = 0
    missing_hot: frozenset[str] | None = None
    """The hot sources that did not answer when they were last asked; None: not asked yet."""

    @property
    def shown(self) -> PromptIR:
        """The IR of the last prompt; an empty one before the first."""
        from rehydrate.prompt.ir import PromptIR  # who has entries alone does not load it

        return PromptIR() if self.ir is None else self.ir

    @property
    def summarised_until(self) -> int:
        """The index of the first entry that the prompt's summary is not of."""
        return max([each.metadata.get(UNTIL, 0) for each in self.shown.sections], default=0)
