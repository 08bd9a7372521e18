"""A store during forks, signals, closings and exits, and when its file is taken away."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rehydrate import Memory
from rehydrate.errors import StoreClosedError, StoreError
from tests.sizes import sized
from tests.stress.programs import run_python

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@posix
def test_parent_and_child_go_on_after_a_fork_while_threads_are_busy(path: Path):
    ended = run_python(
        """
        import os, signal, sys, threading
        from rehydrate import Memory

        memory = Memory.open(sys.argv[1], namespace="a")
        memory.add([f"first {n}" for n in range(3_000)])
        over = threading.Event()
        added = [0] * 4

        def work(place):
            while not over.is_set():
                memory.add([f"thread {place} item {added[place]} {n}" for n in range(40)])
                added[place] += 1
                memory.search("first item", 5)
                memory.recall(["thread item"], 3)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        forks = 6
        for number in range(forks):
            child = os.fork()
            if child == 0:
                signal.alarm(60)  # a child that waits for ever is killed by it
                memory.add([f"child {number} item {n}" for n in range(20)])
                hits = memory.search(f"child {number} item 7", 50)
                assert any(hit.item.text == f"child {number} item 7" for hit in hits)
                memory.recall(["child item"], 3)
                memory.close()
                os._exit(7)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert code == 7, code
        over.set()
        for thread in threads:
            thread.join()
        wanted = 3_000 + sum(added) * 40 + forks * 20
        texts = [item.text for item in memory.list(limit=None)]
        assert len(texts) == len(set(texts)) == wanted, (len(texts), len(set(texts)), wanted)
        report = memory.verify()
        assert report.ok and not report.damaged_indexes, report
        print("sound")
        """,
        str(path),
    )
    assert (ended.code, ended.out, ended.err) == (0, "sound\n", "")


@posix
def test_a_child_that_closes_leaves_the_parents_store_open(path: Path):
    ended = run_python(
        """
        import os, sys
        from rehydrate import Memory

        with Memory.open(sys.argv[1], namespace="a") as memory:
            memory.add("before the fork")
            child = os.fork()
            if child == 0:
                memory.close()
                sys.exit(7)  # with all that an interpreter does at its end
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
            memory.add("after it")
            assert memory.stats().items == 2
        print("sound")
        """,
        str(path),
    )
    assert (ended.code, ended.out, ended.err) == (0, "sound\n", "")


TIMES = sized(1, 2)


def test_an_interpreter_ends_while_an_index_is_built(path: Path):
    for close in ("", "memory.close()"):
        for number in range(TIMES):
            ended = run_python(
                f"""
                import sys
                from rehydrate import Memory

                memory = Memory.open(sys.argv[1], namespace="a")
                for half in ("a", "b"):
                    memory.add([f"item {{n}} of {{sys.argv[2]}}{{half}}" for n in range(2_100)])
                {close}
                """,
                str(path),
                f"{close}{number}",
            )
            assert (ended.code, ended.out, ended.err) == (0, "", "")
    with Memory.open(path, namespace="a") as memory:
        assert memory.verify().ok
        assert memory.stats().items == 2 * TIMES * 4_200


LINE = "the fox of part {} jumped over {:x}, see line {}"


@pytest.fixture(scope="module")
def large_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a closed store of 12,000 items."""
    folder = tmp_path_factory.mktemp("large")
    with Memory.open(folder / "memory.db", namespace="a") as memory:
        texts = [LINE.format(n, n * 7919, n % 977) for n in range(12_000)]
        for start in range(0, len(texts), 1_000):
            memory.add(texts[start : start + 1_000])
    return folder


@posix
def test_a_child_whose_parent_ended_amid_building_may_build_and_purge(
    path: Path, large_store: Path
):
    shutil.copytree(large_store, path.parent, dirs_exist_ok=True)
    ended = run_python(
        """
        import fcntl, os, signal, sys, threading, time
        from rehydrate._native import LocalStore
        from rehydrate.memory import MemoryLimits

        store = LocalStore(sys.argv[1], limits=MemoryLimits(), vectors="usearch", busy_seconds=5)
        threading.Thread(target=store.rebuild, daemon=True).start()
        with open(sys.argv[1] + "-index/lock") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    break  # it builds
                fcntl.flock(lock, fcntl.LOCK_UN)
                time.sleep(0.001)
        if os.fork():
            os._exit(0)
        signal.alarm(60)  # a child that waits for ever is killed by it
        print(store.purge(namespace="a", everything=True))
        """,
        str(path),
    )
    assert (ended.code, ended.out, ended.err) == (0, "12000\n", "")


@posix
@pytest.mark.parametrize("work", ["add", "search", "recall", "rebuild", "verify", "purge"])
def test_ctrl_c_ends_long_work_and_the_store_goes_on(
    tmp_path: Path, request: pytest.FixtureRequest, work: str
):
    if work != "add":
        shutil.copytree(request.getfixturevalue("large_store"), tmp_path, dirs_exist_ok=True)
    ended = run_python(
        """
        import os, signal, sys, threading, time
        from rehydrate import Memory

        memory = Memory.open(sys.argv[1], namespace="a")
        work, line = sys.argv[2:]
        texts = [line.format(n, n * 7919, n % 977) for n in range(60_000)]
        before = memory.stats().items

        def shoot():
            time.sleep(0.15)
            os.kill(os.getpid(), signal.SIGINT)

        def do():
            if work == "add":
                memory.add(texts)
            elif work == "search":
                memory.search("the fox of part 9", 10_000)
            elif work == "recall":
                memory.recall(texts[:5_000], 20)
            elif work == "verify":
                memory.verify()
            elif work == "purge":
                memory.within("b").add(texts[:50], source="s")
                memory.within("b").purge(source="s")
            else:
                memory.rebuild()

        threading.Thread(target=shoot, daemon=True).start()
        try:
            for _ in range(1_000):
                do()
        except KeyboardInterrupt:
            assert memory.stats().items in (before, before + len(texts)), memory.stats()
            memory.add("one that came afterwards")
            assert memory.verify().ok
            assert memory.search("afterwards", 1)[0].item.text == "one that came afterwards"
            memory.close()
            print("interrupted")
        """,
        str(tmp_path / "memory.db"),
        work,
        LINE,
    )
    assert (ended.code, ended.out, ended.err) == (0, "interrupted\n", "")


def use_for_ever(memory: Memory, number: int, ended: list[BaseException]) -> None:
    try:
        while True:
            memory.add(f"of thread {number} {time.monotonic_ns()}")
            memory.search("note thread", 5)
            memory.recall(["note"], 2)
            memory.list(limit=5)
    except BaseException as error:
        ended.append(error)


def test_closing_while_others_use_it_is_an_error_of_its_own_for_them(path: Path):
    for _ in range(3):
        memory = Memory.open(path, namespace="a")
        memory.add([f"note {n}" for n in range(50)])
        ended: list[BaseException] = []
        arguments = [(memory, number, ended) for number in range(6)]
        threads = [threading.Thread(target=use_for_ever, args=args) for args in arguments]
        for thread in threads:
            thread.start()
        time.sleep(0.1)
        memory.close()
        for thread in threads:
            thread.join(60)
        assert [type(error) for error in ended] == [StoreClosedError] * 6, ended
    with Memory.open(path, namespace="a") as memory:
        assert memory.verify().ok


@posix
def test_a_sigterm_handler_that_closes_during_a_write_lets_it_end_and_closes(path: Path):
    # Redaction and columns come first: the signal arrives during the native call.
    ended = run_python(
        """
        import os, signal, sys, threading, time
        from rehydrate import Memory
        from rehydrate.errors import StoreClosedError

        memory = Memory.open(sys.argv[1], namespace="a", redact=False)
        written, seconds = 20_000, 0.05  # long before its end
        texts = [f"item {n} about penguins and ledger {n * 7919 % 100003}" for n in range(written)]
        store, closed = memory._store, []

        class Watched:
            def __getattr__(self, name):
                return getattr(store, name)

            def add(self, *args, **fields):
                threading.Thread(target=shoot, daemon=True).start()
                return store.add(*args, **fields)

        def shoot():
            time.sleep(seconds)
            os.kill(os.getpid(), signal.SIGTERM)

        def close(number, frame):
            memory.close()
            closed.append("within")

        memory._store = Watched()
        signal.signal(signal.SIGTERM, close)
        added = memory.add(texts)
        print(len(added), closed)
        try:
            memory.stats()
        except StoreClosedError:
            print("closed")
        """,
        str(path),
    )
    assert (ended.code, ended.out, ended.err) == (0, "20000 ['within']\nclosed\n", "")
    with Memory.open(path, namespace="a") as memory:
        assert memory.stats().items == 20_000
        assert memory.verify().ok


def test_a_memory_that_is_dropped_does_not_wait_for_another_process(path: Path):
    # With unlimited patience, waiting would be a hang.
    ended = run_python(
        """
        import gc, subprocess, sys
        from rehydrate.memory import MemoryItem, MemoryLimits
        from rehydrate._native import LocalStore

        def opened():
            return LocalStore(sys.argv[1], limits=MemoryLimits(), busy_seconds=1e6)

        store = opened()
        store.add([MemoryItem("alpha one, a note")], namespace="n")
        assert len(store.search("alpha note", namespace="n")) == 1  # counted with the next write
        program = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);" \
            " c.execute('BEGIN IMMEDIATE'); print('held', flush=True); sys.stdin.read()"
        holder = subprocess.Popen(
            [sys.executable, "-c", program, sys.argv[1]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        assert holder.stdout.readline() == "held\\n"
        del store
        gc.collect()
        store = opened()
        assert len(store.search("alpha note", namespace="n")) == 1
        store.close()
        assert holder.poll() is None
        holder.communicate("")
        print("dropped")
        """,
        str(path),
    )
    assert (ended.code, ended.out, ended.err) == (0, "dropped\n", "")


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="needs two users")
def test_a_purge_that_leaves_files_names_them_and_a_later_one_finishes():
    # The index's folder is another user's. (A ban on our own user is lifted again.)
    ended = run_python(
        """
        import os, shutil, tempfile
        from pathlib import Path
        from rehydrate import Memory
        from rehydrate.errors import PurgeIncompleteError

        folder = Path(tempfile.mkdtemp())
        index = folder / "memory.db-index"

        def bytes_of_all():
            return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())

        try:
            memory = Memory.open(folder / "memory.db", namespace="a")
            memory.add("rehearsed", source="other")
            memory.purge(source="other")  # everything that is imported late is there now
            memory.add([f"xyzzy number {n}" for n in range(3_000)], source="s")
            memory.rebuild()
            # One, or two where the thread in the background came first.
            files = [file.name for file in index.iterdir() if file.suffix == ".segment"]
            for path in [folder, *folder.rglob("*")]:
                if path != index:
                    os.chown(path, 65534, -1)
            index.chmod(0o755)
            os.seteuid(65534)
            for attempt in range(2):
                try:
                    print("removed", memory.purge(source="s"))
                except PurgeIncompleteError as error:
                    names_all = all(file in str(error) for file in files)
                    print(names_all, "purge again" in error.remedy, memory.stats().items)
            os.seteuid(0)
            print("removed", memory.purge(source="s"))
            print(b"xyzzy" in bytes_of_all(), [f.name for f in index.iterdir() if f.name != "lock"])
            memory.close()
        finally:
            os.seteuid(0)
            shutil.rmtree(folder)
        """
    )
    assert ended.err == ""
    assert ended.out == "True True 0\nTrue True 0\nremoved 0\nFalse []\n"


def test_several_memories_of_one_file_in_one_process_see_each_other(path: Path):
    memories = [Memory.open(path, namespace="a") for _ in range(4)]
    try:
        for turn in range(10):
            for number, memory in enumerate(memories):
                memory.add(f"turn {turn} of {number}")
            for memory in memories:
                assert memory.stats().items == 4 * (turn + 1)
                hits = memory.search(f"turn {turn}", 100)
                assert {hit.item.text for hit in hits} >= {f"turn {turn} of {n}" for n in range(4)}
    finally:
        for memory in memories:
            memory.close()


def test_another_program_that_reads_the_file_costs_nobody_a_write(path: Path):
    # SQLite's last user of a file removes its log. If opening a second memory of the file had cost
    # the first one its locks, another program would believe that it is the last one.
    program = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute("SELECT count(*) FROM items").fetchone()[0])
connection.close()
"""
    first = Memory.open(path, namespace="a")
    first.add("before")
    Memory.open(path, namespace="a").close()
    second = Memory.open(path, namespace="a")
    command = [sys.executable, "-c", program, str(path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "1\n"
    first.add("after")
    second.add("after that")
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "3\n"
    first.close()
    second.close()
    with Memory.open(path, namespace="a") as memory:
        assert memory.stats().items == 3


@posix
@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_taken_away_under_an_open_store_is_a_typed_error(path: Path, replaced: bool):
    other = path.with_name("other.db")
    with Memory.open(other, namespace="a") as memory:
        memory.add("an item of the other file")
    memory = Memory.open(path, namespace="a")
    memory.add([f"note {n}" for n in range(10)])
    memory.search("note")
    path.unlink()
    if replaced:
        for ending in ("-wal", "-shm"):
            Path(f"{path}{ending}").unlink(missing_ok=True)
        other.rename(path)
    for call in (
        lambda: memory.add("an item that must not be acknowledged"),
        lambda: memory.search("note"),
        *(memory.list, memory.stats, memory.verify, memory.rebuild),
    ):
        with pytest.raises(StoreError) as raised:
            call()
        assert "open it again" in raised.value.remedy
    memory.close()
    with Memory.open(path, namespace="a") as memory:
        texts = [item.text for item in memory.list()]
        assert texts == (["an item of the other file"] if replaced else [])
        memory.add("a new item")
        assert memory.verify().ok
