"""hydrate: sources that fail, are late or talk nonsense are left out, and change nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt import (
    ContextRequest,
    Found,
    History,
    HydrationSource,
    PromptIR,
    Provenance,
    Section,
    SourceRequest,
    hydrate,
    hydration,
)
from rehydrate.prompt.sources import function
from tests.prompt.test_hydrate import source_of
from tests.sizes import PATIENCE_SECONDS
from tests.stress.nasty import NASTY, in_each_format


@contextmanager
def hanging() -> Iterator[tuple[threading.Event, Callable[[SourceRequest], str]]]:
    """A function that returns only when the block ends."""
    release, is_back = threading.Event(), threading.Event()

    def hang(_: SourceRequest) -> str:
        release.wait(PATIENCE_SECONDS)
        is_back.set()
        return "too late"

    try:
        yield is_back, hang
    finally:
        release.set()


def report_of(ir: PromptIR, name: str) -> Any:
    return next(report for report in ir.meta.sources if report.name == name)


def raising(error: BaseException) -> Callable[[SourceRequest], Any]:
    def run(_: SourceRequest) -> Any:
        raise error

    return run


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (TypeError("no such field"), "TypeError"),
        (TimeoutError(), "TimeoutError"),
        (UnspeakableError(), "UnspeakableError"),
        (ExceptionGroup("two", [ValueError("a")]), "ExceptionGroup"),
        (InvalidArgumentError("k is 0; pass 1"), "InvalidArgumentError: k is 0; pass 1"),
    ],
)
def test_a_source_that_fails_is_left_out_and_the_report_says_why(error: Exception, detail: str):
    ir = hydrate("x", [function("bad", raising(error)), source_of("good", "here")])
    assert [section.id for section in ir.sections] == ["good"]
    report = report_of(ir, "bad")
    assert report.status == "failed"
    assert report.detail == detail


def test_a_source_that_is_late_is_left_out_and_what_it_brings_is_thrown_away():
    with hanging() as (is_back, hang):
        ir = hydrate("x", [function("slow", hang, timeout=0.02), source_of("good", "here")])
    assert [section.id for section in ir.sections] == ["good"]
    report = report_of(ir, "slow")
    assert (report.status, report.sections, report.tokens) == ("late", 0, 0)
    assert report.detail == "no answer within 0.02 s"
    assert is_back.wait(PATIENCE_SECONDS)
    assert [section.id for section in ir.sections] == ["good"]


def test_what_comes_back_after_its_deadline_is_late_though_others_were_waited_for():
    """The other source ends only after the late one."""
    came_back = threading.Event()
    deadline_is_over = threading.Event()

    def slow(_: SourceRequest) -> str:
        deadline_is_over.wait(0.05)
        came_back.set()
        return "too late"

    def patient(_: SourceRequest) -> str:
        assert came_back.wait(PATIENCE_SECONDS)
        return "here"

    ir = hydrate(
        "x",
        [
            function("patient", patient, timeout=None),
            function("slow", slow, timeout=0.001),
        ],
    )
    assert report_of(ir, "slow").status == "late"
    assert [section.id for section in ir.sections] == ["patient"]


@pytest.mark.parametrize(
    "nonsense",
    [
        17,
        {1, 2},
        object(),
        b"bytes",
        [17],
        ["text", 17],
        ["text", {"role": "user", "content": "x"}],
        [{"no": "message"}],
        Section("x", (17,), Provenance("x")),
        Section("x", "text", Provenance("x"), metadata=17),  # type: ignore[arg-type]
        Found(sections=(17,)),  # type: ignore[arg-type]
        Found(sections=17),  # type: ignore[arg-type]
        Found(tools=({"name": "x"},)),  # type: ignore[arg-type]
        Found(history=17),  # type: ignore[arg-type]
        Found(history=History(tokens=("many",))),  # type: ignore[arg-type]
        Found(dropped=("x",)),  # type: ignore[arg-type]
        Found(off=17),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("kind", ["", "system", "history", "semantic"])
def test_a_source_that_talks_nonsense_is_a_failing_one(nonsense: Any, kind: Any):
    bad = HydrationSource("bad", lambda _: nonsense, kind=kind, timeout=None, budget_tokens=5)
    ir = hydrate("x", [bad, source_of("good", "here")])
    assert [section.id for section in ir.sections if section.id == "good"] == ["good"]
    assert report_of(ir, "bad").status == "failed", ir.sections


def test_a_source_in_the_callers_thread_may_fail_too():
    bad = HydrationSource("bad", raising(OSError("gone")), blocking=False)
    assert report_of(hydrate("x", bad), "bad").detail == "OSError"


@pytest.mark.parametrize("observe", [lambda: 1 // 0, lambda: 17, lambda: ""])
def test_a_source_that_cannot_say_what_the_turn_is_about_is_passed_over(observe: Any):
    sources = [
        HydrationSource("bad", lambda _: None, query=observe),
        HydrationSource("good", lambda _: None, query=lambda: "ports"),
    ]
    assert hydrate("", sources).request.query == "ports"


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_ctrl_c_in_a_source_ends_the_whole(error: BaseException, blocking: bool):
    bad = HydrationSource("bad", raising(error), blocking=blocking, timeout=None)
    with pytest.raises(type(error)):
        hydrate("x", [bad, source_of("good", "here")])


def test_an_async_source_is_awaited_and_may_fail():
    async def good(request: SourceRequest) -> str:
        await asyncio.sleep(0)
        return request.query

    async def bad(_: SourceRequest) -> str:
        raise LookupError("nowhere")

    ir = hydrate("x", [good, bad], timeout=None)
    assert [section.content for section in ir.sections] == ["x"]
    assert report_of(ir, "bad").detail == "LookupError"


def test_a_late_async_source_is_cancelled():
    has_begun, was_cancelled = threading.Event(), threading.Event()

    async def slow(_: SourceRequest) -> str:
        has_begun.set()
        try:
            await asyncio.sleep(PATIENCE_SECONDS)
        finally:
            was_cancelled.set()
        return "too late"

    while not has_begun.is_set():  # a busy machine may not come to it in time
        ir = hydrate("x", function("slow", slow, timeout=0.1))
        assert report_of(ir, "slow").status == "late"
    assert was_cancelled.wait(PATIENCE_SECONDS)


def test_a_source_that_never_comes_back_is_not_called_again_and_again():
    calls = []
    with hanging() as (is_back, hang):

        def stuck(request: SourceRequest) -> str:
            calls.append(request)
            return hang(request)

        source = function("stuck for good", stuck, timeout=0.0)
        for _ in range(hydration.MAX_ABANDONED + 5):
            ir = hydrate("x", source)
        assert len(calls) <= hydration.MAX_ABANDONED
        report = report_of(ir, "stuck for good")
        assert report.status == "late"
        assert "32 calls of it have not come back" in report.detail
        assert hydrate("x", function("stuck for good", lambda _: "I am", timeout=None)).sections
        assert hydrate("x", function("stuck for good", lambda _: "I am", timeout=None)).sections
    assert is_back.wait(PATIENCE_SECONDS)
    until_all_are_back = threading.Event()
    patient = function("stuck for good", stuck, timeout=None)
    for _ in range(100 * PATIENCE_SECONDS):
        if (ir := hydrate("x", patient)).sections:
            break
        until_all_are_back.wait(0.01)
    assert [section.content for section in ir.sections] == ["too late"]


class Crm:
    """A system of one tenant."""

    def __init__(self, find: Callable[[SourceRequest], str]) -> None:
        self._find = find

    def search(self, request: SourceRequest) -> str:
        return self._find(request)


def calls_until_busy(make: Callable[[], HydrationSource], namespace: str = "") -> int:
    """How often a source that hangs is called."""
    for count in range(20):
        ir = hydrate(ContextRequest("x", namespace=namespace), make(), timeout=0.0)
        if "have not come back" in report_of(ir, "crm").detail:
            return count
    raise AssertionError("it is called again and again")


def test_a_tenant_whose_system_hangs_takes_nothing_from_another(monkeypatch):
    monkeypatch.setattr(hydration, "MAX_ABANDONED", 4)
    fine = Crm(lambda _: "Berth 4.")

    def shared(request: SourceRequest) -> str:
        return (hang if request.namespace == "alice" else fine.search)(request)

    with hanging() as (_, hang):
        stuck = Crm(hang)
        assert calls_until_busy(lambda: function("crm", stuck.search)) == 4
        assert hydrate("x", function("crm", fine.search), timeout=None).sections
        assert calls_until_busy(lambda: function("crm", shared), "alice") == 4
        bob = ContextRequest("x", namespace="bob")
        assert hydrate(bob, function("crm", shared), timeout=None).sections


def test_sources_that_are_made_anew_are_limited_by_their_code(monkeypatch):
    monkeypatch.setattr(hydration, "_MAX_ABANDONED_OF_CODE", 4)

    def anew() -> HydrationSource:
        def run(request: SourceRequest) -> str:
            return hang(request)

        return function("crm", partial(run))

    with hanging() as (_, hang):
        assert calls_until_busy(anew) == 4


def test_sources_run_at_once():
    together = threading.Barrier(4, timeout=PATIENCE_SECONDS)

    def wait(_: SourceRequest) -> str:
        together.wait()
        return "met"

    ir = hydrate("x", [function(f"s{n}", wait, timeout=None) for n in range(4)])
    assert len(ir.sections) == 4


TEXTS = st.one_of(
    st.none(),
    st.text(max_size=20),
    st.lists(st.text(max_size=20), max_size=3),
    st.builds(
        lambda id_, text, relevance: Section(id_, text, Provenance("x"), relevance=relevance),
        st.sampled_from(["a", "b", "s0", "s1:x", "history[0]"]),
        st.text(max_size=20),
        st.floats(0, 1),
    ),
)
TROUBLE = st.sampled_from(["raises", "hangs", "nonsense", "async raises", "async hangs"])


@given(
    sources=st.lists(st.tuples(TEXTS, st.one_of(st.none(), TROUBLE)), max_size=6),
    budget=st.one_of(st.none(), st.integers(0, 20)),
)
def test_no_failing_or_late_source_changes_what_the_others_bring(sources: Any, budget: int | None):
    with hanging() as (_, hang):

        async def async_hang(_: SourceRequest) -> None:
            await asyncio.sleep(PATIENCE_SECONDS)

        async def async_raise(_: SourceRequest) -> None:
            raise ValueError

        troubles: dict[str, Callable[[SourceRequest], Any]] = {
            "raises": raising(ZeroDivisionError()),
            "hangs": hang,
            "nonsense": lambda _: 17,
            "async raises": async_raise,
            "async hangs": async_hang,
        }
        good, all_of_them = [], []
        for n, (answer, trouble) in enumerate(sources):
            if trouble is None:
                source = source_of(f"s{n}", answer, budget_tokens=budget)
                good.append(source)
            else:
                source = function(
                    f"s{n}", troubles[trouble], timeout=0.001 if "hangs" in trouble else None
                )
            all_of_them.append(source)
        ir = hydrate("x", all_of_them)
        alone = hydrate("x", good)
    assert ir.sections == alone.sections
    assert ir.meta.dropped == alone.meta.dropped
    assert [report.name for report in ir.meta.sources] == [
        *[f"s{n}" for n in range(len(sources))],
        "history",
    ]
    for n, (_, trouble) in enumerate(sources):
        expected = "ok" if trouble is None else "late" if "hangs" in trouble else "failed"
        assert report_of(ir, f"s{n}").status == expected
    ids = [section.id for section in ir.sections]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", NASTY)
def test_nasty_messages_give_a_typed_error_or_come_through_as_they_are(name: str):
    def bring(messages: Any, form: str) -> None:
        ir = hydrate("part_3.py \ud800", messages=messages, format=form)
        assert all(kept is one for kept, one in zip(ir.history.entries, messages, strict=True))
        assert len(ir.history.tokens) == len(messages)
        hydrate(messages=ir.history)

    in_each_format(name, bring)


@pytest.mark.parametrize("name", NASTY)
def test_nasty_messages_of_a_function_are_sections_or_a_failing_source(name: str):
    ir = hydrate(
        "x", [function("bad", lambda _: NASTY[name](), timeout=None), source_of("good", "here")]
    )
    assert ir.sections[-1].content == "here"
    assert report_of(ir, "bad").status in {"ok", "failed"}
