"""Frozen values of a memory: MemoryItem, the answers of its operations, and checks of arguments."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal, NamedTuple, TypedDict, cast, get_args

from rehydrate._check import check_choice, check_known, check_share, check_type, check_whole
from rehydrate.errors import InvalidArgumentError, MissingNamespaceError, OtherNamespaceError

Tier = Literal["hot", "warm", "cold"]
"""hot: in every turn. warm: loaded by name. cold: found only by search."""

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
    """When it was said; None: the time it is stored."""
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
        check_type("text", self.text, str, "pass a string")
        if not self.text:
            raise InvalidArgumentError("text is empty; an item holds at least one character")
        for name, default, checked in _FIELDS:
            value = getattr(self, name)
            if value is not default:  # most fields keep their default
                object.__setattr__(self, name, checked(name, value))


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
    """Cosine of the meanings; None where there is no vector."""

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
    """Items with a vector of `vector_space`, where the memory has an embedder of its own."""
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


def to_millisecond(name: str, moment: object) -> datetime | None:
    """Convert a time to UTC, cut to whole milliseconds as a store keeps them."""
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


def _text(name: str, value: Any) -> str:
    check_type(name, value, str, "pass a string")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(
            f"{name} has a lone surrogate at character {error.start}, which is no Unicode; "
            f"pass {name}.encode('utf-8', 'replace').decode()"
        ) from None
    return cast(str, value)


def checked_tier(name: str, value: Any) -> Tier:
    """Return the tier; it must be one of `TIERS`."""
    check_choice(name, value, TIERS)
    return cast(Tier, value)


def _fraction(name: str, value: Any) -> Any:
    check_share(name, value)
    return value


def _texts(name: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidArgumentError(f"{name} is {values!r}; pass a tuple of strings")
    return tuple([_text(f"{name}[{index}]", value) for index, value in enumerate(values)])


def _tuples(kind: type[Any], name: str, values: Any) -> tuple[Any, ...]:
    try:
        found = tuple([kind(*value) for value in values])
    except TypeError:
        shape = ", ".join(kind._fields)
        raise InvalidArgumentError(f"{name} is {values!r}; pass {kind.__name__}({shape})") from None
    for index, value in enumerate(found):
        for part, shown in value._asdict().items():
            if kind.__annotations__[part] == "str":
                _text(f"{name}[{index}].{part}", shown)
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
    """Return metadata as the stored JSON: compact, keys in the given order."""
    return json.dumps(dict(metadata), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("kind", "source", "thread", "tool", "principal"), _text),
    **dict.fromkeys(("handle", "namespace"), _text),
    "tier": checked_tier,
    **dict.fromkeys(("trust", "confidence"), _fraction),
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
"""The checked fields: name, default, and check."""


# Arguments of operations

MAX_LIMIT = 10_000
"""The largest `limit` of one search."""


def checked_namespace(namespace: object) -> str:
    """Return the namespace; raises InvalidArgumentError unless it is a string that is not blank."""
    if not isinstance(namespace, str) or not namespace.strip():
        raise InvalidArgumentError(
            f"namespace is {namespace!r}; pass a name, as of a tenant, a user or a project"
        )
    return namespace


def resolve_namespace(
    operation: str, given: str | None, bound: str | None, *, is_confined: bool = False
) -> str:
    """Return the namespace of a call: the one passed, else the one the memory is bound to.

    Raises MissingNamespaceError where there is neither, and OtherNamespaceError where they differ
    and the memory is confined to its own.
    """
    where = bound if given is None else checked_namespace(given)
    if where is None:
        raise MissingNamespaceError(operation)
    if is_confined and bound not in (None, where):
        raise OtherNamespaceError(operation, where, bound)
    return where


def as_items(
    texts: str | MemoryItem | Iterable[str | MemoryItem], fields: ItemFields
) -> list[MemoryItem]:
    """Return texts and items as items; `fields` apply to the bare texts."""
    if isinstance(texts, (str, MemoryItem)):
        texts = [texts]
    check_type("texts", texts, Iterable, "pass texts or MemoryItems")
    check_known("add has no", fields, ItemFields.__annotations__, "the fields of an item are")
    items = []
    for index, text in enumerate(texts):
        if isinstance(text, MemoryItem):
            if fields:
                raise InvalidArgumentError(
                    f"add: {', '.join(fields)} is for bare texts, and entry {index} is a "
                    "MemoryItem; set it there"
                )
            items.append(text)
        else:
            check_type(f"add: entry {index}", text, str, "pass strings or MemoryItems")
            items.append(MemoryItem(text, **fields))
    return items


def checked_limit(name: str, limit: Any, max_limit: int | None = MAX_LIMIT) -> int:
    """Return `limit` as a whole number from 0 to `max_limit`; None: no upper limit."""
    try:
        whole = operator.index(limit)
    except TypeError:
        whole = -1
    if isinstance(limit, bool) or whole < 0 or (max_limit is not None and whole > max_limit):
        range_ = "from 0 up" if max_limit is None else f"from 0 to {max_limit:,}"
        raise InvalidArgumentError(f"{name} is {limit!r}; pass a whole number {range_}")
    return whole


def checked_fusion(fusion: object) -> Fusion | None:
    """Return the fusion: a name, three weights, or None for the default."""
    if fusion is None or fusion in FUSIONS:
        return cast("Fusion | None", fusion)
    if isinstance(fusion, tuple) and len(fusion) == len(FUSIONS):
        weights = [weight for weight in fusion if isinstance(weight, (int, float)) and weight >= 0]
        if len(weights) == len(fusion) and 0 < sum(weights) < float("inf"):
            return cast(Fusion, tuple(float(weight) for weight in weights))
    raise InvalidArgumentError(
        f"fusion is {fusion!r}; choose one of {', '.join(map(repr, FUSIONS))}, pass three weights "
        "(text, trigram, vector), or None"
    )


def checked_filters(operation: str, filters: Filters) -> Filters:
    """Return the filters that are set, each with its value checked."""
    check_known(f"{operation} has no", filters, Filters.__annotations__, "the filters are")
    checked: dict[str, Any] = {}
    for name, value in filters.items():
        if value is None:
            continue
        if name in {"after", "before"}:
            checked[name] = to_millisecond(name, value)
        elif name == "min_trust":
            checked[name] = float(_fraction(name, value))
        else:
            checked[name] = _names(name, value)
    return cast(Filters, checked)


def checked_handles(handles: object) -> list[str]:
    """Return one handle or several as a list."""
    return _names("handles", [handles] if isinstance(handles, str) else handles)


def checked_purge(source: object, thread: object, everything: object) -> None:
    """Refuse a purge that does not name exactly one thing to remove."""
    for name, value in (("source", source), ("thread", thread)):
        if value is not None:
            check_type(name, value, str, "pass a string")
    if (source is not None) + (thread is not None) + (everything is True) != 1:
        raise InvalidArgumentError(
            "purge removes one thing; pass source=, thread=, or everything=True for the namespace"
        )


def _names(name: str, values: Any) -> list[str]:
    if isinstance(values, str) or not isinstance(values, (Sequence, set, frozenset)):
        raise InvalidArgumentError(f"{name} is {values!r}; pass a list of strings")
    for value in values:
        if not isinstance(value, str):
            raise InvalidArgumentError(f"{name} holds {value!r}; pass strings")
        if name == "tiers":
            check_choice("tier", value, TIERS)
    return list(values)
