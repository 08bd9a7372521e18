"""ConvertedHistory: a history in another format than its provider's, converted where it is new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rehydrate.formats.neutral import NO_ID_CHARACTER
from rehydrate.formats.rendering import Rendered, render_history
from rehydrate.messages import Message, Provider
from rehydrate.prompt.entries import History
from rehydrate.prompt.settled import shared_entries

_BY_MESSAGE = frozenset({"anthropic", "langchain", "openai_chat", "plain"})
"""Formats of which each entry has one role wherever it is sent."""


class ConvertedHistory:
    """The last history that was converted. One that goes on from it is converted from the last
    turn that both have: the messages before that turn are the very same objects again.

    A turn begins where the assistant speaks behind others, or the user behind the assistant, and
    all calls before it are answered before it. Nothing behind it changes how what is before it is
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
            # What came behind the last entry that both have may be in one message with it.
            known = max(known - 1, 0)
        is_by_message = history.format in _BY_MESSAGE
        start = _last_turn(history.light_messages, known) if known and is_by_message else 0
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


def _last_turn(messages: Sequence[Message], known: int) -> int:
    """Return the index of the entry that begins the last turn among the first ``known`` entries; 0
    where it is not certain that what is before it stays as it is."""
    calls = [call for message in messages for call in message.calls]
    all_calls = set(calls)
    if len(all_calls) < len(calls) or any(map(NO_ID_CHARACTER.search, calls)):
        return 0  # ids of calls are changed
    pending = set[str]()
    """Calls before a turn that are not answered before it."""
    for message in messages:
        pending.update(message.calls)
        if not pending.issuperset(all_calls.intersection(message.answers)):
            return 0  # answered twice, or before it was made
        pending.difference_update(message.answers)
    start = 0
    for before, message in zip(messages[-2::-1], messages[:0:-1], strict=True):
        pending.update(message.answers)
        pending.difference_update(message.calls)
        if message.role == "system" and before.role != "system":
            return 0  # one that comes late may be moved
        if not start and message.index <= known and not pending.intersection(all_calls):
            start = message.index if _begins_turn(message, before) else 0
    return start


def _begins_turn(message: Message, before: Message) -> bool:
    if message.role == "assistant":
        return before.role in ("user", "tool")
    return message.role == "user" and not message.answers and before.role == "assistant"
