"""Below the prompt: what was left out and why, the sources, the passes, the scores of units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rehydrate.compact.compaction import Explanation, UnitReport, span
from rehydrate.ir import PromptExplanation, PromptIR, PromptRow
from rehydrate.page.limits import shown_ends
from rehydrate.page.marks import name, percent, plural, tokens

LINES = 2_000
"""Of a table: the first and the last half of so many; the rest is summed up."""
_REASONS_SHOWN = 8


def left_out(ir: PromptIR, table: PromptExplanation) -> Iterator[str]:
    """What is not in the prompt though it might have been."""
    rows = [row for row in table.rows if not row.is_kept]
    if not rows:
        return
    gone = ir.meta.dropped
    lost = f"{plural(len(gone), 'piece')} of {sum(one.tokens for one in gone):,} tokens"
    yield f'<h2 id="left">Left out <span>{lost}</span></h2>'
    reasons = Counter(one.reason for one in gone).most_common()
    if len(rows) > len(reasons):
        yield '<ul class="reasons">'
        for reason, count in reasons[:_REASONS_SHOWN]:
            yield f"<li><b>{count:,}</b> {name(reason)}</li>"
        if len(reasons) > _REASONS_SHOWN:
            rest = sum(count for _, count in reasons[_REASONS_SHOWN:])
            yield f"<li><b>{rest:,}</b> for other reasons</li>"
        yield "</ul>"
    first, last = shown_ends([1] * len(rows), LINES)
    for row in rows[:first]:
        yield _gone(row)
    if first < last:
        yield f'<p class="cut">{plural(last - first, "more line")} not shown on this page</p>'
    for row in rows[last:]:
        yield _gone(row)


def _gone(row: PromptRow) -> str:
    badges = f'<b class="source">{name(row.source)}</b>' if row.source else ""
    if row.priority:
        badges += f'<span class="badge">{name(row.priority, 20)}</span>'
    if row.handle:
        badges += f'<span class="badge">whole under {name(row.handle, 60)}</span>'
    return (
        f'<div class="gone-row {row.kind}">'
        f'<span class="what">{name(row.id)}</span>{tokens(row.tokens)}'
        f'<span class="badges">{badges}<span class="why">{name(row.reason)}</span></span></div>'
    )


def sources(table: PromptExplanation) -> Iterator[str]:
    """What each source brought, and how long it took."""
    if not table.sources:
        return
    slowest = max(source.elapsed_ms for source in table.sources)
    yield f'<h2 id="sources">Sources <span>the slowest {slowest:,.1f} ms</span></h2>'
    for source in table.sources:
        share = percent(source.elapsed_ms, slowest)
        yield (
            f'<div class="line"><b class="what">{name(source.name)}</b>'
            f'<span class="state {source.status}">{source.status}</span>'
            f"<span>{plural(source.sections, 'section')}</span>{tokens(source.tokens)}"
            f'<span class="gauge"><i style="width:{share}"></i></span>'
            f'<span class="ms">{source.elapsed_ms:,.1f} ms</span>'
            f'<span class="why">{name(source.detail) if source.detail else ""}</span></div>'
        )


def passes(table: PromptExplanation) -> Iterator[str]:
    """What each pass did."""
    if not table.trace:
        return
    yield '<h2 id="passes">Passes <span>in the order in which they ran</span></h2>'
    for trace in table.trace:
        saved = trace.before_tokens - trace.after_tokens
        change = f"−{saved:,}" if saved > 0 else f"+{-saved:,}" if saved else "±0"
        changed = plural(len(trace.changed), "change") if trace.changed else "no change"
        notes = "; ".join(trace.notes)
        yield (
            f'<div class="line"><b class="what">{name(trace.name)}</b>'
            f'<span class="state {"ok" if trace.changed else "off"}">{change}</span>'
            f'<span>{changed}</span><span class="tokens">{trace.before_tokens:,} → '
            f"{trace.after_tokens:,}</span>"
            f'<span class="ms">{trace.elapsed_ms:,.1f} ms</span>'
            f'<span class="why">{name(notes) if notes else ""}</span></div>'
        )


def scores(explanation: Explanation) -> Iterator[str]:
    """What a compaction thinks of each unit of the history, as a table that scrolls by itself."""
    units = explanation.units
    if not units:
        return
    kept = sum(unit.kept for unit in units)
    yield (
        '<h2 id="scores">Scores <span>of each unit of the history: a compaction of it alone '
        f"to this size keeps {kept:,} of {len(units):,}</span></h2>"
    )
    heads = ("unit", "messages", "role", "tokens", "score", "recency", "meaning", "covered", "gain")
    yield '<div class="scroll"><table><thead><tr>'
    yield "".join(f"<th>{head}</th>" for head in (*heads, "fate", "reason"))
    yield "</tr></thead><tbody>"
    first, last = shown_ends([1] * len(units), LINES)
    yield from _units(units[:first])
    if first < last:
        more = plural(last - first, "more unit")
        yield f'<tr><td class="cut" colspan="11">{more} not shown on this page</td></tr>'
    yield from _units(units[last:])
    yield "</tbody></table></div>"


def _units(units: Sequence[UnitReport]) -> Iterator[str]:
    for unit in units:
        figures = (unit.score, unit.recency, unit.semantic, unit.coverage, unit.gain)
        numbers = "".join(f"<td>{figure:.3f}</td>" for figure in figures)
        fate = "kept" if unit.kept else "dropped"
        yield (
            f'<tr class="{fate}"><td>{unit.unit}</td><td>{span(unit.messages)}</td>'
            f"<td>{name(unit.role, 40)}</td><td>{unit.tokens:,}</td>{numbers}"
            f'<td class="fate">{fate}</td><td class="reason">{name(unit.reason)}</td></tr>'
        )
