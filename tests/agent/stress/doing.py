"""What a run's tools do, and its sources: they note themselves what they returned."""

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
from tests.agent.stress.saying import words


class Tools:
    """The tools of one run; `came` is what each call brought, by its tag."""

    def __init__(self, plan: Plan, point: Callable[[], None]) -> None:
        self._plan = plan
        self._point = point
        self.came: dict[str, str] = {}
        self.made: list[str] = []

    @property
    def all(self) -> list:
        tools = (self.quick, self.slow, self.blocking, self.raising, self.refusing)
        return [*tools, self.huge, self.table, self.nothing, self.stuck]

    async def quick(self, tag: str, size: int = 1) -> str:
        """Answers at once."""
        return self._began(tag).comes(tag, f"[r{tag}] {self._words(tag, size)}")

    async def slow(self, tag: str, size: int = 1) -> str:
        """Answers after a while."""
        self._began(tag)
        for _ in range(5):
            await anyio.sleep(0.001)
            self._point()
        return self.comes(tag, f"[r{tag}] {self._words(tag, size)}")

    def blocking(self, tag: str, size: int = 1) -> str:
        """Answers from a thread."""
        self._began(tag)
        time.sleep(0.003)
        self._point()
        return self.comes(tag, f"[r{tag}] {self._words(tag, size)}")

    async def raising(self, tag: str, size: int = 1) -> str:
        """Fails."""
        self._began(tag)
        await anyio.lowlevel.checkpoint()
        self.comes(tag, "raising failed (LookupError)")
        raise LookupError(f"no such berth: {tag}")

    def refusing(self, tag: str, size: int = 1) -> str:
        """Says why not."""
        raise ToolError(self._began(tag).comes(tag, f"not on a {tag}"))

    def huge(self, tag: str, size: int = 1) -> str:
        """Says very much."""
        lines = [f"{n} {self._words(f'{tag}/{n}', 8)}" for n in range(60 * size)]
        return self._began(tag).comes(tag, f"[r{tag}]\n" + "\n".join(lines))

    async def table(self, tag: str, size: int = 1) -> dict:
        """Returns an object."""
        table = {"tag": tag, "rows": [[n, n / 4, None] for n in range(size)], "é": True}
        self._began(tag)
        self.comes(tag, json.dumps(table, ensure_ascii=False, separators=(",", ":")))
        return table

    def nothing(self, tag: str, size: int = 1) -> None:
        """Returns nothing."""
        self._began(tag).comes(tag, "(nothing returned)")

    async def stuck(self, tag: str, size: int = 1) -> str:
        """Never comes back."""
        self._began(tag)
        await anyio.sleep_forever()
        raise AssertionError

    def comes(self, tag: str, text: str) -> str:
        self.came[tag] = text
        return text

    def _began(self, tag: str) -> Tools:
        self.made.append(tag)
        self._point()
        return self

    def _words(self, tag: str, count: int) -> str:
        return words(self._plan.dice("tool", tag), count)


class Sources:
    """The sources of one run. `said` is what they know, of which nothing may stand twice."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self.said: list[str] = []
        self._memory: Memory | None = None
        if "memory" in plan.sources:
            self._memory = Memory.open(folder / "memory.db", namespace="harbour")
            dice = plan.dice("memory")
            self.said = [f"Memo {n}: {words(dice, 14)}." for n in range(12)]
            self._memory.add(self.said, source="memos")
        if "notes" in plan.sources:
            self._notes = folder / "notes"
            self._notes.mkdir()
            for n in range(3):
                text = "\n\n".join(f"Note: {words(plan.dice('note', n, m), 12)}" for m in range(4))
                (self._notes / f"note{n}.md").write_text(f"# Note {n}\n\n{text}\n")

    @property
    def all(self) -> list:
        kept = {"memory": self._memory, "notes": getattr(self, "_notes", None)}
        return [kept[name] if name in kept else getattr(self, name) for name in self._plan.sources]

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
