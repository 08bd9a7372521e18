"""Threads: identical results, messages that change meanwhile, sub-interpreters, exit in mid-job."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import rehydrate
from rehydrate import _native
from tests.stress.nasty import around, tool_round
from tests.stress.programs import run_python

THREADS = 16


def conversation(number: int) -> list[Any]:
    return [
        {"role": "user", "content": f"Job {number} of part_{number * 31}.py, please."},
        *(
            message
            for n in range(40)
            for message in tool_round(
                f"t{n}", "Read", {"path": f"src/part_{n}.py"}, f"line {n} of job {number}\n" * 8
            )
        ),
        {"role": "user", "content": f"And part_{number}.py?"},
    ]


def kept(messages: list[Any], query: str | None) -> list[int]:
    places = {id(message): place for place, message in enumerate(messages)}
    compaction = rehydrate.compact_context(messages, query)
    return [places[id(message)] for message in compaction.messages]


@pytest.mark.parametrize("query", [None, "which line of part_3.py?"])
@pytest.mark.parametrize("conversations", [1, 5])
def test_sixteen_threads_keep_what_one_keeps(conversations: int, query: str | None):
    made = [conversation(number) for number in range(conversations)]
    alone = [kept(messages, query) for messages in made]
    _native.clear_cache()
    barrier = threading.Barrier(THREADS)

    def work(number: int) -> list[int]:
        barrier.wait()
        found = [kept(made[number % conversations], query) for _ in range(5)]
        assert found == found[:1] * 5
        return found[0]

    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(work, range(THREADS)))
    assert together == [alone[number % conversations] for number in range(THREADS)]


def test_messages_that_another_thread_appends_are_seen_or_not_but_break_nothing():
    messages = around()
    over = threading.Event()

    def append() -> None:
        number = 0
        while not over.is_set() and len(messages) < 2_000:
            messages.extend(tool_round(f"new{number}", "Run", {"n": number}, "out"))
            number += 1

    thread = threading.Thread(target=append)
    thread.start()
    try:
        for _ in range(20):
            compaction = rehydrate.compact_context(messages, "part_3.py", format="anthropic")
            assert compaction.stats.after_tokens <= compaction.stats.before_tokens
            assert not rehydrate.validate(compaction.messages, "anthropic")
    finally:
        over.set()
        thread.join()


def test_messages_that_another_thread_takes_away_give_a_result_or_a_typed_error():
    whole = around(*tool_round("t", "Run", {}, "out"))
    messages = list(whole)
    over = threading.Event()

    def take_away() -> None:
        while not over.is_set():
            messages.pop()
            if len(messages) < 3:
                messages.extend(whole[len(messages) :])

    thread = threading.Thread(target=take_away)
    thread.start()
    try:
        for _ in range(200):
            compaction = rehydrate.compact_context(messages, format="anthropic")
            assert all(any(one is message for message in whole) for one in compaction.messages)
    finally:
        over.set()
        thread.join()


def test_a_dict_that_changes_while_it_is_read_gives_a_result_or_a_typed_error():
    inputs = {f"k{n}": n for n in range(200)}
    messages = around(*tool_round("t", "Run", inputs, [{"type": "new", "payload": inputs}]))
    over = threading.Event()

    def change() -> None:
        number = 0
        while not over.is_set():
            inputs[f"n{number % 50}"] = number
            inputs.pop(f"n{(number + 25) % 50}", None)
            number += 1

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(300):
            try:
                assert rehydrate.compact_context(messages).messages
            except rehydrate.errors.InvalidMessageError as error:
                assert error.index is not None
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("texts", ["many", "one"])
def test_a_daemon_thread_at_work_does_not_keep_the_interpreter_from_exiting(texts: str):
    ended = run_python(
        """
        import sys, threading, time
        import rehydrate

        words = "The quick brown fox of part_%d.py jumped over line %d.\\n"
        texts = [words % (n, n * 7) for n in range(60_000)]
        if sys.argv[1] == "one":
            texts = ["".join(texts)]
        messages = [{"role": "user", "content": text} for text in texts]
        started = threading.Event()

        def work():
            started.set()
            while True:
                rehydrate.compact_context(messages, "part_9.py")
                rehydrate._native.clear_cache()

        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        started.wait()
        time.sleep(0.3)
        print("over")
        """,
        texts,
    )
    assert (ended.code, ended.out, ended.err) == (0, "over\n", "")


def test_a_subinterpreter_is_refused_with_an_import_error():
    ended = run_python(
        """
        import sys
        import rehydrate

        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters

        program = [
            "import sys",
            f"sys.path[:] = {sys.path!r}",
            "try:",
            "    import rehydrate",
            "except ImportError as error:",
            "    print('refused', flush=True)",
        ]
        interpreters.run_string(interpreters.create(), "\\n".join(program))
        rehydrate.compact_context([{"role": "user", "content": "hello"}])
        """
    )
    assert (ended.code, ended.out) == (0, "refused\n"), ended.err
