"""The result of a compaction: the kept messages, the figures, and the reason for every decision.

Named tuples, not dataclasses: importing `dataclasses` alone would take half of `import rehydrate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from rehydrate._native import as_dicts

if TYPE_CHECKING:
    from rehydrate._native import Parted
    from rehydrate.compact.outline import Outline
    from rehydrate.messages import Message


class Stats(NamedTuple):
    """Figures of one compaction. Tokens are in the counter's unit, times in milliseconds."""

    before_tokens: int
    after_tokens: int
    target_tokens: int
    """The target: floor(before * ratio), or the given budget."""
    dropped: int
    """Messages dropped whole."""
    dropped_pct: float
    """Share of the tokens that were dropped, in percent, one decimal."""
    dropped_messages_pct: float
    """Share of the messages that were dropped, in percent, one decimal."""
    units: int
    """Units of the conversation: a tool call and its result are one."""
    pinned_tokens: int
    """Tokens of the units that are always kept, system messages included."""
    over_budget: bool
    """Whether the pinned units alone take more than the target."""
    changed: bool
    """Whether a message was dropped, excerpted or stripped."""
    covered_pct: float
    """Share of the dropped tokens that memory covers, in percent, one decimal: those of units that
    it covers at least half."""
    excerpted: int
    """Messages kept in part: with marks, or without some of their parallel calls or results."""
    stripped: int
    """Messages that were changed or removed for their thinking; 0 under thinking "keep". Under
    "strip" this happens before anything is counted, and no other figure includes it. Under "auto"
    `before_tokens` includes their thinking, and `after_tokens` does not."""
    stripped_tokens: int
    """Tokens that they lost; under "strip" these and `before_tokens` are all that came in."""
    outline_tokens: int
    """Tokens of the outline, a part of `after_tokens`; 0 without one."""
    embedding: bool
    """Whether the chosen embedder gave vectors. Without a query nothing is compared, and the newest
    text alone is embedded, to test the embedder."""
    query_share: float
    """The query's share of the objective, 0 to 1: less for a vague query, and for a user turn that
    many units have followed. 0 under greedy packing, where the query is part of the scores."""
    distilled: int
    """Dropped units that became memories of their own, under ``Archive(novel=True)``."""
    distilled_kinds: Mapping[str, int]
    """Kind of memory -> how many of these."""
    ignored: int
    """Entries that no model sees (a transcript's progress lines): left out of a changed result."""
    degraded: tuple[str, ...]
    """The problems: each says what failed and was left out."""
    counter: str
    format: str
    elapsed_ms: float


class Dropped(NamedTuple):
    """A message that was dropped, and why."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    """Its index in the caller's list."""
    role: str
    tokens: int
    unit: int
    score: float
    reason: str
    handle: str | None = None
    """Under ``archive``, its handle in memory: ``memory.get(handle).text`` is its JSON."""


class ChangedEntry(NamedTuple):
    """A message that is kept in part."""

    entry: Any
    tokens: int
    message: Message
    """The kept part, as compaction reads it."""
    handle: str | None = None
    """The handle of the first text that is cut."""


class BlockReport(NamedTuple):
    """One block of a text that may be kept in part."""

    message: int
    """The index of its message in the caller's list."""
    text: int
    """The number of the text in its message, from 0; of parallel calls and their results, in the
    part of the message that the unit holds."""
    measure: str
    """The unit of `first` and `last`: lines, elements, members or characters."""
    first: int
    last: int
    tokens: int
    gain: float
    """The gain of the objective by this block when it was chosen, or if it were chosen now."""
    kept: bool
    handle: str | None = None
    """Under ``archive``, the handle of the whole text in memory, the same as in the marks."""


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
    """A factor of calibrated scores: it falls with the distance to the most relevant message. 1
    without a query, and under raw signals."""
    score: float
    gain: float
    """The gain of the objective by this unit when it was chosen, or if chosen now. Under coverage
    packing it is a share of the worth of all units, for its score and for the features that no
    other kept unit mentions; under greedy packing it is the score."""
    kept: bool
    reason: str
    preview: str
    """The beginning of its text, on one line."""
    kept_tokens: int
    """Tokens of its kept part, marks included: all, some or none of `tokens`."""
    blocks: tuple[BlockReport, ...] = ()
    """The blocks of its texts that may be kept in part."""
    stripped_tokens: int = 0
    """Tokens of thinking that it lost: under "strip" before it was counted, under "auto" after the
    first change."""
    stripped: str = ""
    """Under "auto", why it lost its thinking; "" if it lost none."""


class Explanation:
    """The score of every unit and each of its signals; ``str()`` of it is a table."""

    __slots__ = ("units",)

    def __init__(self, units: tuple[UnitReport, ...]) -> None:
        """Made by ``Compaction.explain``."""
        self.units = units

    def __iter__(self) -> Iterator[UnitReport]:
        """Iterate over the units' reports, in the order of the conversation."""
        return iter(self.units)

    def __len__(self) -> int:
        """Return the number of units."""
        return len(self.units)

    def to_dict(self) -> list[dict[str, Any]]:
        """Return rows of plain values, for JSON."""
        return [
            unit._asdict() | {"blocks": [block._asdict() for block in unit.blocks]}
            for unit in self.units
        ]

    def __str__(self) -> str:
        """Return a table in plain text: one unit a line, below it the runs of blocks in its
        texts."""
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
    """Yield one block for each run of neighbours in one text that are all kept or all dropped."""
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
    """Return ``3`` or ``3-5`` or, with gaps, ``3..9``."""
    first, last = indices[0], indices[-1]
    if first == last:
        return str(first)
    return f"{first}-{last}" if last - first + 1 == len(indices) else f"{first}..{last}"


T = TypeVar("T")


class lazy_property(Generic[T]):  # noqa: N801 - a decorator
    """`functools.cached_property` without the lock that it holds up to Python 3.11.

    All instances share that lock: threads wait for each other, and a child process that is forked
    meanwhile waits for ever. Two threads may compute the same value; both get an equal one.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        """Keep the method."""
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, instance: Any, owner: type) -> T:
        """Compute the value; from then on the instance's own attribute hides this descriptor."""
        value = self._compute(instance)
        instance.__dict__[self._name] = value
        return value


class Reasons:
    """The reasons of a compaction, computed on first access."""

    def __init__(
        self,
        dropped: Callable[[], Iterable[Dropped]],
        units: Callable[[], Iterable[UnitReport]],
        parted: Parted | None = None,
    ) -> None:
        """Keep what computes them; `parted` is how parallel calls were parted."""
        self._dropped = dropped
        self._units = units
        self.parted = parted

    @lazy_property
    def dropped(self) -> tuple[Dropped, ...]:
        """One record for each message that is gone, with all its parts where it was parted."""
        return tuple(self._dropped())

    @lazy_property
    def explanation(self) -> Explanation:
        """One row for each unit; where calls were parted, the parts of a message are in several."""
        return Explanation(tuple(self._units()))


M = TypeVar("M")


class Compaction(Generic[M]):
    """The result of ``compact_context``. It can be pickled and copied."""

    __slots__ = ("_reasons", "indices", "messages", "outline", "replaced", "stats")

    def __init__(
        self,
        messages: list[M],
        indices: Sequence[int],
        stats: Stats,
        reasons: Reasons,
        outline: Outline | None = None,
        replaced: tuple[int, ...] = (),
    ) -> None:
        """Made by ``compact_context`` only."""
        self.messages = messages
        """The kept messages, in order: the caller's own objects, unmodified. A message that is kept
        in part (excerpted, or without some of its parallel calls), or without its thinking, is a
        new object."""
        self.indices = indices
        """The index of each kept message in the caller's list; for the outline's message, that of
        the first dropped message. They ascend, but the outline's may be larger than the next."""
        self.outline = outline
        """The outline of what was left out, or None. It is ``messages[outline.position]``, the only
        message that is not the caller's."""
        self.replaced = replaced
        """The indices of earlier compactions' outlines that were removed: they are neither in
        ``messages`` nor in ``dropped``."""
        self.stats = stats
        self._reasons = reasons

    @property
    def dropped(self) -> tuple[Dropped, ...]:
        """The dropped messages and the reasons, one record for each message."""
        return self._reasons.dropped

    def explain(self) -> Explanation:
        """Return the score of every unit and each of its signals, as a table.

        >>> import rehydrate
        >>> kept = rehydrate.compact_context([{"role": "user", "content": "hello"}])
        >>> [unit.reason for unit in kept.explain()]
        ['last user turn']
        """
        return self._reasons.explanation

    def _repr_html_(self) -> str:
        """Return the figures and the table of `explain`, as a notebook shows them."""
        from html import escape

        return f"<pre>{escape(repr(self))}\n{escape(str(self.explain()))}</pre>"

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"messages": [...], "stats": {...}}``, the wire shape of the tool."""
        return {"messages": list(as_dicts(self.messages)), "stats": self.stats._asdict()}

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to make it again: the reasons are computed for that."""
        reasons = Reasons(partial(tuple, self.dropped), partial(tuple, self.explain()))
        made = (self.messages, list(self.indices), self.stats, reasons, self.outline, self.replaced)
        return Compaction, made

    def __repr__(self) -> str:
        """Return the figures in a line."""
        stats, has_outline = self.stats, self.outline is not None
        kept = len(self.messages) - has_outline
        return (
            f"<Compaction {stats.before_tokens:,} -> {stats.after_tokens:,} tokens, "
            f"{stats.dropped} of {stats.dropped + kept} messages dropped"
            f"{f', {stats.excerpted} excerpted' if stats.excerpted else ''}"
            f"{', with an outline' if has_outline else ''}>"
        )
