"""ContextUsage: how full a conversation's window is, and what its job has spent."""

from __future__ import annotations

from typing import NamedTuple


class ContextUsage(NamedTuple):
    """Figures of a context. Tokens are in its counter's unit."""

    tokens: int
    """Of the last prompt."""
    upper_bound_tokens: int
    """What a provider may count for it at most: what is compared with the soft budget."""
    soft_tokens: int
    hard_tokens: int
    """Of one request."""
    job_tokens: int
    """What this job has put before the model: of each prompt what the one before did not begin
    with, since a cache gives back the rest."""
    max_job_tokens: int | None
    """None: no limit."""
    prompts: int
    compactions: int
    entries: int
    """Added so far."""
    visible_entries: int
    """In the last prompt."""
    sections: int
    """In the last prompt."""

    @property
    def soft_share(self) -> float:
        """How full the turn's budget is: above 1.0 the next prompt is compacted."""
        return self.upper_bound_tokens / self.soft_tokens

    @property
    def hard_share(self) -> float:
        """How full the largest request is that may be sent: above 1.0 it is not."""
        return self.upper_bound_tokens / self.hard_tokens

    @property
    def job_share(self) -> float | None:
        """How much of the job's budget is spent; None where it has none."""
        most = self.max_job_tokens
        return None if most is None else self.job_tokens / most
