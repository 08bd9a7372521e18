"""Export and import: a namespace as JSON Lines, an item a line, and back exactly as it was."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate._text import as_json
from rehydrate.errors import InvalidArgumentError, UnknownHandleError
from rehydrate.memory.items import MemoryItem

if TYPE_CHECKING:
    from rehydrate.memory.store import MemoryStore


FORMAT = "rehydrate memory"
VERSION = 1
_BATCH = 1_000
_TIMES = ("time", "expires")
_KEPT_BY_STORES = {"handle", "namespace", "created", "linked_from", "uses"}
_FIELDS = (
    "handle",
    *(field.name for field in fields(MemoryItem) if field.name not in _KEPT_BY_STORES),
)


class Imported(NamedTuple):
    """Counts of an import."""

    added: int
    unchanged: int
    """Items that were there already."""
    links: int
    """New links."""
    lost_links: int
    """Links whose item is neither in the file nor in the namespace."""


def to_line(item: MemoryItem) -> str:
    r"""Return an item as one line of JSON, without the line's end.

    >>> to_line(MemoryItem("Use tabs.", kind="preference", handle="mem_1"))
    '{"handle": "mem_1", "text": "Use tabs.", "kind": "preference", "tier": "warm"}'
    """
    shown: dict[str, Any] = {}
    for name in _FIELDS:
        value = getattr(item, name)
        if name in {"handle", "text", "kind", "tier"} or value != _DEFAULTS[name]:
            shown[name] = value.isoformat() if isinstance(value, datetime) else value
    return as_json(shown)


def from_line(line: str) -> MemoryItem:
    """Parse a line that `to_line` wrote; raises InvalidArgumentError for anything else.

    >>> from_line('{"text": "Use tabs."}').kind
    'note'
    """
    return _item_of(_value_of(line))


def _value_of(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"it isn't JSON: {error}") from None


def _item_of(found: Any) -> MemoryItem:
    if not isinstance(found, Mapping) or not isinstance(found.get("text"), str):
        raise InvalidArgumentError('it isn\'t an item; an item is an object with a "text"')
    given = dict(found)
    if unknown := sorted(given.keys() - set(_FIELDS)):
        raise InvalidArgumentError(f"an item has no {unknown[0]!r}")
    for name in _TIMES:
        if isinstance(given.get(name), str):
            try:
                given[name] = datetime.fromisoformat(given[name])
            except ValueError:
                raise InvalidArgumentError(f"{name} is {given[name]!r}, not a time") from None
    return MemoryItem(**given)


def lines_for(items: Iterable[MemoryItem], namespace: str) -> Iterator[str]:
    """Yield the lines of an export: a header, then the items of a namespace."""
    header = {"format": FORMAT, "version": VERSION, "namespace": namespace}
    yield json.dumps(header, ensure_ascii=False)
    yield from map(to_line, items)


def add_items(memory: MemoryStore, items: Iterable[MemoryItem], namespace: str) -> Imported:
    """Add items of an export or of another memory batch by batch, then the links.

    A handle depends on the namespace. In another one the items get new handles, and links follow.
    """
    added = unchanged = 0
    handles: dict[str, str] = {}
    links: list[tuple[str, str, str]] = []
    left = iter(items)
    while batch := list(islice(left, _BATCH)):
        plain = [replace(item, links=()) for item in batch]
        for item, one in zip(batch, memory.add(plain, namespace=namespace), strict=True):
            handles[item.handle] = one.handle
            added += one.created
            unchanged += not one.created
            links.extend((one.handle, link.relation, link.handle) for link in item.links)
    new = lost = 0
    for handle, relation, other in links:  # last, when every item that a link may name is stored
        try:
            new += memory.link(handle, relation, handles.get(other, other), namespace=namespace)
        except UnknownHandleError:
            lost += 1
    return Imported(added, unchanged, new, lost)


def items_in(lines: Iterable[str], name: object) -> Iterator[MemoryItem]:
    """Yield the items of an export; raises InvalidArgumentError for any other line.

    `name` is that of the file, for errors.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = _value_of(line)
            if number > 1 or not isinstance(found, dict) or found.get("format") != FORMAT:
                yield _item_of(found)
            elif found.get("version") != VERSION:
                raise InvalidArgumentError(
                    f"it is of version {found.get('version')!r}, and version {VERSION} is what can "
                    "be read here; upgrade rehydrate"
                )
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{name}, line {number}: {error}") from None


_NEW = MemoryItem("-")
_DEFAULTS = {name: getattr(_NEW, name) for name in _FIELDS}
