"""The page of a compaction: every unit before and after, paired; templates/comparison.html."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, starmap
from typing import Any, NamedTuple

from rehydrate import _native, formats
from rehydrate.compact.outline import Outline
from rehydrate.compact.result import BlockReport, Compaction, Stats, UnitReport
from rehydrate.errors import InvalidArgumentError
from rehydrate.messages import Message, PieceKind, Unit
from rehydrate.page.html import PAGE_MESSAGES, Gap, fair_share, render, with_gap


class Run(NamedTuple):
    """A part of a text that was kept or left out as a whole."""

    before: str
    after: str
    """The same text if it is kept, a mark if it was left out, "" in a message that was dropped."""
    kept: bool


class Text(NamedTuple):
    """One text of a message; its runs joined are the whole text."""

    kind: PieceKind
    runs: tuple[Run, ...]


class ShownMessage(NamedTuple):
    """A message with its texts."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    role: str
    images: int
    texts: tuple[Text, ...]


class Row(NamedTuple):
    """One unit: why it was kept or dropped, and its messages."""

    unit: UnitReport
    fate: str
    """kept, excerpted or dropped."""
    messages: tuple[ShownMessage, ...]

    @property
    def runs(self) -> Iterator[Run]:
        """Yield all runs of all its texts."""
        return (run for message in self.messages for text in message.texts for run in text.runs)


def rows(messages: Sequence[Any], compaction: Compaction[Any]) -> list[Row]:
    """Return a row for each unit, in the order of the conversation.

    Raises InvalidArgumentError if `messages` are not those that were compacted.
    """
    units = compaction.explain().units
    stats = compaction.stats
    conversation, messages = formats.read(messages, stats.format)
    replaced: Collection[int] = compaction.replaced
    before = compaction._reasons.parted
    again = before.again(conversation, messages) if before else None
    if again:
        conversation, messages, replaced = again.read(), again.entries, again.places(replaced)
    if stats.stripped and not any(unit.stripped for unit in units):
        # The compacted messages had no thinking any more.
        conversation, messages, *_ = _native.without_thinking(conversation, messages)
    if replaced:
        conversation = conversation.without(replaced)
    split = _native.DivisibleTexts(conversation, messages).conversation
    parted = {message.index: message for message in split.messages}
    try:
        return [_row(*both, parted) for both in zip(units, conversation.units, strict=True)]
    except ValueError:  # another number of units, of messages in one, or of blocks in a text
        raise InvalidArgumentError(
            f"these {len(messages):,} messages are not those of {compaction!r}; "
            "pass the list that compact_context was given"
        ) from None


def _row(unit: UnitReport, whole: Unit, parted: Mapping[int, Message]) -> Row:
    """Build one row; `parted` maps an index to its message with long input strings as own texts."""
    blocks: dict[tuple[int, int], list[BlockReport]] = {}
    for block in unit.blocks:
        blocks.setdefault((block.message, block.text), []).append(block)
    last = {message: max(text for at, text in blocks if at == message) for message, _ in blocks}
    shown = [
        parted[message.index] if last.get(index, 0) >= len(message.pieces) else message
        for index, message in zip(unit.messages, whole.messages, strict=True)
    ]
    messages = tuple(
        ShownMessage(
            index,
            message.role,
            message.images,
            tuple(
                Text(
                    piece.kind,
                    (Run(piece.text, "", False),)
                    if unit.stripped and piece.kind is PieceKind.THINKING
                    else tuple(_runs(piece.text, unit, blocks.get((index, text_index)))),
                )
                for text_index, piece in enumerate(message.pieces)
            ),
        )
        for index, message in zip(unit.messages, shown, strict=True)
    )
    row = Row(unit, "kept" if unit.kept else "dropped", messages)
    is_partial = unit.kept and not all(run.kept for run in row.runs)
    return row._replace(fate="excerpted") if is_partial else row


def _runs(text: str, unit: UnitReport, blocks: Sequence[BlockReport] | None) -> Iterator[Run]:
    """Yield the text, cut where kept and left-out parts meet."""
    if not unit.kept or not blocks or all(block.kept for block in blocks):
        yield Run(text, text if unit.kept else "", unit.kept)
        return
    division = _native.divide(text)
    if division is None:
        raise ValueError("a text that has no blocks")
    kept = [block.kept for block in blocks]
    yield from starmap(Run, division.runs(text, kept, blocks[0].handle or ""))


MAP_WIDTH, MAP_HEIGHT = 1000, 28
_SHORTEST = 0.08
"""Minimum height of a unit in the map, as a share: a nearly empty unit stays visible."""


class Bar(NamedTuple):
    """A unit in the map: as wide as its tokens, filled with the kept ones."""

    row: Row
    left: float
    width: float
    height: float


def _map(every: Sequence[Row], shown: Sequence[Row]) -> Iterator[Bar]:
    """Yield a bar for each unit that the page shows, oldest first."""
    total = sum(row.unit.tokens for row in every)
    linked = {row.unit.unit for row in shown}
    begin = 0
    for row in every:
        unit = row.unit
        if unit.tokens and unit.unit in linked:
            share = max(min(unit.kept_tokens / unit.tokens, 1.0), _SHORTEST) if unit.kept else 0
            left, width = MAP_WIDTH * begin / total, MAP_WIDTH * unit.tokens / total
            yield Bar(row, left, width, MAP_HEIGHT * share)
        begin += unit.tokens


FOLD_LINES = {True: 14, False: 3}
"""Lines that stay open of a kept run (True) and of one that was left out (False)."""
FOLD_CHARACTERS = {True: 1_400, False: 300}
SMALLEST_FOLD = 3
"""Fewer extra lines than this are shown and not folded."""


def side_by_side(
    messages: Sequence[Any],
    compaction: Compaction[Any],
    *,
    query: str | None = None,
    title: str = "a session",
) -> str:
    """Return the session before and after as one HTML page: no script, nothing loaded, all escaped.

    ``messages`` are those that ``compact_context`` was given; ``query`` and ``title`` are shown.
    Very long texts and sessions are shown in part, and the page says so.

    >>> import rehydrate
    >>> session = [{"role": "user", "content": "Is 1 < 2 </script>?"}]
    >>> page = side_by_side(session, rehydrate.compact_context(session))
    >>> page.startswith("<!doctype html>"), "Is 1 &lt; 2 &lt;/script&gt;?" in page
    (True, True)
    """
    every = rows(messages, compaction)
    return page_of(every, compaction.stats, title=title, query=query, outline=compaction.outline)


def page_of(
    every: Sequence[Row],
    stats: Stats,
    *,
    title: str,
    query: str | None = None,
    outline: Outline | None = None,
) -> str:
    """Return the page of these rows."""
    shown = with_gap(every, PAGE_MESSAGES, [len(row.messages) for row in every])
    drawn = [row for row in shown if not isinstance(row, Gap)]
    outline_row = None
    if outline is not None:  # before the units that it replaces
        later = (row for row in every if row.unit.messages[0] >= outline.index)
        outline_row = next(chain(later, every[-1:]), None)
    return render(
        "comparison.html",
        title=title,
        query=query,
        stats=stats,
        every=every,
        shown=shown,
        bars=list(_map(every, drawn)),
        map_width=MAP_WIDTH,
        map_height=MAP_HEIGHT,
        fates=Counter(row.fate for row in every),
        outline=outline,
        outline_row=outline_row,
        cap=fair_share([len(run.before) for row in drawn for run in row.runs]),
        folded=_folded,
    )


def _folded(text: str, kept: bool) -> tuple[str, str]:
    """Return the open beginning and the folded rest; the rest is empty if it is short."""
    lines = text.splitlines(keepends=True)
    end = len(text)
    if len(lines) > FOLD_LINES[kept] + SMALLEST_FOLD:
        end = sum(map(len, lines[: FOLD_LINES[kept]]))
    limit = FOLD_CHARACTERS[kept]
    if end > limit * 1.5:
        blank = max(text.rfind("\n", limit // 2, limit), text.rfind(" ", limit // 2, limit))
        end = blank + 1 if blank > 0 else limit
    return text[:end], text[end:]
