"""The page of a prompt, put together: head, prompt, what was left out, sources, passes, scores."""

from __future__ import annotations

from rehydrate.compact.compaction import Explanation
from rehydrate.ir import CompiledPrompt, PromptIR
from rehydrate.page.inspector.body import Body
from rehydrate.page.inspector.head import head
from rehydrate.page.inspector.tables import left_out, passes, scores, sources
from rehydrate.page.opening import opening

_STYLE = ("rehydrate.page.inspector", "inspector.css")


def inspector_page(
    prompt: PromptIR | CompiledPrompt,
    *,
    units: Explanation | None = None,
    title: str = "a prompt",
) -> str:
    """The prompt as one HTML page: no script, nothing loaded, all escaped.

    ``units`` are the scores of a compaction of its history (``Compaction.explain()``), which stand
    below. Very long texts and histories are shown in part, and the page says so.

    >>> from rehydrate.ir import Provenance, Section
    >>> notes = Section("notes", "1 < 2 </script>", Provenance("hot"), tokens=6)
    >>> page = inspector_page(PromptIR(sections=(notes,)))
    >>> page.startswith("<!doctype html>"), "1 &lt; 2 &lt;/script&gt;" in page
    (True, True)
    """
    compiled = prompt if isinstance(prompt, CompiledPrompt) else None
    ir = compiled.ir if compiled else prompt
    assert isinstance(ir, PromptIR)
    table = ir.explain()
    parts = [
        *opening(f"{title}: the prompt", _STYLE, body='<body class="inspector">'),
        *head(ir, table, compiled, title, has_scores=bool(units and units.units)),
        "<main>",
        *Body(ir, table).lines(),
        *left_out(ir, table),
        *sources(table),
        *passes(table),
        *(scores(units) if units else ()),
        "</main>",
        "</body>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"
