"""No disk space, and read-only places: typed errors, old data readable, then normal work."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import traceback
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rehydrate import Memory
from rehydrate.errors import StoreError, StoreFullError, StoreReadOnlyError
from tests.memory.stress.truth import check_found, listed, text_of

SPACE = "all"
NOBODY = 65_534
KIB = 1 << 10


def held(memory: Memory, wanted: int, chance: random.Random) -> None:
    """Check that exactly the first `wanted` items are there, and are found."""
    items = listed(memory, SPACE)
    assert items.keys() == set(range(wanted)), f"{len(items)} items for {wanted}"
    check_found(memory, SPACE, items, range(wanted, wanted + 300), chance)


def fill(memory: Memory, start: int, chance: random.Random) -> int:
    """Add items until there is no room; return how many are there."""
    count = start
    for _ in range(2_000):
        many = chance.choice([1, 10, 200, 900])
        texts = [text_of(SPACE, number) for number in range(count, count + many)]
        try:
            memory.add(texts, namespace=SPACE)
        except StoreFullError as error:
            assert error.remedy
            return count
        count += many
    raise AssertionError("it never ran full")


def run_full(
    path: Path, chance: random.Random, narrow: Callable[[], Any], widen: Callable[[], Any]
) -> None:
    """Fill the room; every earlier item stays; with room again the work goes on."""
    count = 500
    beside = path.with_suffix(".probe")
    beside.write_text("somebody's")  # this file must not be used to test for room
    with Memory.open(path) as memory:
        memory.add([text_of(SPACE, number) for number in range(count)], namespace=SPACE)
        narrow()
        for _ in range(chance.choice([1, 3])):
            count = fill(memory, count, chance)
            held(memory, count, chance)
        with suppress(StoreFullError):
            memory.rebuild()
        held(memory, count, chance)
        if chance.random() < 0.5:
            # As another process: opened again while there is still no room.
            with Memory.open(path) as other:
                held(other, count, chance)
            with Memory.open(path, read_only=True) as other:
                held(other, count, chance)
        widen()
        memory.add(
            [text_of(SPACE, number) for number in range(count, count + 700)], namespace=SPACE
        )
        count += 700
        held(memory, count, chance)
        memory.rebuild()
        held(memory, count, chance)
    with Memory.open(path) as memory:
        report = memory.verify()
        assert (report.ok, report.damaged_indexes) == (True, 0), report
        held(memory, count, chance)
    assert beside.read_text() == "somebody's"


def full_by_limit(folder: Path, chance: random.Random) -> None:
    """Limit the size of every file, as a quota does."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = chance.randrange(300 * KIB, 3_000 * KIB)

    def limit(most: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))

    run_full(folder / "memory.db", chance, lambda: limit(size), lambda: limit(hard))


@contextmanager
def small_disk(folder: Path, size: int) -> Any:
    """Mount a small file system; only for root, in a mount namespace of its own."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "disk", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def full_disk(folder: Path, chance: random.Random) -> None:
    """Use a disk of a few megabytes; other files take up the rest of it."""
    with small_disk(folder, 12 << 20):
        ballast = folder / "ballast"
        left = chance.randrange(0, 3_000 * KIB)

        def narrow() -> None:
            room = os.statvfs(folder)
            ballast.write_bytes(bytes(max(0, room.f_bavail * room.f_frsize - left)))

        run_full(folder / "memory.db", chance, narrow, ballast.unlink)


def read_only_disk(folder: Path, chance: random.Random) -> None:
    """Make a disk read-only under an open store, as after an error, then writable again."""

    def remount(mode: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{mode}", folder], check=True)

    with small_disk(folder, 12 << 20):
        path = folder / "memory.db"
        with Memory.open(path) as memory:
            memory.add([text_of(SPACE, number) for number in range(400)], namespace=SPACE)
            if chance.random() < 0.5:
                memory.rebuild()
        remount("ro")
        with Memory.open(path, read_only=True) as memory:
            held(memory, 400, chance)
        with _is_refused(StoreError), Memory.open(path) as memory:
            held(memory, 400, chance)
            memory.add("one more", namespace=SPACE)
        remount("rw")
        with Memory.open(path) as memory:
            memory.add([text_of(SPACE, number) for number in range(400, 500)], namespace=SPACE)
            held(memory, 500, chance)


def no_permission(folder: Path, chance: random.Random) -> None:
    """Use a folder and files that are readable but not writable."""
    path = folder / "memory.db"
    memory = Memory.open(path)
    memory.add([text_of(SPACE, number) for number in range(400)], namespace=SPACE)
    if chance.random() < 0.5:
        memory.rebuild()
    memory.close()
    files = [entry for entry in folder.rglob("*") if entry.is_file()]
    only_file = chance.random() < 0.3
    for file in files:
        file.chmod(0o400)
    if not only_file:
        for place in (folder, *folder.glob("*-index")):
            place.chmod(0o500)
    with Memory.open(path, read_only=True) as memory:
        held(memory, 400, chance)
        with _is_refused(StoreReadOnlyError):
            memory.add("one more", namespace=SPACE)
    with _is_refused(StoreError), Memory.open(path) as memory:
        held(memory, 400, chance)
        memory.add("one more", namespace=SPACE)
    for place in (folder, *folder.glob("*-index")):
        place.chmod(0o700)
    for file in files:
        file.chmod(0o600)
    with Memory.open(path) as memory:
        memory.add([text_of(SPACE, number) for number in range(400, 500)], namespace=SPACE)
        held(memory, 500, chance)


@contextmanager
def _is_refused(kind: type[StoreError]) -> Any:
    try:
        yield
    except kind as error:
        assert error.remedy, error
        return
    raise AssertionError(f"no {kind.__name__}")


def _may_mount() -> bool:
    if os.geteuid() != 0:
        return False
    done = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    return done.returncode == 0


def _in_a_child(trial: Callable[..., None], folder: Path, seed: int, *, mounts: bool) -> None:
    """Run a trial as a user whom permissions bind, or with mounts that no other process sees."""
    folder.mkdir()
    os.chown(folder, NOBODY if not mounts else 0, -1) if os.geteuid() == 0 else None
    process = os.fork()
    if process == 0:
        code = 1
        try:
            if mounts:
                _unshare_mounts()
            elif os.geteuid() == 0:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            trial(folder, random.Random(seed))
            code = 0
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    ended = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert ended == 0, f"{trial.__name__} ended with {ended} (--seed {seed}, one trial)"


def _unshare_mounts() -> None:
    import ctypes

    new_namespace = 0x0002_0000
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(new_namespace) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


def run_trials(folder: Path, trials: int, seed: int, say: Callable[[str], None]) -> str:
    """Run all trials, each in a process of its own; return what was seen, in a line."""
    mounts = _may_mount()
    kinds: list[tuple[Callable[..., None], bool]] = [
        (full_by_limit, False),
        (no_permission, False),
    ]
    if mounts:
        kinds += [(full_disk, True), (read_only_disk, True)]
    for trial in range(trials):
        for work, is_mounted in kinds:
            place = folder / f"{work.__name__}{trial}"
            _in_a_child(work, place, seed + trial, mounts=is_mounted)
        if trial % 10 == 9:
            say(f"{trial + 1} times each of {len(kinds)}")
    names = ", ".join(work.__name__ for work, _ in kinds)
    return f"{trials} times each: {names}"
