"""Frozen values of a memory: MemoryItem, and the answers of its operations.

Their checks, and those of what operations are given, are the store's (`rust/.../store/checks.rs`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple, TypedDict, get_args

from rehydrate._check import check_whole
from rehydrate._native import check_item
from rehydrate._text import warn_once
from rehydrate.errors import InvalidArgumentError

Tier = Literal["hot", "warm", "cold"]
"""hot: in every turn. warm: found by what a turn is about. cold: found only when asked for."""

NamedFusion = Literal["calibrated", "weighted", "reciprocal_rank"]
Fusion = NamedFusion | tuple[float, float, float]
"""How the scores of words, trigrams and meaning are combined: a name, or three weights ("weighted"
is 0.5, 0.3, 0.2)."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
"""Stores count the time in these from then on."""

TIERS: tuple[Tier, ...] = get_args(Tier)
FUSIONS: tuple[NamedFusion, ...] = get_args(NamedFusion)


class Link(NamedTuple):
    """The relation of an item to another: "supersedes", "contradicts", or a word of yours."""

    relation: str
    handle: str
    """The other item."""


class Redaction(NamedTuple):
    """A secret that was removed before anything was written; text[start:end] is its label."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class MemoryItem:
    """One thing to remember, and where it came from.

    The first fields are yours to set; `handle` and what follows it are filled in by the store, and
    are "" or empty on an item that was not stored yet. Times are aware datetimes, to the
    millisecond. Raises InvalidArgumentError for a value outside its limits.

    >>> item = MemoryItem("The staging port is 8443.", kind="decision", source="notes/ports.md")
    >>> item.tier, item.trust, item.handle
    ('warm', 1.0, '')
    """

    text: str
    kind: str = "note"
    tier: Tier = "warm"
    source: str = ""
    """Its origin: a file, an address, a conversation."""
    thread: str = ""
    tool: str = ""
    """The tool that produced it."""
    principal: str = ""
    """The person or service that the tool acted for."""
    trust: float = 1.0
    """Trust in its source, 0 to 1."""
    confidence: float = 1.0
    """Confidence that it is right, 0 to 1."""
    parents: tuple[str, ...] = ()
    """The items it was made from: handles, or names of yours."""
    time: datetime | None = None
    """The time it was said. None: the time it is stored."""
    expires: datetime | None = None
    """From this time on no search finds it."""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Any value that JSON can hold."""
    links: tuple[Link, ...] = ()
    """Links to other items, as one that this item supersedes or contradicts."""
    handle: str = ""
    namespace: str = ""
    created: datetime | None = None
    linked_from: tuple[Link, ...] = ()
    """Links of other items to this one; `handle` is the other item."""
    redactions: tuple[Redaction, ...] = ()
    uses: int = field(default=0, compare=False)
    """Number of searches that returned it."""

    def __post_init__(self) -> None:
        """Check every field, and bring times to UTC and whole milliseconds."""
        check_item(self)


class ItemFields(TypedDict, total=False):
    """Fields that `add` can set on bare texts: those of a `MemoryItem`."""

    kind: str
    tier: Tier
    source: str
    thread: str
    tool: str
    principal: str
    trust: float
    confidence: float
    parents: tuple[str, ...]
    time: datetime | None
    expires: datetime | None
    metadata: Mapping[str, Any]
    links: tuple[Link, ...]


class Filters(TypedDict, total=False):
    """Conditions on items: all that are set must hold; None is the same as left out."""

    tiers: Sequence[Tier] | None
    kinds: Sequence[str] | None
    sources: Sequence[str] | None
    threads: Sequence[str] | None
    after: datetime | None
    """At this time or later."""
    before: datetime | None
    """Before this time."""
    min_trust: float | None


class Added(NamedTuple):
    """The result of `add` for one item: its handle, and whether it is new."""

    handle: str
    created: bool
    """False: the namespace had this text from this source already."""
    redactions: tuple[Redaction, ...] = ()
    embedded: bool = True
    """False: the embedder gave no vector for it; searches find it all the same."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result: a snippet of about 200 tokens around the match, and the whole item."""

    item: MemoryItem
    snippet: str
    score: float
    """Combined score, larger is better; comparable within one search."""
    text: float
    """Score of its words."""
    trigram: float
    """Score of its trigrams (parts of words)."""
    cosine: float | None
    """Cosine of the meanings; None if there is no vector."""

    @property
    def handle(self) -> str:
        """The item's handle: `memory.get(hit.handle)` loads the whole item."""
        return self.item.handle


class Recalled(NamedTuple):
    """A memory close to a text; `float(recalled)` is the cosine."""

    handle: str
    similarity: float

    def __float__(self) -> float:
        """Return the similarity, so that a list of these works as a row of numbers."""
        return self.similarity


INDEX_BYTES = 1024**3
"""Maximum bytes of indexes kept in RAM by this process; a million short items take half of it."""

VectorIndex = Literal["auto", "lists", "usearch"]
"""How the nearest vectors are found: by inverted lists, by a graph, or by the quicker of them."""


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """How much a namespace may hold. Beyond it the oldest, least trusted and least used warm items
    become cold, then the oldest cold ones go; hot ones never. None: no such limit.

    >>> MemoryLimits(max_age_days=30).max_items
    1000000
    """

    max_items: int | None = 1_000_000
    max_bytes: int | None = 2 * 1024**3
    """Bytes of texts, metadata and vectors."""
    max_age_days: float | None = 365
    """Warm items older than this become cold; cold ones older than twice this are removed."""

    def __post_init__(self) -> None:
        """Refuse a value that cannot be a limit."""
        for name in ("max_items", "max_bytes"):
            check_whole(f"MemoryLimits: {name}", getattr(self, name), 1, or_none=True)
        days = self.max_age_days
        is_number = isinstance(days, (int, float)) and not isinstance(days, bool)
        if days is not None and not (is_number and 0 < days < math.inf):
            raise InvalidArgumentError(
                f"MemoryLimits: max_age_days is {days!r}; pass a number above 0, or None"
            )


def warn_dropped(namespace: str) -> None:
    """Log, once for a namespace, that its limits take items away."""
    warn_once(
        "rehydrate.memory",
        f"namespace {namespace!r} is beyond its limits, so its oldest cold items are removed; "
        "Memory.open(limits=MemoryLimits(...)) sets others, and stats().dropped counts them",
    )


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Figures of one namespace; `store_bytes` is the size of the whole file."""

    namespace: str
    items: int
    hot: int
    warm: int
    cold: int
    held_bytes: int
    """Bytes of texts, metadata and vectors; `MemoryLimits.max_bytes` limits them."""
    links: int
    demoted: int
    """Warm items that the limits have made cold so far."""
    dropped: int
    """Cold items that the limits have removed so far."""
    vectors: int
    """Items with a vector of `vector_space`, if the memory has an embedder of its own."""
    vector_space: str | None
    indexed: int
    pending: int
    """Items that are not indexed yet; a search scans them."""
    index_bytes: int
    store_bytes: int
    limits: MemoryLimits
    degraded: tuple[str, ...] = ()
    """Failures since this memory was opened, and what was done instead."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of a check of the whole store.

    >>> VerifyReport(items=3).ok
    True
    """

    items: int
    """Number of items checked."""
    problems: tuple[str, ...] = ()
    """Damage to the file itself: restore a backup, or `export` what can still be read."""
    damaged_indexes: int = 0
    """Deleted and rebuilt; searches are right in the meantime."""

    @property
    def ok(self) -> bool:
        """Return whether the file is sound."""
        return not self.problems


class Vectors(NamedTuple):
    """Rows of one embedding model, shape (texts, dimensions), float32; a row of zeros means no
    vector."""

    space: str
    """The model's vector space; vectors of two spaces are never compared."""
    rows: Any


def moment_of(milliseconds: int) -> datetime:
    """Return a time of the store, in milliseconds since 1970."""
    return EPOCH + milliseconds * MILLISECOND


MAX_LIMIT = 10_000
"""The largest `limit` of one search."""
