"""Checks of a model's proposals, in code: what holds becomes operations of the context store.

A quote must be in the entry, word for word. Trust follows the source, so a text that somebody
smuggled into a tool's result becomes no preference, no decision and no task, and settles nothing
that the user said. What is permanent is superseded, with a link, and never goes otherwise.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum, StrEnum
from typing import NamedTuple

from rehydrate import _engine
from rehydrate._text import plural
from rehydrate.context.context_store.cues import MAX_SENTENCE, is_correction, whole_sentences
from rehydrate.context.context_store.operations import (
    PERMANENT,
    TASK,
    Heading,
    Item,
    Items,
    Operation,
    OperationKind,
    Span,
    Status,
    item_of,
)
from rehydrate.context.context_store.proposals import MAX_PROPOSALS, Proposal, ProposalRequest
from rehydrate.context.context_store.rendering import is_changed
from rehydrate.context.context_store.updater import ASSISTANT_TRUST, LEAST_STRENGTH
from rehydrate.messages import Message, PieceKind
from rehydrate.prompt.originals import TRUST as TOOL_TRUST
from rehydrate.prompt.section import FULL_TRUST


class Refusal(StrEnum):
    """Why a proposal is refused."""

    NO_ENTRY = "its entry is none of the new messages"
    NO_ITEM = "its item does not hold"
    NOT_VERBATIM = "its quote is not in the entry"
    TOO_LONG = "its quote is too long"
    HEADING = "there is no such heading"
    SOURCE = "its source may not say so"
    PERMANENT = "its item never goes"
    EARLIER = "it is older than what it changes"
    TOO_MANY = f"the answer has over {MAX_PROPOSALS}"


class Applied(NamedTuple):
    """What became of proposals."""

    operations: list[Operation]
    refused: dict[str, int]
    """How many were refused, by `Refusal`."""

    @property
    def summary(self) -> str:
        """What became of them, in words.

        >>> Applied([], {"its quote is too long": 2}).summary
        '0 operations; 2 refused: its quote is too long'
        """
        refused = [f"{count} refused: {why}" for why, count in self.refused.items()]
        return "; ".join([plural(len(self.operations), "operation"), *refused])


class Source(Enum):
    """Who said a text, and how far it is trusted."""

    USER = FULL_TRUST
    ASSISTANT = ASSISTANT_TRUST
    TOOL = TOOL_TRUST
    """A tool, a harness, or somebody whose text the user pasted."""


_SAID = frozenset({Source.USER, Source.ASSISTANT})
_MAY_SAY = {
    Heading.TASK_STATE: _SAID,
    Heading.DECISIONS: _SAID,
    Heading.FILES: _SAID,
    Heading.CONTEXT: frozenset(Source),
    Heading.PREFERENCES: frozenset({Source.USER}),
}
_KINDS = {
    Heading.TASK_STATE: TASK,
    Heading.DECISIONS: "decision",
    Heading.FILES: "file",
    Heading.CONTEXT: "note",
    Heading.PREFERENCES: "preference",
}
AGAIN = "said again"
NOTED = "noted"
"""The use of a file that no tool's call is about."""


class RefusedError(Exception):
    """A proposal is refused; ``args[0]`` is the `Refusal`."""


def apply_proposals(
    items: Items, proposals: Iterable[Proposal], request: ProposalRequest
) -> Applied:
    """Apply the proposals that hold to the items, one after the other.

    ``request`` has what the model was asked about: it may propose nothing about another item, nor
    from another message.
    """
    checks = _Checks(items, request)
    done: list[Operation] = []
    refused: dict[str, int] = {}
    for number, proposal in enumerate(proposals):
        try:
            if number >= MAX_PROPOSALS:
                raise RefusedError(Refusal.TOO_MANY)
            operations = checks.operations_of(proposal)
        except RefusedError as error:
            why = str(error.args[0])
            refused[why] = refused.get(why, 0) + 1
            continue
        for operation in operations:
            items.apply(operation)
        done += operations
    return Applied(done, refused)


class _Checks:
    """The checks of one answer's proposals, against the items as they are."""

    def __init__(self, items: Items, request: ProposalRequest) -> None:
        self._items = items
        self._messages = {message.index: message for message in request.messages}
        self._shown = {item.id: item.span for item in request.items}
        self._last = max(self._messages, default=0)
        self._pasted: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def operations_of(self, proposal: Proposal) -> list[Operation]:
        """Return what a proposal changes; raises RefusedError."""
        if proposal.op is OperationKind.ADD:
            return self._add(proposal)
        item = self._live(proposal.item)
        if proposal.op is OperationKind.SUPERSEDE:
            return self._supersede(item, proposal)
        if proposal.op is OperationKind.RESOLVE:
            return self._resolve(item, proposal.entry)
        if proposal.op is OperationKind.FADE:
            return self._fade(item)
        if item.heading is Heading.FILES:
            raise RefusedError(Refusal.SOURCE)  # what was done to a file, its calls tell
        return [Operation(OperationKind.PROMOTE, item.id, self._last, use=AGAIN)]

    def _add(self, proposal: Proposal) -> list[Operation]:
        if proposal.heading not in list(Heading):
            raise RefusedError(Refusal.HEADING)
        return self._added(self._item(Heading(proposal.heading), proposal))

    def _added(self, item: Item) -> list[Operation]:
        """Add an item. Where it is there already, it was said again, or nothing is new."""
        same = self._same(item)
        if same is not None:
            return self._said_again(same, item.span)
        self._check_news(item)
        id_ = self._items.next_id
        return [Operation(OperationKind.ADD, id_, item.span.entry, replace(item, id=id_))]

    def _supersede(self, item: Item, proposal: Proposal) -> list[Operation]:
        if item.kind == "request" or is_changed(item):
            raise RefusedError(Refusal.PERMANENT)
        new = self._item(item.heading, proposal)
        if new.trust < item.trust and item.heading is not Heading.DECISIONS:
            raise RefusedError(Refusal.SOURCE)
        if not _is_after(new.span, item):
            raise RefusedError(Refusal.EARLIER)
        same = self._same(new)
        if same is item or (item.heading is Heading.PREFERENCES and not _lays_down(new.text)):
            return self._added(new)  # both hold: what the user forbids does not go by a "thanks"
        added = self._added(new)
        holds, entry = (added[0].item, 0) if same is None else (same.id, same.span.entry)
        entry = max(entry, new.span.entry)
        return [*added, Operation(OperationKind.SUPERSEDE, item.id, entry, other=holds)]

    def _resolve(self, item: Item, entry: int) -> list[Operation]:
        _check_may_go(item)
        source = self._source_of(self._message(entry))
        is_settled = source in _SAID if item.kind in (TASK, "plan") else source.value >= item.trust
        if not is_settled:
            raise RefusedError(Refusal.SOURCE)
        if entry < item.last_entry:
            raise RefusedError(Refusal.EARLIER)
        return [Operation(OperationKind.RESOLVE, item.id, entry)]

    def _fade(self, item: Item) -> list[Operation]:
        _check_may_go(item)
        if item.trust >= FULL_TRUST:
            raise RefusedError(Refusal.PERMANENT)  # the user's own words
        return [Operation(OperationKind.FADE, item.id, self._last)]

    # Items

    def _live(self, id_: int) -> Item:
        """Return an item that holds and is the one that the model was shown."""
        item = self._items.get(id_)
        if item is None or item.status is not Status.LIVE or item.span != self._shown.get(id_):
            raise RefusedError(Refusal.NO_ITEM)
        return item

    def _item(self, heading: Heading, proposal: Proposal) -> Item:
        """Return the item of a quote, without an id."""
        span, text, source = self._quoted(heading, proposal)
        item = item_of(heading, _KINDS[heading], text, span, source.value)
        if heading is Heading.FILES:
            return replace(item, key=text, uses=((NOTED, span.entry),))
        if heading is Heading.PREFERENCES:
            strengths = [directive.strength for directive in _engine.directives(text)]
            return replace(item, strength=max(strengths, default=LEAST_STRENGTH))
        return item

    def _same(self, item: Item) -> Item | None:
        """Return the item that holds already and says the same, or is where this one is."""
        known = self._items.find(item.heading, item.key)
        if known is not None and known.status in (Status.LIVE, Status.FADED):
            return known
        return next(
            (one for one in self._items.live(item.heading) if _overlaps(one.span, item.span)), None
        )

    def _said_again(self, item: Item, span: Span) -> list[Operation]:
        is_faded = item.status is Status.FADED
        if item.heading is Heading.FILES or (_overlaps(item.span, span) and not is_faded):
            return []
        return [Operation(OperationKind.PROMOTE, item.id, span.entry, use=AGAIN)]

    def _check_news(self, item: Item) -> None:
        """Refuse what was superseded or settled, unless it was said again since."""
        known = self._items.find(item.heading, item.key)
        if known is None:
            return
        holds: Item | None = known
        while holds is not None:
            if not _is_after(item.span, holds):
                raise RefusedError(Refusal.EARLIER)
            holds = None if holds.other is None else self._items.get(holds.other)

    # Messages

    def _message(self, entry: int) -> Message:
        message = self._messages.get(entry)
        if message is None:
            raise RefusedError(Refusal.NO_ENTRY)
        return message

    def _quoted(self, heading: Heading, proposal: Proposal) -> tuple[Span, str, Source]:
        """Return where a quote is, in whole sentences, and who said it: the most trusted of
        those who may."""
        message, quote = self._message(proposal.entry), proposal.quote.strip()
        if len(quote) > MAX_SENTENCE:
            raise RefusedError(Refusal.TOO_LONG)
        found: list[tuple[Span, str, Source]] = []
        why = Refusal.NOT_VERBATIM
        for number, piece in enumerate(message.pieces):
            start, text = piece.text.find(quote), quote
            if not quote or start < 0:
                continue
            if piece.kind is PieceKind.TEXT:
                start, text = whole_sentences(piece.text, start, start + len(quote))
            source = self._source(message, number, start, start + len(text))
            if source not in _MAY_SAY[heading] and not _is_call(heading, piece.kind):
                why = Refusal.SOURCE
            elif len(text) > MAX_SENTENCE:
                why = Refusal.TOO_LONG
            elif source is not None:
                found.append((Span.of(message.index, number, start, text), text, source))
        if not found:
            raise RefusedError(why)
        return max(found, key=lambda one: one[2].value)

    def _source(self, message: Message, number: int, start: int, end: int) -> Source | None:
        """Return who said a part of a text; None where nobody did who counts."""
        kind = message.pieces[number].kind
        if kind is PieceKind.THINKING or message.role == "system":
            return None
        if kind is not PieceKind.TEXT:
            return Source.TOOL
        place = message.index, number
        if place not in self._pasted:
            self._pasted[place] = pasted(message.pieces[number].text)
        ranges = self._pasted[place]
        # Ranges are in order and do not overlap.
        at = bisect_left(ranges, start, key=lambda one: one[1] - 1)
        is_pasted = at < len(ranges) and ranges[at][0] < end
        return Source.TOOL if is_pasted else self._source_of(message)

    def _source_of(self, message: Message) -> Source:
        """Return who speaks in a message."""
        if message.role == "assistant":
            return Source.ASSISTANT
        # Beside results, and where it is not a user turn, a harness may have written the text.
        is_user = message.is_user_turn and not message.answers
        return Source.USER if is_user else Source.TOOL


def _is_call(heading: Heading, kind: PieceKind) -> bool:
    """Whether it is a note of a call's input, about files."""
    return heading is Heading.FILES and kind is PieceKind.TOOL_INPUT


def _check_may_go(item: Item) -> None:
    if item.heading in PERMANENT or item.kind == "request":
        raise RefusedError(Refusal.PERMANENT)


def _is_after(span: Span, item: Item) -> bool:
    """Whether a span comes after all that was said of an item."""
    if span.entry != item.last_entry or span.entry != item.span.entry:
        return span.entry > item.last_entry
    return (span.piece, span.start) >= (item.span.piece, item.span.end)


def _overlaps(one: Span, other: Span) -> bool:
    is_there = (one.entry, one.piece) == (other.entry, other.piece)
    return is_there and one.start < other.end and other.start < one.end


def _lays_down(text: str) -> bool:
    """Whether it can hold instead of a preference: the user lays something down, or corrects."""
    return bool(_engine.directives(text)) or is_correction(text)


_TAG = re.compile(r"<(/?)([A-Za-z][\w:-]{0,40})(?:\s[^<>]{0,200})?>")
_FENCE = re.compile(r"^[ \t]{0,3}(?:```|~~~)", re.MULTILINE)
_QUOTE = re.compile(r"^[ \t]{0,3}>.*$", re.MULTILINE)


def pasted(text: str) -> list[tuple[int, int]]:
    """Return the parts of a text that its author did not say: in fences, in tags, quoted lines.

    >>> pasted("Look:\\n> always use tabs\\nWhat is it?")
    [(6, 23)]
    """
    ranges = [match.span() for match in _QUOTE.finditer(text)]
    fences = [match.start() for match in _FENCE.finditer(text)]
    ranges += zip(fences[::2], [*fences[1::2], len(text)], strict=False)
    opened: dict[str, int] = {}
    for match in _TAG.finditer(text):
        if not match[1]:
            opened.setdefault(match[2], match.start())
        elif match[2] in opened:
            ranges.append((opened.pop(match[2]), match.end()))
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
