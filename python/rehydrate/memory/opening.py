"""open_store: the file or the server that a path names."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, cast

from rehydrate._check import check_type
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory.items import INDEX_BYTES, MemoryLimits

if TYPE_CHECKING:
    from rehydrate.memory.local import LocalStore
    from rehydrate.memory.postgres.store import PostgresStore

_SERVERS = ("postgresql://", "postgres://")
_LOST_SLASH = re.compile(r"postgres(?:ql)?:[\\/](?![\\/])")
LANGUAGE = "english"
"""The text search configuration of namespaces on a server, unless one is named."""


def is_server(path: object) -> bool:
    """Return whether a path is the URL of a server.

    >>> is_server("postgresql://db/memories"), is_server("memory.db")
    (True, False)
    """
    return isinstance(path, str) and path.startswith(_SERVERS)


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
) -> LocalStore | PostgresStore:
    """Open a file, or what a URL names; raises StoreError."""
    where = verify_place(path)
    if is_server(where):
        from rehydrate.memory.postgres.store import PostgresStore

        return PostgresStore(
            where,
            limits=limits,
            read_only=read_only,
            index_bytes=index_bytes,
            language=language or LANGUAGE,
        )
    if language is not None:
        raise InvalidArgumentError(
            f"language is {language!r}, but a file reads all languages alike; leave it out"
        )
    from rehydrate.memory.local import LocalStore

    return LocalStore(where, limits=limits, read_only=read_only, index_bytes=index_bytes)
