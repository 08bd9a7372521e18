"""The result of a compaction: the kept messages, the figures, and the reason for every decision.

Named tuples, not dataclasses: importing `dataclasses` alone would take half of `import rehydrate`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from rehydrate._native import Explanation, as_dicts
from rehydrate._text import notebook_html

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
    many units have followed. 0 under greedy packing, if the query is part of the scores."""
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


class Reasons(NamedTuple):
    """The reasons of a compaction, each computed when it is first asked for."""

    dropped: Callable[[], tuple[Dropped, ...]]
    """One record for each message that is gone, with all its parts if it was parted."""
    explanation: Callable[[], Explanation]
    """One row for each unit; if calls were parted, the parts of a message are in several."""
    parted: Parted | None = None
    """How parallel calls were parted."""


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
        return self._reasons.dropped()

    def explain(self) -> Explanation:
        """Return the score of every unit and each of its signals, as a table.

        >>> import rehydrate
        >>> kept = rehydrate.compact_context([{"role": "user", "content": "hello"}])
        >>> [unit.reason for unit in kept.explain()]
        ['last user turn']
        """
        return self._reasons.explanation()

    def _repr_html_(self) -> str:
        """Return the figures and the table of `explain`, as a notebook shows them."""
        return notebook_html(self, self.explain())

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"messages": [...], "stats": {...}}``, the wire shape of the tool."""
        return {"messages": list(as_dicts(self.messages)), "stats": self.stats._asdict()}

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to make it again: the reasons are computed for that."""
        reasons = Reasons(partial(tuple, self.dropped), partial(Explanation, self.explain().units))
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
