"""Every backend passes the conformance suite: the file, the dict, and Memory over each."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from rehydrate.memory import LocalStore, Memory, MemoryLimits, MemoryStore
from rehydrate.testing import CHECKS, check_all, check_namespaces_know_nothing_of_each_other
from tests.memory.plain import PlainStore

BACKENDS = ["plain", "memory over plain", "local", "memory over local"]


@pytest.fixture(params=BACKENDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], MemoryStore]:
    numbers = itertools.count()

    def of_name(name: str) -> MemoryStore:
        if name.startswith("memory over "):
            return Memory(of_name(name.removeprefix("memory over ")))
        if name == "plain":
            return PlainStore()
        return LocalStore(tmp_path / f"{next(numbers)}.db", limits=MemoryLimits())

    return lambda: of_name(request.param)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_backend_does_what_any_backend_does(
    make: Callable[[], MemoryStore], check: Callable[[Callable[[], MemoryStore]], None]
):
    check(make)


def test_a_backend_that_leaks_between_namespaces_is_caught():
    class Leaky(PlainStore):
        def _in(self, namespace: str):
            return super()._in("one for all")

    with pytest.raises(AssertionError):
        check_namespaces_know_nothing_of_each_other(Leaky)


def test_a_backend_that_forgets_nothing_is_caught():
    class Hoarder(PlainStore):
        def forget(self, handles, *, namespace: str) -> int:
            return len(handles)

    with pytest.raises(AssertionError):
        check_all(Hoarder)
