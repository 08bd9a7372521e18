"""What a compaction returns: the kept messages, the figures, and the reason for every decision.

Named tuples, not dataclasses: importing `dataclasses` alone would take half of `import rehydrate`.

Properties that are worked out when first asked for, and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from rehydrate.formats._foreign import as_dicts

if TYPE_CHECKING:
    from rehydrate.compact.outline import Outline


class Stats(NamedTuple):
    """Figures of one compaction. Tokens are in the counter's unit, times in milliseconds."""

    before_tokens: int
    after_tokens: int
    target_tokens: int
    """What was asked for: floor(before * ratio), or the budget given."""
    dropped: int
    """Messages dropped."""
    dropped_pct: float
    """Share of the tokens that went, in percent, one decimal."""
    dropped_messages_pct: float
    """Share of the messages that went, in percent, one decimal."""
    units: int
    """Atomic units the conversation consists of: a tool call and its results are one."""
    pinned_tokens: int
    """Tokens of the units kept whatever they cost, system messages included."""
    over_budget: bool
    """Whether the pinned units alone take more than was asked for."""
    changed: bool
    """Whether anything was left out, of a message or as a whole."""
    covered_pct: float
    """Share of the tokens that went which memory covers, in percent, one decimal: those of dropped
    units that it covers at least half."""
    excerpted: int
    """Messages kept in part, each gap in their texts marked; 0 under granularity "message"."""
    stripped: int
    """Messages that were changed or left out for their thinking; 0 under thinking "keep". Under
    "strip" that was before anything was measured, and no other figure speaks of it; under "auto"
    `before_tokens` has their thinking, and `after_tokens` has not."""
    stripped_tokens: int
    """Tokens they lost by it; under "strip" these and `before_tokens` are all that came in."""
    outline_tokens: int
    """What the outline of what was left out takes of `after_tokens`; 0 where there is none."""
    embedding: bool
    """Whether the embedder that was asked for really gave vectors. Without a query nothing is
    compared, and the newest text alone is embedded, which shows that the embedder works."""
    query_share: float
    """How much of the objective what the turn asks for was, 0 to 1: less for a vague query, and for
    a user turn that much has followed. 0 under greedy packing, where it is in the scores."""
    distilled: int
    """Dropped units that became memories of their own; 0 unless ``distill_novel``."""
    distilled_kinds: Mapping[str, int]
    """How many of each kind."""
    ignored: int
    """Entries that no model sees (a transcript's progress lines): left out of a changed result."""
    degraded: tuple[str, ...]
    """What did not work and was done without, in words."""
    counter: str
    format: str
    elapsed_ms: float


class Dropped(NamedTuple):
    """One message that was left out, and why."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    """Place in the list that came in."""
    role: str
    tokens: int
    unit: int
    score: float
    reason: str
    handle: str | None = None
    """Where memory has the message, under ``archive``: ``memory.get(handle).text`` is its
    JSON."""


class BlockReport(NamedTuple):
    """One block of a text that may be kept in part."""

    message: int
    """Place of its message in the list that came in."""
    text: int
    """Which text of the message: 0 for its first."""
    measure: str
    """What `first` and `last` count: lines, elements, members or characters."""
    first: int
    last: int
    tokens: int
    gain: float
    """What the block added to the objective when it was taken, or would still add."""
    kept: bool
    handle: str | None = None
    """Where memory has the whole text, under ``archive``, as the marks in it say."""


class UnitReport(NamedTuple):
    """One unit's score, each of its signals, and the decision.

    The signals are those of the unit's best message: ``score = structural * (w_r * recency
    + w_s * semantic + w_n * (1 - coverage)) * odds`` with the weights of the ``Scoring`` in use.
    """

    unit: int
    messages: tuple[int, ...]
    role: str
    tokens: int
    structural: float
    recency: float
    semantic: float
    coverage: float
    odds: float
    """Factor by which a calibrated score falls with the distance to the most relevant message; 1
    without a query, and under raw signals."""
    score: float
    gain: float
    """What the unit added to the objective when it was taken, or would still add: under coverage
    packing its share of everything's worth, for its score and for the features that nothing else
    kept mentions; under greedy packing its score."""
    kept: bool
    reason: str
    preview: str
    """The beginning of its text, on one line."""
    kept_tokens: int
    """Tokens of what is kept of it, the marks of gaps included: all, some or none."""
    blocks: tuple[BlockReport, ...] = ()
    """The blocks of those of its texts that may be kept in part."""
    stripped_tokens: int = 0
    """Tokens of thinking that it lost: before it was measured under thinking "strip", behind the
    first change under "auto"."""
    stripped: str = ""
    """Why it lost its thinking, under "auto"; "" where it lost none."""


class Explanation:
    """The score of every unit and each of its signals; ``str()`` of it is a table."""

    __slots__ = ("units",)

    def __init__(self, units: tuple[UnitReport, ...]) -> None:
        """Made by ``Compaction.explain``."""
        self.units = units

    def __iter__(self) -> Iterator[UnitReport]:
        """The units' reports, in the order of the conversation."""
        return iter(self.units)

    def __len__(self) -> int:
        """Number of units."""
        return len(self.units)

    def to_dict(self) -> list[dict[str, Any]]:
        """Rows of plain values, for JSON."""
        return [
            unit._asdict() | {"blocks": [block._asdict() for block in unit.blocks]}
            for unit in self.units
        ]

    def __str__(self) -> str:
        """A table in plain text: one unit a line, below it what is kept of its texts."""
        header = (
            f"{'unit':>5} {'messages':>11} {'role':<9} {'tokens':>7} {'score':>6} {'recency':>7} "
            f"{'semantic':>8} {'covered':>7} {'gain':>7}  {'':<4}  reason"
        )
        return "\n".join([header, *(line for unit in self.units for line in _rows(unit))])


def _rows(unit: UnitReport) -> Iterator[str]:
    yield _row(unit)
    if unit.stripped_tokens or unit.stripped:
        why = f": {unit.stripped}" if unit.stripped else ""
        yield f"{'':>5} {'':>11} {'':<9} {unit.stripped_tokens:>7,} {'':>39}  omit  thinking{why}"
    if not unit.kept or all(block.kept for block in unit.blocks):
        return
    for run in block_runs(unit.blocks):
        yield (
            f"{'':>5} {'':>11} {'':<9} {run.tokens:>7,} {'':>30} {run.gain:>7.3f}  "
            f"{'keep' if run.kept else 'omit'}  message {run.message}, text {run.text}: "
            f"{run.measure} {run.first}-{run.last}"
        )


def block_runs(blocks: Iterable[BlockReport]) -> Iterator[BlockReport]:
    """Neighbouring blocks of one text and one fate as one block each."""
    for _, group in groupby(blocks, key=lambda block: (block.message, block.text, block.kept)):
        run = list(group)
        yield run[0]._replace(
            last=run[-1].last,
            tokens=sum(block.tokens for block in run),
            gain=sum(block.gain for block in run),
        )


def _row(unit: UnitReport) -> str:
    return (
        f"{unit.unit:>5} {span(unit.messages):>11} {unit.role:<9} {unit.tokens:>7,} "
        f"{unit.score:>6.3f} {unit.recency:>7.3f} {unit.semantic:>8.3f} {unit.coverage:>7.3f} "
        f"{unit.gain:>7.3f}  "
        f"{'keep' if unit.kept else 'drop'}  {unit.reason}"
    )


def span(indices: tuple[int, ...]) -> str:
    """``3`` or ``3-5`` or, with gaps, ``3..9``."""
    first, last = indices[0], indices[-1]
    if first == last:
        return str(first)
    return f"{first}-{last}" if last - first + 1 == len(indices) else f"{first}..{last}"


class Decisions(Protocol):
    """Where a compaction looks up its reasons, worked out when asked for."""

    @property
    def dropped(self) -> tuple[Dropped, ...]:
        """One record a dropped message."""

    @property
    def explanation(self) -> Explanation:
        """One row a unit."""


class Compaction:
    """The result of ``compact_context``."""

    __slots__ = ("_decisions", "indices", "messages", "outline", "replaced", "stats")

    def __init__(
        self,
        messages: list[Any],
        indices: Sequence[int],
        stats: Stats,
        decisions: Decisions,
        outline: Outline | None = None,
        replaced: tuple[int, ...] = (),
    ) -> None:
        """Made by ``compact_context`` only."""
        self.messages = messages
        """The kept messages: the same objects, in their order, unmodified. One that is kept in
        part, or without its thinking, is a new object; the one that came in stays as it was."""
        self.indices = indices
        """Where each of them stood in the list that came in; of the outline's message, where the
        first of those stood that it stands for. They ascend, but that this one may come behind."""
        self.outline = outline
        """The outline of what was left out, if one was asked for: it stands in
        ``messages[outline.position]``, the one message that is none of those that came in."""
        self.replaced = replaced
        """Where the outlines of earlier compactions stood, whose place it took: they are neither
        in ``messages`` nor in ``dropped``."""
        self.stats = stats
        self._decisions = decisions

    @property
    def dropped(self) -> tuple[Dropped, ...]:
        """What went and why, one record a message."""
        return self._decisions.dropped

    def explain(self) -> Explanation:
        """The score of every unit and each of its signals, as a table.

        >>> import rehydrate
        >>> kept = rehydrate.compact_context([{"role": "user", "content": "hello"}])
        >>> [unit.reason for unit in kept.explain()]
        ['last user turn']
        """
        return self._decisions.explanation

    def to_dict(self) -> dict[str, Any]:
        """``{"messages": [...], "stats": {...}}``: the wire shape of the tool."""
        return {"messages": list(as_dicts(self.messages)), "stats": self.stats._asdict()}

    def __repr__(self) -> str:
        """The figures in a line."""
        stats, has_outline = self.stats, self.outline is not None
        kept = len(self.messages) - has_outline
        return (
            f"<Compaction {stats.before_tokens:,} -> {stats.after_tokens:,} tokens, "
            f"{stats.dropped} of {stats.dropped + kept} messages dropped"
            f"{f', {stats.excerpted} excerpted' if stats.excerpted else ''}"
            f"{', with an outline' if has_outline else ''}>"
        )


class Distilled(NamedTuple):
    """How much became a memory of its own."""

    count: int = 0  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    kinds: Mapping[str, int] = {}


T = TypeVar("T")


class once(Generic[T]):  # noqa: N801 - a decorator
    """`functools.cached_property` without the lock that it holds up to Python 3.11.

    That lock is one for all instances: it makes threads wait for each other, and a child forked
    meanwhile wait for ever. Two threads may work the same value out; both get an equal one.
    """

    def __init__(self, work_out: Callable[[Any], T]) -> None:
        """Keep the method."""
        self._work_out = work_out
        self._name = work_out.__name__
        self.__doc__ = work_out.__doc__

    def __get__(self, instance: Any, owner: type) -> T:
        """Work the value out; from then on the instance's own attribute hides this one."""
        value = self._work_out(instance)
        instance.__dict__[self._name] = value
        return value
