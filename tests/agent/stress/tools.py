"""The tools and the sources of a run; they record what they returned."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel

from rehydrate import Memory
from rehydrate.agent import ToolError
from tests.agent.stress.plan import Plan
from tests.agent.stress.responder import words


class Tools:
    """The tools of one run; `results` has the result of each call by its tag."""

    def __init__(self, plan: Plan, point: Callable[[], None]) -> None:
        self._plan = plan
        self._point = point
        self.results: dict[str, str] = {}
        self.calls: list[str] = []
        """The tags of the calls that ran, in order."""

    @property
    def all(self) -> list:
        tools = (self.quick, self.slow, self.blocking, self.raising, self.refusing)
        return [*tools, self.huge, self.table, self.nothing, self.stuck]

    async def quick(self, tag: str, size: int = 1) -> str:
        """Answers at once."""
        return self._start(tag).record(tag, f"[r{tag}] {self._words(tag, size)}")

    async def slow(self, tag: str, size: int = 1) -> str:
        """Answers after a while."""
        self._start(tag)
        for _ in range(5):
            await anyio.sleep(0.001)
            self._point()
        return self.record(tag, f"[r{tag}] {self._words(tag, size)}")

    def blocking(self, tag: str, size: int = 1) -> str:
        """Answers from a thread."""
        self._start(tag)
        time.sleep(0.003)
        self._point()
        return self.record(tag, f"[r{tag}] {self._words(tag, size)}")

    async def raising(self, tag: str, size: int = 1) -> str:
        """Fails."""
        self._start(tag)
        await anyio.lowlevel.checkpoint()
        self.record(tag, "raising failed (LookupError)")
        raise LookupError(f"no such berth: {tag}")

    def refusing(self, tag: str, size: int = 1) -> str:
        """Says why not."""
        raise ToolError(self._start(tag).record(tag, f"not on a {tag}"))

    def huge(self, tag: str, size: int = 1) -> str:
        """Says very much."""
        lines = [f"{n} {self._words(f'{tag}/{n}', 8)}" for n in range(60 * size)]
        return self._start(tag).record(tag, f"[r{tag}]\n" + "\n".join(lines))

    async def table(self, tag: str, size: int = 1) -> dict:
        """Returns an object."""
        table = {"tag": tag, "rows": [[n, n / 4, None] for n in range(size)], "é": True}
        self._start(tag)
        self.record(tag, json.dumps(table, ensure_ascii=False, separators=(",", ":")))
        return table

    def nothing(self, tag: str, size: int = 1) -> None:
        """Returns nothing."""
        self._start(tag).record(tag, "(nothing returned)")

    async def stuck(self, tag: str, size: int = 1) -> str:
        """Never comes back."""
        self._start(tag)
        await anyio.sleep_forever()
        raise AssertionError

    def record(self, tag: str, text: str) -> str:
        self.results[tag] = text
        return text

    def _start(self, tag: str) -> Tools:
        self.calls.append(tag)
        self._point()
        return self

    def _words(self, tag: str, count: int) -> str:
        return words(self._plan.dice("tool", tag), count)


class Sources:
    """The sources of one run; each of `texts` may be in a prompt only once."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self.texts: list[str] = []
        self._memory: Memory | None = None
        if "memory" in plan.sources:
            self._memory = Memory.open(folder / "memory.db", namespace="harbour")
            dice = plan.dice("memory")
            self.texts = [f"Memo {n}: {words(dice, 14)}." for n in range(12)]
            self._memory.add(self.texts, source="memos")
        if "notes" in plan.sources:
            self._notes = folder / "notes"
            self._notes.mkdir()
            for n in range(3):
                text = "\n\n".join(f"Note: {words(plan.dice('note', n, m), 12)}" for m in range(4))
                (self._notes / f"note{n}.md").write_text(f"# Note {n}\n\n{text}\n")

    @property
    def all(self) -> list:
        objects = {"memory": self._memory, "notes": getattr(self, "_notes", None)}
        return [
            objects[name] if name in objects else getattr(self, name) for name in self._plan.sources
        ]

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()

    def clock(self, request) -> str:
        return f"It is {time.perf_counter_ns()} in the harbour now, by the clock of the tower."

    def fails(self, request) -> str:
        raise OSError("the archive burnt down")

    def hangs(self, request) -> str:
        time.sleep(0.4)
        return "too late"

    async def late(self, request) -> str:
        await anyio.sleep(0.4)
        return "too late as well"

    def says_nothing(self, request) -> None:
        return None
