"""RenderCache: facts about a conversation's messages, kept from one compilation to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress, count
from operator import is_not
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar

from rehydrate import formats
from rehydrate.formats import anthropic
from rehydrate.formats.rendering import Rendered, render_history
from rehydrate.messages import PROVIDER_OF, Message, Provider
from rehydrate.prompt.entries import History
from rehydrate.prompt.layout import digest_and_mark

if TYPE_CHECKING:
    from rehydrate.prompt.ir import PromptIR
    from rehydrate.prompt.layout import Layout
    from rehydrate.prompt.section import Section


T = TypeVar("T")


def same_objects(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return how many values both begin with that are the very same objects.

    >>> same_objects((None, True, 7), (None, True, 8, 9))
    2
    """
    return next(compress(count(), map(is_not, one, other)), min(len(one), len(other)))


def shared_entries(entries: tuple[Any, ...], history: History) -> int:
    """Return how many of these entries the history begins with."""
    return len(entries) if history.begins_with(entries) else same_objects(entries, history.entries)


def can_grow(history: History) -> bool:
    """Whether an entry means the same whatever follows it.

    A line of a transcript depends on other lines, and "auto" on all entries.
    """
    return history.format not in (*PROVIDER_OF, "auto")


class Settled(NamedTuple):
    """The entries that a pass got last, of which it would leave the first ones as they are."""

    entries: tuple[Any, ...] = ()
    format: str = ""
    late_bound: tuple[Section, ...] = ()
    originals: Any = None
    end: int = 0
    """How many entries, from the first one on, the pass would leave as they are again."""
    value: Any = None
    """A note of the pass's own about them."""

    @classmethod
    def of(cls, ir: PromptIR, originals: Any, end: int, value: Any = None) -> Self:
        """Note this of the history that a pass got; the first ``end`` entries are settled."""
        history = ir.history
        return cls(history.entries, history.format, ir.late_bound, originals, end, value)

    def within(self, ir: PromptIR, originals: Any) -> Settled:
        """Return what holds for this IR too.

        Nothing does after a change of the format, of the store of originals, or of the late-bound
        sections that were there.
        """
        is_alike = (
            ir.history.format == self.format
            and can_grow(ir.history)
            and originals is self.originals
            and same_objects(self.late_bound, ir.late_bound) == len(self.late_bound)
        )
        if not is_alike:
            return Settled()
        return self._replace(end=min(self.end, shared_entries(self.entries, ir.history)))


class Growing(Generic[T]):
    """A value made from all entries of a history; it is extended where the history was."""

    __slots__ = ("_empty", "_entries", "_format", "_value")

    def __init__(self, empty: T) -> None:
        """Start with the value of an empty history."""
        self._empty = self._value = empty
        self._entries: tuple[Any, ...] = ()
        self._format = ""

    def of(self, history: History, extend: Callable[[T, History, int], T]) -> T:
        """Return the value of this history.

        ``extend`` returns a value with the entries from a position on; it changes nothing.
        """
        entries, format_ = history.entries, history.format
        known, value = len(self._entries), self._value
        is_longer = format_ == self._format and shared_entries(self._entries, history) == known
        if not (is_longer and can_grow(history)):
            known, value = 0, self._empty
        if known < len(entries):
            value = extend(value, history, known)
        self._entries, self._format, self._value = entries, format_, value
        return value


_IDS = ("uuid", "id")


class Fingerprint(NamedTuple):
    """The facts about a message, system block or tool that its segment states."""

    value: Any
    """Held, so that no other object can get its `id`."""
    digest: str
    blocks: int
    is_marked: bool
    """Whether it has a cache mark."""


class RenderCache:
    """A cache for prompts that extend one another. Its keys are the identities of objects.

    Messages must not be changed while it is in use. It serves one compilation at a time, and holds
    the messages of the last one.
    """

    __slots__ = (
        "_fingerprints",
        "_marks",
        "_new_fingerprints",
        "_new_rendered",
        "_new_settled",
        "_parsed",
        "_positions",
        "_rendered",
        "_sections",
        "_settled",
        "_valid",
        "converted",
        "layout",
    )

    def __init__(self) -> None:
        """Start empty."""
        self.layout: Layout | None = None
        """The layout of the last prompt."""
        self.converted = ConvertedHistory()
        """The history of the last prompt in the provider's format."""
        self._fingerprints: dict[int, Fingerprint] = {}
        self._new_fingerprints: dict[int, Fingerprint] = {}
        self._rendered: dict[int, tuple[object, Any]] = {}
        self._new_rendered: dict[int, tuple[object, Any]] = {}
        self._parsed: dict[int, tuple[Any, Message]] = {}
        self._sections: dict[int, object] = {}
        self._settled: dict[int, tuple[object, Settled]] = {}
        self._new_settled: dict[int, tuple[object, Settled]] = {}
        self._valid: Sequence[Any] = ()
        self._marks: Growing[tuple[Mapping[str, Any], ...]] = Growing(())
        self._positions: Growing[Mapping[str, int]] = Growing({})

    def fingerprint(self, value: Any) -> Fingerprint:
        """Return the fingerprint of a value that is sent."""
        key = id(value)
        found = self._fingerprints.get(key) or self._new_fingerprints.get(key)
        if found is None:
            content = value.get("content")
            blocks = len(content) if isinstance(content, (list, tuple)) else 1
            digest, may_be_marked = digest_and_mark(value)
            is_marked = may_be_marked and bool(anthropic.marks_in(content if content else value))
            found = Fingerprint(value, digest, blocks, is_marked)
        self._new_fingerprints[key] = found
        return found

    def rendered(self, source: object, render: Callable[[], Any]) -> Any:
        """Return the message made from a section or a constant; `render` makes it where needed."""
        key = id(source)
        found = self._rendered.get(key) or self._new_rendered.get(key) or (source, render())
        self._new_rendered[key] = found
        return found[1]

    def was_sent(self, section: object) -> bool:
        """Whether this very section was in the last prompt."""
        return id(section) in self._sections

    def note_sections(self, sections: Iterable[object]) -> None:
        """Store the sections of this prompt, for `was_sent`."""
        self._sections = {id(section): section for section in sections}

    def parsed(self, message: Any, provider: str) -> Message:
        """Return a message in the provider's format, parsed by itself, without its texts."""
        found = self._parsed.get(id(message))
        if found is None:
            (parsed,) = formats.parse([message], provider).messages
            found = self._parsed[id(message)] = message, parsed._replace(pieces=())
        return found[1]

    def settled(self, step: object, ir: PromptIR, originals: Any) -> Settled:
        """Return what this pass noted of the entries that the IR begins with."""
        _, found = self._settled.get(id(step), (None, Settled()))
        return found.within(ir, originals)

    def note_settled(self, step: object, settled: Settled) -> None:
        """Store what a pass found out about the entries that it got, for `settled`."""
        self._new_settled[id(step)] = step, settled

    def marks(self, history: History) -> Sequence[Mapping[str, Any]]:
        """Return the cache marks in a history in Anthropic's format."""
        return self._marks.of(history, self._with_marks)

    def positions(self, history: History) -> Mapping[str, int]:
        """Return the positions of entries that have an id of their own, by that id."""
        return self._positions.of(history, _with_positions)

    def first_unvalidated(self, values: Sequence[Any]) -> int:
        """Return the index from which a prompt must be validated; all before it is valid.

        It is the start of an assistant turn inside the last prompt. That prompt was validated with
        what comes before this turn, so no call before it is open.
        """
        for index in range(same_objects(values, self._valid) - 1, 0, -1):
            if _role(values[index]) == "assistant" and _role(values[index - 1]) == "user":
                return index
        return 0

    def commit(self, layout: Layout, valid: Sequence[Any]) -> None:
        """End a compilation: store its layout and its valid messages, and forget what only older
        prompts had."""
        new = self._new_fingerprints
        if layout.start:
            self._fingerprints |= {key: new[key] for key in map(id, layout.values[layout.start :])}
        else:
            self._fingerprints, self._rendered = new, self._new_rendered
            sent = set(map(id, valid))
            self._parsed = {key: found for key, found in self._parsed.items() if key in sent}
        self._new_fingerprints, self._new_rendered = {}, {}
        self._settled, self._new_settled = self._new_settled, {}
        self.layout, self._valid = layout, valid

    def _with_marks(
        self, marks: tuple[Mapping[str, Any], ...], history: History, start: int
    ) -> tuple[Mapping[str, Any], ...]:
        new = history.entries[start:]
        contents = [entry.get("content") for entry in new if self.fingerprint(entry).is_marked]
        return (*marks, *anthropic.marks_in(contents))


def _with_positions(
    positions: Mapping[str, int], history: History, start: int
) -> Mapping[str, int]:
    new = {
        name: position
        for position, entry in enumerate(history.entries[start:], start)
        if isinstance(entry, Mapping)
        for name in map(entry.get, _IDS)
        if isinstance(name, str)
    }
    return {**positions, **new} if new else positions


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, Mapping) else None


_BY_MESSAGE = frozenset({"anthropic", "langchain", "openai_chat", "plain"})
"""Formats of which each entry has one role wherever it is sent."""


class ConvertedHistory:
    """The last history that was converted. One that goes on from it is converted from the last
    turn that both have: the messages before that turn are the very same objects again.

    A turn begins where the assistant speaks after others, or the user after the assistant, and
    all calls before it are answered before it. Nothing after it changes how what is before it is
    sent.
    """

    __slots__ = ("_entries", "_for", "_rendered")

    def __init__(self) -> None:
        """Start with nothing known."""
        self._entries: tuple[Any, ...] = ()
        self._for: tuple[str, str] = ("", "")
        """Format and provider."""
        self._rendered = Rendered([], [])

    def of(self, history: History, provider: Provider) -> Rendered:
        """Return what `render_history` returns for this history."""
        entries, asked = history.entries, (history.format, provider)
        if history.format == provider:
            return render_history(entries, history.format, provider)
        known = shared_entries(self._entries, history) if asked == self._for else 0
        if known < len(self._entries):
            # What came after the last entry that both have may be in one message with it.
            known = max(known - 1, 0)
        is_by_message = history.format in _BY_MESSAGE
        start = history.rows.last_turn_within(known) if known and is_by_message else 0
        rendered = render_history(entries[start:], history.format, provider, start)
        if start:
            rendered = _joined(self._rendered, rendered, start)
        self._entries, self._for, self._rendered = entries, asked, rendered
        return rendered


def _joined(earlier: Rendered, later: Rendered, start: int) -> Rendered:
    """Return the earlier messages before an entry, and the later ones."""
    end = len(earlier.messages)
    while end and max(earlier.messages[end - 1].sources, default=0) >= start:
        end -= 1
    lost = {what: {n for n in places if n < start} for what, places in earlier.lost.items()}
    for what, places in later.lost.items():
        lost.setdefault(what, set()).update(places)
    return Rendered(
        earlier.system,
        [*earlier.messages[:end], *later.messages],
        {what: frozenset(places) for what, places in lost.items() if places},
    )
