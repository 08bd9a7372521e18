"""Tampered stores and index files through every use of a memory and of its threads.

    python -m tests.stress.tampered --count 1000 --seed 1

Each trial tampers with a copy of one store in a way of `tampering`, and then opens it, searches,
adds, purges, verifies, closes it and opens it again, in a process of its own. Faults are a file of
somebody else that changed, an error that is not of `rehydrate.errors`, an InternalError, a crash, a
hang, another answer than the whole store gives, and one that stays after `verify` though the items
are there. Where somebody wrote other items, or another ranking with the right checksums, answers
may differ: those are counted apart. Each kind of fault is printed once; ``--only`` runs it again.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from rehydrate import Budget, Context, Memory
from rehydrate.context import Threads
from rehydrate.errors import InternalError, RehydrateError
from rehydrate.memory import MemoryItem, Vectors
from tests.memory.stress.truth import VOCABULARY, group_of, text_of
from tests.stress.tampering import WAYS, WEIGHTS, Target

HANG_SECONDS = 10
_KILL_SECONDS = 90
"""A busy machine is not a hang: only the processor's seconds count until then."""
_TOLD = 5
"""Faults of one trial that are printed; ``--only`` prints all."""
_MEMORY_BYTES = 6 << 30
SPACES = ("left", "right")
_NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
_SMALL = Budget(soft_tokens=1_500, hard_tokens=200_000)

Answers = dict[str, Any]


# The whole store


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


# Its use


class Use:
    """What one process does with a store, and what it saw."""

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
        except BaseException as error:  # a panic is no Exception
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
    told = b""
    end = time.monotonic() + _KILL_SECONDS
    while left := max(0.0, end - time.monotonic()):
        ready, _, _ = select.select([read], [], [], left)
        part = os.read(read, 1 << 20) if ready else b""
        if not part:
            break
        told += part
    os.close(read)
    if time.monotonic() >= end:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    lines = told.decode().splitlines()
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
        told = {"answers": use.answers, "refused": use.refused, "faults": use.faults}
        whole = json.dumps(told, default=str, skipkeys=True) + "\n"
        data = whole.encode()
        while data:
            data = data[os.write(write, data) :]
    finally:
        os._exit(0)


# The judgement

_ITEMS = {
    "items": "namespace, handle, rev, tier, source, kind, session, tool, principal, trust,"
    " confidence, time, created, expires",
    "bodies": "*",
    "links": "*",
    "names": "*",
    "namespaces": "id, name, space, dim",
    "threads": "id, namespace, name, created, changed, records",
    "records": "*",
}
_COUNTS = {
    "namespaces": "rev, generation, items, bytes, demoted, dropped, aged, pruned",
    "tombstones": "*",
    "clock": "*",
    "items": "id, bytes, uses, used",
    "threads": "bytes",
    "sqlite_sequence": "*",
}

_RANGES = {"segments": "namespace, low, high"}
"""Which items are indexed together: scores of words are a little different in other ranges."""


def _dump(store: Path, tables: dict[str, str]) -> Any:
    """Return all rows, by SQLite alone; None where it cannot read them."""
    copy = store.with_name("looked-into.db")
    if store.is_symlink() or not store.is_file():
        return None
    shutil.copyfile(store, copy)
    try:
        with closing(sqlite3.connect(copy)) as read:
            read.text_factory = bytes
            if read.execute("PRAGMA integrity_check(1)").fetchone() != (b"ok",):
                return None
            kinds = read.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
            found = [
                sorted(map(repr, read.execute(f"SELECT {columns} FROM {table}")))
                for table, columns in tables.items()
            ]
            return [sorted(map(repr, kinds)), found]
    except (sqlite3.Error, OverflowError):
        return None
    finally:
        copy.unlink()


def _files(base: Path, *, but_other: bool) -> dict[str, Any]:
    """Return what is somebody else's: everything whose name is not of the store."""
    found: dict[str, Any] = {}
    for folder, folders, files in os.walk(base):
        folders[:] = [name for name in folders if not (Path(folder) / name).is_symlink()]
        for name in (*files, *folders):
            path = Path(folder) / name
            inside = path.relative_to(base)
            if inside.parts[0] == "other" and but_other:
                continue
            is_ours = inside.parts[0] == "box" and inside.parts[1:2] != ("keep.txt",)
            if is_ours and inside.parts[-1] != "keep.txt" and len(inside.parts) > 1:
                continue
            stat = path.lstat()
            text = path.read_bytes() if path.is_file() and not path.is_symlink() else None
            found[str(inside)] = (stat.st_mode, text)
    return found


class Run:
    """Many trials: what they tampered with, what came of it, and each kind of fault once."""

    def __init__(self, base: Path, seed: int, *, is_loud: bool = False) -> None:
        self.base = base
        self.seed = seed
        self.is_loud = is_loud
        self.counts: Counter[str] = Counter()
        self.by_way: Counter[str] = Counter()
        self.faults: dict[str, int] = {}
        self._whole = base / "whole"
        _apart(lambda: make(self._whole))
        shutil.copytree(self._whole, base / "first")
        self._wanted, refused, faults = used_apart(base / "first" / "box" / "memory.db")
        if refused or faults or not self._wanted:
            raise AssertionError(f"the whole store is refused: {refused} {faults}")
        store = self._whole / "box" / "memory.db"
        self._items, self._counts = _dump(store, _ITEMS), _dump(store, _COUNTS)
        self._ranges = _dump(store, _RANGES)

    def trial(self, number: int) -> None:
        """Tamper with a copy, use it, and note what is wrong."""
        random = Random(f"{self.seed}:{number}")
        place = self.base / f"trial{number}"
        shutil.copytree(self._whole, place)
        target = Target(
            place / "box" / "memory.db", place / "other" / "memory.db", place / "outside"
        )
        names = list(WAYS)
        (name,) = random.choices(names, [WEIGHTS.get(each, 1) for each in names])
        what = WAYS[name](target, random)
        # SQLite of this process would wait for a pipe beside the store.
        while name != "beside" and target.store.is_file() and random.random() < 0.15:
            try:
                name, what = f"{name}+", what + "; " + WAYS["rows"](target, random)
            except (sqlite3.Error, OSError):
                break
        is_linked = target.store.is_symlink()
        with_counts = _dump(target.store, _COUNTS)
        items, ranges = _dump(target.store, _ITEMS), _dump(target.store, _RANGES)
        before = _files(place, but_other=is_linked)
        answers, refused, faults = used_apart(target.store)
        after = _files(place, but_other=is_linked)
        for path in sorted({*before, *after}):
            if before.get(path) != after.get(path):
                faults.append(f"touched: {path} was {before.get(path)} is {after.get(path)}")
        is_ranking = name.startswith("index_altered") or "a file, entered" in what
        is_ranking |= ranges != self._ranges
        has_beside = name.startswith("beside") and not what.startswith(("empty", "link"))
        faults += _strangers(answers)
        if items != self._items or has_beside:
            ended = "items altered" if answers else "items altered, refused"
        elif with_counts != self._counts:
            ended = self._judge_counts(answers, refused, faults)
        else:
            ended = self._judge(answers, refused, faults, is_ranking=is_ranking, way=name)
        self._note(number, name, what, ended, faults, refused)
        shutil.rmtree(place)

    def _differing(self, answers: Answers) -> list[str]:
        return [step for step in self._wanted if answers.get(step) != self._wanted[step]]

    def _judge_counts(self, answers: Answers, refused: dict[str, str], faults: list[str]) -> str:
        """Counts of the tables were altered: answers are right, or refused, or `verify` says so."""
        wrong = [step for step in self._differing(answers) if step not in refused]
        if not wrong:
            return "counts altered, right" if not refused else "counts altered, refused"
        if answers.get("verify") is False or "verify" in refused or refused:
            return "counts altered, verify says so"
        first = wrong[0]
        faults.append(f"wrong with counts: {first}: {self._pair(first, answers)}")
        return "counts altered, wrong"

    def _pair(self, step: str, answers: Answers) -> str:
        return f"{str(answers.get(step))[:150]} not {str(self._wanted[step])[:150]}"

    def _judge(
        self,
        answers: Answers,
        refused: dict[str, str],
        faults: list[str],
        *,
        is_ranking: bool,
        way: str,
    ) -> str:
        """The items are whole: every answer is that of the whole store."""
        if way.startswith("beside") and not answers and refused:
            return "refused for what lies beside"
        if way.startswith(("database", "schema")) and "first open" in refused:
            return "refused as no store"  # the head of the file says that it is one
        wrong = self._differing(answers)
        ranked = ("search", "recall", "added")
        if is_ranking and wrong:
            others = [
                step
                for step in wrong
                if not any(f" {each} " in f" {step} " for each in ranked)
                or step.startswith("rebuilt")
            ]
            faults += [
                f"wrong: {step}: {refused.get(step)} {self._pair(step, answers)}" for step in others
            ]
            return "another ranking with right checksums" if not others else "wrong"
        for step in wrong:
            if "PurgeIncompleteError" in refused.get(step, ""):
                continue
            faults.append(f"wrong: {step}: {refused.get(step)} {self._pair(step, answers)}")
        return "right" if not wrong else "wrong"

    def _note(
        self,
        number: int,
        name: str,
        what: str,
        ended: str,
        faults: list[str],
        refused: dict[str, str],
    ) -> None:
        self.counts[ended] += 1
        self.by_way[name.rstrip("+")] += 1
        if self.is_loud:
            print(f"{number}: {name}: {what}: {ended}\n  refused: {refused}")
            for fault in faults:
                print(f"  {fault}")
        for fault in faults[:_TOLD]:
            kind = _without_numbers(fault)
            kind = f"{name} {kind[:40]}" if kind.startswith("wrong") else kind
            if kind not in self.faults and not self.is_loud:
                print(f"--only {number}  {name} ({what}): {fault[:700]}\n", flush=True)
            self.faults.setdefault(kind, number)


def _strangers(answers: Answers) -> Iterator[str]:
    """Yield what was found and is no item of its namespace, whatever the items are."""
    for turn in ("first", "again", "rebuilt"):
        for space in SPACES:
            listed = answers.get(f"{turn} list {space}")
            handles = {handle for handle, _, _ in listed or ()}
            for step, hits in answers.items():
                is_here = step.startswith(f"{turn} search") and step.endswith(f" {space}")
                for handle, _, _ in hits if is_here and listed is not None else ():
                    if handle not in handles:
                        yield f"stranger: {step}: {handle}"


def _without_numbers(text: str) -> str:
    return "".join("0" if each.isdigit() else each for each in text.partition(" at ")[0])[:90]


def _apart(work: Callable[[], None]) -> None:
    """Run in a process of its own, so that this one never has the engine's threads."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        raise AssertionError("the whole store was not made")


def run(base: Path, count: int, seed: int, first: int = 0) -> Run:
    """Run so many trials, from the first on."""
    warnings.simplefilter("ignore")
    made = Run(base, seed)
    for number in range(first, first + count):
        made.trial(number)
        if number % 100 == 99:
            print(f"{number + 1} trials", file=sys.stderr, flush=True)
    return made


def _in_memory() -> str | None:
    """Return a folder that no disk is waited for."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _lines(made: Run) -> Iterator[str]:
    for ended, number in sorted(made.counts.items()):
        yield f"{number:>6,}  {ended}"
    yield ", ".join(f"{name} {number}" for name, number in sorted(made.by_way.items()))
    yield f"{sum(made.counts.values()):,} trials, {len(made.faults)} kinds of faults"


def main() -> int:
    """Run the command; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tampered-", dir=_in_memory()) as folder:
        if given.only is None:
            made = run(Path(folder), given.count, given.seed, given.first)
        else:
            warnings.simplefilter("ignore")
            made = Run(Path(folder), given.seed, is_loud=True)
            made.trial(given.only)
    for line in _lines(made):
        print(line)
    return 1 if made.faults else 0


if __name__ == "__main__":
    sys.exit(main())
