"""The head of the page: the figures, a bar of the budget, a map of the session, notices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rehydrate.compact.compaction import Stats
from rehydrate.page.escaping import escaped
from rehydrate.page.rows import Row

MAP_WIDTH, MAP_HEIGHT = 1000, 28
_SHORTEST = 0.08
"""Of the map's height: so much is drawn of a unit of which little is kept."""


def head(
    every: Sequence[Row], shown: Sequence[Row], stats: Stats, query: str | None, title: str
) -> Iterator[str]:
    """From the title to the heads of the two columns."""
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
    """All tokens as a bar, filled as far as they are kept, with a tick at what was asked for."""
    whole = max(stats.before_tokens, 1)
    kept = min(100 * stats.after_tokens / whole, 100.0)
    asked = min(100 * stats.target_tokens / whole, 100.0)
    said = f"{stats.after_tokens:,} tokens kept of {stats.target_tokens:,} asked for"
    return (
        f'<div class="budget" role="img" aria-label="{said}"><i style="width:{kept:.2f}%"></i>'
        f'<em style="left:{asked:.2f}%"></em></div><p class="scale">{said}</p>'
    )


def _map(every: Sequence[Row], shown: Sequence[Row]) -> Iterator[str]:
    """Each unit as wide as its tokens, filled as far as they are kept, from oldest to newest."""
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
        place = f'x="{left:.2f}" width="{width:.2f}"'
        filled = f'y="{MAP_HEIGHT - height:.1f}" height="{height:.1f}"'
        yield (
            f'<a href="#u{unit.unit}"><rect class="all" {place} height="{MAP_HEIGHT}"/>'
            f'<rect class="{row.fate}" {place} {filled}/>'
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
