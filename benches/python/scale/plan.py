"""The needs of three aims, by arithmetic from the rates that were measured."""

from __future__ import annotations

from typing import NamedTuple

from benches.python.scale.rates import Rates
from benches.python.scale.simulation import Load

GB = 1e9
SECONDS_A_DAY = 86_400
HOURS_A_MONTH = 730
BUSY_SHARE = 0.5
"""Share of their time that cores should be busy, so that waiting stays short."""


class Prices(NamedTuple):
    """What is paid for a machine; put in your own."""

    core_hour: float = 0.04
    memory_gb_hour: float = 0.005
    disk_gb_month: float = 0.12

    def month(self, cores: float, memory_gb: float, disk_gb: float) -> float:
        """Return what these cost for a month."""
        by_hour = cores * self.core_hour + memory_gb * self.memory_gb_hour
        return by_hour * HOURS_A_MONTH + disk_gb * self.disk_gb_month


class Need(NamedTuple):
    """One aim, or one way to it."""

    name: str
    process_cores: float
    server_cores: float
    memory_gb: float
    disk_gb: float
    log_mb_second: float
    """Written to the server's log."""


def live_threads(rates: Rates, load: Load, *, keeps_contexts: bool = True) -> Need:
    """Return what live threads need; without kept contexts each call opens its thread again.

    The disk is that of a day's calls.
    """
    calls = load.calls_a_second
    app, server, log = rates.call.app_ms, rates.call.server_ms, rates.call.wal_bytes
    held = load.threads * rates.sizes.context
    if not keeps_contexts:
        app, server = app + rates.reopen.app_ms, server + rates.reopen.server_ms
        held = 0
    return Need(
        f"{load.threads:,} threads, {calls:,.0f} calls a second"
        + ("" if keeps_contexts else ", each opens its thread"),
        calls * app / 1e3 / BUSY_SHARE,
        calls * server / 1e3 / BUSY_SHARE,
        held / GB,
        calls * rates.call.disk_bytes * SECONDS_A_DAY / GB,
        calls * log / 1e6,
    )


def memories(
    rates: Rates, count: float, each: int, searches: float, adds: float, active: float
) -> Need:
    """Return what memories need: so many, so many in each namespace, and what is done a second.

    `active` is the share of the namespaces that processes hold an index of, where they fit.
    """
    is_held = each <= 20_000
    search = rates.search if is_held else rates.far_search
    app = searches * search.app_ms + adds * rates.add.app_ms
    server = searches * search.server_ms + adds * rates.add.server_ms
    return Need(
        f"{count / 1e6:,.0f} M memories in namespaces of {each:,}, {searches:,.0f} searches and "
        f"{adds:,.0f} adds a second",
        app / 1e3 / BUSY_SHARE,
        server / 1e3 / BUSY_SHARE,
        count * active * rates.sizes.held_item / GB if is_held else 0.0,
        count * rates.add.disk_bytes / GB,
        adds * rates.add.wal_bytes / 1e6,
    )


def core_hours(rates: Rates, transcripts: float) -> dict[int, float]:
    """Return by bytes of a transcript the hours of one core that so many take."""
    return {size: transcripts / rate / 3_600 for size, rate in rates.transcripts.items()}
