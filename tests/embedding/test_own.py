"""Embedder: batches, timeouts, the breaker, and rows from any return value of a function."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from typing import Any

import anyio
import numpy as np
import pytest
from hypothesis import given, strategies as st

from rehydrate import Embedder, _native, acompact_context, compact_context
from rehydrate.embedding.embedder import MAX_ABANDONED, _functions, of_function
from rehydrate.errors import EmbedderError, InvalidArgumentError
from tests.compact.cases import talk
from tests.embedding.doubles import Clock, Counting, Tensor, lengths
from tests.sizes import PATIENCE_SECONDS

TEXTS = ["one", "three", "fourteen"]


def raises(texts: list[str]) -> Any:
    raise ConnectionError("no route to host")


@pytest.mark.parametrize(
    "returns",
    [
        lambda rows: rows,
        np.array,
        lambda rows: np.array(rows, dtype=np.float16),
        lambda rows: [tuple(row) for row in rows],
        lambda rows: [np.array(row) for row in rows],
        np.asfortranarray,
        Tensor,
    ],
)
def test_arrays_lists_and_tensors_become_rows_of_length_one(returns: Any):
    rows = Embedder(lambda texts: returns(lengths(texts))).embed(TEXTS)
    assert rows.dtype == np.float32
    assert rows.flags.c_contiguous
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 1, 1])
    expected = np.array(lengths(TEXTS)) / np.linalg.norm(lengths(TEXTS), axis=1, keepdims=True)
    assert rows == pytest.approx(expected, abs=1e-2)


@given(
    st.lists(st.text(max_size=30), max_size=40),
    st.integers(1, 9),
    st.integers(1, 60),
)
def test_batches_keep_both_limits_and_every_text_in_its_place(
    texts: list[str], size: int, chars: int
):
    asked = Counting()
    embedder = Embedder(asked, batch_size=size, max_batch_chars=chars, timeout=PATIENCE_SECONDS)
    attempt = embedder.attempt(texts)
    assert asked.texts == texts
    assert attempt.troubles == ()
    for batch in asked.batches:
        assert len(batch) <= size
        assert len(batch) == 1 or sum(map(len, batch)) <= chars
    if texts:
        raw = np.array(lengths(texts))
        assert attempt.rows == pytest.approx(raw / np.linalg.norm(raw, axis=1, keepdims=True))


def test_what_came_is_kept_where_a_batch_fails():
    def flaky(texts: list[str]) -> Any:
        return raises(texts) if "three" in texts else lengths(texts)

    attempt = Embedder(flaky, batch_size=1).attempt(TEXTS)
    assert attempt.rows.any(axis=1).tolist() == [True, False, True]
    assert attempt.troubles == ("ConnectionError",)


def test_rows_that_are_no_vectors_are_zeros_and_are_counted():
    rows = [[float("nan"), 1.0], [0.0, 0.0], [float("inf"), 1.0]]
    attempt = Embedder(lambda texts: rows).attempt(TEXTS)
    assert not attempt.rows.any()
    assert attempt.troubles == ("2 of its vectors are not finite",)


@pytest.mark.parametrize(
    "wrong",
    [None, "text", 1.0, np.ones(3), np.ones((2, 4)), np.ones((3, 2, 2)), np.ones((3, 0)), [[]]],
    ids=repr,
)
def test_an_answer_of_the_wrong_shape_is_a_failure_in_words(wrong: Any):
    attempt = Embedder(lambda texts: wrong).attempt(TEXTS)
    assert attempt.rows is None
    (said,) = attempt.troubles
    assert "Error" in said


def test_a_width_that_changes_is_a_failure_that_names_both():
    widths = iter([3, 3, 5])
    embedder = Embedder(lambda texts: np.ones((len(texts), next(widths))), batch_size=1)
    attempt = embedder.attempt(TEXTS)
    assert attempt.rows.any(axis=1).tolist() == [True, True, False]
    assert "5 dimensions where there were 3 before" in attempt.troubles[0]


def test_asked_by_itself_it_raises_where_nothing_came():
    with pytest.raises(EmbedderError, match="raises gave no vectors: ConnectionError"):
        Embedder(raises).embed(TEXTS)


def test_after_enough_failures_it_is_left_alone_and_then_tried_once():
    clock, asked = Clock(), Counting(raises)
    embedder = Embedder(asked, failures_to_open=2, cool_down=30, clock=clock, batch_size=1)
    attempt = embedder.attempt(TEXTS)
    assert len(asked.batches) == 2
    assert embedder.state == "open"
    assert "2 failures in a row" in attempt.troubles[-1]
    embedder.attempt(TEXTS)
    assert len(asked.batches) == 2
    clock.pass_(31)
    assert embedder.state == "half-open"
    asked.function = lengths
    assert embedder.attempt(TEXTS).rows.all()
    assert embedder.state == "closed"


class Gate:
    """An embedder that answers when the test lets it."""

    def __init__(self) -> None:
        self.started, self.opened = threading.Semaphore(0), threading.Event()

    def __call__(self, texts: list[str]) -> Any:
        self.started.release()
        assert self.opened.wait(PATIENCE_SECONDS)
        return lengths(texts)


def until(condition: Any) -> None:
    waited = threading.Event()
    for _ in range(PATIENCE_SECONDS * 100):
        if condition():
            return
        waited.wait(0.01)
    raise AssertionError("it did not happen")


def test_a_call_that_takes_too_long_is_abandoned_and_counts_as_a_failure():
    gate = Gate()
    embedder = Embedder(gate, timeout=0.01, batch_size=1, failures_to_open=1)
    attempt = embedder.attempt(TEXTS)
    assert attempt.rows is None
    assert "no answer within 0.01 s" in attempt.troubles[0]
    assert embedder.state == "open"
    gate.opened.set()


def test_an_answer_that_comes_too_late_is_there_for_the_next_to_ask():
    gate = Gate()
    embedder = Embedder(gate, timeout=0.01)
    assert embedder.attempt(TEXTS).rows is None
    gate.opened.set()
    until(lambda: _native.cached_vectors(embedder.space, TEXTS)[0] is not None)


def test_a_deadline_stops_it_without_being_its_failure():
    clock = Clock()

    def slow(texts: list[str]) -> Any:
        clock.pass_(1.0)
        return lengths(texts)

    embedder = Embedder(slow, batch_size=1, failures_to_open=1, clock=clock)
    attempt = embedder.attempt(TEXTS, deadline=clock() + 1.5)
    assert attempt.rows.any(axis=1).tolist() == [True, True, False]
    assert attempt.troubles == ()
    assert embedder.attempt(TEXTS, deadline=clock()).rows is None
    assert embedder.state == "closed"


def test_a_call_under_way_at_the_deadline_is_not_waited_for():
    gate, clock = Gate(), Clock()
    embedder = Embedder(gate, failures_to_open=1, clock=clock)
    attempt = embedder.attempt(TEXTS, deadline=clock() + 0.01)
    assert (attempt.rows, attempt.troubles, embedder.state) == (None, (), "closed")
    gate.opened.set()


def test_no_more_than_a_few_calls_are_abandoned():
    gate, clock = Gate(), Clock()
    embedder = Embedder(gate, failures_to_open=1_000, clock=clock)
    for _ in range(MAX_ABANDONED + 3):
        attempt = embedder.attempt(TEXTS, deadline=clock() + 0.01)
    for _ in range(MAX_ABANDONED):
        assert gate.started.acquire(timeout=PATIENCE_SECONDS)
    assert not gate.started.acquire(blocking=False)
    attempt = embedder.attempt(TEXTS, deadline=clock() + 0.01)
    assert f"{MAX_ABANDONED} earlier calls have not come back" in attempt.troubles[0]
    gate.opened.set()
    until(lambda: embedder.attempt(TEXTS).rows is not None)


def test_a_stuck_call_never_keeps_the_interpreter_from_exiting():
    script = """
import rehydrate, threading
def stuck(texts):
    threading.Event().wait()
async def stuck_too(texts):
    import asyncio
    await asyncio.Event().wait()
async def stuck_loop(texts):
    threading.Event().wait()
talk = [{"role": "user", "content": "hello"}]
for embedder in (stuck, stuck_too, stuck_loop):
    kept = rehydrate.compact_context(talk, embedder=rehydrate.Embedder(embedder, timeout=0.01))
    print("Error" in kept.stats.degraded[0])
"""
    run = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert run.stdout.split() == ["True"] * 3


def test_what_ends_a_program_is_not_swallowed():
    def leaves(texts: list[str]) -> Any:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        Embedder(leaves).attempt(TEXTS)


def test_each_has_a_space_of_its_own_unless_it_is_named():
    assert Embedder(lengths).space != Embedder(lengths).space
    assert Embedder(lengths, space="a model").space == "a model"
    with pytest.raises(AttributeError, match="keeps its space"):
        Embedder(lengths).space = "another"


def test_a_bare_callable_is_known_again():
    class Service:
        def embed(self, texts: list[str]) -> Any:
            return lengths(texts)

    service = Service()
    assert of_function(lengths).space == of_function(lengths).space
    assert of_function(service.embed).space == of_function(service.embed).space
    assert of_function(service.embed).space != of_function(Service().embed).space


def test_what_is_known_of_a_callable_goes_with_it():
    gc.collect()  # callables of other tests
    before = len(_functions)
    once = Counting()
    of_function(once)
    assert len(_functions) == before + 1
    del once
    gc.collect()
    assert len(_functions) == before


def test_a_callable_that_cannot_be_weakly_referenced_works_all_the_same():
    class Bare:
        __slots__ = ()

        def __call__(self, texts: list[str]) -> Any:
            return lengths(texts)

    assert of_function(Bare()).embed(TEXTS).all()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"function": "minilm"}, ["function", "str", "callable"]),
        ({"batch_size": 0}, ["batch_size", "0", "from 1 up"]),
        ({"batch_size": True}, ["batch_size", "True"]),
        ({"max_batch_chars": 1.5}, ["max_batch_chars", "1.5"]),
        ({"failures_to_open": -1}, ["failures_to_open", "-1"]),
        ({"timeout": 0}, ["timeout", "0", "above 0"]),
        ({"timeout": float("nan")}, ["timeout", "nan"]),
        ({"timeout": float("inf")}, ["timeout", "inf"]),
        ({"cool_down": None}, ["cool_down", "None"]),
        ({"cool_down": "30"}, ["cool_down", "'30'"]),
        ({"space": ""}, ["space", "''"]),
        ({"space": 3}, ["space", "3"]),
    ],
    ids=repr,
)
def test_an_argument_outside_its_limits_is_named(arguments: dict[str, Any], named: list[str]):
    with pytest.raises(InvalidArgumentError) as raised:
        Embedder(**({"function": lengths} | arguments))
    assert all(part in str(raised.value) for part in named)


def test_without_a_timeout_it_is_waited_for():
    assert Embedder(lengths, timeout=None).embed(TEXTS).all()


def test_an_error_as_long_as_a_page_is_cut():
    def fails(texts: list[str]) -> Any:
        raise EmbedderError("<html>\n" * 10_000)

    (said,) = Embedder(fails).attempt(TEXTS).troubles
    assert said.startswith("EmbedderError: <html> <html>")
    assert len(said) < 400


# Async embedders: on the caller's loop inside acompact_context, on one of ours elsewhere.


TALK = talk(*(f"user: note number {n} about src/part_{n}.py" for n in range(20)))


async def gives(texts: list[str]) -> Any:
    await anyio.sleep(0)
    return lengths(texts)


class Service:
    async def __call__(self, texts: list[str]) -> Any:
        return await gives(texts)


def returns_an_awaitable(texts: list[str]) -> Any:
    return gives(texts)


@pytest.mark.parametrize(
    "embed", [gives, Service(), returns_an_awaitable], ids=["function", "object", "awaitable"]
)
def test_an_async_embedder_gives_what_a_sync_one_gives(embed: Any):
    awaited = compact_context(TALK, "part 7", 0.2, embedder=embed)
    called = compact_context(TALK, "part 7", 0.2, embedder=lengths)
    assert awaited.stats.degraded == ()
    assert awaited.stats.embedding
    assert awaited.explain().to_dict() == called.explain().to_dict()


@pytest.mark.anyio
async def test_inside_acompact_context_it_runs_on_the_callers_loop():
    here = threading.get_ident()
    ran_on = []

    async def embed(texts: list[str]) -> Any:
        await anyio.sleep(0)  # of the library in use, whichever it is
        ran_on.append(threading.get_ident())
        return lengths(texts)

    compaction = await acompact_context(TALK, "part 7", embedder=embed)
    assert compaction.stats.degraded == ()
    assert ran_on == [here]


@pytest.mark.anyio
async def test_a_sync_call_while_a_loop_runs_in_this_thread_works_too():
    compaction = compact_context(TALK, "part 7", embedder=Service())
    assert compaction.stats.degraded == ()
    assert compaction.stats.embedding


def test_calls_without_a_loop_share_one_so_that_clients_live_on():
    loops = set()

    async def embed(texts: list[str]) -> Any:
        loops.add(id(asyncio.get_running_loop()))
        return lengths(texts)

    for n in range(3):
        assert Embedder(embed).embed([f"text {n}"]).all()
    assert len(loops) == 1


@pytest.mark.anyio
async def test_an_async_embedder_that_compacts_by_itself_does_not_wait_for_itself():
    inner = []

    async def embed(texts: list[str]) -> Any:
        inner.append(compact_context(TALK[:3], "part 1", embedder=Service()).stats)
        return lengths(texts)

    compaction = await acompact_context(TALK, "part 7", embedder=embed)
    assert compaction.stats.degraded == ()
    assert inner[0].embedding


@pytest.mark.anyio
async def test_an_async_embedder_that_takes_too_long_is_cancelled():
    begun, ended = [], []

    async def embed(texts: list[str]) -> Any:
        begun.append(True)
        try:
            await anyio.sleep(PATIENCE_SECONDS)
        finally:
            ended.append(True)

    while not begun:  # a busy machine may not come to it in time
        compaction = await acompact_context(TALK, embedder=Embedder(embed, timeout=0.01))
        assert not compaction.stats.embedding
        assert "Error" in compaction.stats.degraded[0]
    with anyio.fail_after(PATIENCE_SECONDS):
        while not ended:
            await anyio.sleep(0.001)


@pytest.mark.anyio
async def test_cancelling_the_compaction_cancels_the_embedder():
    started, ended = anyio.Event(), []

    async def embed(texts: list[str]) -> Any:
        started.set()
        try:
            await anyio.sleep(PATIENCE_SECONDS)
        finally:
            ended.append(True)

    embedder = Embedder(embed, failures_to_open=1)
    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: acompact_context(TALK, embedder=embedder))
            await started.wait()
            tasks.cancel_scope.cancel()
        while not ended:
            await anyio.sleep(0.001)
    assert embedder.state == "closed", "a caller who left isn't a failure of the embedder"


@pytest.mark.anyio
async def test_an_async_embedder_that_raises_is_done_without():
    async def embed(texts: list[str]) -> Any:
        raise ConnectionError("no route to host")

    (said,) = (await acompact_context(TALK, embedder=embed)).stats.degraded
    assert "ConnectionError;" in said


def test_no_texts_have_no_vectors_and_one_string_is_refused():
    embedder = Embedder(lengths)
    assert embedder.embed([]).shape == (0, 0)
    dim = embedder.embed(TEXTS).shape[1]
    assert embedder.embed([]).shape == (0, dim)
    with pytest.raises(InvalidArgumentError, match="texts is one string"):
        embedder.embed("abc")
