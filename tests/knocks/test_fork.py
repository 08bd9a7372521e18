"""A forked child compacts like its parent, whatever the parent's other threads were doing."""

from __future__ import annotations

import multiprocessing
import sys

import pytest

import rehydrate
from tests.knocks.programs import run_python

needs_fork = pytest.mark.skipif(not hasattr(sys, "getdlopenflags"), reason="needs os.fork")


def talk(start: int = 0) -> list[dict[str, str]]:
    return [
        {"role": ("user", "assistant")[n % 2], "content": f"Turn {n}: part_{n * 7}.py failed. " * 5}
        for n in range(start, start + 60)
    ]


def kept_turns(start: int) -> list[str]:
    """What is kept of a talk, by its beginnings: top level, so that a child can import it."""
    kept = rehydrate.compact_context(talk(start), "which part failed?").messages
    return [str(message["content"])[:20] for message in kept]


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_children_of_every_start_method_keep_what_their_parent_keeps(method: str):
    starts = [0, 1, 100]
    here = [kept_turns(start) for start in starts]
    with multiprocessing.get_context(method).Pool(2) as pool:
        there = pool.map_async(kept_turns, starts).get(timeout=120)
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
        for _ in range(40):
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
    # What is loaded at the first call (model, tables) is being loaded at the moment of the fork.
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
def test_a_child_keeps_the_cache_and_both_go_on():
    ended = run_python(
        """
        import os
        import rehydrate

        messages = [{"role": "user", "content": f"part_{n}.py"} for n in range(50)]
        first = rehydrate.compact_context(messages).stats.after_tokens
        if os.fork() == 0:
            same = rehydrate.compact_context(messages).stats.after_tokens == first
            if os.fork() == 0:
                os._exit(0 if rehydrate.compact_context(messages) else 1)
            grandchild = os.waitstatus_to_exitcode(os.wait()[1])
            os._exit(0 if same and grandchild == 0 else 1)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
        assert rehydrate.compact_context(messages).stats.after_tokens == first
        """
    )
    assert (ended.code, ended.err) == (0, "")
