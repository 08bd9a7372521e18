"""The page of a compaction: every unit before and after, paired; templates/comparison.html.

`lists_side_by_side` is of lists that are known before and after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, starmap
from typing import Any, NamedTuple

from rehydrate import _native, formats
from rehydrate._check import check_type
from rehydrate._native import compared_texts
from rehydrate.compact.api import compact_context
from rehydrate.compact.outline import Outline
from rehydrate.compact.result import BlockReport, Compaction, Stats, UnitReport
from rehydrate.errors import InvalidArgumentError
from rehydrate.messages import Message, Piece, PieceKind, Provider, Unit
from rehydrate.page.html import PAGE_MESSAGES, Gap, fair_share, render, with_gap
from rehydrate.prompt.entries import COUNTER, entry_tokens


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
    check_type("compaction", compaction, Compaction, "pass what compact_context returned")
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


_PREVIEW_CHARACTERS = 80
_WHOLE = "as it was"


def lists_side_by_side(
    before: Sequence[Any],
    after: Sequence[tuple[int | None, Any]],
    *,
    format: Provider,  # noqa: A002  the field's word
    reasons: Mapping[int | None, str],
    target_tokens: int,
    title: str = "a conversation",
) -> str:
    """Return two lists of messages as one HTML page: no script, nothing loaded, all escaped.

    ``after`` has each message with its index in ``before``, None for one that was written again.
    ``reasons`` says by index why a message was left out or cut; ``target_tokens`` is the budget.
    Raises InvalidArgumentError for an index that ``before`` does not have.

    >>> said = [{"role": "user", "content": f"Berth {n}?"} for n in range(3)]
    >>> page = lists_side_by_side(
    ...     said, [(2, said[2])], format="openai_chat", reasons={0: "it is old"}, target_tokens=9
    ... )
    >>> page.count("it is old"), "Berth 2?" in page
    (1, True)
    """
    wrong = [at for at, _ in after if at is not None and not 0 <= at < len(before)]
    if wrong:
        raise InvalidArgumentError(
            f"after has index {wrong[0]}; pass indices from 0 to {len(before) - 1}, or None"
        )
    values = [value for _, value in after]
    conversation, sent = formats.parse(before, format), formats.parse(values, format)
    tokens = entry_tokens(conversation, len(before))
    sent_tokens = entry_tokens(sent, len(values))
    kept = {
        at: (message, sent_tokens[message.index])
        for message in sent.messages
        if (at := after[message.index][0]) is not None
    }
    added = [message for message in sent.messages if after[message.index][0] is None]
    every = [_added(message, sent_tokens[message.index]) for message in added]
    every += [
        _row_of(len(added) + number, unit, kept, tokens, reasons)
        for number, unit in enumerate(conversation.units)
    ]
    before_tokens, after_tokens = sum(tokens), sum(sent_tokens)
    whole = {message.index: message.pieces for message in conversation.messages}
    changed = [at for at, (message, _) in kept.items() if message.pieces != whole.get(at)]
    lost = len(before) - len(kept)
    stats = compact_context([], embedder=None).stats._replace(
        before_tokens=before_tokens,
        after_tokens=after_tokens,
        target_tokens=target_tokens,
        dropped=lost,
        dropped_pct=round(100 * (before_tokens - after_tokens) / max(before_tokens, 1), 1),
        dropped_messages_pct=round(100 * lost / max(len(before), 1), 1),
        units=len(every),
        changed=bool(lost or changed or added),
        excerpted=len(changed),
        counter=COUNTER,
        format=format,
        elapsed_ms=0.0,
    )
    return page_of(every, stats, title=title)


def _row_of(
    number: int,
    unit: Unit,
    kept: Mapping[int, tuple[Message, int]],
    tokens: Sequence[int],
    reasons: Mapping[int | None, str],
) -> Row:
    """Build the row of one unit."""
    shown = []
    for message in unit.messages:
        sent = kept.get(message.index)
        texts = _texts(message.pieces, sent[0].pieces if sent else ())
        shown.append(ShownMessage(message.index, message.role, message.images, texts))
    kept_tokens = sum(kept[each][1] for each in unit.members if each in kept)
    why = Counter(reasons[each] for each in unit.members if each in reasons)
    fate = "dropped"
    if any(each in kept for each in unit.members):
        runs = [run for message in shown for text in message.texts for run in text.runs]
        is_whole = all(run.kept for run in runs) and all(each in kept for each in unit.members)
        fate = "kept" if is_whole else "excerpted"
    reason = next(iter(why), _WHOLE if fate == "kept" else "")
    total = sum(tokens[each] for each in unit.members)
    return Row(_report(number, unit, total, kept_tokens, reason), fate, tuple(shown))


def _added(message: Message, tokens: int) -> Row:
    """Build the row of a message that was written again."""
    texts = tuple(Text(piece.kind, (Run("", piece.text, False),)) for piece in message.pieces)
    shown = ShownMessage(message.index, message.role, message.images, texts)
    unit = Unit((message.index,), (message,))
    return Row(_report(0, unit, 0, tokens, "rewritten"), "excerpted", (shown,))


def _report(number: int, unit: Unit, tokens: int, kept_tokens: int, reason: str) -> UnitReport:
    text = " ".join(message.text for message in unit.messages)
    return UnitReport(
        number,
        unit.members,
        unit.role,
        tokens,
        structural=0.0,
        recency=0.0,
        semantic=0.0,
        coverage=0.0,
        odds=0.0,
        score=0.0,
        gain=0.0,
        kept=kept_tokens > 0,
        reason=reason,
        preview=" ".join(text.split())[:_PREVIEW_CHARACTERS],
        kept_tokens=kept_tokens,
    )


def _texts(before: Sequence[Piece], after: Sequence[Piece]) -> tuple[Text, ...]:
    """Return each text of a message, cut where what was kept and what was left out meet."""
    found = compared_texts(
        *([(piece.kind, piece.text) for piece in pieces] for pieces in (before, after))
    )
    runs = [tuple(map(Run._make, each)) for each in found]
    return tuple(Text(piece.kind, own) for piece, own in zip(before, runs, strict=True))
