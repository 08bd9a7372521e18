"""Rows of a compaction's page: every unit before and after, text by text."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from rehydrate import _engine, formats
from rehydrate.compact.excerpts import Division, mark
from rehydrate.compact.outline_plan import without_messages
from rehydrate.compact.parallel import parted_of
from rehydrate.compact.result import BlockReport, Compaction, UnitReport
from rehydrate.compact.thinking import without_thinking
from rehydrate.compact.tool_inputs import split_inputs
from rehydrate.errors import InvalidArgumentError
from rehydrate.messages import Message, PieceKind, Unit


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


def rows(messages: Sequence[Any], compaction: Compaction) -> list[Row]:
    """Return a row for each unit, in the order of the conversation.

    Raises InvalidArgumentError where `messages` are not those that were compacted.
    """
    units = compaction.explain().units
    stats = compaction.stats
    conversation, messages = formats.read(messages, stats.format)
    replaced: Collection[int] = compaction.replaced
    before = parted_of(compaction)
    again = before.again(conversation, messages) if before else None
    if again:
        conversation, messages, replaced = again.read(), again.entries, again.places(replaced)
    if stats.stripped and not any(unit.stripped for unit in units):
        # The compacted messages had no thinking any more.
        conversation, messages = without_thinking(conversation, tuple(messages))
    if replaced:
        conversation = without_messages(conversation, replaced)
    split = split_inputs(conversation, messages, ()).conversation
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
    division = Division.of(*(_engine.divide(text) or ("lines", ())))
    fates = zip(blocks, division.blocks, strict=True)
    for is_kept, group in groupby(fates, key=lambda fate: fate[0].kept):
        parts = [row for _, row in group]
        before = text[parts[0].start : parts[-1].end]
        count = sum(part.count for part in parts)
        handle = blocks[0].handle or ""
        gap = mark(division.measure, count, parts[0].first, parts[-1].last, handle)
        yield Run(before, before if is_kept else gap, is_kept)
