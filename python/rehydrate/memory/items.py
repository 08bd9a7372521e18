"""The frozen values of a memory: what is kept (MemoryItem), and what the operations answer with."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, NamedTuple, TypedDict, cast, get_args

from rehydrate.errors import InvalidArgumentError

Tier = Literal["hot", "warm", "cold"]
"""hot: in every turn. warm: loaded by name. cold: found only by searching."""

NamedFusion = Literal["calibrated", "weighted", "reciprocal_rank"]
Fusion = NamedFusion | tuple[float, float, float]
"""How the scores of words, parts of words and meaning become one: by a name, or by three weights
("weighted" is 0.5, 0.3, 0.2)."""

TIERS: tuple[Tier, ...] = get_args(Tier)
FUSIONS: tuple[NamedFusion, ...] = get_args(NamedFusion)


class Link(NamedTuple):
    """What an item has to do with another one: "supersedes", "contradicts", or a word of yours."""

    relation: str
    handle: str
    """The other item."""


class Redaction(NamedTuple):
    """A secret that was taken out before anything was written: text[start:end] says so."""

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
    """Where it is from: a file, an address, a conversation."""
    thread: str = ""
    tool: str = ""
    """What brought it in."""
    principal: str = ""
    """On whose behalf."""
    trust: float = 1.0
    """How far its source is trusted, 0 to 1."""
    confidence: float = 1.0
    """How sure it is, 0 to 1."""
    parents: tuple[str, ...] = ()
    """What it was made from: handles, or names of yours."""
    time: datetime | None = None
    """When it was said; None: when it is stored."""
    expires: datetime | None = None
    """From then on it is not found any more."""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Anything that JSON can say."""
    links: tuple[Link, ...] = ()
    """To other items: what this one supersedes or contradicts."""
    handle: str = ""
    namespace: str = ""
    created: datetime | None = None
    linked_from: tuple[Link, ...] = ()
    """Links of others to this one; `handle` is the other."""
    redactions: tuple[Redaction, ...] = ()
    uses: int = field(default=0, compare=False)
    """How often a search showed it."""

    def __post_init__(self) -> None:
        """Check every field, and bring times to UTC and whole milliseconds."""
        if not isinstance(self.text, str):
            kind = type(self.text).__name__
            raise InvalidArgumentError(f"text is of type {kind}; pass a string")
        if not self.text:
            raise InvalidArgumentError("text is empty; an item holds at least one character")
        for name, default, checked in _FIELDS:
            value = getattr(self, name)
            if value is not default:  # most fields of most items are, and thousands are made
                object.__setattr__(self, name, checked(name, value))


class ItemFields(TypedDict, total=False):
    """What can be said of bare texts when they are added: the fields of a `MemoryItem`."""

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
    """Which items are meant: each filter narrows, None and a filter left out do not."""

    tiers: Sequence[Tier] | None
    kinds: Sequence[str] | None
    sources: Sequence[str] | None
    threads: Sequence[str] | None
    after: datetime | None
    """Said at this time or later."""
    before: datetime | None
    """Said before this time."""
    min_trust: float | None


class Added(NamedTuple):
    """One item after `add`: where it is, and whether it is new."""

    handle: str
    created: bool
    """False: the namespace had this text from this source already."""
    redactions: tuple[Redaction, ...] = ()
    embedded: bool = True
    """False: the embedder gave no vector for it; it is found all the same."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing found: a snippet of about 200 tokens around the match, and the whole item."""

    item: MemoryItem
    snippet: str
    score: float
    """Of all legs together, larger is better; comparable within one search."""
    text: float
    """How well its words match."""
    trigram: float
    """How well parts of its words match."""
    cosine: float | None
    """How alike the meanings are; None where there is no vector."""

    @property
    def handle(self) -> str:
        """The item's: `memory.get(hit.handle)` loads the whole."""
        return self.item.handle


class Recalled(NamedTuple):
    """A memory near to a text: `float(recalled)` is how near, as a cosine."""

    handle: str
    similarity: float

    def __float__(self) -> float:
        """The similarity, so that rows of these can be used as rows of numbers."""
        return self.similarity


INDEX_BYTES = 1024**3
"""Of a memory's indexes that stay in this process's memory: a million short items take half."""


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """How much a namespace may hold. Beyond it the oldest, least trusted and least used warm items
    become cold, then the oldest cold ones go; hot ones never. None: no such limit.

    >>> MemoryLimits(max_age_days=30).max_items
    1000000
    """

    max_items: int | None = 1_000_000
    max_bytes: int | None = 2 * 1024**3
    """Of texts, metadata and vectors."""
    max_age_days: float | None = 365
    """Warm items stored longer ago become cold, cold ones stored twice as long ago go."""

    def __post_init__(self) -> None:
        """Refuse what is no limit."""
        for name in ("max_items", "max_bytes"):
            limit = getattr(self, name)
            if limit is not None and (type(limit) is not int or limit < 1):
                raise InvalidArgumentError(
                    f"MemoryLimits: {name} is {limit!r}; pass a whole number from 1 up, or None"
                )
        days = self.max_age_days
        if days is not None and not (_is_number(days) and 0 < days < math.inf):
            raise InvalidArgumentError(
                f"MemoryLimits: max_age_days is {days!r}; pass a number above 0, or None"
            )


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Figures of one namespace; `store_bytes` is of the whole file."""

    namespace: str
    items: int
    hot: int
    warm: int
    cold: int
    held_bytes: int
    """Of texts, metadata and vectors: what `MemoryLimits.max_bytes` bounds."""
    links: int
    demoted: int
    """Warm items that the limits made cold, so far."""
    dropped: int
    """Cold items that the limits removed, so far."""
    vectors: int
    """Items with a vector of `vector_space`, where the memory has an embedder of its own."""
    vector_space: str | None
    indexed: int
    pending: int
    """Items that are searched as they stand, until the background has indexed them."""
    index_bytes: int
    store_bytes: int
    limits: MemoryLimits
    degraded: tuple[str, ...] = ()
    """What did not work since this memory was opened, and what was done instead."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What a check of the whole store found.

    >>> VerifyReport(items=3).ok
    True
    """

    items: int
    """How many were checked."""
    problems: tuple[str, ...] = ()
    """Of the file itself: restore a backup, or `export` what can still be read."""
    damaged_indexes: int = 0
    """Thrown away; they are made anew, and searches are right in the meantime."""

    @property
    def ok(self) -> bool:
        """Whether the file is sound."""
        return not self.problems


class Vectors(NamedTuple):
    """Rows of one embedding model, shape (texts, dimensions), float32; a row of zeros is none."""

    space: str
    """The model's: vectors of two spaces are never compared."""
    rows: Any


def to_millisecond(name: str, moment: object) -> datetime | None:
    """A moment in UTC, cut to the millisecond, which is what a store keeps."""
    if moment is None:
        return None
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise InvalidArgumentError(
            f"{name} is {moment!r}; pass a datetime with a time zone, as in datetime.now(UTC)"
        )
    try:
        moment = moment.astimezone(UTC)
    except OverflowError as error:
        raise InvalidArgumentError(f"{name} is {moment!r}, outside the years 1 to 9999") from error
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{name} is of type {type(value).__name__}; pass a string")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(
            f"{name} has a lone surrogate at character {error.start}, which is no Unicode; "
            f"pass {name}.encode('utf-8', 'replace').decode()"
        ) from None
    return value


def _tier(name: str, value: Any) -> Tier:
    if value not in TIERS:
        raise InvalidArgumentError(
            f"{name} is {value!r}; choose one of {', '.join(map(repr, TIERS))}"
        )
    return cast(Tier, value)


def _share(name: str, value: Any) -> float:
    if not (_is_number(value) and 0 <= value <= 1):
        raise InvalidArgumentError(f"{name} is {value!r}; pass a number from 0 to 1")
    return cast(float, value)


def _texts(name: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidArgumentError(f"{name} is {values!r}; pass a tuple of strings")
    return tuple([_text(f"{name}[{place}]", value) for place, value in enumerate(values)])


def _tuples(kind: type[Any], name: str, values: Any) -> tuple[Any, ...]:
    try:
        found = tuple([kind(*value) for value in values])
    except TypeError:
        shape = ", ".join(kind._fields)
        raise InvalidArgumentError(f"{name} is {values!r}; pass {kind.__name__}({shape})") from None
    for place, value in enumerate(found):
        for part, shown in zip(kind._fields, value, strict=True):
            if kind.__annotations__[part] == "str":
                _text(f"{name}[{place}].{part}", shown)
    return found


def _metadata(name: str, metadata: Any) -> Mapping[str, Any]:
    if not metadata and isinstance(metadata, Mapping):
        return metadata
    try:
        if not isinstance(metadata, Mapping) or json.loads(as_json(metadata)) != metadata:
            raise ValueError("it is no JSON object")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"{name} cannot be kept: {error}; pass a dict of what JSON can say, keys strings"
        ) from None
    return metadata


def as_json(metadata: Mapping[str, Any]) -> str:
    """Metadata as the text that is stored: compact, in the order given."""
    return json.dumps(
        dict(metadata), ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=False
    )


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("kind", "source", "thread", "tool", "principal"), _text),
    **dict.fromkeys(("handle", "namespace"), _text),
    "tier": _tier,
    **dict.fromkeys(("trust", "confidence"), _share),
    **dict.fromkeys(("time", "expires", "created"), to_millisecond),
    "parents": _texts,
    "links": partial(_tuples, Link),
    "linked_from": partial(_tuples, Link),
    "redactions": partial(_tuples, Redaction),
    "metadata": _metadata,
}
_FIELDS = [
    (field.name, field.default, _CHECKS[field.name])
    for field in fields(MemoryItem)
    if field.name in _CHECKS
]
"""Each that is checked, its default, and what the value has to pass."""
