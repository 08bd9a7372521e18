"""Cursor: what the statements of a store need of psycopg's cursor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

Parameters = Sequence[Any] | Mapping[str, Any]


class Cursor(Protocol):
    """psycopg's cursor, within a transaction.

    psycopg types a statement as a literal. Ours are put together of literals; every value of a
    caller is a parameter. A statement is sent with the next one whose rows are read, so its own
    number of rows is not known here: count them by ``RETURNING``.
    """

    def execute(self, query: str, params: Parameters | None = None) -> object:
        """Run a statement."""

    def fetchone(self) -> Any:
        """Return the next row, None at the end."""

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the rows."""
