"""Processor time of this process, and processor time, log and disk of the server's."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, NamedTuple, Self

_TICKS = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """What something took."""

    app_seconds: float
    server_seconds: float
    wal_bytes: int
    disk_bytes: int


class Meter:
    """Reads the counters before and after: `with Meter(connection) as meter: ...; meter.cost`.

    The server's processes are the children of the one that started the connection's own; what
    children spent that are gone is the parent's to tell.
    """

    def __init__(self, connection: Any) -> None:
        """Take a connection of the bench's own, which does nothing meanwhile."""
        self._connection = connection
        own = connection.execute("SELECT pg_backend_pid()").fetchone()[0]
        self._server = int(_stat(own)[1])
        self.cost: Cost = Cost(0, 0, 0, 0)

    def __enter__(self) -> Self:
        """Begin."""
        self._before = self._read()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        now = self._read()
        self.cost = Cost._make(
            after - before for after, before in zip(now, self._before, strict=True)
        )

    def _read(self) -> Cost:
        row = self._connection.execute(
            "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint, "
            "pg_database_size(current_database())"
        ).fetchone()
        return Cost(time.process_time(), self._server_seconds(), *map(int, row))

    def _server_seconds(self) -> float:
        total = 0
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                fields = _stat(int(folder.name))
            except OSError:
                continue  # it ended
            if int(folder.name) == self._server:
                total += sum(int(field) for field in fields[11:15])
            elif int(fields[1]) == self._server:
                total += sum(int(field) for field in fields[11:13])
        return total / _TICKS


def _stat(process: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name: state, parent, ..."""
    text = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
    return text.rpartition(")")[2].split()
