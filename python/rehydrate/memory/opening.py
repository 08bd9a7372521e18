"""open_store: the file or the server that a path names."""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path
from typing import cast

from rehydrate._check import check_type
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory.items import INDEX_BYTES, MemoryLimits
from rehydrate.memory.store import SharedStore

_SERVERS = ("postgresql://", "postgres://")
_SERVER_STORE = ("rehydrate.memory.postgres.store", "PostgresStore")
"""What opens them: in a distribution of its own, so it is named and not imported."""
_LOST_SLASH = re.compile(r"postgres(?:ql)?:[\\/](?![\\/])")
URL = re.compile(
    r"(?P<scheme>postgres(?:ql)?://)"
    r"(?:(?P<user>[^:/?#@]*)(?P<password>:[^/?#@]*)?@)?"
    r"(?P<place>[^@?#]*)"
    r"(?P<options>\?.*)?",
    re.DOTALL,
)
LANGUAGE = "english"
"""The text search configuration of namespaces on a server, unless one is named."""


def is_server(path: object) -> bool:
    """Return whether a path is the URL of a server.

    >>> is_server("postgresql://db/memories"), is_server("memory.db")
    (True, False)
    """
    return isinstance(path, str) and path.startswith(_SERVERS)


def shown(url: str) -> str:
    """Return a URL without its password and its options.

    >>> shown("postgresql://app:secret@db:5432/memories?sslmode=require")
    'postgresql://app@db:5432/memories'
    >>> shown("postgresql://app:not/escaped@db/memories")
    'postgresql://***'
    """
    parts = URL.fullmatch(url)
    if parts is None or not has_ports(parts["place"]):
        return f"{url.partition('://')[0]}://***" if url.startswith("postgres") else "***"
    user = f"{parts['user']}@" if parts["user"] else ""
    return f"{parts['scheme']}{user}{parts['place']}"


def has_ports(place: str) -> bool:
    """Return whether what is in a port's place is one: it may be half of a password."""
    hosts = re.sub(r"\[[^\]]*\]", "", place.partition("/")[0])
    ports = [host.partition(":")[2] for host in hosts.split(",") if ":" in host]
    return "[" not in hosts and all(port.isascii() and port.isdigit() for port in ports)


def folder_named(variable: str, value: str) -> Path:
    """Return the folder that a variable of the environment names; a server is none."""
    if "://" in value:
        raise InvalidArgumentError(
            f"{variable} is an address; name a folder: hooks and caches keep files there, and "
            "REHYDRATE_MEMORY may name a server"
        )
    return Path(value).expanduser()


def verify_place(path: object) -> str:
    """Return the path of a file or the URL of a server; raises InvalidArgumentError for others.

    The address of something else is not quoted: it may hold a password.
    """
    check_type("path", path, (str, os.PathLike), "pass the path of a file")
    where = os.fspath(cast("str | os.PathLike[str]", path))
    if isinstance(where, str) and _LOST_SLASH.match(where):
        raise InvalidArgumentError(
            "path is a Path made of a URL, which took a slash out of it; pass the URL as a string"
        )
    if not isinstance(where, str) or not where or ("://" in where and not is_server(where)):
        shown = f"{where.partition('://')[0]}://..." if "://" in str(where) else path
        raise InvalidArgumentError(
            f"path is {shown!r}; pass the path of a file, or postgresql://user@host/database"
        )
    return where


def open_store(
    path: object,
    *,
    limits: MemoryLimits,
    read_only: bool = False,
    index_bytes: int = INDEX_BYTES,
    language: str | None = None,
) -> SharedStore:
    """Open a file, or what a URL names; raises StoreError, and MissingPackageError where what the
    server needs is not installed."""
    where = verify_place(path)
    if is_server(where):
        module, name = _SERVER_STORE
        opened: SharedStore = getattr(import_module(module), name)(
            where,
            limits=limits,
            read_only=read_only,
            index_bytes=index_bytes,
            language=language or LANGUAGE,
        )
        return opened
    if language is not None:
        raise InvalidArgumentError(
            f"language is {language!r}, but a file reads all languages alike; leave it out"
        )
    from rehydrate.memory.local import LocalStore

    return LocalStore(where, limits=limits, read_only=read_only, index_bytes=index_bytes)
