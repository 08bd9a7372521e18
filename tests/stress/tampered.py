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
import os
import shutil
import sqlite3
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from tests.stress.store_use import SPACES, Answers, make, used_apart
from tests.stress.tampering import WAYS, WEIGHTS, Target

_TOLD = 5  # faults of one trial that are printed; ``--only`` prints all
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
        # SQLite of this process would wait for a pipe next to the store.
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
            return "refused for what is next to it"
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
    """Yield what was found and isn't an item of its namespace, whatever the items are."""
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
