"""growth: how much a request grows from turn to turn, and when it crosses the budget."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rehydrate.linting.finding import Finding
from rehydrate.linting.subject import Subject

SOON_STEPS = 20
"""A budget that is crossed within so many further requests is worth a word."""
FEWEST_STEPS = 3


def growth(subject: Subject) -> Iterator[Finding]:
    """One finding: over the hard budget, over the soft one, or soon over it."""
    budget, total = subject.budget, subject.tokens
    steps = subject.steps - (subject.now[0].step if subject.now else 0)
    said = sum(text.tokens for text in subject.now) + subject.media_tokens
    rate = said / steps if steps >= FEWEST_STEPS else 0.0
    grows = f", {rate:,.0f} more with each request" if rate else ""
    if total > budget.hard_tokens:
        yield Finding(
            "growth",
            "error",
            _crossed(subject, budget.hard_tokens),
            total - budget.hard_tokens,
            f"{total:,} tokens{grows}: over the hard budget of {budget.hard_tokens:,} from here on",
            f"compact it to {budget.target_tokens:,} tokens",
        )
    elif total > budget.soft_tokens:
        yield Finding(
            "growth",
            "warning",
            _crossed(subject, budget.soft_tokens),
            total - budget.soft_tokens,
            f"{total:,} tokens{grows}: over the soft budget of {budget.soft_tokens:,} from here on",
            f"compact it to {budget.target_tokens:,} tokens",
        )
    elif rate and (left := math.ceil((budget.soft_tokens - total) / rate)) <= SOON_STEPS:
        yield Finding(
            "growth",
            "info",
            "",
            0,
            f"{total:,} tokens{grows}: over the soft budget of {budget.soft_tokens:,} in about "
            f"{left} more",
            f"compact it then, to {budget.target_tokens:,} tokens",
        )


def _crossed(subject: Subject, limit: int) -> str:
    """Where the prompt crosses the limit."""
    total = subject.tool_tokens + sum(text.tokens for text in subject.static)
    for text in subject.now:
        total += text.tokens
        if total > limit:
            return text.place
    return ""
