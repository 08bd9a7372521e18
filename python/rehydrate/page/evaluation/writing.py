"""The page of an evaluation, put together."""

from __future__ import annotations

from collections.abc import Iterator

from rehydrate.page.escaping import escaped
from rehydrate.page.evaluation.charts import by_ratio, by_session, legend, own_summaries
from rehydrate.page.evaluation.losses import judged, lost
from rehydrate.page.evaluation.tables import all_measures, kept_by_ratio, method
from rehydrate.page.marks import name, plural
from rehydrate.page.opening import opening
from rehydrate.retention import Evaluation

_STYLE = ("rehydrate.page.evaluation", "evaluation.css")


def evaluation_page(found: Evaluation, *, title: str = "your sessions") -> str:
    """What an evaluation found as one HTML page: no script, nothing loaded, all escaped.

    >>> from rehydrate.retention import Conversation, Question, evaluate, sample_cases
    >>> turns = [{"role": "user", "content": f"Pier {n} is <b>free</b>."} for n in range(9)]
    >>> chat = Conversation("chat", turns, questions=(Question("Is pier 1 free?", (1,)),))
    >>> page = evaluation_page(evaluate(sample_cases([chat]), ratios=(0.5,)), title="<harbour>")
    >>> page.startswith("<!doctype html>"), "&lt;harbour&gt;" in page
    (True, True)
    """
    parts = [
        *opening(f"{title}: what survives", _STYLE, body='<body class="evaluation">'),
        *_head(found, title),
        "<main>",
        *legend(found),
        '<div class="charts">',
        *by_ratio(found),
        *by_session(found),
        "</div>",
        *own_summaries(found),
        *kept_by_ratio(found),
        *all_measures(found),
        *lost(found),
        *judged(found),
        *method(found),
        "</main>",
        "</body>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def _head(found: Evaluation, title: str) -> Iterator[str]:
    """What is recommended and how sure that is, and what it comes of."""
    advice = found.recommendation
    yield "<header>"
    yield f'<p class="name"><b>Rehydrate</b> {name(title)}</p>'
    if advice is None:
        yield "<h1>What survives</h1>"
    else:
        fate = "" if advice.reached else " over"
        yield (
            f"<h1>Keep {advice.ratio:.0%} of the tokens"
            f' <span class="change{fate}">{advice.kept:.0%} of {advice.basis}</span></h1>'
        )
        yield f'<p class="call code">{escaped(advice.code)}</p>'
        for sentence in advice.sentences():
            yield f'<p class="advice">{escaped(sentence)}</p>'
    measured = [session for session in found.sessions if session.cases]
    counts = [
        plural(len(measured), "session"),
        plural(found.cuts, "cut") if found.cuts else "",
        plural(found.questions, "question") if found.questions else "",
        plural(sum(session.tokens for session in measured), "token"),
        ", ".join(sorted({session.format for session in measured})),
    ]
    yield '<ul class="counts">'
    yield from (f"<li>{escaped(count)}</li>" for count in counts if count)
    yield "</ul>"
    for problem in found.degraded:
        yield f'<p class="notice">Left out: {name(problem)}</p>'
    yield "</header>"
