"""Print the rates, the needs and the simulated hours: see `benches/python/scale/__init__.py`.

    tools/postgres python -m benches.python.scale             # minutes; keeps its rates
    python -m benches.python.scale --rates target/bench/scale.json --threads 50000

`--core-hour`, `--memory-gb-hour` and `--disk-gb-month` are your prices.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from benches.python.scale.live import live
from benches.python.scale.plan import Need, Prices, core_hours, live_threads, memories
from benches.python.scale.rates import Rate, Rates, Sizes, measure
from benches.python.scale.simulation import (
    Load,
    Machines,
    Outcome,
    Simulation,
    Times,
    Trouble,
)

KEPT = Path("target/bench/scale.json")
TRANSCRIPTS = 10_000_000
MEMORIES = 100e6
SECONDS = 600.0
CHECKED_SECONDS = 40.0


def main() -> None:
    """Measure, or read what was measured, and print the tables of docs/scale.md."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rates", type=Path, help="rates that were measured before")
    parser.add_argument("--threads", type=int, default=10_000)
    parser.add_argument("--measured", type=int, default=100, help="threads that are really run")
    parser.add_argument("--round-trip-ms", type=float, default=0.5, help="to the server")
    parser.add_argument("--core-hour", type=float, default=Prices().core_hour)
    parser.add_argument("--memory-gb-hour", type=float, default=Prices().memory_gb_hour)
    parser.add_argument("--disk-gb-month", type=float, default=Prices().disk_gb_month)
    options = parser.parse_args()
    prices = Prices(options.core_hour, options.memory_gb_hour, options.disk_gb_month)
    if options.rates:
        rates = _read(options.rates)
    else:
        url = os.environ.get("REHYDRATE_POSTGRES_URL") or sys.exit("run it under tools/postgres")
        rates = measure(url, threads=options.measured, units=100, users=50)
        _print_checked(url, rates)
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        KEPT.write_text(json.dumps(rates), encoding="utf-8")
    _print_rates(rates)
    people = Load(options.threads)
    agents = people._replace(user_seconds=0.0)
    _print_needs(rates, people, agents, prices)
    _print_simulated(rates, people, agents, options.round_trip_ms / 1e3)


def _print_rates(rates: Rates) -> None:
    print(
        "\n| | process, ms | server, ms | on the clock here, p50 / p99 ms "
        "| log, bytes | disk, bytes |"
    )
    print("|---|---|---|---|---|---|")
    for one in rates[:6]:
        assert isinstance(one, Rate)
        walls = sorted(one.walls_ms)
        p50, p99 = walls[len(walls) // 2], walls[int(len(walls) * 0.99)]
        print(
            f"| {one.name} | {one.app_ms:.2f} | {one.server_ms:.2f} | {p50:.1f} / {p99:.1f} "
            f"| {one.wal_bytes:,.0f} | {one.disk_bytes:,.0f} |"
        )
    print(
        f"\na live context: {rates.sizes.context / 1e6:.2f} MB, and "
        f"{rates.sizes.collection_ms:.2f} ms of a full garbage collection; a memory in an index: "
        f"{rates.sizes.held_item:,.0f} bytes; a call waits for {rates.trips:.1f} round trips"
    )
    print("\n| a transcript of | a second and core | core-hours of 10 M |\n|---|---|---|")
    for size, hours in core_hours(rates, TRANSCRIPTS).items():
        print(f"| {size / 1e3:g} KB | {rates.transcripts[size]:,.0f} | {hours:,.1f} |")


def _print_needs(rates: Rates, people: Load, agents: Load, prices: Prices) -> None:
    needs = [
        live_threads(rates, people),
        live_threads(rates, people, keeps_contexts=False),
        live_threads(rates, agents),
        live_threads(rates, agents, keeps_contexts=False),
        memories(rates, MEMORIES, 1_000, 200, 200, 0.1),
        memories(rates, MEMORIES, 100_000, 200, 200, 0.1),
    ]
    print(
        "\n| | cores of processes | of the server | memory, GB | disk, GB | log, MB/s | a month |"
    )
    print("|---|---|---|---|---|---|---|")
    for need in needs:
        print(_line(need, prices))


def _line(need: Need, prices: Prices) -> str:
    month = prices.month(need.process_cores + need.server_cores, need.memory_gb, need.disk_gb)
    return (
        f"| {need.name} | {need.process_cores:.1f} | {need.server_cores:.1f} "
        f"| {need.memory_gb:,.1f} | {need.disk_gb:,.0f} | {need.log_mb_second:.1f} | {month:,.0f} |"
    )


def _print_simulated(rates: Rates, people: Load, agents: Load, round_trip: float) -> None:
    times = _times(rates, round_trip)
    print(f"\nSimulated, {SECONDS:g} s, a round trip of {round_trip * 1e3:g} ms:\n")
    print("| | processes | server cores | connections | p50 ms | p99 ms | longest ms | busy | |")
    print("|---|---|---|---|---|---|---|---|---|")
    away = Trouble(at=300.0, server_away=20.0)
    anew = Trouble(at=300.0, restarted_processes=10_000)
    few, many = Machines(2, 2, 16), Machines(8, 4, 64)
    for name, load, machines, trouble in (
        ("people", people, few, None),
        ("people", people, Machines(1, 1, 8), None),
        ("people", people, Machines(2, 1, 2), None),
        ("people, the server away for 20 s", people, few, away),
        ("people, all processes start anew", people, few, anew),
        ("agents", agents, Machines(4, 2, 32), None),
        ("agents", agents, many, None),
        ("agents, the server away for 20 s", agents, many, away),
        ("agents, all processes start anew", agents, many, anew),
    ):
        found = Simulation(load, machines, times, trouble).run(SECONDS)
        print(_simulated(name, machines, found))


def _print_checked(url: str, rates: Rates) -> None:
    """Hold the simulation against threads that are really run, by one process."""
    print("\n| one process | calls | p50 ms | p99 ms | longest ms |\n|---|---|---|---|---|")
    for threads in (100, 200, 300):
        load = Load(threads, model_seconds=1.0, user_seconds=0.0)
        ran = live(url, load, CHECKED_SECONDS)
        p50, p99 = ran[len(ran) // 2], ran[int(len(ran) * 0.99)]
        print(f"| {threads} run | {len(ran):,} | {p50:.1f} | {p99:.1f} | {ran[-1]:.0f} |")
        found = Simulation(load, Machines(1, 1, 8), _times(rates, 0.0)).run(CHECKED_SECONDS)
        print(
            f"| {threads} simulated | {found.calls:,} | {found.p50_ms:.1f} | {found.p99_ms:.1f} "
            f"| {found.longest_ms:.0f} |",
            flush=True,
        )


def _simulated(name: str, machines: Machines, found: Outcome) -> str:
    settled = f"settled after {found.settled_seconds:.0f} s" if found.settled_seconds else ""
    return (
        f"| {name} | {machines.processes} | {machines.server_cores} | {machines.connections} "
        f"| {found.p50_ms:.1f} | {found.p99_ms:,.0f} | {found.longest_ms:,.0f} "
        f"| {found.busy_processes:.0%}, {found.busy_server:.0%} | {settled} |"
    )


def _times(rates: Rates, round_trip: float) -> Times:
    return Times(
        app=[one / 1e3 for one in rates.call.apps_ms],
        server=rates.call.server_ms / 1e3,
        network=round_trip * rates.trips,
        reopen_app=rates.reopen.app_ms / 1e3,
        reopen_server=rates.reopen.server_ms / 1e3,
    )


def _read(path: Path) -> Rates:
    kept = json.loads(path.read_text(encoding="utf-8"))
    rates = [Rate(*one[:-2], *map(tuple, one[-2:])) for one in kept[:6]]
    transcripts = {int(size): rate for size, rate in kept[8].items()}
    return Rates(*rates, Sizes(*kept[6]), kept[7], transcripts)


if __name__ == "__main__":
    main()
