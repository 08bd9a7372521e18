"""RehydrateStore: LangGraph's long-term store over a Memory."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from rehydrate import Memory
from rehydrate._native import meets_filter, value_text
from rehydrate.errors import InvalidArgumentError

pytest.importorskip("langgraph.store.base", reason="langgraph is not installed")

from langgraph.store.base import GetOp, InvalidNamespaceError, ListNamespacesOp, PutOp, SearchOp

from rehydrate.integrations.langgraph import RehydrateStore

ALICE = ("users", "alice")
PORT = {"text": "The staging server listens on port 8443.", "rank": 3}
TEA = {"text": "Anna prefers tea.", "rank": 1}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory.db") as memory:
        yield memory


@pytest.fixture
def store(memory: Memory) -> RehydrateStore:
    return RehydrateStore(memory)


def keys(items: Any) -> list[str]:
    return [item.key for item in items]


def test_what_is_put_is_got_and_a_deleted_item_is_gone(store: RehydrateStore) -> None:
    store.put(ALICE, "port", PORT)
    item = store.get(ALICE, "port")
    assert item is not None
    assert (item.namespace, item.key, item.value) == (ALICE, "port", PORT)
    assert store.get(("users",), "port") is None
    store.delete(ALICE, "port")
    assert store.get(ALICE, "port") is None
    assert store.search(ALICE) == []
    assert store.list_namespaces() == []


def test_a_second_put_replaces_the_value_and_keeps_the_time_of_the_first(
    store: RehydrateStore, memory: Memory
) -> None:
    store.put(ALICE, "port", PORT)
    first = store.get(ALICE, "port")
    store.put(ALICE, "port", {**PORT, "rank": 4})
    store.put(ALICE, "port", {**PORT, "rank": 5})
    second = store.get(ALICE, "port")
    assert first is not None and second is not None
    assert second.value["rank"] == 5
    assert second.created_at == first.created_at <= second.updated_at
    assert len(store.search(ALICE, query="port")) == 1
    assert memory.stats(namespace="users.alice").items == 1


def test_an_item_that_was_being_put_when_the_process_ended_is_the_newer_one(
    store: RehydrateStore, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(ALICE, "port", PORT)
    monkeypatch.setattr(memory, "forget", lambda *_, **__: 0)  # it ended before that
    store.put(ALICE, "port", TEA)
    monkeypatch.undo()
    item = store.get(ALICE, "port")
    assert item is not None and item.value == TEA
    assert [found.value for found in store.search(ALICE)] == [TEA]
    store.put(ALICE, "port", PORT)
    assert memory.stats(namespace="users.alice").items == 1


def test_two_keys_may_have_the_same_value(store: RehydrateStore) -> None:
    store.put(ALICE, "one", TEA)
    store.put(ALICE, "two", TEA)
    assert sorted(keys(store.search(ALICE))) == ["one", "two"]


def test_a_query_finds_by_words_and_by_meaning_below_a_prefix(store: RehydrateStore) -> None:
    store.put(ALICE, "port", PORT)
    store.put(("users", "bob"), "tea", TEA)
    store.put(("teams", "dock"), "port", PORT)
    found = store.search(("users",), query="on which port does staging listen?")
    assert keys(found) == ["port", "tea"]
    assert found[0].score is not None and found[0].score > (found[1].score or 0)
    assert keys(store.search(("users", "bob"), query="what does Anna drink?")) == ["tea"]
    assert store.search(("user",), query="port") == []


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({"rank": 3}, ["port"]),
        ({"rank": {"$eq": 3}}, ["port"]),
        ({"rank": {"$ne": 3}}, ["tea"]),
        ({"rank": {"$gt": 1}}, ["port"]),
        ({"rank": {"$gte": 1, "$lt": 3}}, ["tea"]),
        ({"rank": {"$lte": 1}}, ["tea"]),
        ({"rank": {"$gt": "a text"}}, []),
        ({"who.name": "Anna"}, ["tea"]),
        ({"who": {"name": "Anna"}}, ["tea"]),
        ({"tags": ["drink"]}, ["tea"]),
        ({"missing": 1}, []),
    ],
)
def test_filters(store: RehydrateStore, conditions: dict[str, Any], expected: list[str]) -> None:
    store.put(ALICE, "port", PORT)
    store.put(ALICE, "tea", {**TEA, "who": {"name": "Anna", "age": 41}, "tags": ["drink"]})
    assert keys(store.search(ALICE, filter=conditions)) == expected
    assert keys(store.search(ALICE, query="port or tea", filter=conditions)) == expected


def test_what_a_search_reads_of_a_value_is_its_texts_and_numbers_by_their_names() -> None:
    assert value_text({"text": "Staging listens on 8443."}) == "Staging listens on 8443."
    value = {"title": "Ports", "hosts": ["a", ("b", None)], "by": {"who": "", "age": 41}}
    assert value_text(value) == "title: Ports\nhosts: a\nhosts: b\nby.age: 41"
    assert value_text({}) == ""
    deep: Any = {}
    for _ in range(5_000):
        deep = {"a": deep}
    with pytest.raises(RecursionError):
        value_text(deep)


def test_a_filter_goes_down_by_dots_and_takes_names_with_dots_first() -> None:
    value = {"user": {"age": 41, "a.b": None}, "user.name": "Anna"}
    assert meets_filter(value, {"user.age": {"$gte": 18}, "user.name": "Anna", "user.a.b": None})
    assert meets_filter(value, None) and meets_filter(value, {"user.nobody": None})
    assert not meets_filter(value, {"user.age.of": 41})


def test_a_filter_that_few_items_meet_still_finds_them(store: RehydrateStore) -> None:
    puts = [PutOp(ALICE, f"k{n}", {"text": f"Ferry number {n}.", "n": n}) for n in range(300)]
    store.batch(puts)
    assert keys(store.search(ALICE, query="ferry", filter={"n": {"$gte": 299}})) == ["k299"]


def test_a_filter_without_a_query_returns_the_last_written_of_all(store: RehydrateStore) -> None:
    for namespace in ("alice", "bob"):
        values = [{"n": number, "even": number % 2 == 0} for number in range(260)]
        store.batch([PutOp(("users", namespace), f"k{each['n']}", each) for each in values])
    few = store.search(("users",), filter={"even": True}, limit=3)
    assert {item.namespace for item in few} == {("users", "bob")}
    assert [item.value["even"] for item in few] == [True] * 3
    rare = store.search(("users",), filter={"n": {"$lt": 2}}, limit=10)
    assert sorted(item.key for item in rare) == ["k0", "k0", "k1", "k1"]
    assert len(store.search(("users",), filter={"even": False}, limit=500)) == 260


def test_an_unknown_operator_is_refused(store: RehydrateStore) -> None:
    store.put(ALICE, "port", PORT)
    with pytest.raises(InvalidArgumentError, match=r"'\$near'; the operators are \$eq"):
        store.search(ALICE, filter={"rank": {"$near": 3}})


def test_pages_do_not_overlap(store: RehydrateStore) -> None:
    for number in range(7):
        store.put(ALICE, f"k{number}", {"text": f"Ferry number {number}."})
    for query in (None, "ferry"):
        pages = [store.search(ALICE, query=query, limit=3, offset=start) for start in (0, 3, 6)]
        assert [len(page) for page in pages] == [3, 3, 1]
        assert len({item.key for page in pages for item in page}) == 7
    assert keys(store.search(ALICE, limit=2)) == ["k6", "k5"]  # the newest first


def test_only_named_fields_are_searched(memory: Memory) -> None:
    store = RehydrateStore(memory, fields=["title"])
    store.put(ALICE, "a", {"title": "harbour", "body": "zebra"})
    store.put(ALICE, "b", {"title": "railway", "body": "giraffe"}, index=["body"])
    store.put(ALICE, "c", {"title": "airport"}, index=False)
    found = {item.key: item.score for item in store.search(ALICE, query="giraffe")}
    assert next(iter(found)) == "b"
    assert found["c"] is None  # not indexed: after the others, without a score
    assert "zebra" not in memory.list(namespace="users.alice", threads=["a"])[0].text


def test_namespaces_are_listed_by_prefix_suffix_and_depth(store: RehydrateStore) -> None:
    for namespace in [(*ALICE, "notes"), ("users", "bob", "notes"), ("teams", "dock")]:
        store.put(namespace, "k", TEA)
    assert store.list_namespaces() == [
        ("teams", "dock"),
        ("users", "alice", "notes"),
        ("users", "bob", "notes"),
    ]
    assert store.list_namespaces(suffix=("notes",), limit=1, offset=1) == [
        ("users", "bob", "notes")
    ]
    assert store.list_namespaces(prefix=("*", "alice")) == [("users", "alice", "notes")]
    assert store.list_namespaces(max_depth=1) == [("teams",), ("users",)]


def test_a_batch_reads_first_and_keeps_the_order_of_results(store: RehydrateStore) -> None:
    store.put(ALICE, "port", PORT)
    results = store.batch(
        [
            PutOp(ALICE, "port", TEA),
            GetOp(ALICE, "port"),
            SearchOp(("users",), query="port"),
            ListNamespacesOp(),
            PutOp(ALICE, "port", {"text": "the last one"}),
            PutOp(ALICE, "gone", None),
        ]
    )
    assert results[0] is results[4] is results[5] is None
    assert results[1].value == PORT and keys(results[2]) == ["port"] and results[3] == [ALICE]
    assert store.get(ALICE, "port").value == {"text": "the last one"}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_async_methods_do_the_same(store: RehydrateStore, backend: str) -> None:
    async def run() -> None:
        await store.aput(ALICE, "port", PORT)
        item = await store.aget(ALICE, "port")
        assert item is not None and item.value == PORT
        assert keys(await store.asearch(("users",), query="staging")) == ["port"]
        assert await store.alist_namespaces() == [ALICE]
        await store.adelete(ALICE, "port")
        assert await store.aget(ALICE, "port") is None

    anyio.run(run, backend=backend)


def test_an_expired_item_is_gone(store: RehydrateStore) -> None:
    store.put(ALICE, "code", PORT, ttl=5)
    store.put(ALICE, "tea", TEA, ttl=5)
    store.put(ALICE, "berth", TEA)
    assert sorted(keys(store.search(ALICE, refresh_ttl=False))) == ["berth", "code", "tea"]
    store.put(ALICE, "code", PORT, ttl=0.01 / 60)
    time.sleep(0.05)
    assert store.get(ALICE, "code") is None
    assert keys(store.search(ALICE, query="port")) == ["berth", "tea"]
    store.put(ALICE, "code", PORT)
    item = store.get(ALICE, "code")
    assert item is not None and item.value == PORT


@pytest.mark.parametrize("ttl", [1e12, float("inf")])
def test_a_time_to_live_of_ages_never_ends(
    store: RehydrateStore, memory: Memory, ttl: float
) -> None:
    store.put(ALICE, "code", PORT, ttl=ttl)
    assert store.get(ALICE, "code") is not None
    assert memory.list(namespace="users.alice")[0].expires is None


def test_a_value_is_kept_as_json_and_is_a_copy(store: RehydrateStore) -> None:
    value: dict[str, Any] = {"pair": (1, 2), "list": [1]}
    store.put(ALICE, "k", value)
    value["list"].append(2)
    item = store.get(ALICE, "k")
    assert item is not None and item.value == {"pair": [1, 2], "list": [1]}


@pytest.mark.parametrize("is_searched", [False, True], ids=["get", "search"])
def test_a_read_begins_an_items_time_again_and_is_no_update(
    memory: Memory, is_searched: bool
) -> None:
    store = RehydrateStore(memory, ttl={"default_ttl": 1.0})
    store.put(ALICE, "code", PORT)
    first = store.get(ALICE, "code", refresh_ttl=False)
    (item,) = memory.list(namespace="users.alice")
    assert item.expires is not None
    short = item.expires - timedelta(minutes=0.5)  # as if half of it were over
    memory.forget(item.handle, namespace="users.alice")
    memory.add([replace(item, expires=short, handle="")], namespace="users.alice")
    store.get(ALICE, "code", refresh_ttl=False)
    assert memory.list(namespace="users.alice")[0].expires == short
    read = store.search(ALICE)[0] if is_searched else store.get(ALICE, "code")
    (again,) = memory.list(namespace="users.alice")
    assert again.expires is not None and again.expires >= item.expires
    store.get(ALICE, "code")
    assert memory.list(namespace="users.alice") == [again]  # too early for another write
    later = store.get(ALICE, "code")
    assert first is not None and read is not None and later is not None
    assert later.value == PORT
    assert later.updated_at == read.updated_at and later.created_at == read.created_at


def test_threads_may_put_at_once(store: RehydrateStore, memory: Memory) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: store.put(ALICE, f"k{n % 4}", {"n": n}), range(40)))
    assert sorted(keys(store.search(ALICE))) == ["k0", "k1", "k2", "k3"]
    assert memory.stats(namespace="users.alice").items == 4


def test_two_processes_may_put_the_same_keys(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from rehydrate import Memory\n"
        "from rehydrate.integrations.langgraph import RehydrateStore\n"
        "with Memory.open(sys.argv[1]) as memory:\n"
        "    store = RehydrateStore(memory)\n"
        "    for n in range(40):\n"
        "        store.put(('users', 'alice'), f'k{n % 4}', {'n': n})\n"
    )
    path = str(tmp_path / "shared.db")
    others = [subprocess.Popen([sys.executable, "-c", program, path]) for _ in range(2)]
    assert [other.wait(60) for other in others] == [0, 0]
    with Memory.open(path) as memory:
        items = RehydrateStore(memory).search(ALICE)
        assert sorted(item.key for item in items) == ["k0", "k1", "k2", "k3"]
        assert [item.value["n"] >= 36 for item in items] == [True] * 4


def test_what_a_store_holds_is_a_memorys_and_other_memories_are_no_items(
    store: RehydrateStore, memory: Memory
) -> None:
    memory.add("A note of another origin.", namespace="users.alice")
    store.put(ALICE, "port", PORT)
    hit = memory.within("users.alice").search("which port?", limit=1)[0]
    assert hit.item.source.startswith("port#") and "8443" in hit.snippet
    assert keys(store.search(ALICE)) == ["port"]
    assert keys(store.search(ALICE, query="a note of another origin")) == ["port"]


def test_secrets_stay_out_as_in_every_memory(store: RehydrateStore) -> None:
    store.put(ALICE, "db", {"url": "postgres://app:hunter2@db/main"})
    assert "hunter2" not in str(store.get(ALICE, "db").value)
    with pytest.raises(InvalidArgumentError, match="looks like a secret"):
        store.put(ALICE, "postgres://app:hunter2@db/main", {"a": 1})


def test_what_it_cannot_do_is_refused(store: RehydrateStore, memory: Memory) -> None:
    with pytest.raises(InvalidNamespaceError):
        store.put((), "k", TEA)
    with pytest.raises(InvalidArgumentError, match="limit is -1"):
        store.search(ALICE, limit=-1)
    with pytest.raises(InvalidArgumentError, match="bound to the namespace 'alice'"):
        RehydrateStore(memory.within("alice"))
    with pytest.raises(InvalidArgumentError, match="fields is 'text'"):
        RehydrateStore(memory, fields="text")
    with pytest.raises(InvalidArgumentError, match="what JSON can say"):
        store.put(ALICE, "k", {"when": {1, 2}})
