"""The page as HTML: a head with the figures, then every unit before and after, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rehydrate.compact.compaction import Compaction, span
from rehydrate.compact.outline import Outline
from rehydrate.messages import PieceKind
from rehydrate.page.escaping import escaped
from rehydrate.page.head import head
from rehydrate.page.limits import fair_share, shown_ends
from rehydrate.page.opening import opening
from rehydrate.page.rows import Row, Run, Spoken, Text, rows

FOLD_LINES = {True: 14, False: 3}
"""Lines of a stretch that stand open, of one that is kept and of one that was left out."""
FOLD_CHARACTERS = {True: 1_400, False: 300}
SMALLEST_FOLD = 3
"""So many lines more are shown rather than folded away."""

_KINDS = {
    PieceKind.TEXT: "",
    PieceKind.TOOL_INPUT: "calls",
    PieceKind.TOOL_RESULT: "result",
    PieceKind.THINKING: "thinking",
}
_FATES = {"kept": "kept", "excerpted": "kept in part", "dropped": "dropped"}


def side_by_side(
    messages: Sequence[Any],
    compaction: Compaction,
    *,
    query: str | None = None,
    title: str = "a session",
) -> str:
    """The session before and after as one HTML page: no script, nothing loaded, all escaped.

    ``messages`` are those that ``compact_context`` was given, ``query`` and ``title`` are shown.
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
    parts = [
        *opening(f"{title}: before and after"),
        *head(every, shown, compaction.stats, query, title),
        "<main>",
        *_body(every, (first, last), compaction.outline, cap),
        "</main>",
        "</body>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def _body(
    every: Sequence[Row], shown: tuple[int, int], outline: Outline | None, cap: int
) -> Iterator[str]:
    """The first and the last units, and the outline before what it stands in the place of."""
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
    places = f"{'message' if len(unit.messages) == 1 else 'messages'} {span(unit.messages)}"
    was = (
        f'<span class="number">{unit.unit}</span> <b>{escaped(unit.role)}</b>'
        f' <span class="quiet">{places}</span>'
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
    for spoken in row.messages:
        yield from _message(spoken, row, cap)
    if is_dropped:
        yield "</details>"
    yield "</section>"


def _message(spoken: Spoken, row: Row, cap: int) -> Iterator[str]:
    is_only = len(row.messages) == 1
    media = _plural(spoken.images, "medium", "media") if spoken.images else ""
    kinds = " ".join(dict.fromkeys(_KINDS[text.kind] for text in spoken.texts))
    if not is_only or media or kinds.strip():
        label = " · ".join(
            [f"{spoken.index}", escaped(spoken.role), *filter(None, [kinds.strip(), media])]
        )
        who = f'<p class="who">{label}</p>'
        yield _pair("same" if row.unit.kept else "gone", who, who if row.unit.kept else "")
    for text in spoken.texts:
        for run in text.runs:
            yield from _run(run, text, row, cap)


def _run(run: Run, text: Text, row: Row, cap: int) -> Iterator[str]:
    """A stretch beside what became of it; what is long stands folded behind its beginning."""
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
        more = _plural(lines, "more line") if lines > 1 else f"{len(rest):,} more characters"
        yield f'<details class="more {names}"><summary>{more}</summary>'
        left = _box(rest, style)
        yield _pair(names, left, left if run.kept else "")
        yield "</details>"
    if hidden > 0:
        cut = f'<p class="cut">{hidden:,} more characters are not shown on this page</p>'
        yield _pair(names, cut, cut if run.kept else "")


def _pair(names: str, left: str, right: str) -> str:
    """One line of the table; a phone shows the halves one below the other."""
    halves = f'<div class="was">{left}</div><div class="now">{right}</div>'
    return f'<div class="pair {names}">{halves}</div>'


def _box(text: str, style: str) -> str:
    return f'<div class="{style}" dir="auto">{escaped(text)}</div>' if text else ""


def _folded(text: str, kept: bool) -> tuple[str, str]:
    """A beginning that stands open, and the rest; the rest is empty where it is hardly more."""
    lines = text.splitlines(keepends=True)
    end = len(text)
    if len(lines) > FOLD_LINES[kept] + SMALLEST_FOLD:
        end = sum(map(len, lines[: FOLD_LINES[kept]]))
    most = FOLD_CHARACTERS[kept]
    if end > most * 1.5:
        blank = max(text.rfind("\n", most // 2, most), text.rfind(" ", most // 2, most))
        end = blank + 1 if blank > 0 else most
    return text[:end], text[end:]


def _left_out(rows_between: Sequence[Row]) -> Iterator[str]:
    """One line for the units that a page has no room for."""
    if not rows_between:
        return
    units = [row.unit for row in rows_between]
    kept = [unit for unit in units if unit.kept]
    count = sum(len(unit.messages) for unit in units)
    was = (
        f"{_plural(len(units), 'unit')} {units[0].unit}-{units[-1].unit}, "
        f"{_plural(count, 'message')}, {sum(unit.tokens for unit in units):,} tokens: "
        "too many to show on this page"
    )
    now = (
        f"{_plural(len(kept), 'unit')} kept, "
        f"{sum(len(unit.messages) for unit in kept):,} messages, "
        f"{sum(unit.kept_tokens for unit in kept):,} tokens"
    )
    yield '<section class="unit between">'
    yield _pair("head", was, now)
    yield "</section>"


def _plural(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
