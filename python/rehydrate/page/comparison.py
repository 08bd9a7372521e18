"""The page of a compaction as HTML: a head with the figures, then every unit before and after.

The head has a bar of the budget, a map of the session, and notices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from rehydrate import _engine, formats
from rehydrate._text import plural
from rehydrate.compact.excerpts import Division, mark
from rehydrate.compact.outline import Outline
from rehydrate.compact.parallel import parted_of
from rehydrate.compact.result import BlockReport, Compaction, Stats, UnitReport, span
from rehydrate.compact.thinking import without_thinking
from rehydrate.compact.tool_inputs import split_inputs
from rehydrate.errors import InvalidArgumentError
from rehydrate.messages import Message, PieceKind, Unit
from rehydrate.page.html import document, escaped, fair_share, kind_labels, shown_ends


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
        conversation = conversation.without(replaced)
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


MAP_WIDTH, MAP_HEIGHT = 1000, 28
_SHORTEST = 0.08
"""Minimum height of a unit in the map, as a share: a nearly empty unit stays visible."""


def head(
    every: Sequence[Row], shown: Sequence[Row], stats: Stats, query: str | None, title: str
) -> Iterator[str]:
    """Yield the head of the page, from the title to the heads of the two columns."""
    yield "<header>"
    yield f'<p class="name"><b>Rehydrate</b> <bdi>{escaped(title)}</bdi></p>'
    change = f"−{stats.dropped_pct:.1f}%" if stats.changed else "unchanged"
    yield (
        f"<h1>{stats.before_tokens:,} → {stats.after_tokens:,} tokens"
        f' <span class="change">{change}</span></h1>'
    )
    if query and query.strip():
        yield f'<p class="query" dir="auto"><span>query</span> {escaped(query)}</p>'
    yield _bar(stats)
    yield from _map(every, shown)
    yield from _counts(every, stats)
    for notice in _notices(stats):
        yield f'<p class="notice">{escaped(notice)}</p>'
    yield "</header>"
    yield '<div class="columns pair">'
    before, after = (
        f'<span class="tokens">{tokens:,} tokens</span>'
        for tokens in (stats.before_tokens, stats.after_tokens)
    )
    yield f'<div class="was">before {before}</div>'
    yield (
        f'<div class="now">after {after}'
        '<label><input type="checkbox" id="only"> hide what was dropped</label></div>'
    )
    yield "</div>"


def _bar(stats: Stats) -> str:
    """Return all tokens as a bar, filled with the kept ones, with a tick at the target."""
    whole = max(stats.before_tokens, 1)
    kept = min(100 * stats.after_tokens / whole, 100.0)
    target = min(100 * stats.target_tokens / whole, 100.0)
    label = f"{stats.after_tokens:,} tokens kept of {stats.target_tokens:,} asked for"
    return (
        f'<div class="budget" role="img" aria-label="{label}"><i style="width:{kept:.2f}%"></i>'
        f'<em style="left:{target:.2f}%"></em></div><p class="scale">{label}</p>'
    )


def _map(every: Sequence[Row], shown: Sequence[Row]) -> Iterator[str]:
    """Yield each unit, as wide as its tokens and filled with the kept ones, oldest first."""
    total = sum(row.unit.tokens for row in every)
    if not total:
        return
    linked = {row.unit.unit for row in shown}
    yield (
        f'<svg class="map" viewBox="0 0 {MAP_WIDTH} {MAP_HEIGHT}" preserveAspectRatio="none"'
        ' role="img" aria-label="what is kept, from the oldest message to the newest">'
    )
    begin = 0
    for row in every:
        unit = row.unit
        left, width = MAP_WIDTH * begin / total, MAP_WIDTH * unit.tokens / total
        begin += unit.tokens
        if unit.unit not in linked or not unit.tokens:
            continue
        share = min(unit.kept_tokens / unit.tokens, 1.0)
        height = MAP_HEIGHT * max(share, _SHORTEST) if unit.kept else 0
        position = f'x="{left:.2f}" width="{width:.2f}"'
        filled = f'y="{MAP_HEIGHT - height:.1f}" height="{height:.1f}"'
        yield (
            f'<a href="#u{unit.unit}"><rect class="all" {position} height="{MAP_HEIGHT}"/>'
            f'<rect class="{row.fate}" {position} {filled}/>'
            f"<title>{unit.unit}: {unit.kept_tokens:,} of {unit.tokens:,} tokens</title></a>"
        )
    yield "</svg>"
    yield '<p class="ends"><span>oldest</span><span>newest</span></p>'


def _counts(every: Sequence[Row], stats: Stats) -> Iterator[str]:
    fates = Counter(row.fate for row in every)
    messages = sum(len(row.messages) for row in every)
    yield '<ul class="counts">'
    for fate, words in (
        ("kept", "kept whole"),
        ("excerpted", "kept in part"),
        ("dropped", "dropped"),
    ):
        yield f'<li class="{fate}"><b>{fates[fate]:,}</b> {words}</li>'
    parts = f", {stats.excerpted:,} of them in part" if stats.excerpted else ""
    kept = f"{messages - stats.dropped:,} of {messages:,} messages{parts}"
    yield f"<li>{len(every):,} units; {kept}</li>"
    # Without the time it took: the same session gives the same page, byte for byte.
    yield f"<li>{escaped(f'{stats.format} · {stats.counter}')}</li>"
    if stats.ignored:
        yield f"<li>{stats.ignored:,} entries that no model sees, not shown</li>"
    yield "</ul>"


def _notices(stats: Stats) -> Iterator[str]:
    if stats.over_budget:
        yield (
            f"Over budget: what is always kept takes {stats.pinned_tokens:,} tokens, "
            f"{stats.target_tokens:,} were asked for."
        )
    for problem in stats.degraded:
        yield f"Done without: {problem}"


FOLD_LINES = {True: 14, False: 3}
"""Lines that stay open of a kept run (True) and of one that was left out (False)."""
FOLD_CHARACTERS = {True: 1_400, False: 300}
SMALLEST_FOLD = 3
"""Fewer extra lines than this are shown and not folded."""

_FATES = {"kept": "kept", "excerpted": "kept in part", "dropped": "dropped"}


def side_by_side(
    messages: Sequence[Any],
    compaction: Compaction,
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
    first, last = shown_ends([len(row.messages) for row in every])
    shown = [*every[:first], *every[last:]]
    cap = fair_share([len(run.before) for row in shown for run in row.runs])
    return document(
        f"{title}: before and after",
        head(every, shown, compaction.stats, query, title),
        _body(every, (first, last), compaction.outline, cap),
    )


def _body(
    every: Sequence[Row], shown: tuple[int, int], outline: Outline | None, cap: int
) -> Iterator[str]:
    """Yield the first and the last units, and the outline before the units that it replaces."""
    first, last = shown
    at = -1
    if outline is not None:
        starts = enumerate(row.unit.messages[0] for row in every)
        at = next((n for n, start in starts if start >= outline.index), len(every) - 1)
    for number, row in enumerate(every):
        if outline is not None and number == at:
            yield from _outline(outline, cap)
        if number == first < last:
            yield from _left_out(every[first:last])
        if not first <= number < last:
            yield from _unit(row, cap)


def _outline(outline: Outline, cap: int) -> Iterator[str]:
    now = f'<b class="fate">outline</b> <span class="tokens">{outline.tokens:,} tokens</span>'
    yield '<section class="unit kept">'
    yield _pair("head", "", now)
    yield _pair("same", "", _box(outline.text[:cap], "text"))
    yield "</section>"


def _unit(row: Row, cap: int) -> Iterator[str]:
    unit = row.unit
    is_dropped = row.fate == "dropped"
    yield f'<section class="unit {row.fate}" id="u{unit.unit}">'
    label = f"{'message' if len(unit.messages) == 1 else 'messages'} {span(unit.messages)}"
    was = (
        f'<span class="number">{unit.unit}</span> <b>{escaped(unit.role)}</b>'
        f' <span class="quiet">{label}</span>'
        f' <span class="tokens">{unit.tokens:,} tokens</span>'
    )
    now = (
        f'<b class="fate">{_FATES[row.fate]}</b> <span class="quiet">{escaped(unit.reason)}</span>'
    )
    if not is_dropped:
        now += f' <span class="tokens">{unit.kept_tokens:,} tokens</span>'
    if is_dropped:
        preview = f'<p class="preview" dir="auto">{escaped(unit.preview) or "no text"}</p>'
        yield '<details class="whole"><summary>'
        yield _pair("head", was + preview, now)
        yield "</summary>"
    else:
        yield _pair("head", was, now)
    for message in row.messages:
        yield from _message(message, row, cap)
    if is_dropped:
        yield "</details>"
    yield "</section>"


def _message(message: ShownMessage, row: Row, cap: int) -> Iterator[str]:
    is_only = len(row.messages) == 1
    media = plural(message.images, "medium", "media") if message.images else ""
    kinds = kind_labels(text.kind for text in message.texts)
    if not is_only or media or kinds:
        label = " · ".join(
            [f"{message.index}", escaped(message.role), *filter(None, [kinds, media])]
        )
        who = f'<p class="who">{label}</p>'
        yield _pair("same" if row.unit.kept else "gone", who, who if row.unit.kept else "")
    for text in message.texts:
        for run in text.runs:
            yield from _run(run, text, row, cap)


def _run(run: Run, text: Text, row: Row, cap: int) -> Iterator[str]:
    """Yield a run next to its result; a long one is folded after its first lines."""
    names = "same" if run.kept else "gone"
    if run.kept and row.fate == "excerpted" and len(text.runs) > 1:
        names += " picked"
    style = "text" if text.kind == PieceKind.TEXT else "text code"
    beginning, rest = _folded(run.before[:cap], run.kept)
    left = _box(beginning, style)
    right = left if run.kept else f'<p class="mark">{escaped(run.after)}</p>' if run.after else ""
    yield _pair(names, left, right)
    hidden = len(run.before) - cap
    if rest:
        lines = rest.count("\n") + (not rest.endswith("\n"))
        more = plural(lines, "more line") if lines > 1 else f"{len(rest):,} more characters"
        yield f'<details class="more {names}"><summary>{more}</summary>'
        left = _box(rest, style)
        yield _pair(names, left, left if run.kept else "")
        yield "</details>"
    if hidden > 0:
        cut = f'<p class="cut">{hidden:,} more characters are not shown on this page</p>'
        yield _pair(names, cut, cut if run.kept else "")


def _pair(names: str, left: str, right: str) -> str:
    """Return one line of the table; a phone shows the halves one below the other."""
    halves = f'<div class="was">{left}</div><div class="now">{right}</div>'
    return f'<div class="pair {names}">{halves}</div>'


def _box(text: str, style: str) -> str:
    return f'<div class="{style}" dir="auto">{escaped(text)}</div>' if text else ""


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


def _left_out(rows_between: Sequence[Row]) -> Iterator[str]:
    """Yield one line for the units that do not fit on the page."""
    if not rows_between:
        return
    units = [row.unit for row in rows_between]
    kept = [unit for unit in units if unit.kept]
    count = sum(len(unit.messages) for unit in units)
    was = (
        f"{plural(len(units), 'unit')} {units[0].unit}-{units[-1].unit}, "
        f"{plural(count, 'message')}, {sum(unit.tokens for unit in units):,} tokens: "
        "too many to show on this page"
    )
    now = (
        f"{plural(len(kept), 'unit')} kept, "
        f"{sum(len(unit.messages) for unit in kept):,} messages, "
        f"{sum(unit.kept_tokens for unit in kept):,} tokens"
    )
    yield '<section class="unit between">'
    yield _pair("head", was, now)
    yield "</section>"
