"""Resources: stored threads and what handles stand for, by their addresses.

| address | text |
|---|---|
| rehydrate://thread/NAME | the conversation, each message with its number |
| rehydrate://handle/NAME/HANDLE | the whole text under a handle of that thread |
| rehydrate://handle/HANDLE | an item of the memory |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote

from rehydrate._text import as_unicode
from rehydrate.errors import InvalidArgumentError, UnknownHandleError
from rehydrate.integrations.mcp_server.arguments import shown
from rehydrate.integrations.mcp_server.stores import Stores

SCHEME = "rehydrate://"
PAGE = 100


class ThreadResource(NamedTuple):
    """A stored thread in a list."""

    name: str
    uri: str
    description: str
    changed: str


class Template(NamedTuple):
    """A kind of address."""

    name: str
    uri: str
    description: str


TEMPLATES = (
    Template("thread", f"{SCHEME}thread/{{thread}}", "A stored conversation, whole."),
    Template(
        "handle", f"{SCHEME}handle/{{thread}}/{{handle}}", "The text under a handle of a thread."
    ),
    Template("memory", f"{SCHEME}handle/{{handle}}", "An item of the memory: mem_..."),
)


def list_threads(stores: Stores, cursor: str | None) -> tuple[list[ThreadResource], str | None]:
    """Return one page of the threads, and the cursor of the next one.

    Raises InvalidArgumentError for a cursor that no page gave.
    """
    if cursor is not None and not cursor.isdecimal():
        raise InvalidArgumentError(f"cursor is {shown(cursor)}; send the nextCursor of a page")
    start = int(cursor or 0)
    if not stores.has_threads:
        return [], None
    found = stores.threads().list()
    page = [
        ThreadResource(
            info.name,
            f"{SCHEME}thread/{quote(info.name, safe='')}",
            f"{info.records:,} records, {info.bytes:,} bytes",
            info.changed.isoformat(),
        )
        for info in found[start : start + PAGE]
    ]
    return page, str(start + PAGE) if start + PAGE < len(found) else None


def read(stores: Stores, uri: str) -> str:
    """Return the text at an address; raises InvalidArgumentError where there is none."""
    kind, *path = _parts(uri)
    try:
        match kind, path:
            case "thread", [name]:
                return as_unicode(stores.reader(name).transcript())
            case "handle", [handle]:
                return stores.memory().get(handle).text
            case "handle", [name, handle]:
                return as_unicode(stores.reader(name).whole(handle))
    except UnknownHandleError as error:
        raise InvalidArgumentError(str(error)) from None
    patterns = ", ".join(template.uri for template in TEMPLATES)
    raise InvalidArgumentError(f"there is nothing at {shown(uri)}; send one of {patterns}")


def _parts(uri: str) -> Sequence[str]:
    path = uri.removeprefix(SCHEME)
    return [""] if path == uri else [unquote(part) for part in path.split("/")]
