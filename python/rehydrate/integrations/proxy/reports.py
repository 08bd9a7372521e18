"""What the proxy shows of its work: figures for Prometheus, and pages for a browser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rehydrate.integrations.proxy.shortening import Conversation, Outcome
from rehydrate.page.html import render
from rehydrate.page.inspector import inspector_page
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


def overview_page(
    totals: Totals, conversations: Sequence[tuple[Conversation, list[int]]], is_dry_run: bool
) -> str:
    """Return the page of conversations and the numbers of their compactions."""
    return render(
        "proxy.html",
        title="conversations",
        totals=totals,
        saved=totals.before - totals.after,
        conversations=conversations,
        is_dry_run=is_dry_run,
    )


def compaction_page(ir: PromptIR, conversation: int, number: int) -> str:
    """Return the page of one compaction: what stayed, what went and why."""
    return inspector_page(ir, title=f"conversation {conversation}, compaction {number}")
