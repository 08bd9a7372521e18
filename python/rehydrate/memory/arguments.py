"""Checks of the arguments of a memory's operations; each returns the normal form."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, cast

from rehydrate._check import check_choice, check_known, check_share, check_type
from rehydrate.errors import InvalidArgumentError, MissingNamespaceError
from rehydrate.memory.items import (
    FUSIONS,
    TIERS,
    Filters,
    Fusion,
    ItemFields,
    MemoryItem,
    Tier,
    to_millisecond,
)

MAX_LIMIT = 10_000
"""The largest `limit` of one search."""

_LISTS = ("kinds", "sources", "threads", "tiers")
_MOMENTS = ("after", "before")


def checked_namespace(namespace: object) -> str:
    """Return the namespace; raises InvalidArgumentError unless it is a string that is not blank."""
    if not isinstance(namespace, str) or not namespace.strip():
        raise InvalidArgumentError(
            f"namespace is {namespace!r}; pass a name, as of a tenant, a user or a project"
        )
    return namespace


def resolve_namespace(operation: str, given: str | None, bound: str | None) -> str:
    """Return the namespace of a call: the one passed, else the one the memory is bound to."""
    if given is None:
        if bound is None:
            raise MissingNamespaceError(operation)
        return bound
    return checked_namespace(given)


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


def checked_query(query: Any) -> str:
    """Return the query; it must be a string."""
    check_type("query", query, str, "pass a string")
    return cast(str, query)


def checked_tier(tier: object) -> Tier:
    """Return the tier; it must be one of `TIERS`."""
    check_choice("tier", tier, TIERS)
    return cast(Tier, tier)


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
        if name in _LISTS:
            checked[name] = _names(name, value)
        elif name in _MOMENTS:
            checked[name] = to_millisecond(name, value)
        else:
            check_share("min_trust", value)
            checked[name] = float(cast(float, value))
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
            checked_tier(value)
    return list(values)
