"""What the proxy shows of its work: figures for Prometheus, and pages for a browser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import import_module

from rehydrate.integrations.proxy.shortening import Conversation, Outcome
from rehydrate.prompt.ir import PromptIR


@dataclass
class Totals:
    """Figures of all requests since the start.

    >>> totals = Totals()
    >>> totals.add(Outcome(before=900, after=500, prefix="compacted"), 200, 0.25)
    >>> [line for line in totals.as_metrics().splitlines() if line.startswith("rehydrate_tokens")]
    ['rehydrate_tokens_before_total 900', 'rehydrate_tokens_after_total 500']
    """

    before: int = 0
    after: int = 0
    seconds: float = 0.0
    failures: int = 0
    prefixes: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome, status: int, seconds: float) -> None:
        """Count a request; a status of 0: its client went away."""
        self.before += outcome.before
        self.after += outcome.after
        self.seconds += seconds
        self.prefixes[outcome.prefix or "untouched"] += 1
        self.statuses[str(status)] += 1

    def as_metrics(self) -> str:
        """Return them as Prometheus reads them."""
        lines = [
            *_metric("tokens_before_total", "Tokens as clients wrote them.", self.before),
            *_metric("tokens_after_total", "Tokens as they were sent.", self.after),
            *_metric("failures_total", "What went wrong in the proxy or upstream.", self.failures),
            *_metric("seconds_total", "Seconds that the proxy took.", round(self.seconds, 6)),
            *_metric("requests_total", "Requests by prefix.", self.prefixes, "prefix"),
            *_metric("responses_total", "Responses by status.", self.statuses, "status"),
        ]
        return "\n".join(lines) + "\n"


def _metric(name: str, words: str, value: float | Counter[str], label: str = "") -> Iterator[str]:
    yield f"# HELP rehydrate_{name} {words}"
    yield f"# TYPE rehydrate_{name} counter"
    if isinstance(value, Counter):
        for each, count in sorted(value.items()):
            yield f'rehydrate_{name}{{{label}="{each}"}} {count}'
    else:
        yield f"rehydrate_{name} {value}"


_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;
color-scheme:light dark}
table{border-collapse:collapse;width:100%}
th,td{text-align:right;padding:.3rem .6rem;border-bottom:1px solid #8884}
th:nth-child(-n+2),td:nth-child(-n+2){text-align:left}
"""


def overview_page(totals: Totals, conversations: Sequence[Conversation], is_dry_run: bool) -> str:
    """Return the page of all conversations: no script, nothing loaded, all escaped."""
    saved = totals.before - totals.after
    share = f" ({saved / totals.before:.0%})" if totals.before else ""
    rows = "".join(map(_row, reversed(conversations)))
    kind = "would have been" if is_dry_run else "were"
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>rehydrate proxy</title>"
        f"<style>{_STYLE}</style><h1>rehydrate proxy</h1>"
        f"<p>{totals.prefixes.total():,} requests. {saved:,} of {totals.before:,} tokens{share} "
        f"{kind} left out. <a href=/rehydrate/metrics>Metrics</a></p>"
        "<table><tr><th>#<th>model<th>requests<th>last, as written<th>last, as sent"
        f"<th>left out in all<th>compactions</tr>{rows}</table></html>"
    )


def _row(conversation: Conversation) -> str:
    number = conversation.number
    links = " ".join(_links(number, conversation.compactions))
    cells: Iterable[object] = (
        number,
        escape(conversation.model),
        f"{conversation.requests:,}",
        f"{conversation.before:,}",
        f"{conversation.after:,}",
        f"{conversation.saved:,}",
        links or "-",
    )
    return "<tr>" + "".join(f"<td>{cell}" for cell in cells) + "</tr>"


def _links(number: int, compactions: Sequence[PromptIR]) -> Iterator[str]:
    for index in range(len(compactions)):
        yield f"<a href=/rehydrate/{number}/{index}>{index + 1}</a>"


def compaction_page(ir: PromptIR, number: int, index: int) -> str:
    """Return the page of one compaction: what stayed, what went and why. Raises MissingPackageError
    without the lab's pages."""
    inspector_page = import_module("rehydrate.page").inspector_page  # of another distribution
    page: str = inspector_page(ir, title=f"conversation {number}, compaction {index + 1}")
    return page
