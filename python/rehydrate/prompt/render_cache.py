"""RenderCache: facts about a conversation's messages, kept from one compilation to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import formats
from rehydrate.formats import anthropic_writing
from rehydrate.messages import Message
from rehydrate.prompt.converted import ConvertedHistory
from rehydrate.prompt.digests import digest_and_mark
from rehydrate.prompt.settled import Growing, Settled, same_objects

if TYPE_CHECKING:
    from rehydrate.prompt.entries import History
    from rehydrate.prompt.ir import PromptIR
    from rehydrate.prompt.layout import Layout

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
        "_calls",
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
        self._calls: Growing[frozenset[str] | None] = Growing(frozenset())
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
            is_marked = may_be_marked and bool(
                anthropic_writing.marks_in(content if content else value)
            )
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

    def repeats_calls(self, history: History) -> bool:
        """Whether two calls of the history have one id."""
        return self._calls.of(history, _with_calls) is None

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
        return (*marks, *anthropic_writing.marks_in(contents))


def _with_calls(calls: frozenset[str] | None, history: History, start: int) -> Any:
    """Return the ids of the calls with those of new entries; None where an id is repeated."""
    if calls is None:
        return None
    new = [call for message in history.light_messages_from(start) for call in message.calls]
    both = calls.union(new)
    return both if len(both) == len(calls) + len(new) else None


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
