"""Index files damaged at random: no crash, no other answer, and the index is rebuilt."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rehydrate import Memory
from rehydrate.errors import PurgeIncompleteError
from tests.memory.stress.truth import VOCABULARY, check_found, listed, text_of

SPACES = ("left", "right")
NOBODY = 65_534

Damage = Callable[[Path, random.Random], None]


def flip_bits(file: Path, chance: random.Random) -> None:
    content = bytearray(file.read_bytes())
    for _ in range(chance.choice([1, 1, 8, 200])):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    file.write_bytes(content)


def flip_in_the_head(file: Path, chance: random.Random) -> None:
    content = bytearray(file.read_bytes())
    content[chance.randrange(min(256, len(content)))] ^= 1 << chance.randrange(8)
    file.write_bytes(content)


def truncate(file: Path, chance: random.Random) -> None:
    os.truncate(file, chance.choice([0, 1, 7, 64, chance.randrange(file.stat().st_size)]))


def fill_with_zeros(file: Path, chance: random.Random) -> None:
    content = bytearray(file.read_bytes())
    start, end = sorted(chance.choices(range(len(content) + 1), k=2))
    content[start:end] = bytes(end - start)
    file.write_bytes(content)


def fill_with_noise(file: Path, chance: random.Random) -> None:
    file.write_bytes(chance.randbytes(file.stat().st_size))


def extend(file: Path, chance: random.Random) -> None:
    with file.open("ab") as end:
        end.write(chance.randbytes(chance.choice([1, 8, 4_096])))


def delete(file: Path, chance: random.Random) -> None:
    file.unlink()


def swap(file: Path, chance: random.Random) -> None:
    other = chance.choice(sorted(file.parent.glob("*.segment")))
    between = file.with_suffix(".between")
    file.rename(between)
    if other != file:
        other.rename(file)
    between.rename(other)


def copy_of_another(file: Path, chance: random.Random) -> None:
    others = [other for other in sorted(file.parent.glob("*.segment")) if other.is_file()]
    file.write_bytes(chance.choice(others).read_bytes())


def forbid(file: Path, chance: random.Random) -> None:
    file.chmod(chance.choice([0o000, 0o200, 0o100]))


def make_a_folder(file: Path, chance: random.Random) -> None:
    file.unlink()
    file.mkdir()
    if chance.random() < 0.5:
        (file / "inside").write_text("something")


def make_a_link(file: Path, chance: random.Random) -> None:
    file.unlink()
    file.symlink_to(chance.choice(["nowhere", file.name, "/dev/zero", "/dev/null", "."]))


def make_a_pipe(file: Path, chance: random.Random) -> None:
    file.unlink()
    os.mkfifo(file)


def delete_all(file: Path, chance: random.Random) -> None:
    shutil.rmtree(file.parent)


def make_the_folder_a_file(file: Path, chance: random.Random) -> None:
    shutil.rmtree(file.parent)
    file.parent.write_text("no folder")


def forbid_the_folder(file: Path, chance: random.Random) -> None:
    file.parent.chmod(chance.choice([0o000, 0o500, 0o300]))


def make_the_lock_a_folder(file: Path, chance: random.Random) -> None:
    lock = file.parent / "lock"
    lock.unlink(missing_ok=True)
    lock.mkdir()


def forbid_the_lock(file: Path, chance: random.Random) -> None:
    lock = file.parent / "lock"
    lock.touch()
    lock.chmod(0)


_OFTEN: list[Damage] = [flip_bits, flip_in_the_head, truncate, fill_with_zeros, fill_with_noise]
_SELDOM: list[Damage] = [
    *(extend, delete, swap, copy_of_another, forbid, make_a_folder, make_a_link, make_a_pipe),
    *(delete_all, make_the_folder_a_file, forbid_the_folder, make_the_lock_a_folder),
    forbid_the_lock,
]
DAMAGES = _OFTEN * 3 + _SELDOM


def make_store(path: Path) -> None:
    """Write several files for each namespace, with deletions and changes across them."""
    with Memory.open(path) as memory:
        for space in SPACES:
            serial = 1
            for count in (120, 80, 50, 30):
                batch = [text_of(space, number) for number in range(serial, serial + count)]
                added = memory.add(batch, namespace=space)
                memory.forget([one.handle for one in added[::9]], namespace=space)
                memory.set_tier([one.handle for one in added[::7]], "cold", namespace=space)
                serial += count
                if count > 30:  # the last ones are in no file
                    memory._store.flush()  # type: ignore[attr-defined]
        files = [*Path(f"{path}-index").glob("*.segment")]
        assert len(files) >= 2 * len(SPACES), f"{len(files)} index files are too few to damage"


def answers(memory: Memory, words: list[str]) -> Any:
    """Return the results of searches, in their order, with their scores."""
    found: list[Any] = []
    for space in SPACES:
        for word in words:
            hits = memory.search(word, 10, namespace=space)
            found.append([(hit.handle, hit.score, hit.text, hit.trigram) for hit in hits])
            cold = memory.search(word, 5, namespace=space, tiers=["cold"])
            found.append([(hit.handle, hit.score) for hit in cold])
        found += [[*map(tuple, row)] for row in memory.recall(words, 3, namespace=space)]
    return found


def open_and_compare(path: Path, words: list[str], wanted: Any, chance: random.Random) -> None:
    with Memory.open(path) as memory:
        assert answers(memory, words) == wanted, "another answer"
        if chance.random() < 0.3:
            # The memory goes on as before.
            memory.add("a new one of leftitem999999q", namespace="left")
            assert memory.search("leftitem999999q", 3, namespace="left", fusion=(1.0, 0.0, 0.0))
            try:
                memory.purge(namespace="left", source="")
            except PurgeIncompleteError:  # only files are removed
                assert any(each.is_dir() for each in Path(f"{path}-index").iterdir())
            assert memory.stats(namespace="left").items == 0
            return
        report = memory.verify()
        assert report.ok, report.problems
        memory.rebuild()
        assert answers(memory, words), "nothing is found after rebuilding"
        for space in SPACES:
            check_found(memory, space, listed(memory, space), [], chance)
    with Memory.open(path) as memory:
        report = memory.verify()
        assert (report.ok, report.damaged_indexes) == (True, 0), f"it was not made anew: {report}"
        assert all(memory.stats(namespace=space).pending == 0 for space in SPACES)


def damage_while_open(path: Path, words: list[str], wanted: Any, harm: Callable[[], None]) -> None:
    with Memory.open(path) as memory:
        assert answers(memory, words) == wanted
        harm()
        assert answers(memory, words) == wanted, "another answer after damage to an open store"


def one(folder: Path, words: list[str], wanted: Any, chance: random.Random) -> None:
    """Damage a copy and use it."""
    path = folder / "memory.db"
    segments = Path(f"{path}-index")
    shutil.copytree(folder.parent / "whole", folder)
    files = sorted(segments.glob("*.segment"))
    harms = [chance.choice(DAMAGES) for _ in range(chance.choice([1, 1, 2, 4]))]

    def harm() -> None:
        for damage in harms:
            file = chance.choice(files)
            if os.access(file, os.R_OK | os.W_OK) and file.is_file() and not file.is_symlink():
                # Other damage may have left nothing to harm.
                with suppress(OSError, ValueError, IndexError):
                    damage(file, chance)

    try:
        if chance.random() < 0.25:
            damage_while_open(path, words, wanted, harm)
        else:
            harm()
        open_and_compare(path, words, wanted, chance)
    except BaseException as error:
        names = ", ".join(damage.__name__ for damage in harms)
        raise AssertionError(f"after {names}: {error!r}") from error


def run_trials(folder: Path, trials: int, seed: int, say: Callable[[str], None]) -> str:
    """Run all trials as a user whom permissions bind; return what was seen, in a line."""
    chance = random.Random(seed)
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    whole = folder / "whole" / "memory.db"
    make_store(whole)
    words = [*chance.sample(VOCABULARY[:1_999], 3), VOCABULARY[2_003], "leftitem7q bable"]
    shutil.copytree(whole.parent, folder / "first")
    with Memory.open(folder / "first" / "memory.db") as memory:
        wanted = answers(memory, words)
    for trial in range(trials):
        place = folder / f"trial{trial}"
        try:
            one(place, words, wanted, random.Random(seed + trial))
        except AssertionError as error:
            raise AssertionError(f"trial {trial} (--seed {seed}) {error}") from error
        for entry in [place, *place.rglob("*-index")]:
            if entry.is_dir():
                entry.chmod(0o700)
        shutil.rmtree(place)
        if trial % 100 == 99:
            say(f"{trial + 1} damaged indexes")
    return f"{trials} damaged indexes: no crash, no other answer, all made anew"
