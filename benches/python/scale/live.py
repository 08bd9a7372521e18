"""Live threads, really run: what the simulation says of a small load is held against it."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

from benches.python.inputs import generated_session
from benches.python.scale.rates import BUDGET
from benches.python.scale.simulation import Load
from rehydrate.context import BackgroundCompaction, Context, Threads


def live(url: str, load: Load, seconds: float, seed: int = 1) -> list[float]:
    """Return the milliseconds of the calls of a process with these threads, the slowest last.

    Calls of the first tenth of the time do not count, as in the simulation.
    """
    return sorted(asyncio.run(_live(url, load, seconds, random.Random(seed))))


async def _live(url: str, load: Load, seconds: float, dice: random.Random) -> list[float]:
    taken: list[float] = []
    with Threads.open(url, namespace="live", durability="turn") as stored:
        begun = time.perf_counter()

        async def thread(number: int) -> None:
            context = Context(
                threads=stored,
                thread=f"live-{number}",
                budget=BUDGET,
                background=BackgroundCompaction(),
            )
            entries: list[Any] = generated_session(200, 400_000, number=20_000 + number)
            await asyncio.sleep(dice.uniform(0, load.model_seconds))
            for entry in entries:
                if entry["role"] == "assistant":
                    context.add(entry)
                    continue
                began = time.perf_counter()
                if began - begun > seconds:
                    break
                context.add(entry)
                await context.aprompt()
                if began - begun > seconds / 10:
                    taken.append((time.perf_counter() - began) * 1e3)
                await asyncio.sleep(load.pause(dice))

        await asyncio.gather(*(thread(number) for number in range(load.threads)))
    return taken
