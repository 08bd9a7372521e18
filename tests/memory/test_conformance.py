"""Every backend passes the conformance suite: a file, a dict, PostgreSQL; Memory over each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rehydrate._native import LocalStore
from rehydrate.memory import Memory, MemoryLimits, MemoryStore
from rehydrate.memory.postgres import PostgresStore
from rehydrate.testing import check_all
from rehydrate.testing.store_conformance import CHECKS, check_namespaces_know_nothing_of_each_other
from tests.memory.plain import PlainStore
from tests.postgres_server import borrow_database, give_back

BACKENDS = [
    "plain",
    "memory over plain",
    "local",
    "memory over local",
    "postgres",
]


@pytest.fixture(params=BACKENDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], MemoryStore]]:
    numbers = itertools.count()
    stores: list[tuple[PostgresStore, str]] = []

    def of_name(name: str) -> MemoryStore:
        if name.startswith("memory over "):
            return Memory(of_name(name.removeprefix("memory over ")))
        if name == "plain":
            return PlainStore()
        if name == "postgres":
            url = borrow_database(request.getfixturevalue("postgres_server"))
            stores.append((PostgresStore(url), url))
            return stores[-1][0]
        return LocalStore(tmp_path / f"{next(numbers)}.db", limits=MemoryLimits())

    yield lambda: of_name(request.param)
    for store, url in stores:
        store.close()
        give_back(url)


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
