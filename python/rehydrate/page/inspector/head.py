"""The head of the page: tokens against the budget, by source; the laws; what there is below."""

from __future__ import annotations

from collections.abc import Iterator

from rehydrate.ir import CompiledPrompt, PromptExplanation, PromptIR
from rehydrate.page.escaping import escaped
from rehydrate.page.marks import colours, name, percent, plural

_MARGIN = 1.04
"""Of the bar: so far beyond its last mark."""
_LAWS_SHOWN = 12


def head(
    ir: PromptIR,
    table: PromptExplanation,
    compiled: CompiledPrompt | None,
    title: str,
    *,
    has_scores: bool,
) -> Iterator[str]:
    """From the title to the links to what stands below."""
    soft, hard = table.budget.soft_tokens, table.budget.hard_tokens
    yield "<header>"
    yield f'<p class="name"><b>Rehydrate</b> <bdi>{escaped(title)}</bdi></p>'
    fate = "over" if table.tokens > soft else "within"
    yield (
        f"<h1>{table.tokens:,} tokens "
        f'<span class="change {fate}">{table.tokens / soft:.0%} of {soft:,}</span></h1>'
    )
    asked = ir.request.observation
    if asked.strip():
        shown = asked if len(asked) <= 600 else asked[:599] + "…"
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
    """Tokens by source, stacked, with the marks of the budget that are in reach."""
    whole = _MARGIN * max(table.tokens, hard if table.tokens > soft else soft)
    colour = colours(table.by_source)
    said = f"{table.tokens:,} tokens; soft budget {soft:,}, hard budget {hard:,}"
    yield f'<div class="stack" role="img" aria-label="{said}">'
    left = 0
    for source, count in table.by_source.items():
        at, width = percent(left, whole), percent(count, whole)
        yield f'<i class="{colour[source]}" style="left:{at};width:{width}"></i>'
        left += count
    yield f'<em style="left:{percent(soft, whole)}"></em>'
    if hard < whole:
        yield f'<em class="hard" style="left:{percent(hard, whole)}"></em>'
    yield "</div>"
    # The words stand below the marks, and end there where these are near the right edge.
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
    for one in broken[:_LAWS_SHOWN]:
        yield f'<p class="law">{name(one.message)} <span class="badge">{one.law.value}</span></p>'
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
