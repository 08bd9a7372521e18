"""A forked child compacts like its parent, whatever the parent's other threads were doing."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

import rehydrate
from tests.sizes import PATIENCE_SECONDS
from tests.stress.programs import needs_fork, run_python


def talk(start: int = 0) -> list[dict[str, str]]:
    return [
        {"role": ("user", "assistant")[n % 2], "content": f"Turn {n}: part_{n * 7}.py failed. " * 5}
        for n in range(start, start + 60)
    ]


def kept_turns(start: int) -> list[str]:
    """The beginnings of the messages kept of a talk: top level, so that a child can import it."""
    kept = rehydrate.compact_context(talk(start), "which part failed?").messages
    return [str(message["content"])[:20] for message in kept]


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_children_of_every_start_method_keep_what_their_parent_keeps(method: str):
    starts = [0, 1, 100]
    here = [kept_turns(start) for start in starts]
    with multiprocessing.get_context(method).Pool(2) as pool:
        there = pool.map_async(kept_turns, starts).get(timeout=PATIENCE_SECONDS)
    assert there == here


@needs_fork
def test_forking_while_other_threads_compact_leaves_no_child_waiting():
    # Conversations are new each time, so that the threads hold locks and fill caches all along.
    ended = run_python(
        """
        import itertools, os, signal, threading
        import rehydrate

        numbers = itertools.count()

        def talk():
            return [
                {"role": ("user", "assistant")[n % 2], "content": f"{next(numbers)} of part_{n}.py"}
                for n in range(200)
            ]

        shared = talk()
        over = threading.Event()

        def work():
            while not over.is_set():
                rehydrate.compact_context(talk(), "part_7.py")
                rehydrate.compact_context(shared, "part_7.py")
                if next(numbers) % 3 == 0:
                    rehydrate._native.clear_cache()

        threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(15):
            child = os.fork()
            if child == 0:
                signal.alarm(60)  # a child that waits for ever is killed by it
                rehydrate.compact_context(shared, "part_7.py")
                rehydrate.compact_context(talk(), "part_7.py")
                os._exit(7)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert code == 7, code
        over.set()
        for thread in threads:
            thread.join()
        print("done")
        """
    )
    assert (ended.code, ended.out, ended.err) == (0, "done\n", "")


@needs_fork
def test_a_first_call_in_one_thread_and_a_fork_in_another_leave_no_child_waiting():
    # The model and tables, loaded at the first call, are being loaded at the moment of the fork.
    ended = run_python(
        """
        import os, signal, threading, time
        import rehydrate

        texts = [f"part_{n}.py \u00e9t\u00e9 \u6f22\u5b57" for n in range(90)]
        messages = [{"role": "user", "content": text} for text in texts]

        def compact():
            rehydrate.compact_context(messages, "part_3")

        children = []
        for delay in range(12):
            ready = os.fork()  # a fresh process each time: nothing is loaded in it yet
            if ready == 0:
                thread = threading.Thread(target=compact)
                thread.start()
                time.sleep(delay / 2000)
                child = os.fork()
                if child == 0:
                    signal.alarm(60)
                    compact()
                    os._exit(7)
                thread.join()
                os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) % 256)
            children.append(ready)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert codes == [7] * 12, codes
        """
    )
    assert (ended.code, ended.err) == (0, "")


@needs_fork
def test_a_child_begins_with_an_empty_cache_of_its_own_and_both_go_on():
    ended = run_python(
        """
        import os
        import rehydrate
        from rehydrate import _native

        messages = [{"role": "user", "content": f"part_{n}.py"} for n in range(50)]
        first = rehydrate.compact_context(messages).stats.after_tokens
        held = _native.cached_bytes()
        assert held > 0
        if os.fork() == 0:
            is_empty = _native.cached_bytes() == 0
            same = rehydrate.compact_context(messages).stats.after_tokens == first
            if os.fork() == 0:
                is_empty = _native.cached_bytes() == 0
                os._exit(0 if is_empty and rehydrate.compact_context(messages) else 1)
            grandchild = os.waitstatus_to_exitcode(os.wait()[1])
            os._exit(0 if is_empty and same and grandchild == 0 else 1)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
        assert _native.cached_bytes() == held
        assert rehydrate.compact_context(messages).stats.after_tokens == first
        """
    )
    assert (ended.code, ended.err) == (0, "")


@needs_fork
def test_two_threads_that_fork_and_two_that_log_do_not_wait_for_each_other():
    # logging has a hook of its own, which runs after ours and waits for logging's lock.
    ended = run_python(
        """
        import logging, os, threading
        import rehydrate

        rehydrate.count_tokens("the engine is there")
        log = logging.getLogger("x")
        log.addHandler(logging.NullHandler())
        log.setLevel(logging.DEBUG)
        over = threading.Event()

        def write():
            number = 0
            while not over.is_set():
                number += 1
                logging.getLogger(f"a.{number % 1000}").info("x")
                log.setLevel(logging.DEBUG)
                rehydrate.count_tokens(f"{number} of them")

        def fork():
            for _ in range(150):
                child = os.fork()
                if child == 0:
                    os._exit(0)
                os.waitpid(child, 0)

        forking = [threading.Thread(target=fork, daemon=True) for _ in range(2)]
        writing = [threading.Thread(target=write, daemon=True) for _ in range(2)]
        for thread in forking + writing:
            thread.start()
        for thread in forking:
            thread.join()
        over.set()
        print("done")
        """
    )
    assert (ended.code, ended.out, ended.err) == (0, "done\n", "")


@needs_fork
def test_a_hook_that_waits_for_a_thread_inside_a_store_is_not_waited_for(tmp_path: Path):
    # The hook runs after ours, since it was registered before, and wants what the thread holds.
    ended = run_python(
        """
        import os, signal, sys, threading

        lock, held, forking = threading.Lock(), threading.Event(), threading.Event()
        ready = False

        def before():
            if ready:
                forking.set()
                lock.acquire()

        def after():
            if ready:
                lock.release()

        os.register_at_fork(before=before, after_in_parent=after, after_in_child=after)

        from rehydrate import Memory
        from rehydrate.errors import StoreError

        memory = Memory.open(sys.argv[1], namespace="a")
        memory.add("before the fork")
        ready = True

        def work():
            with lock:
                held.set()
                forking.wait()
                memory.add("while the hook waits")

        thread = threading.Thread(target=work)
        thread.start()
        held.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            try:
                memory.add("in a child that was copied amid it")
            except StoreError as error:
                os._exit(7 if "forked while the store was in use" in str(error) else 8)
            os._exit(9)
        thread.join()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        ready = False
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            memory.add("in a child of a fork at rest")
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print(sorted(item.text for item in memory.list()), memory.verify().ok)
        """,
        str(tmp_path / "memory.db"),
    )
    texts = ["before the fork", "in a child of a fork at rest", "while the hook waits"]
    assert (ended.code, ended.out, ended.err) == (0, f"7\n7\n{texts} True\n", "")


@needs_fork
@pytest.mark.parametrize(
    "held",
    [
        "MemoryOriginals(Memory.open(sys.argv[2], namespace='a'))._lock",
        "import_module('rehydrate.agent.sdk').Clients('anyio', object)._lock",
        "rehydrate.Context()._thread.lock",
    ],
)
def test_a_lock_of_ours_that_another_thread_holds_is_free_in_a_child(held: str, tmp_path: Path):
    ended = run_python(
        """
        import os, signal, sys, threading
        from importlib import import_module
        import rehydrate
        from rehydrate import Memory
        from rehydrate.prompt.originals import MemoryOriginals

        lock = eval(sys.argv[1])
        taken, over = threading.Event(), threading.Event()

        def hold():
            with lock:
                taken.set()
                over.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        taken.wait()
        if (child := os.fork()) == 0:
            signal.alarm(60)
            with lock:
                os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        over.set()
        thread.join()
        """,
        held,
        str(tmp_path / "memory.db"),
    )
    assert (ended.code, ended.out, ended.err) == (0, "7\n", "")


@needs_fork
def test_a_table_that_another_thread_reads_is_refused_in_a_child_and_read_on_in_the_parent():
    pytest.importorskip("pyarrow")
    ended = run_python(
        """
        import os, signal, threading
        import pyarrow
        from rehydrate._native import ArrowReader, ArrowStream
        from rehydrate.errors import InvalidArgumentError

        rows = next(ArrowReader(pyarrow.table({"text": ["a"]})))
        begun, over = threading.Event(), threading.Event()

        def rest():
            begun.set()
            over.wait()
            yield rows

        reader, read = ArrowReader(ArrowStream(rows, rest())), []
        read.append(len(next(reader)))
        thread = threading.Thread(target=lambda: read.append(len(next(reader))))
        thread.start()
        begun.wait()
        if (child := os.fork()) == 0:
            signal.alarm(60)  # a child that waits for ever is killed by it
            try:
                next(reader)
            except InvalidArgumentError as error:
                os._exit(7 if "forked while another thread worked on it" in str(error) else 8)
            os._exit(9)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        over.set()
        thread.join()
        print(read, list(reader))
        """
    )
    assert (ended.code, ended.out, ended.err) == (0, "7\n[1, 1] []\n", "")
