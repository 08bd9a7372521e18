"""Budget: how many tokens a turn, a request and a job may take."""

from __future__ import annotations

from dataclasses import dataclass

from rehydrate.errors import InvalidArgumentError

SOFT_TOKENS = 50_000
HARD_TOKENS = 180_000
KEEP_LAST = 12


@dataclass(frozen=True, slots=True)
class Budget:
    """Numbers, not wishes: a prompt over the soft one is compacted, one over the hard one is not
    sent.

    Counts that are estimates (any provider's but OpenAI's) are compared by their upper bound; tool
    schemas and images count too. Raises InvalidArgumentError for a value outside its limits.

    >>> Budget(soft_tokens=8_000).target_tokens
    4800
    """

    soft_tokens: int = SOFT_TOKENS
    """A prompt with more is compacted."""
    hard_tokens: int = HARD_TOKENS
    """A request with more is not sent: BudgetExceededError. The model's window, less a margin."""
    compact_to: float = 0.6
    """The share of `soft_tokens` that is left after a compaction: room for the turns to come, since
    each compaction breaks the cached prefix."""
    keep_last: int = KEEP_LAST
    """So many messages at the end stay before anything competes, as far as they take no more than
    a 32nd of the room, newest first."""
    max_job_tokens: int | None = None
    """What all requests of a job put before the model in all, a prefix that the last one had too
    counted once; a job that would put more is stopped: BudgetExceededError. None: no limit."""

    def __post_init__(self) -> None:
        """Refuse what is no budget."""
        for name in ("soft_tokens", "hard_tokens"):
            tokens = getattr(self, name)
            if type(tokens) is not int or tokens < 1:
                raise InvalidArgumentError(
                    f"budget: {name} is {tokens!r}; pass a whole number from 1 up"
                )
        most = self.max_job_tokens
        if most is not None and (type(most) is not int or most < 1):
            raise InvalidArgumentError(
                f"budget: max_job_tokens is {most!r}; pass a whole number from 1 up, or None"
            )
        if type(self.keep_last) is not int or self.keep_last < 0:
            raise InvalidArgumentError(
                f"budget: keep_last is {self.keep_last!r}; pass a whole number from 0 up"
            )
        if self.soft_tokens > self.hard_tokens:
            raise InvalidArgumentError(
                f"budget: soft_tokens is {self.soft_tokens:,}, hard_tokens {self.hard_tokens:,}; "
                "the soft one comes first: lower it or raise the other"
            )
        is_number = isinstance(self.compact_to, (int, float)) and self.compact_to is not True
        if not (is_number and 0.05 <= self.compact_to <= 1):
            raise InvalidArgumentError(
                f"budget: compact_to is {self.compact_to!r}; pass a number from 0.05 to 1"
            )

    @property
    def target_tokens(self) -> int:
        """What a compaction leaves."""
        return int(self.soft_tokens * self.compact_to)
