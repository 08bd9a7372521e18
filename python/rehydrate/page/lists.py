"""The page of a compaction of which the lists before and after are known; comparison.html too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rehydrate import formats
from rehydrate._native import compared_texts
from rehydrate.compact.api import compact_context
from rehydrate.compact.result import UnitReport
from rehydrate.errors import InvalidArgumentError
from rehydrate.messages import Message, Piece, Provider, Unit
from rehydrate.page.comparison import Row, Run, ShownMessage, Text, page_of
from rehydrate.prompt.entries import COUNTER, entry_tokens

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
        _row(len(added) + number, unit, kept, tokens, reasons)
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


def _row(
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
