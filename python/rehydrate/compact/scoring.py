"""Scoring profiles: what a unit is worth, and how the budget is filled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from rehydrate.errors import InvalidArgumentError

STRUCTURAL_WEIGHT: Mapping[str, float] = MappingProxyType(
    {"system": 2.0, "user": 1.0, "assistant": 0.8, "tool": 0.5, "tool_result": 0.5}
)
"""Weight of a message by role, as chitta has it."""

UNKNOWN_ROLE_WEIGHT = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """How units are scored and packed.

    A message is worth ``structural[role] * (recency * r + semantic * s + novelty * (1 - c))`` with ``r`` its recency
    (0.1 oldest to 1.0 newest), ``s`` its similarity to the query and ``c`` the share of it that memory already covers.
    A unit is worth its best message.

    >>> Scoring.named("chitta").packing
    'greedy'
    >>> Scoring(recency=0.0, semantic=0.7).semantic
    0.7
    """

    recency: float = 0.3
    """Weight of the recency signal."""
    semantic: float = 0.4
    """Weight of the similarity to the query."""
    novelty: float = 0.3
    """Weight of what memory does not hold yet, ``1 - coverage``."""
    structural: Mapping[str, float] = field(default_factory=lambda: STRUCTURAL_WEIGHT)
    """Weight by role; a role that is not named weighs 0.6."""
    signals: Literal["calibrated", "raw"] = "calibrated"
    """``calibrated``: signals are spread evenly within the conversation, and similarity joins the embedding with BM25
    and with neighbouring turns. ``raw``: plain cosine and linear recency, chitta's formula to the letter."""
    packing: Literal["coverage", "greedy"] = "coverage"
    """``coverage`` also rewards keeping one mention of everything that matters; ``greedy`` goes by score alone."""
    counter: str = "o200k_base"
    """Token counter used when the caller names none."""

    def __post_init__(self) -> None:
        """Refuse what cannot be a weight."""
        for name in ("recency", "semantic", "novelty"):
            _check_weight(name, getattr(self, name))
        for role, weight in self.structural.items():
            _check_weight(f"structural[{role!r}]", weight)
        for name, known in (("signals", ("calibrated", "raw")), ("packing", ("coverage", "greedy"))):
            if getattr(self, name) not in known:
                raise InvalidArgumentError(
                    f"Scoring.{name} is {getattr(self, name)!r}; choose one of {', '.join(known)}"
                )

    @staticmethod
    def named(name: str) -> Scoring:
        """The profile ``"balanced"`` (the default) or ``"chitta"`` (the reference formula).

        Raises InvalidArgumentError for any other name.
        """
        try:
            return PROFILES[name]
        except KeyError:
            raise InvalidArgumentError(
                f"scoring is {name!r}; choose one of {', '.join(map(repr, PROFILES))}, or pass a Scoring(...)"
            ) from None

    def weight_of(self, role: str) -> float:
        """Structural weight of a role."""
        return self.structural.get(role, UNKNOWN_ROLE_WEIGHT)


def _check_weight(name: str, value: object) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < float("inf"):
        raise InvalidArgumentError(f"Scoring.{name} is {value!r}; a weight is a number from 0 up")


PROFILES: Mapping[str, Scoring] = MappingProxyType(
    {
        "balanced": Scoring(),
        "chitta": Scoring(signals="raw", packing="greedy", counter="words"),
    }
)
"""The named profiles."""
