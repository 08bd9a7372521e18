"""PostgresStore: a memory's items on a PostgreSQL server, for many processes and machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.memory.postgres.store import PostgresStore as PostgresStore

__all__, __dir__, __getattr__ = front(__name__)
