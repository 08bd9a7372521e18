"""History: the conversation in a prompt, entry by entry, with its token counts.

Two numbers name an entry:

- its position, or row, is its index in `History.entries`;
- its entry index is its index in the caller's list. The two differ where earlier entries were
  left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from rehydrate import _native, formats
from rehydrate._check import check_choice, check_type
from rehydrate.entry_id import EntryId
from rehydrate.messages import PROVIDER_OF, Conversation, Message

COUNTER = "o200k_base"
"""The encoding in which everything in an IR is counted."""
_LISTS = (("entries", "messages"), ("tokens", "counts"), ("entry_indices", "indices"))
_GENERATIONS = 16
"""Steps back for which a history knows what it was made from: more than are between two prompts."""


@dataclass(frozen=True, slots=True)
class History:
    """The conversation: the caller's own entries, in order, in one format.

    ``tokens`` holds the count of each entry; it is empty before they are counted. The entries are
    parsed once, so they must not be changed while the history is in use.
    """

    entries: tuple[Any, ...] = ()
    format: str = "plain"
    tokens: tuple[int, ...] = ()
    entry_indices: tuple[int, ...] = ()
    """The index of each entry in the caller's list. Empty: no entry was left out."""
    _parse_cache: dict[str, Any] = field(
        default_factory=dict, init=False, repr=False, compare=False, hash=False
    )
    _lineage: tuple[tuple[object, int], ...] = field(
        default=(), init=False, repr=False, compare=False, hash=False
    )
    """The stamps of this history and of those that it was made from, the nearest first, each with
    how many of its first rows both have."""

    def __post_init__(self) -> None:
        """Check the fields."""
        for name, of_what in _LISTS:
            values = getattr(self, name)
            if type(values) is not tuple:
                check_type(f"history: {name}", values, (list, tuple), f"pass a list of {of_what}")
                object.__setattr__(self, name, tuple(values))
        check_choice("history: format", self.format, ("auto", *formats.FORMATS))
        object.__setattr__(self, "_lineage", ((object(), len(self.entries)),))

    @property
    def total_tokens(self) -> int:
        """The tokens of all entries."""
        total: int | None = self._parse_cache.get("total_tokens")
        if total is None:
            total = self._parse_cache["total_tokens"] = sum(self.tokens)
        return total

    @property
    def stamp(self) -> object:
        """The value by which `rows_of` knows this history."""
        return self._lineage[0][0]

    def rows_of(self, stamp: object) -> int:
        """Return how many of its first rows the history of this stamp has too.

        A row is an entry with its index and its tokens. 0 if the one was not made from the
        other, within the last steps.

        >>> first = History(({"role": "user", "content": "Go on."},), tokens=(6,))
        >>> first.followed_by(first).rows_of(first.stamp)
        1
        """
        return next((rows for one, rows in self._lineage if one is stamp), 0)

    @property
    def is_by_row(self) -> bool:
        """Whether an entry means the same whatever follows it.

        A line of a transcript depends on other lines, and "auto" on all entries.
        """
        return self.format not in (*PROVIDER_OF, "auto")

    def _made_from(self, other: Self, rows: int) -> Self:
        """Return this history, noting that it has the first ``rows`` rows of the other."""
        if not self.is_by_row:
            return self
        older = [(stamp, min(count, rows)) for stamp, count in other._lineage[:_GENERATIONS]]
        object.__setattr__(self, "_lineage", (*self._lineage, *older))
        return self

    @property
    def indices(self) -> Sequence[int]:
        """The index of each entry in the caller's list, also where `entry_indices` is empty."""
        return self.entry_indices or range(len(self.entries))

    def entry_index(self, position: int) -> int:
        """Return the index in the caller's list of the entry at this position in `entries`.

        >>> history = History(({"role": "user", "content": "Go on."},), entry_indices=(12,))
        >>> history.entry_index(0)
        12
        """
        return self.entry_indices[position] if self.entry_indices else position

    def entry_id(self, position: int) -> EntryId:
        """Return the id of the entry at this position in `entries`."""
        return EntryId.of(self.entry_index(position))

    @property
    def conversation(self) -> Conversation:
        """The entries, parsed and grouped into units; raises InvalidMessageError."""
        found: Conversation | None = self._parse_cache.get("conversation")
        if found is None:
            found, entries = formats.read(self.entries, self.format)
            if entries is not self.entries:
                object.__setattr__(self, "entries", tuple(entries))
            self._parse_cache["conversation"] = found
        return found

    @property
    def rows(self) -> Conversation:
        """The messages, of which those with long tool inputs may have no texts: facts about single
        messages. Nothing is parsed again; of units it may know nothing."""
        found: Conversation | None = self._parse_cache.get("rows")
        return self.conversation if found is None else found

    @property
    def messages(self) -> tuple[Message, ...]:
        """The entries, parsed; raises InvalidMessageError."""
        return self.messages_from(0)

    @property
    def numbered_messages(self) -> tuple[Message, ...]:
        """The messages, each with the index of its entry in the caller's list.

        >>> history = History(({"role": "user", "content": "Go on."},), entry_indices=(12,))
        >>> history.numbered_messages[0].index
        12
        """
        indices = self.indices
        return tuple([each._replace(index=indices[each.index]) for each in self.messages])

    def messages_from(self, position: int) -> tuple[Message, ...]:
        """Return the messages of the entries from this position on."""
        return self.rows_from(position).messages_from(position)

    def rows_from(self, position: int) -> Conversation:
        """Return the messages; those of the entries from this position on have all their texts."""
        rows = self.rows
        light = rows.light_indices(position)
        if light:
            read = formats.parse([self.entries[index] for index in light], self.format)
            messages = read.renumbered(light).messages
            rows = rows.with_messages(dict(zip(light, messages, strict=True)))
            if not self._parse_cache.get("is_shrunk"):
                self._parse_cache["rows"] = rows
        return rows

    def shrink_parse_cache(self) -> None:
        """Free most of the memory that parsing took.

        The long inputs of tools are texts that only the parsed form holds. They are parsed again
        when somebody asks for them.
        """
        # A line of a transcript depends on others, so its format is parsed whole or not at all.
        if self.format not in PROVIDER_OF:
            self._parse_cache.update(rows=self.rows.light(), is_shrunk=True)
        self._parse_cache.pop("conversation", None)

    def with_tokens(self, tokens: Sequence[int], conversation: Conversation | None = None) -> Self:
        """Return the same history with these counts; nothing is parsed again.

        ``conversation`` is the parsed history, if the caller has it.
        """
        name = self.format if conversation is None else conversation.format
        made = type(self)(self.entries, name, tuple(tokens), self.entry_indices)
        made._parse_cache.update(self._parse_cache, total_tokens=None)
        if conversation is not None:
            made._parse_cache["conversation"] = conversation
        return made

    def select(self, positions: Iterable[int]) -> Self:
        """Return a history of the entries at these positions; all entries must be counted."""
        positions = tuple(positions)
        made = type(self)(
            tuple([self.entries[position] for position in positions]),
            self.format,
            tuple([self.tokens[position] for position in positions]),
            tuple([self.entry_index(position) for position in positions]),
        )
        moved = (n for n, position in enumerate(positions) if n != position)
        return made._made_from(self, next(moved, len(positions)))

    def without(self, indices: frozenset[int]) -> Self:
        """Return the history without the entries of these indices in the caller's list."""
        if not indices or indices.isdisjoint(self.indices):
            return self
        numbered = enumerate(self.indices)
        return self.select([position for position, index in numbered if index not in indices])

    def with_changed_entries(
        self,
        entries: Mapping[int, Any],
        messages: Mapping[int, Message],
        tokens: Mapping[int, int],
    ) -> Self:
        """Return the same history with other entries at these positions.

        ``messages`` are the new entries, parsed, and ``tokens`` their counts: nothing is parsed or
        counted again. A new entry has the calls and results of the one it replaces.
        """
        kept = tuple([entries.get(position, entry) for position, entry in enumerate(self.entries)])
        counts = tuple([tokens.get(position, count) for position, count in enumerate(self.tokens)])
        made = type(self)(kept, self.format, counts, self.entry_indices)
        for name in ("rows", "conversation"):
            if name in self._parse_cache:
                made._parse_cache[name] = self._parse_cache[name].with_messages(messages)
        return made._made_from(self, min(entries, default=len(kept)))

    def followed_by(self, new: Self) -> Self:
        """Return this history with new entries after it; nothing is parsed again."""
        both = type(self)(
            self.entries + new.entries,
            self.format,
            self.tokens + new.tokens,
            tuple(self.indices) + new.entry_indices,
        )
        both._parse_cache["total_tokens"] = self.total_tokens + new.total_tokens
        # A line of a transcript depends on others, so its format is parsed whole.
        if self.format not in PROVIDER_OF:
            rows = self.rows.followed_by(new.rows, len(self.entries))
            if rows is not None:
                both._parse_cache["rows"] = rows
        return both._made_from(self, len(self.entries))


def entry_tokens(conversation: Conversation, entries: int) -> list[int]:
    """Return the tokens of each entry of the list that the conversation was parsed from.

    ``entries`` is the length of that list. An entry that is not a message has 0 tokens.
    """
    tokens = [0] * entries
    if conversation.message_count:
        counts = _native.message_tokens(conversation, COUNTER)
        for index, count in zip(conversation.indices, counts, strict=True):
            tokens[index] += count
    return tokens
