"""budget_for: a budget in the tokens of the model that a host's messages go to."""

from __future__ import annotations

from dataclasses import replace

from rehydrate.prompt.counting import room
from rehydrate.prompt.request import Budget

_ANTHROPIC = ("claude", "anthropic")


def budget_for(model: str, budget: Budget) -> Budget:
    """Return the budget for messages of OpenAI's shape that go to any provider's model.

    Anthropic counts more tokens than OpenAI for the same text, so fewer of OpenAI's have room.

    >>> budget_for("anthropic/claude-opus-4-6", Budget(soft_tokens=1_350)).soft_tokens
    1000
    """
    if not any(name in model.lower() for name in _ANTHROPIC):
        return budget
    soft, hard = (room(each, "anthropic") for each in (budget.soft_tokens, budget.hard_tokens))
    return replace(budget, soft_tokens=max(soft, 1), hard_tokens=max(hard, 1))
