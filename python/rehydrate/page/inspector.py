"""A prompt as one HTML page: its content, costs and sources, and what was removed and why.

    PromptIR -> ir.explain() -> head, body, tables -> inspector_page -> the page

`rehydrate inspect FILE -o PAGE` writes it. Like the page of a compaction it has no script and loads
nothing. It opens offline, and no content of a prompt can run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rehydrate._text import plural
from rehydrate.compact.result import Explanation, UnitReport, span
from rehydrate.page.html import colours, document, escaped, name, percent, shown_ends, tokens
from rehydrate.page.inspector_body import Body
from rehydrate.prompt.compiled import CompiledPrompt
from rehydrate.prompt.explain import PromptExplanation, PromptRow
from rehydrate.prompt.ir import PromptIR

_MARGIN = 1.04
"""Width of the bar, relative to its last mark."""
_LAWS_SHOWN = 12


def head(
    ir: PromptIR,
    table: PromptExplanation,
    compiled: CompiledPrompt | None,
    title: str,
    *,
    has_scores: bool,
) -> Iterator[str]:
    """Yield the head of the page, from the title to the links to the tables."""
    soft, hard = table.budget.soft_tokens, table.budget.hard_tokens
    yield "<header>"
    yield f'<p class="name"><b>Rehydrate</b> <bdi>{escaped(title)}</bdi></p>'
    fate = "over" if table.tokens > soft else "within"
    yield (
        f"<h1>{table.tokens:,} tokens "
        f'<span class="change {fate}">{table.tokens / soft:.0%} of {soft:,}</span></h1>'
    )
    query = ir.request.query
    if query.strip():
        shown = query if len(query) <= 600 else query[:599] + "…"
        yield f'<p class="query" dir="auto"><span>for</span> {escaped(shown)}</p>'
    yield from _bar(table, soft, hard)
    yield from _shares(table)
    yield from _counts(ir, table, compiled)
    yield from _laws(ir)
    for problem in table.degraded:
        yield f'<p class="notice">Done without: {name(problem)}</p>'
    yield from _links(table, has_scores)
    yield "</header>"


def _bar(table: PromptExplanation, soft: int, hard: int) -> Iterator[str]:
    """Yield tokens by source, stacked, with the marks of the budget that are in reach."""
    whole = _MARGIN * max(table.tokens, hard if table.tokens > soft else soft)
    colour = colours(table.by_source)
    label = f"{table.tokens:,} tokens; soft budget {soft:,}, hard budget {hard:,}"
    yield f'<div class="stack" role="img" aria-label="{label}">'
    left = 0
    for source, count in table.by_source.items():
        at, width = percent(left, whole), percent(count, whole)
        yield f'<i class="{colour[source]}" style="left:{at};width:{width}"></i>'
        left += count
    yield f'<em style="left:{percent(soft, whole)}"></em>'
    if hard < whole:
        yield f'<em class="hard" style="left:{percent(hard, whole)}"></em>'
    yield "</div>"
    # The labels are below the marks, and end there where these are near the right edge.
    yield '<div class="marks">'
    yield f'<p style="width:{percent(soft, whole)}">soft {soft:,}</p>'
    if hard < whole:
        yield f'<p style="width:{percent(hard, whole)}">hard {hard:,}</p>'
    else:
        yield f'<p class="beyond">hard {hard:,}, not on this bar</p>'
    yield "</div>"


def _shares(table: PromptExplanation) -> Iterator[str]:
    colour = colours(table.by_source)
    yield '<ul class="shares">'
    for source, count in table.by_source.items():
        share = f"{count / table.tokens:.0%}" if table.tokens else "0%"
        yield (
            f'<li class="{colour[source]}">{name(source)} <b>{count:,}</b>'
            f' <span class="quiet">{share}</span></li>'
        )
    yield "</ul>"


def _counts(
    ir: PromptIR, table: PromptExplanation, compiled: CompiledPrompt | None
) -> Iterator[str]:
    kept = [row for row in table.rows if row.is_kept]
    kinds = [row.kind for row in kept]
    entries = len(ir.history.entries)
    parts = [
        plural(kinds.count("tool"), "tool"),
        plural(kinds.count("section"), "section"),
        plural(entries, "entry of the history", "entries of the history"),
        f"{len(ir.meta.dropped):,} left out",
        plural(sum(row.breakpoint for row in kept), "cache breakpoint"),
    ]
    if ir.late_bound:
        parts.insert(2, f"{len(ir.late_bound):,} asked for by the model")
    if table.before_tokens > table.tokens:
        parts.append(f"{table.before_tokens:,} tokens came in")
    parts.append(escaped(table.counter))
    if compiled:
        parts.append(escaped(" ".join([compiled.provider, compiled.model]).strip()))
    yield '<ul class="counts">' + "".join(f"<li>{part}</li>" for part in parts) + "</ul>"


def _laws(ir: PromptIR) -> Iterator[str]:
    broken = ir.verify()
    if not broken:
        yield '<p class="laws kept"><b>keeps every law</b></p>'
        return
    yield '<details class="laws broken" open>'
    yield f"<summary><b>breaks {plural(len(broken), 'law')}</b></summary>"
    for each in broken[:_LAWS_SHOWN]:
        yield f'<p class="law">{name(each.message)} <span class="badge">{each.law.value}</span></p>'
    if len(broken) > _LAWS_SHOWN:
        yield f'<p class="law quiet">and {len(broken) - _LAWS_SHOWN:,} more</p>'
    yield "</details>"


def _links(table: PromptExplanation, has_scores: bool) -> Iterator[str]:
    there = {
        "prompt": True,
        "left out": any(not row.is_kept for row in table.rows),
        "sources": bool(table.sources),
        "passes": bool(table.trace),
        "scores": has_scores,
    }
    links = [
        f'<a href="#{words.split()[0]}">{words}</a>'
        for words, is_there in there.items()
        if is_there
    ]
    yield '<p class="links">' + " ".join(links) + "</p>"


LINES = 2_000
"""Maximum rows of a table: the first and the last half; the rest is summed up."""
_REASONS_SHOWN = 8


def left_out(ir: PromptIR, table: PromptExplanation) -> Iterator[str]:
    """Yield the content that was left out of the prompt."""
    rows = [row for row in table.rows if not row.is_kept]
    if not rows:
        return
    dropped = ir.meta.dropped
    total = f"{plural(len(dropped), 'piece')} of {sum(each.tokens for each in dropped):,} tokens"
    yield f'<h2 id="left">Left out <span>{total}</span></h2>'
    reasons = Counter(each.reason for each in dropped).most_common()
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
        yield _left_out_row(row)
    if first < last:
        yield f'<p class="cut">{plural(last - first, "more line")} not shown on this page</p>'
    for row in rows[last:]:
        yield _left_out_row(row)


def _left_out_row(row: PromptRow) -> str:
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
    """Yield what each source added, and how long it took."""
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
    """Yield what each pass did."""
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
    """Yield the scores of a compaction for each unit of the history, as a table that scrolls."""
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


def inspector_page(
    prompt: PromptIR | CompiledPrompt,
    *,
    units: Explanation | None = None,
    title: str = "a prompt",
) -> str:
    """Return the prompt as one HTML page: no script, nothing loaded, all escaped.

    ``units`` are the scores of a compaction of its history (``Compaction.explain()``), shown at the
    end. Very long texts and histories are shown in part, and the page says so.

    >>> from rehydrate.prompt import Provenance, Section
    >>> notes = Section("notes", "1 < 2 </script>", Provenance("hot"), tokens=6)
    >>> page = inspector_page(PromptIR(sections=(notes,)))
    >>> page.startswith("<!doctype html>"), "1 &lt; 2 &lt;/script&gt;" in page
    (True, True)
    """
    compiled = prompt if isinstance(prompt, CompiledPrompt) else None
    ir = compiled.ir if compiled else prompt
    assert isinstance(ir, PromptIR)
    table = ir.explain()
    main = [
        *Body(ir, table).lines(),
        *left_out(ir, table),
        *sources(table),
        *passes(table),
        *(scores(units) if units else ()),
    ]
    return document(
        f"{title}: the prompt",
        head(ir, table, compiled, title, has_scores=bool(units and units.units)),
        main,
        "inspector.css",
        body='<body class="inspector">',
    )
