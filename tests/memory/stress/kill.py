"""kill -9 during writing: every acknowledged item is there, once, and in the index."""

from __future__ import annotations

import os
import random
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rehydrate import Memory
from tests.memory.stress.truth import WORDS_ONLY, check_found, listed, name_of, text_of

SPACES = ("left", "right")
"""Namespaces; one thread writes each, so that its operations have an order."""
LONGEST_SECONDS = 1.0
LINEAGE = 25
"""Maximum kills of one file: files grow, are merged, are opened damaged."""
LARGEST_FILE = 12_000

State = dict[int, str]
"""The tier of each item of a namespace, by its number."""


class Operation(NamedTuple):
    """The next operation; one line in the pipe."""

    space: str
    kind: str
    """add, forget, hot, warm or cold."""
    numbers: tuple[int, ...]

    def after(self, state: State) -> State:
        """Return the state after the operation."""
        if self.kind == "forget":
            return {number: tier for number, tier in state.items() if number not in self.numbers}
        tier = "warm" if self.kind == "add" else self.kind
        return state | {n: tier for n in self.numbers if self.kind == "add" or n in state}

    def line(self) -> bytes:
        first, *others = self.numbers
        is_row = self.kind == "add"
        said = f"{first}+{len(others) + 1}" if is_row else ",".join(map(str, self.numbers))
        return f"{self.space} {self.kind} {said}\n".encode()

    @classmethod
    def of(cls, line: str) -> Operation:
        space, kind, said = line.split()
        if kind == "add":
            first, count = map(int, said.split("+"))
            return cls(space, kind, tuple(range(first, first + count)))
        return cls(space, kind, tuple(map(int, said.split(","))))


def write_for_ever(
    memory: Memory, space: str, chance: random.Random, tell: Callable[[bytes], None]
) -> None:
    """Add, move and forget; each is announced before, and acknowledged after it returned."""
    handles = {number: item.handle for number, item in listed(memory, space).items()}
    serial = max(handles, default=0) + 1
    while True:
        kind = chance.choices(["add", "batch", "move", "forget"], [5, 4, 2, 2])[0]
        if kind in {"add", "batch"} or not handles:
            count = 1 if kind == "add" else chance.choice([3, 40, 300, 1_100])
            numbers = tuple(range(serial, serial + count))
            operation = Operation(space, "add", numbers)
            serial += count
            tell(operation.line())
            added = memory.add([text_of(space, number) for number in numbers], namespace=space)
            handles |= dict(zip(numbers, [one.handle for one in added], strict=True))
        else:
            some = tuple(
                chance.sample(sorted(handles), min(chance.choice([1, 9, 90]), len(handles)))
            )
            tier = chance.choice(["hot", "warm", "cold"])
            operation = Operation(space, "forget" if kind == "forget" else tier, some)
            tell(operation.line())
            meant = [handles[number] for number in some]
            if kind == "forget":
                memory.forget(meant, namespace=space)
                for number in some:
                    del handles[number]
            else:
                memory.set_tier(meant, tier, namespace=space)
        tell(f"{space} ok\n".encode())
        if chance.random() < 0.2 and handles:
            number = chance.choice(sorted(handles))
            word = name_of(space, number)
            found = memory.search(word, 3, namespace=space, fusion=WORDS_ONLY)
            assert handles[number] in {hit.handle for hit in found}, f"{number} is not found"


def child(path: Path, seed: int, pipe: int) -> None:
    """Write in two threads until killed; a failure is reported and ends the process."""

    def work(space: str) -> None:
        try:
            write_for_ever(
                memory,
                space,
                random.Random(f"{seed} {space}"),
                lambda line: void(os.write(pipe, line)),
            )
        except BaseException as error:
            os.write(pipe, f"{space} failed {error!r}\n".encode())
            os._exit(1)

    memory = Memory.open(path)
    os.write(pipe, b"open\n")
    for space in SPACES:
        threading.Thread(target=work, args=(space,)).start()


def void(_: object) -> None:
    """Accept the result of a function that returns nothing."""


def run_and_kill(path: Path, seed: int, chance: random.Random) -> list[str]:
    """Return what a process reported before it was killed at a random moment."""
    ours, theirs = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(ours)
        with suppress(BaseException):
            child(path, seed, theirs)
            threading.Event().wait()
        os._exit(2)
    os.close(theirs)
    said = bytearray()
    # Moments soon after the start, during opening, are as likely as late ones.
    end = time.monotonic() + LONGEST_SECONDS * chance.random() ** 2
    while (left := end - time.monotonic()) > 0:
        if select.select([ours], [], [], left)[0]:
            if not (more := os.read(ours, 1 << 16)):
                break
            said += more
    os.kill(process, signal.SIGKILL)
    while more := os.read(ours, 1 << 16):
        said += more
    os.close(ours)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    lines = said.decode().splitlines()
    assert code == -signal.SIGKILL, f"the writer ended by itself with {code}: {lines[-3:]}"
    return lines


def possible(states: dict[str, State], lines: list[str]) -> dict[str, list[State]]:
    """Return the possible states of each namespace: with or without the last operation."""
    open_: dict[str, Operation] = {}
    states = dict(states)
    for line in lines:
        if line == "open":
            continue
        space, what = line.split(maxsplit=1)
        if what == "ok":
            states[space] = open_.pop(space).after(states[space])
        else:
            open_[space] = Operation.of(line)
    return {
        space: [state, *([open_[space].after(state)] if space in open_ else [])]
        for space, state in states.items()
    }


def left_over(path: Path, memory: Memory) -> int:
    """Count index files that no table names."""
    memory.rebuild()
    files = sum(1 for entry in Path(f"{path}-index").glob("*.segment"))
    named = sum(1 for space in SPACES if memory.stats(namespace=space).indexed)
    return max(0, files - named)


def run_trials(folder: Path, trials: int, seed: int, say: Callable[[str], None]) -> str:
    """Run all trials; return what was seen, in a line."""
    chance = random.Random(seed)
    acknowledged = kills_amid = 0
    path, age, states = folder / "none.db", LINEAGE, {space: State() for space in SPACES}
    for trial in range(trials):
        if (
            age >= LINEAGE
            or sum(map(len, states.values())) > LARGEST_FILE
            or chance.random() < 0.04
        ):
            path, age, states = folder / f"{trial}.db", 0, {space: State() for space in SPACES}
        age += 1
        lines = run_and_kill(path, seed + trial, chance)
        acknowledged += sum(line.endswith(" ok") for line in lines)
        may = possible(states, lines)
        kills_amid += sum(len(some) > 1 for some in may.values())
        where = f"trial {trial} (--seed {seed}) on {path}"
        try:
            with Memory.open(path) as memory:
                report = memory.verify()
                assert report.ok, report.problems
                assert not report.damaged_indexes, f"{report.damaged_indexes} indexes damaged"
                for space, allowed in may.items():
                    states[space] = check(memory, space, allowed, chance)
                if trial % 5 == 4:
                    assert left_over(path, memory) == 0, "index files that nothing names"
                    for space, state in states.items():
                        check(memory, space, [state], chance)
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from error
        if trial % 25 == 24:
            say(f"{trial + 1} kills, {acknowledged} acknowledged operations")
    return (
        f"{trials} kills, {acknowledged} acknowledged operations, {kills_amid} amid one: "
        "none lost, none twice"
    )


def check(memory: Memory, space: str, allowed: list[State], chance: random.Random) -> State:
    """Check that a namespace has one of the allowed states; return it."""
    items = listed(memory, space)
    state = {number: item.tier for number, item in items.items()}
    if state not in allowed:
        wanted = allowed[0]
        lost = sorted(wanted.keys() - state.keys())[:5]
        more = sorted(state.keys() - wanted.keys())[:5]
        moved = [n for n in wanted.keys() & state.keys() if wanted[n] != state[n]][:5]
        raise AssertionError(
            f"{space}: {len(state)} items for {len(wanted)}; "
            f"lost {lost}, too many {more}, moved {moved}"
        )
    ever = max(state, default=0)
    gone = [number for number in range(1, ever) if number not in state]
    check_found(memory, space, items, gone, chance)
    return state
