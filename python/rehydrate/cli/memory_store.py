"""The memory of a command: its file and namespace, opening it, and options shared by commands."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from rehydrate._jsonl import folder_named
from rehydrate._native import shown_url
from rehydrate._text import is_utf8
from rehydrate.cli.options import group, names_of, number, option, read_input
from rehydrate.cli.terminal import Failure, say
from rehydrate.errors import StoreReadOnlyError
from rehydrate.memory.items import TIERS, Filters
from rehydrate.memory.store import is_server

if TYPE_CHECKING:
    from rehydrate.memory.memory import Memory


SERVER = "postgresql://user@host/database"
STORE_VARIABLE = "REHYDRATE_MEMORY"
NAMESPACE_VARIABLE = "REHYDRATE_NAMESPACE"


def default_store(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the file used if none is named; it need not exist.

    `$REHYDRATE_MEMORY`; else `memory.db` in `$REHYDRATE_HOME`; else `rehydrate/memory.db` in the
    user's data folder (`$XDG_DATA_HOME`, `%LOCALAPPDATA%` on Windows, `~/.local/share`).

    >>> default_store({"REHYDRATE_MEMORY": "/srv/team.db"}).as_posix()
    '/srv/team.db'
    >>> default_store({"XDG_DATA_HOME": "/data/me"}).as_posix()
    '/data/me/rehydrate/memory.db'
    """
    if named := environ.get(STORE_VARIABLE):
        return Path(named).expanduser()
    if home := environ.get("REHYDRATE_HOME"):
        return folder_named("REHYDRATE_HOME", home) / "memory.db"
    data = environ.get("XDG_DATA_HOME")
    if not data and sys.platform == "win32":
        data = environ.get("LOCALAPPDATA")
    return (Path(data) if data else Path.home() / ".local" / "share") / "rehydrate" / "memory.db"


def _short_path(path: Path) -> str:
    try:
        return f"~/{path.relative_to(Path.home()).as_posix()}".replace("%", "%%")
    except (ValueError, RuntimeError):
        return str(path).replace("%", "%%")


_STORE = option(
    "--store PATH",
    f"the file, or {SERVER}; default: ${STORE_VARIABLE}, else {_short_path(default_store({}))}",
)
STORE = group(
    "which store",
    _STORE,
    option("-n --namespace NAME", f"whose: a project, a user; default: ${NAMESPACE_VARIABLE}"),
)
"""For a command that works within one namespace."""
STORES = group(
    "which store",
    _STORE,
    option("-n --namespace NAME", f"only this one; default: ${NAMESPACE_VARIABLE}, else all"),
)
"""For a command that works within one namespace or all."""
WHOLE_STORE = group("which store", _STORE)


def store_path(options: argparse.Namespace) -> Path | str:
    """Return the memory's file, or the URL of its server."""
    if options.store == "":
        raise Failure("--store is empty; name a file, or leave it out")
    return place_of(options.store or os.environ.get(STORE_VARIABLE, ""))


def shown_place(place: Path | str) -> str:
    """Return a file or a URL to be printed: without a password."""
    return str(place) if isinstance(place, Path) else shown_url(place)


def place_of(name: str) -> Path | str:
    """Return the file or the URL that a name means; the usual file if it is empty."""
    if is_server(name):
        return name
    if "://" in name:
        scheme = name.partition("://")[0]  # the rest may hold a password
        raise Failure(f"{scheme}://... is an address; name a file, or {SERVER}")
    try:
        return Path(name).expanduser() if name else default_store()
    except RuntimeError as error:  # a home that does not exist, as in ~stranger
        raise Failure(f"{name or 'the default store'}: {error}; name a path: --store") from None


def namespace_of(options: argparse.Namespace) -> str:
    """Return the namespace. There is no default, so that nothing leaks by mistake."""
    name = named_namespace(options)
    if name is None:
        raise Failure(
            f"no namespace is named; pass --namespace NAME (a project, a user), or set "
            f"{NAMESPACE_VARIABLE}"
        )
    return name


def named_namespace(options: argparse.Namespace) -> str | None:
    """Return the namespace that is named, if any.

    An empty name is a mistake, as in `-n "$PROJECT"` if that is not set. Another namespace as
    the default would read or change the wrong items.
    """
    name: str | None = options.namespace
    if name is None:
        name = os.environ.get(NAMESPACE_VARIABLE, "")
        return checked_text(f"${NAMESPACE_VARIABLE}", name) if name.strip() else None
    if not name.strip():
        raise Failure(
            f"--namespace is {name!r}, which names nobody; pass a name (a project, a user), or "
            f"leave it out for that of ${NAMESPACE_VARIABLE}"
        )
    return checked_text("--namespace", name)


@contextmanager
def opened(
    options: argparse.Namespace,
    *,
    to: Literal["read", "change", "create"] = "read",
    whole: bool = False,
) -> Iterator[Memory]:
    """Yield the memory within its namespace, or the whole of it; its failures are printed at the
    end.

    Only a command that adds items creates a missing file (`to="create"`).
    """
    from rehydrate.memory.memory import Memory

    namespace = None if whole else namespace_of(options)
    path = store_path(options)
    is_file = isinstance(path, Path)
    if isinstance(path, Path):
        try:
            is_folder, is_missing = path.is_dir(), not path.exists()
        except OSError:
            is_folder = is_missing = False  # opening it reports the error
        if is_folder:
            remedy = f"name a file in it: --store {path / 'memory.db'}"
            raise Failure(f"{path} is a folder; {remedy}")
        if is_missing and to != "create":
            raise Failure(
                f"{path}: there is no memory yet; bring something in with rehydrate memory add or "
                "sync, or name another file with --store"
            )
    arguments: dict[str, Any] = {"namespace": namespace}
    if getattr(options, "embedder", None):
        arguments["embedder"] = options.embedder
    if getattr(options, "no_redact", False):
        arguments["redact"] = False
    # If the file is writable, a search also counts its hits and maintains the index.
    read_only = to == "read" and is_file and not os.access(path, os.W_OK)
    try:
        memory = Memory.open(path, **arguments, read_only=read_only)
    except StoreReadOnlyError:
        if to != "read" or read_only:
            raise
        memory = Memory.open(path, **arguments, read_only=True)
    with memory:
        yield memory
        for trouble in memory.degraded:
            say(f"rehydrate: warning: {trouble}")


def checked_text(name: str, text: str) -> str:
    """Check an argument: a byte that was not UTF-8 in the shell must not reach the store."""
    if not is_utf8(text):
        raise Failure(f"{name} is not UTF-8; convert it, for example with iconv")
    return text


def read_text() -> str:
    """Read all of standard input, byte for byte."""
    try:
        return read_input("pass the text as an argument").decode()
    except UnicodeDecodeError as error:
        raise Failure(
            f"standard input is not UTF-8: byte {error.start} begins no character; convert it, for "
            "example with iconv -f LATIN1 -t UTF-8"
        ) from None


_SPAN = re.compile(r"(\d{1,6})([hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


def moment(text: str, *, ahead: bool = False) -> datetime:
    """Parse a day, a time, or an age such as "3d"; with `ahead`, how long from now.

    >>> moment("2026-02-17").isoformat()
    '2026-02-17T00:00:00+00:00'
    """
    try:
        if span := _SPAN.fullmatch(text.strip()):
            distance = timedelta(**{_UNITS[span[2]]: int(span[1])})
            return datetime.now(UTC) + (distance if ahead else -distance)
        found = datetime.fromisoformat(text.strip())
    except (OverflowError, ValueError):
        how_long = "in how long" if ahead else "how long ago"
        raise argparse.ArgumentTypeError(
            f"{text!r} isn't a time; pass a day such as 2026-02-17, or {how_long}: 36h, 7d, 2w"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def end(text: str) -> datetime:
    """Parse a time to come."""
    return moment(text, ahead=True)


share = number(0, 1, "isn't a number from 0 to 1", float)
FILTERS = group(
    "which items",
    option("--tier", "repeatable, as those below", TIERS, action="append"),
    option("--kind KIND", "as decision, note", action="append"),
    option("--source SOURCE", "the whole of it: notes/decisions.md", action="append"),
    option("--thread THREAD", action="append"),
    option("--after WHEN", "said then or later: 2026-02-17, 2026-02-17T09:30, 36h, 7d, 2w", moment),
    option("--before WHEN", "said before that", moment),
    option("--min-trust T", "trusted at least so much, 0 to 1", share),
)
"""A repeated filter means any of its values."""


def filters_of(options: argparse.Namespace) -> Filters:
    """Return the filters that were given."""
    filters: dict[str, Any] = {}
    for name in Filters.__annotations__:
        value = getattr(options, name.removesuffix("s"))
        if isinstance(value, list):
            value = [checked_text(f"--{name.removesuffix('s')}", one) for one in value]
        if value is not None:
            filters[name] = value
    return cast(Filters, filters)


MEMORY = (
    option("--memory FILE", f"a memory's file, or {SERVER}: what it holds already may go first"),
    option("--namespace NAME", "whose memories are meant"),
)
ARCHIVED = ("dropped", "novel", "episode")
"""The values of `--archive`: the fields of an `Archive`, in their order."""
ARCHIVE = option(
    "--archive WHAT",
    "write to the memory: dropped (dropped messages, whole), novel (the beginning of what is "
    "dropped and not in memory yet), episode (one line); several with commas: dropped,novel",
    names_of(ARCHIVED),
    action="extend",
)


@contextmanager
def opened_memory(
    options: argparse.Namespace, *, read_only: bool = False
) -> Iterator[Memory | None]:
    """Yield the memory that the options name, or None. Only one that may be written is made."""
    if options.memory is None:
        for name in ("namespace", "archive"):
            if getattr(options, name, None):
                raise Failure(
                    f"--{name} needs a memory; add --memory FILE, which is made if missing"
                )
        yield None
        return
    if not options.namespace:
        raise Failure("--memory needs --namespace NAME: whose memories are meant")
    from rehydrate.memory.memory import Memory

    namespace = options.namespace
    with Memory.open(options.memory, namespace=namespace, read_only=read_only) as memory:
        yield memory
