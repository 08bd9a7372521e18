"""The URL of a server: checked before it is used, and shown without its password."""

from __future__ import annotations

import re

from rehydrate.errors import InvalidArgumentError

_URL = re.compile(
    r"(?P<scheme>postgres(?:ql)?://)"
    r"(?:(?P<user>[^:/?#@]*)(?P<password>:[^/?#@]*)?@)?"
    r"(?P<place>[^@?#]*)"
    r"(?P<options>\?.*)?",
    re.DOTALL,
)


def shown(url: str) -> str:
    """Return a URL without its password and its options.

    >>> shown("postgresql://app:secret@db:5432/memories?sslmode=require")
    'postgresql://app@db:5432/memories'
    >>> shown("postgresql://app:not/escaped@db/memories")
    'postgresql://***'
    """
    parts = _URL.fullmatch(url)
    if parts is None or not _has_ports(parts["place"]):
        return f"{url.partition('://')[0]}://***" if url.startswith("postgres") else "***"
    user = f"{parts['user']}@" if parts["user"] else ""
    return f"{parts['scheme']}{user}{parts['place']}"


def verify_url(url: str) -> str:
    """Return the URL; raises InvalidArgumentError for one that libpq would misread.

    Its own messages would quote a password that is not escaped.
    """
    import psycopg

    problem = f"{shown(url)} is not a URL of PostgreSQL"
    remedy = (
        "write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, and in a password %40 for @, %3A for "
        ": and so on, or leave it to ~/.pgpass"
    )
    parts = _URL.fullmatch(url)
    if parts is None or not _has_ports(parts["place"]):
        raise InvalidArgumentError(f"{problem}; {remedy}")
    try:
        psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        said = str(error).strip()
        if "URI query parameter" in said:
            raise InvalidArgumentError(f"{problem}: {said}; leave it out") from None
        raise InvalidArgumentError(f"{problem}; {remedy}") from None
    return url


def _has_ports(place: str) -> bool:
    """Return whether what stands where a port does is one: it may be half of a password."""
    hosts = re.sub(r"\[[^\]]*\]", "", place.partition("/")[0])
    ports = [host.partition(":")[2] for host in hosts.split(",") if ":" in host]
    return "[" not in hosts and all(port.isascii() and port.isdigit() for port in ports)
