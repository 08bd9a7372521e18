"""Scoring profiles (the worth of a unit, and how the budget is filled), and the query: the one
given, or else the last user turn."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from rehydrate import _native
from rehydrate._check import check_choice, shown
from rehydrate.errors import InvalidArgumentError
from rehydrate.messages import Conversation

if TYPE_CHECKING:
    from rehydrate._engine import CounterName


STRUCTURAL_WEIGHT: Mapping[str, float] = MappingProxyType(
    {"system": 2.0, "user": 1.0, "assistant": 0.8, "tool": 0.5, "tool_result": 0.5}
)
"""The weight of a message by role, the same as chitta's."""

UNKNOWN_ROLE_WEIGHT = 0.6
MAX_WEIGHT = 1e6
"""Weights only matter relative to each other. Beyond this, sums of scores would lose precision."""

Signals = Literal["calibrated", "raw"]
Packing = Literal["coverage", "greedy"]
ProfileName = Literal["balanced", "chitta"]


class Scoring:
    """How units are scored and packed: an immutable value; its arguments are keyword-only.

    A message is worth ``structural[role] * (recency * r + semantic * s + novelty * (1 - c))
    * odds`` with ``r`` its recency (0.1 oldest to 1.0 newest), ``s`` its similarity to the query
    and ``c`` the share of it that memory already covers. ``odds`` is 1 unless signals are
    calibrated to a query. A unit is worth as much as its best message.

    - ``recency``, ``semantic``, ``novelty``: weights of the three signals.
    - ``structural``: weight by role. A role that it does not name weighs 0.6; a role that no
      provider knows is refused unless it is named here.
    - ``signals``: ``"calibrated"`` spreads the signals within the conversation and combines the
      embedding with BM25 and with neighbouring turns. ``"raw"`` is plain cosine and linear
      recency, exactly chitta's formula.
    - ``packing``: ``"coverage"`` also rewards keeping one mention of everything that matters.
      ``"greedy"`` goes by score alone.
    - ``counter``: the token counter where the caller names none.

    >>> Scoring.named("chitta").packing
    'greedy'
    >>> Scoring(recency=0.0, semantic=0.7)
    Scoring(recency=0.0, semantic=0.7)
    """

    __slots__ = ("counter", "novelty", "packing", "recency", "semantic", "signals", "structural")

    recency: float
    semantic: float
    novelty: float
    structural: Mapping[str, float]
    signals: Signals
    packing: Packing
    counter: CounterName

    def __init__(
        self,
        *,
        recency: float = 0.3,
        semantic: float = 0.4,
        novelty: float = 0.3,
        structural: Mapping[str, float] = STRUCTURAL_WEIGHT,
        signals: Signals = "calibrated",
        packing: Packing = "coverage",
        counter: CounterName = "o200k_base",
    ) -> None:
        """Raise InvalidArgumentError for a value outside its limits."""
        for name, weight in (("recency", recency), ("semantic", semantic), ("novelty", novelty)):
            _check_weight(name, weight)
        if not isinstance(structural, Mapping):
            raise InvalidArgumentError(
                f"Scoring.structural is {structural!r}; pass a mapping of role -> weight"
            )
        for role, weight in structural.items():
            _check_weight(f"structural[{role!r}]", weight)
        check_choice("Scoring.signals", signals, get_args(Signals))
        check_choice("Scoring.packing", packing, get_args(Packing))
        object.__setattr__(self, "recency", recency)
        object.__setattr__(self, "semantic", semantic)
        object.__setattr__(self, "novelty", novelty)
        object.__setattr__(self, "structural", dict(structural))
        object.__setattr__(self, "signals", signals)
        object.__setattr__(self, "packing", packing)
        object.__setattr__(self, "counter", counter)

    def __setattr__(self, name: str, value: object) -> None:
        """Raise AttributeError: a profile in use never changes."""
        raise AttributeError(f"Scoring is immutable; make another one: Scoring({name}={value!r})")

    def _fields(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}

    def __eq__(self, other: object) -> bool:
        """Compare field by field."""
        return isinstance(other, Scoring) and self._fields() == other._fields()

    def __hash__(self) -> int:
        """Hash the fields, `structural` as sorted pairs."""
        roles = tuple(sorted(self.structural.items()))
        return hash(
            (roles, *(value for value in self._fields().values() if value is not self.structural))
        )

    def __reduce__(self) -> tuple[partial[Scoring], tuple[()]]:
        """Pickle the fields."""
        return partial(Scoring, **{**self._fields(), "structural": dict(self.structural)}), ()  # type: ignore[arg-type]

    def __repr__(self) -> str:
        """Return the fields that differ from the balanced profile."""
        default = PROFILES["balanced"]._fields()
        fields = self._fields()
        changed = [f"{name}={value!r}" for name, value in fields.items() if value != default[name]]
        return f"Scoring({', '.join(changed)})"

    @staticmethod
    def named(name: ProfileName) -> Scoring:
        """Return the profile ``"balanced"`` (the default) or ``"chitta"`` (the reference formula).

        Raises InvalidArgumentError for any other name.
        """
        try:
            return PROFILES[name]
        except (KeyError, TypeError):  # TypeError: it is not hashable
            raise InvalidArgumentError(
                f"scoring is {name!r}; choose one of {', '.join(map(repr, PROFILES))}, "
                "or pass a Scoring(...)"
            ) from None

    @property
    def keeps_reply(self) -> bool:
        """Whether the reply that the last user turn answers is always kept.

        Chitta's formula has no such rule, and its golden cases drop the reply.
        """
        return self.signals == "calibrated"

    def weight_of(self, role: str) -> float:
        """Return the structural weight of a role."""
        return self.structural.get(role, UNKNOWN_ROLE_WEIGHT)


def _check_weight(name: str, value: object) -> None:
    if (
        not isinstance(value, (int, float))
        or isinstance(value, bool)
        or not 0 <= value <= MAX_WEIGHT
    ):
        raise InvalidArgumentError(
            f"Scoring.{name} is {shown(value)}; a weight is a number from 0 to {MAX_WEIGHT:g}"
        )


PROFILES: Mapping[ProfileName, Scoring] = MappingProxyType(
    {
        "balanced": Scoring(),
        "chitta": Scoring(signals="raw", packing="greedy", counter="words"),
    }
)
"""The named profiles."""


MAX_QUERY_CHARS = 2_000
"""A longer turn is read at its beginning and its end: that is where people ask."""
_MIN_WEIGHT = 0.1
"""A query that counts less is not worth the time of the comparison."""


class WeightedQuery(NamedTuple):
    """A query, and how much it counts."""

    text: str
    weight: float = 1.0
    """1 for a given query, and for a question that nothing has followed."""
    asks: bool = True
    """False for a topic or an order, which count only as far as few messages match them."""


def weighted_query(
    conversation: Conversation, query: str | None, *, infer: bool = True
) -> WeightedQuery | None:
    """Return the given query, or with `infer` the last user turn if it asks something.

    Returns None for ``""``, for a turn that asks nothing, and where work has followed the question.

    >>> from rehydrate import formats
    >>> read, _ = formats.read([{"role": "user", "content": "Which port is it?"}], "plain")
    >>> weighted_query(read, None)
    WeightedQuery(text='Which port is it?', weight=1.0, asks=True)
    """
    if query is not None:
        return WeightedQuery(query, asks=_native.question_share(query) > 0) if query else None
    unit = conversation.last_user_turn() if infer else None
    if unit is None:
        return None
    units_since = conversation.unit_count - 1 - unit
    text = _head_and_tail(last_user_text(conversation))
    weight = min(1.0, 2 * _native.question_share(text)) / (1 + units_since) ** 2
    return WeightedQuery(text, weight) if weight >= _MIN_WEIGHT else None


def last_user_text(conversation: Conversation) -> str:
    """Return the text of the last user turn; "" where there is none."""
    message = conversation.last_user_message()
    return "" if message is None else message.text.strip()


def _head_and_tail(text: str) -> str:
    half = MAX_QUERY_CHARS // 2
    return text if len(text) <= MAX_QUERY_CHARS else f"{text[:half]}\n{text[-half:]}"
