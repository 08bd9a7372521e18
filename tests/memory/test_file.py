"""A memory's file: it outlives the process, all processes see it, and errors name it."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import rehydrate
from rehydrate import Memory
from rehydrate.context import Context, Threads
from rehydrate.errors import (
    InvalidArgumentError,
    NotAStoreError,
    StoreClosedError,
    StoreError,
    StoreReadOnlyError,
)
from rehydrate.memory import MemoryLimits


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def test_what_was_added_is_there_after_reopening(path: Path):
    with Memory.open(path, namespace="a") as memory:
        (added,) = memory.add("The zebra house opens at nine.", metadata={"k": [1]})
        before = memory.get(added.handle)
    with Memory.open(path, namespace="a") as memory:
        assert memory.get(added.handle) == before
        assert memory.search("zebra")[0].handle == added.handle
        assert memory.verify().ok


def test_two_who_have_it_open_see_each_other_at_once(path: Path):
    with Memory.open(path, namespace="a") as first, Memory.open(path, namespace="a") as second:
        for number in range(20):
            (added,) = first.add(f"note {number} of the first")
            assert second.get(added.handle).text == f"note {number} of the first"
            assert added.handle in [hit.handle for hit in second.search(f"note {number}", 50)]
            (added,) = second.add(f"note {number} of the second")
            assert added.handle in [hit.handle for hit in first.search(f"note {number}", 50)]


def test_another_process_sees_it_and_is_seen(path: Path):
    script = """
import sys
from rehydrate import Memory
with Memory.open(sys.argv[1], namespace="a") as memory:
    print(memory.search("zebra")[0].item.text)
    memory.add("the apple of the other process")
"""
    with Memory.open(path, namespace="a") as memory:
        memory.add("the zebra of this process")
        run = subprocess.run(
            [sys.executable, "-c", script, path], capture_output=True, text=True, check=True
        )
        assert run.stdout == "the zebra of this process\n"
        assert memory.search("apple")[0].item.text == "the apple of the other process"


def test_threads_that_write_and_search_at_once_lose_nothing(path: Path):
    failures: list[BaseException] = []

    def work(memory: Memory, number: int) -> None:
        try:
            for turn in range(25):
                (added,) = memory.add(f"thread {number} turn {turn}", source=f"t{number}")
                found = memory.search(f"thread {number} turn {turn}", 400)
                assert added.handle in [hit.handle for hit in found]
        except BaseException as error:
            failures.append(error)

    with Memory.open(path, namespace="a") as memory:
        threads = [threading.Thread(target=work, args=(memory, n)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert memory.stats().items == 200
        assert len(memory.list(limit=None)) == 200


def test_only_its_owner_may_read_it(path: Path):
    with Memory.open(path, namespace="a") as memory:
        memory.add("x")
        modes = {entry: stat.S_IMODE(entry.stat().st_mode) for entry in path.parent.rglob("*")}
    assert modes
    assert all(mode & 0o077 == 0 for mode in modes.values())


def test_a_file_that_is_something_else_is_named_and_left_alone(path: Path):
    path.write_text("these are notes, not a database\n" * 100)
    with pytest.raises(NotAStoreError) as raised:
        Memory.open(path)
    assert raised.value.path.endswith("memory.db")
    assert raised.value.remedy
    assert path.read_text() == "these are notes, not a database\n" * 100

    foreign = path.with_name("foreign.db")
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE notes (text)")
    connection.commit()
    connection.close()
    before = foreign.read_bytes()
    with pytest.raises(NotAStoreError):
        Memory.open(foreign)
    assert foreign.read_bytes() == before


def test_a_folder_and_a_place_that_is_not_there_are_store_errors(tmp_path: Path):
    for place in (tmp_path, tmp_path / "no" / "such" / "folder" / "m.db"):
        with pytest.raises(StoreError) as raised:
            Memory.open(place, read_only=True)
        assert str(place) in str(raised.value)


def test_a_read_only_memory_reads_and_does_not_write(path: Path):
    with Memory.open(path, namespace="a") as memory:
        (added,) = memory.add("the zebra house")
    with Memory.open(path, namespace="a", read_only=True) as memory:
        assert memory.get(added.handle).text == "the zebra house"
        assert memory.search("zebra")[0].handle == added.handle
        for write in (
            lambda: memory.add("x"),
            lambda: memory.forget(added.handle),
            lambda: memory.purge(everything=True),
            lambda: memory.set_tier(added.handle, "hot"),
        ):
            with pytest.raises(StoreReadOnlyError):
                write()
    with Memory.open(path, namespace="a") as memory:
        assert memory.stats().items == 1


def test_after_closing_every_call_says_so(path: Path):
    memory = Memory.open(path, namespace="a")
    memory.close()
    memory.close()
    for call in (
        lambda: memory.add("x"),
        lambda: memory.search("x"),
        lambda: memory.recall(["x"]),
        *(memory.list, memory.stats, memory.verify, memory.rebuild, memory.namespaces),
    ):
        with pytest.raises(StoreClosedError):
            call()


def test_limits_make_warm_items_cold_then_drop_them_and_never_hot_ones(
    path: Path, caplog: pytest.LogCaptureFixture
):
    now = datetime.now(UTC)
    limits = MemoryLimits(max_items=100)
    with Memory.open(path, namespace="full", limits=limits) as memory:
        memory.add([f"rule {n}" for n in range(20)], tier="hot", time=now - timedelta(days=900))
        for n in range(300):
            memory.add(f"note {n}", time=now - timedelta(minutes=300 - n))
        stats = memory.stats()
        assert stats.items <= 100
        assert stats.hot == 20
        assert stats.dropped >= 220
        assert stats.limits == limits
        (said,) = [record.message for record in caplog.records]
        assert said.startswith("namespace 'full' is beyond its limits, so its oldest cold items")
        kept = [item.text for item in memory.list(limit=None, tiers=["warm"])]
        assert kept[0] == "note 299"
        assert memory.search("note 299")[0].item.text == "note 299"


def test_what_was_stored_long_ago_becomes_cold(path: Path):
    milliseconds = 2_000  # a busy machine may take one of them for an addition
    with Memory.open(
        path, namespace="a", limits=MemoryLimits(max_age_days=milliseconds / 86_400_000)
    ) as memory:
        old = memory.add("an old note")[0].handle
        time.sleep(1.5 * milliseconds / 1_000)
        new = memory.add("a new note")[0].handle
        assert memory.get(old).tier == "cold"
        assert memory.get(new).tier == "warm"
        assert memory.stats().demoted == 1


def test_purged_text_is_not_in_the_files_any_more(path: Path):
    with Memory.open(path, namespace="a") as memory:
        memory.add([f"the incunabulum number {n}" for n in range(50)], source="s")
        memory.add("something else")
        memory.purge(source="s")
    held = b"".join(entry.read_bytes() for entry in path.parent.rglob("*") if entry.is_file())
    assert b"incunabulum" not in held
    assert b"something else" in held


def test_an_onnx_model_gives_the_vectors_by_its_folder_or_loaded(path: Path, tmp_path: Path):
    pytest.importorskip("onnx", reason="writes the tiny model; pip install onnx")
    from tests.embedding.tiny_onnx import write_model

    folder = write_model(tmp_path / "tiny")
    loaded = rehydrate.load_model(folder)
    for number, embedder in enumerate((loaded, folder, str(folder))):
        with Memory.open(path, namespace=f"n{number}", embedder=embedder) as memory:
            handles = [one.handle for one in memory.add(["a b c a b", "x y w x y"])]
            assert memory.degraded == ()
            assert memory.stats().vector_space == loaded.space
            assert memory.stats().vectors == 2
            near = memory.recall(["a b c", "x y w"], k=1)
            assert [row[0].handle for row in near] == handles
            by_rows = memory.recall(loaded.embed(["a b c", "x y w"]), k=1)
            assert [row[0].handle for row in by_rows] == handles
            assert float(by_rows[0][0]) == pytest.approx(float(near[0][0]), abs=1e-5)
            assert memory.search("x y")[0].handle == handles[1]


@pytest.mark.parametrize("name", ["a\ud800", "a\0b"])
def test_a_name_that_no_file_has_is_a_typed_error(tmp_path: Path, name: str) -> None:
    path = f"{tmp_path}/{name}"
    with Memory.open(tmp_path / "m.db", namespace="a") as memory:
        for open_it in (
            lambda: Memory.open(path, namespace="a"),
            lambda: Threads.open(path, namespace="a"),
            lambda: Context.open(path, thread="t", namespace="a"),
            lambda: memory.import_items(path),
            lambda: memory.export_items(path),
            lambda: memory.sync_folder(path),
        ):
            with pytest.raises(InvalidArgumentError, match="a character that no file's name has"):
                open_it()


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
def test_a_link_to_a_file_and_the_file_are_one_store(path: Path, tmp_path: Path):
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(path)
    with Memory.open(path, namespace="a") as memory:
        memory.add("something else")
    with Memory.open(link, namespace="a") as memory:
        memory.add([f"the incunabulum number {n}" for n in range(50)], source="s")
        memory.rebuild()
        assert memory.stats().indexed == 51
    assert [entry.name for entry in link.parent.iterdir()] == ["link.db"]
    with Memory.open(path, namespace="a") as memory:
        assert memory.verify().damaged_indexes == 0
        memory.purge(source="s")
    held = b"".join(entry.read_bytes() for entry in tmp_path.rglob("*") if entry.is_file())
    assert b"incunabulum" not in held


@pytest.mark.skipif(sys.platform == "win32", reason="folders have other rights there")
def test_a_reader_in_a_folder_that_it_may_not_write_in_sees_what_others_write(path: Path):
    def add(text: str) -> None:
        path.parent.chmod(0o755)
        with Memory.open(path, namespace="a") as writer:
            writer.add(text)
        path.parent.chmod(0o555)

    add("the first")
    path.parent.chmod(0o755)
    for file in path.parent.glob("memory.db-*"):  # as where the file alone was copied
        file.unlink()
    path.parent.chmod(0o555)
    try:
        with Memory.open(path, namespace="a", read_only=True) as reader:
            assert len(reader.list()) == 1
            for number in range(3):
                add(f"number {number} " + "x" * 9_000)
                assert len(reader.list()) == 2 + number
                assert reader.search(f"number {number}", 1)[0].item.text.startswith("number")
    finally:
        path.parent.chmod(0o755)


LAYERED = """
mount -t tmpfs tmpfs "$1" && mkdir "$1/low" "$1/up" "$1/work" "$1/m" &&
cp "$2" "$1/low/memory.db" &&
mount -t overlay overlay -o "lowerdir=$1/low,upperdir=$1/up,workdir=$1/work" "$1/m" || exit 77
exec "$3" -c "$4" "$1/m/memory.db"
"""
WRITES = """
import sys
from rehydrate import Memory
with Memory.open(sys.argv[1], namespace="a") as memory:
    print(memory.add("the second")[0].created, len(memory.list()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it needs namespaces of mounts")
def test_a_file_in_the_image_of_a_container_can_be_written_to(path: Path, tmp_path: Path):
    with Memory.open(path, namespace="a") as memory:
        memory.add("the first")
    (tmp_path / "mount").mkdir()
    given = [str(tmp_path / "mount"), str(path), sys.executable, WRITES]
    try:
        done = subprocess.run(
            ["unshare", "-rm", "sh", "-c", LAYERED, "sh", *given],
            capture_output=True,
            check=False,
            text=True,
        )
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    if done.returncode == 77 or done.stderr.startswith("unshare"):
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    assert done.stdout.split() == ["True", "2"], done.stderr
