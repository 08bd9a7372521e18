"""A store of memories and a thread, and all that one process does with it."""

from __future__ import annotations

import json
import os
import select
import signal
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from rehydrate import Budget, Context, Memory
from rehydrate.context import Threads
from rehydrate.errors import InternalError, RehydrateError
from rehydrate.memory import MemoryItem, Vectors
from tests.memory.stress.truth import VOCABULARY, group_of, text_of

HANG_SECONDS = 10


_KILL_SECONDS = 600  # a busy machine is not a hang: only the processor's seconds count until then


_MEMORY_BYTES = 6 << 30


SPACES = ("left", "right")


_NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


_SMALL = Budget(soft_tokens=1_500, hard_tokens=200_000)


Answers = dict[str, Any]


def make(base: Path) -> None:
    """Write the store, another one, and files of somebody else."""
    for name, first in (("box", 1), ("other", 5_000)):
        (base / name).mkdir(parents=True)
        _fill(base / name / "memory.db", first)
        (base / name / "keep.txt").write_text("somebody's")
        (base / name / "memory.db-index" / "keep.txt").write_text("somebody's")
    (base / "outside" / "folder").mkdir(parents=True)
    for name in ("thesis.txt", "folder/deep.txt"):
        (base / "outside" / name).write_text("years of work")


def _fill(path: Path, first: int) -> None:
    with Memory.open(path, redact=False) as memory:
        for space in SPACES:
            number = first
            for count in (60, 40, 25, 12):
                items = [_item(space, each) for each in range(number, number + count)]
                rows = np.asarray(
                    [[each % 7 - 3, each % 5, 1.0] for each in range(number, number + count)],
                    np.float32,
                )
                vectors = Vectors("toy", rows) if space == "right" else None
                added = memory.add(items, namespace=space, vectors=vectors)
                memory.forget([one.handle for one in added[::9]], namespace=space)
                memory.set_tier([one.handle for one in added[::7]], "cold", namespace=space)
                memory.link(added[1].handle, "supersedes", added[2].handle, namespace=space)
                number += count
                if count > 12:  # the last ones are in no file
                    memory._store.flush()  # type: ignore[attr-defined]
    with _context(path) as context:
        for turn in range(6):
            context.prompt(f"Question {turn} about berth {turn % 5}?")
            lines = "\n".join(f"line {n}: {n * 7919 % 1000} listed" for n in range(turn, 300))
            context.add(_called(f"t{turn}"), _answered(f"t{turn}", lines))
            context.prompt()
            context.add({"role": "assistant", "content": f"Always use berth {turn % 5}."})


def _item(space: str, number: int) -> MemoryItem:
    return MemoryItem(
        text_of(space, number),
        source=f"notes/{number % 4}.md",
        thread=f"t{number % 3}",
        kind="note",
        metadata={"number": number, "of": [space]},
        time=_NOON + timedelta(minutes=number),
        expires=_NOON + timedelta(days=36_500) if number % 5 == 0 else None,
        parents=("origin",) if number % 6 == 0 else (),
    )


def _context(path: Path) -> Context:
    return Context.open(path, thread="t", namespace="left", budget=_SMALL, clock=lambda: 1e9)


def _called(name: str) -> dict[str, Any]:
    call = {"type": "tool_use", "id": name, "name": "Read", "input": {"path": "src/a.py"}}
    return {"role": "assistant", "content": [call]}


def _answered(name: str, text: str) -> dict[str, Any]:
    return {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": name, "content": text}],
    }


class Use:
    """One process's use of a store, and its results."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: Answers = {}
        self.refused: dict[str, str] = {}
        self.faults: list[str] = []

    def step(self, name: str, work: Callable[[], Any]) -> Any:
        """Do one thing; return None where it was refused."""
        began, spent = time.monotonic(), time.process_time()
        try:
            value = work()
        except InternalError as error:
            self.faults.append(f"{name}: panic: {str(error)[:300]}")
        except RehydrateError as error:
            self.refused[name] = f"{type(error).__name__}: {str(error)[:120]}"
        except BaseException as error:  # a panic isn't an Exception
            frames = traceback.extract_tb(error.__traceback__)
            way = " < ".join(
                f"{each.filename.rpartition('/')[2]}:{each.lineno}" for each in frames[::-1]
            )
            self.faults.append(f"{name}: {type(error).__name__}: {str(error)[:150]} at {way}")
        else:
            self.answers[name] = value
            return value
        finally:
            busy, took = time.process_time() - spent, time.monotonic() - began
            if busy > HANG_SECONDS:
                self.faults.append(f"{name}: takes {busy:.0f} s of {took:.0f} s")
        return None

    def run(self) -> None:
        """Use the store twice, with what came in between."""
        self._memory("first", self._change)
        self._threads("first")
        self._memory("again", self._renew)
        self._threads("again")

    def _memory(self, turn: str, change: Callable[[Memory], None]) -> None:
        held: list[Memory] = []
        self.step(f"{turn} open", lambda: held.append(Memory.open(self.path, redact=False)))
        if not held:
            return
        memory = held[0]
        self._ask(memory, turn)
        change(memory)
        self.step(f"{turn} close", memory.close)

    def _ask(self, memory: Memory, turn: str) -> None:
        toward = Vectors("toy", np.asarray([[1.0, 2.0, 1.0]], np.float32))
        words = (VOCABULARY[11], group_of(3), "leftitem7q bable", "rightitme9q", "%")
        for space in SPACES:
            for word in words:
                self.step(f"{turn} search {word} {space}", lambda: _hits(memory, word, space))  # noqa: B023
            cold = {"tiers": ["cold"], "sources": ["notes/1.md"], "min_trust": 0.5}
            self.step(f"{turn} search cold {space}", lambda: _hits(memory, words[1], space, **cold))  # noqa: B023
            self.step(
                f"{turn} recall {space}",
                lambda: [
                    [(near.handle, round(near.similarity, 4)) for near in row]
                    for row in memory.recall([words[0], words[1]], 3, namespace=space)  # noqa: B023
                ],
            )
            listed = self.step(f"{turn} list {space}", lambda: _listed(memory, space))  # noqa: B023
            if listed:
                self.step(f"{turn} get {space}", lambda: _got(memory, listed[0][0], space))  # noqa: B023
            self.step(f"{turn} stats {space}", lambda: memory.stats(namespace=space).items)  # noqa: B023
        self.step(
            f"{turn} search by vector",
            lambda: _hits(memory, words[0], "right", vectors=toward),
        )
        self.step(f"{turn} namespaces", lambda: list(memory.namespaces()))
        self.step(f"{turn} hot", lambda: str(memory.hot(namespace="left")))

    def _change(self, memory: Memory) -> None:
        for space in SPACES:
            whale = MemoryItem(f"A whale of {space}item9000q.", time=_NOON)
            added = self.step(
                f"add {space}",
                lambda: [tuple(one)[1] for one in memory.add([whale], namespace=space)],  # noqa: B023
            )
            if added:
                self.step(f"added {space}", lambda: _hits(memory, "whale", space)[:1])  # noqa: B023
            self.step(
                f"purge {space}",
                lambda: memory.purge(source="notes/2.md", namespace=space),  # noqa: B023
            )
        self.step("verify", lambda: memory.verify().ok)

    def _renew(self, memory: Memory) -> None:
        self.step("verify again", lambda: _verified(memory))
        self.step("rebuild", memory.rebuild)
        self._ask(memory, "rebuilt")
        self.step("purge all", lambda: memory.purge(everything=True, namespace="right"))

    def _threads(self, turn: str) -> None:
        held: list[Context] = []
        self.step(f"{turn} thread", lambda: held.append(_context(self.path)))
        for context in held:
            self.step(f"{turn} history", lambda: context.history)  # noqa: B023
            self.step(f"{turn} prompt", lambda: context.prompt("And now?").messages)  # noqa: B023
            self.step(
                f"{turn} said",
                lambda: context.add({"role": "assistant", "content": "Berth 4."}),  # noqa: B023
            )
            self.step(f"{turn} compact", lambda: len(context.compact(900).history.entries))  # noqa: B023
            self.step(f"{turn} rules", lambda: len(context.store.operations))  # noqa: B023
            self.step(f"{turn} context close", context.close)
        opened: list[Threads] = []
        self.step(
            f"{turn} threads", lambda: opened.append(Threads.open(self.path, namespace="left"))
        )
        for threads in opened:
            self.step(f"{turn} listed", lambda: [(one.name, one.records) for one in threads.list()])  # noqa: B023
            self.step(f"{turn} read", lambda: threads.read("t").entries)  # noqa: B023
            self.step(f"{turn} rendered", lambda: threads.render_store("t", 500))  # noqa: B023
            self.step(f"{turn} fork", lambda: threads.fork("t", f"{turn} fork", entries=9))  # noqa: B023
            out = self.path.with_name("keep.txt").parent / f"memory.db-{turn}.jsonl"
            self.step(f"{turn} export", lambda: threads.export_thread("t", out))  # noqa: B023
            if turn == "again":
                self.step("purge thread", lambda: threads.purge("t") > 0)  # noqa: B023
            self.step(f"{turn} threads close", threads.close)


def _hits(memory: Memory, word: str, space: str, **more: Any) -> list[tuple[str, float, str]]:
    hits = memory.search(word, 6, namespace=space, **more)
    return [(hit.handle, round(hit.score, 4), hit.snippet) for hit in hits]


def _got(memory: Memory, handle: str, space: str) -> list[Any]:
    item = memory.get(handle, namespace=space)
    return [item.text, item.source, item.metadata, item.links, item.time, item.expires]


def _verified(memory: Memory) -> tuple[int, bool, int]:
    report = memory.verify()
    return report.items, report.ok, report.damaged_indexes


def _listed(memory: Memory, space: str) -> list[tuple[str, str, str]]:
    items = memory.list(namespace=space, limit=None)
    return [(item.handle, item.text, item.source) for item in items]


def used_apart(path: Path) -> tuple[Answers, dict[str, str], list[str]]:
    """Use a store in a process of its own; return its answers, refusals and faults."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _use_here(path, write)
    os.close(write)
    reported = b""
    end = time.monotonic() + _KILL_SECONDS
    while left := max(0.0, end - time.monotonic()):
        ready, _, _ = select.select([read], [], [], left)
        part = os.read(read, 1 << 20) if ready else b""
        if not part:
            break
        reported += part
    os.close(read)
    if time.monotonic() >= end:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    lines = reported.decode().splitlines()
    if lines and lines[-1].startswith("{"):
        seen = json.loads(lines[-1])
        return seen["answers"], seen["refused"], seen["faults"]
    last = lines[-1] if lines else "the beginning"
    code = os.waitstatus_to_exitcode(status)
    return {}, {}, [f"{last}: {'it hangs' if code == -signal.SIGKILL else f'crash {code}'}"]


def _use_here(path: Path, write: int) -> None:
    """Tell of each step before it is done, and of all of them at the end."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    use = Use(path)
    inner = use.step

    def step(name: str, work: Callable[[], Any]) -> Any:
        os.write(write, f"{name}\n".encode())
        return inner(name, work)

    use.step = step  # type: ignore[method-assign]
    try:
        use.run()
        reported = {"answers": use.answers, "refused": use.refused, "faults": use.faults}
        whole = json.dumps(reported, default=str, skipkeys=True) + "\n"
        data = whole.encode()
        while data:
            data = data[os.write(write, data) :]
    finally:
        os._exit(0)
