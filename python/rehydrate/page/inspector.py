"""A prompt as one HTML page: its content, costs and sources, and what was removed and why.

`rehydrate inspect FILE -o PAGE` writes it. Like the page of a compaction it has no script and loads
nothing. It opens offline, and no content of a prompt can run. The markup is in
templates/inspector.html.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import accumulate

from rehydrate._text import plural
from rehydrate.compact.result import Explanation
from rehydrate.page.html import colours, render, with_gap
from rehydrate.page.inspector_body import Body
from rehydrate.prompt.explain import PromptExplanation
from rehydrate.prompt.ir import CompiledPrompt, PromptIR

_MARGIN = 1.04
"""Width of the bar, relative to its last mark."""
_LAWS_SHOWN = 12
_REASONS_SHOWN = 8
LINES = 2_000
"""Maximum rows of a table: the first and the last half; the rest is summed up."""


def _counts(
    ir: PromptIR, table: PromptExplanation, compiled: CompiledPrompt | None
) -> Iterator[str]:
    """Yield what the prompt has, in few words."""
    kept = [row for row in table.rows if row.is_kept]
    kinds = [row.kind for row in kept]
    yield plural(kinds.count("tool"), "tool")
    yield plural(kinds.count("section"), "section")
    if ir.late_bound:
        yield f"{len(ir.late_bound):,} asked for by the model"
    yield plural(len(ir.history.entries), "entry of the history", "entries of the history")
    yield f"{len(ir.meta.dropped):,} left out"
    yield plural(sum(row.breakpoint for row in kept), "cache breakpoint")
    if table.before_tokens > table.tokens:
        yield f"{table.before_tokens:,} tokens came in"
    yield f"{table.counter}"
    if compiled:
        yield f"{compiled.provider} {compiled.model}".strip()


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
    budget = table.budget
    last_mark = budget.hard_tokens if table.tokens > budget.soft_tokens else budget.soft_tokens
    left_out = [row for row in table.rows if not row.is_kept]
    scored = units.units if units else ()
    return render(
        "inspector.html",
        title=title,
        ir=ir,
        table=table,
        soft=budget.soft_tokens,
        hard=budget.hard_tokens,
        bar_tokens=_MARGIN * max(table.tokens, last_mark),
        befores=list(accumulate(table.by_source.values(), initial=0)),
        colours=colours(table.by_source),
        counts=list(_counts(ir, table, compiled)),
        broken=ir.verify(),
        laws_shown=_LAWS_SHOWN,
        body=Body(ir, table),
        left_out=left_out,
        left_out_lines=with_gap(left_out, LINES),
        reasons=Counter(each.reason for each in ir.meta.dropped).most_common(),
        reasons_shown=_REASONS_SHOWN,
        scored=scored,
        scored_lines=with_gap(scored, LINES),
    )
