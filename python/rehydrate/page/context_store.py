"""The context store of a conversation as one HTML page: each line with where it is from.

`rehydrate thread store THREAD -o PAGE` writes it. The markup is in templates/context_store.html.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import _native, formats
from rehydrate._check import check_type
from rehydrate._native import Item
from rehydrate._text import plural
from rehydrate.context.context_store import ASSISTANT_TRUST, Heading, Status
from rehydrate.messages import Message, PieceKind
from rehydrate.page.html import Gap, colours, fair_share, render, with_gap
from rehydrate.prompt.counting import text_tokens
from rehydrate.prompt.entries import COUNTER

if TYPE_CHECKING:
    from rehydrate.context import ContextStore


LINES = 2_000
"""Maximum items under a heading, live or past, and lines of the log: the first and the last
half."""

QUOTE_CHARACTERS = 1_500
"""Maximum characters of a message before an item and after it, if the page has room."""
QUOTE_LINES = 12
"""Maximum lines of a message before an item and after it."""


class Group(NamedTuple):
    """The items under a heading: changed files first, then those mentioned last."""

    heading: Heading
    live: list[Item]
    past: list[Item]

    @property
    def lines(self) -> tuple[list[Any], list[Any]]:
        """Return the live and the past items that fit on the page, with a Gap for the others."""
        return with_gap(self.live, LINES), with_gap(self.past, LINES)

    @property
    def fates(self) -> Counter[Status]:
        """Return how many of the past items have each status."""
        return Counter(item.status for item in self.past)


class Quote(NamedTuple):
    """The message around an item."""

    before: str
    said: str
    after: str
    hidden_before: int
    hidden_after: int
    is_code: bool


class ShownItems:
    """The items of a store with the messages of its conversation."""

    def __init__(
        self, every: Sequence[Item], messages: Sequence[Message], times: Sequence[datetime]
    ) -> None:
        """Take them, and divide the room of the page."""
        self.by_id = {item.id: item for item in every}
        self._messages = {message.index: message for message in messages}
        self._times = times
        self.replaced: dict[int, list[Item]] = {}
        """By the id of an item: the items that it replaced."""
        for item in every:
            if item.other is not None:
                self.replaced.setdefault(item.other, []).append(item)
        newest = sorted(
            every, key=lambda item: (item.is_changed, item.last_entry, item.id), reverse=True
        )
        self.groups: list[Group] = []
        for heading in Heading:
            under = [item for item in newest if item.heading is heading]
            live = [item for item in under if item.status is Status.LIVE]
            past = [item for item in under if item.status is not Status.LIVE]
            self.groups.append(Group(heading, live, past))
        lines = [line for group in self.groups for lines in group.lines for line in lines]
        shown = [line for line in lines if not isinstance(line, Gap)]
        self.linked = {item.id for item in shown}
        self._cap = fair_share([len(self._text(item)) for item in shown])

    def who(self, item: Item) -> str:
        """Return who said it, or whose call or result it is from."""
        message = self._messages.get(item.span.entry)
        if message is None:
            return "unknown"
        pieces = message.pieces
        if item.span.piece < len(pieces) and pieces[item.span.piece].kind is PieceKind.TOOL_RESULT:
            return "tool"
        return message.role

    def when(self, item: Item) -> str:
        """Return when it was said; "" if that is unknown."""
        if item.span.entry >= len(self._times):
            return ""
        return f"{self._times[item.span.entry]:%Y-%m-%d %H:%M %Z}".strip()

    def _text(self, item: Item) -> str:
        """Return the text that has the span of an item; "" if it has another text there."""
        message, span = self._messages.get(item.span.entry), item.span
        if message is None or span.piece >= len(message.pieces):
            return ""
        text = message.pieces[span.piece].text
        return text if text[span.start : span.end] == item.text else ""

    def quote(self, item: Item) -> Quote | None:
        """Return the message around an item; None if it has another text there."""
        text, span = self._text(item), item.span
        if not text:
            return None
        end = min(span.end, span.start + self._cap)
        side = min(QUOTE_CHARACTERS, self._cap // 2)
        lines = text[max(0, span.start - side) : span.start].splitlines(keepends=True)
        before = "".join(lines[-QUOTE_LINES:])
        lines = text[end : end + side].splitlines(keepends=True)
        after = "".join(lines[:QUOTE_LINES])
        return Quote(
            before,
            text[span.start : end],
            after,
            span.start - len(before),
            len(text) - end - len(after),
            self._messages[span.entry].pieces[span.piece].kind is not PieceKind.TEXT,
        )


def store_page(
    store: ContextStore,
    entries: Sequence[Any],
    *,
    format: str = "auto",  # noqa: A002  the field's word
    times: Sequence[datetime] = (),
    budget_tokens: int = 4_000,
    title: str = "a thread",
) -> str:
    """Return the context store as one HTML page: no script, nothing loaded, all escaped.

    ``entries`` are those that the store was made from, all of them, and ``times`` theirs, where
    they are known. At the top is the store as markdown in at most ``budget_tokens``.

    >>> import rehydrate
    >>> context = rehydrate.Context()
    >>> context.add({"role": "user", "content": "Never write </script> into a page."})
    >>> page = store_page(context.store, context.history)
    >>> page.startswith("<!doctype html>"), "<mark>Never write &lt;/script&gt; into" in page
    (True, True)
    """
    check_type("store", store, _native.ContextStore, "pass the store of a Context or of a thread")
    conversation = formats.parse(entries, format)
    every = store.items()
    text = store.render(budget_tokens, conversation=conversation)
    found = Counter(item.status for item in every)
    return render(
        "context_store.html",
        title=title,
        items=ShownItems(every, conversation.messages, times),
        colours=colours(Heading),
        markdown_text=text,
        text_tokens=sum(text_tokens([text])),
        budget_tokens=budget_tokens,
        counts=[
            *(f"{found[status]:,} {status}" for status in Status),
            plural(len(store.operations), "operation"),
            plural(store.seen, "entry read", "entries read"),
            COUNTER,
        ],
        operations=store.operations,
        log=with_gap(list(enumerate(store.operations, 1)), LINES),
        trusted=ASSISTANT_TRUST,
        uses_text=_uses_text,
    )


def _uses_text(item: Item) -> str:
    """Return the uses of an item with their entries: ``edited #12, #18; read #3``."""
    done: dict[str, list[str]] = {}
    for use, entry in item.uses:
        done.setdefault(use, []).append(f"#{entry}")
    return "; ".join(f"{use} {', '.join(entries)}" for use, entries in done.items())
