"""Memory, the entry point: namespaces, arguments, errors, embedders, limits of its input."""

from __future__ import annotations

import pickle
import random
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rehydrate
from rehydrate import Embedder, Memory
from rehydrate._native import LocalStore
from rehydrate.embedding.protocol import MAX_DIMENSIONS
from rehydrate.errors import (
    EmbedderError,
    InvalidArgumentError,
    MissingNamespaceError,
    OtherNamespaceError,
    UnknownHandleError,
)
from rehydrate.memory import (
    Link,
    MemoryItem,
    MemoryLimits,
    MemoryStore,
    Recalled,
    Redaction,
    Vectors,
)
from tests.memory.plain import PlainStore


def test_texts_and_items_are_added_one_or_many(memory: Memory):
    assert len(memory.add("one")) == 1
    assert len(memory.add(MemoryItem("two", tier="hot"))) == 1
    added = memory.add(["three", MemoryItem("four")])
    assert [one.created for one in added] == [True, True]
    assert memory.add([]) == []
    memory.add(["five", "six"], kind="preference", source="s", trust=0.5)
    found = memory.list(kinds=["preference"])
    assert [(item.text, item.source, item.trust) for item in found] == [
        ("six", "s", 0.5),
        ("five", "s", 0.5),
    ]


def test_memory_is_a_memory_store_itself(memory: Memory):
    assert isinstance(memory, MemoryStore)


def test_every_call_names_a_namespace(opened: Any):
    memory = opened()
    calls = [
        lambda: memory.add("x"),
        lambda: memory.get("mem_" + "0" * 26),
        memory.list,
        lambda: memory.search("x"),
        lambda: memory.recall(["x"]),
        lambda: memory.forget([]),
        lambda: memory.purge(everything=True),
        lambda: memory.set_tier([], "hot"),
        lambda: memory.link("a", "supersedes", "b"),
        memory.stats,
        memory.hot,
        lambda: memory.sync_folder("."),
        lambda: memory.export_items("x"),
        lambda: memory.import_items("x"),
    ]
    for call in calls:
        with pytest.raises(MissingNamespaceError, match="pass namespace=, or bind one"):
            call()


def test_a_memory_within_a_namespace_refuses_any_other_and_one_opened_with_it_does_not(opened: Any):
    memory = opened()
    alice = memory.within("alice")
    alice.add("hers", namespace="alice")
    for refused in (
        lambda: alice.add("his", namespace="bob"),
        lambda: alice.search("his", namespace="bob"),
        lambda: alice.rebuild(namespace="bob"),
        lambda: alice.within("bob"),
    ):
        with pytest.raises(OtherNamespaceError) as caught:
            refused()
        assert (caught.value.namespace, caught.value.bound) == ("bob", "alice")
    assert alice.within("alice").rebuild() == 1
    opened(namespace="carol").within("dora").add("theirs")
    memory.add("his", namespace="bob")
    assert [item.text for item in alice.list()] == ["hers"]
    assert [item.text for item in memory.list(namespace="bob")] == ["his"]
    assert memory.namespaces() == ["alice", "bob"]
    assert alice.namespaces() == ["alice"]
    alice.close()  # it opened nothing, so it closes nothing
    assert len(memory.list(namespace="alice")) == 1


def test_in_ten_thousand_random_queries_no_item_of_another_tenant_is_found():
    memory = Memory(PlainStore())
    _random_queries(memory, 10_000)


def test_in_random_queries_of_a_file_no_item_of_another_tenant_is_found(tmp_path: Path):
    with Memory.open(tmp_path / "m.db") as memory:
        _random_queries(memory, 2_000)


def _random_queries(memory: Memory, queries: int) -> None:
    chance = random.Random(11)
    tenants = [memory.within(f"tenant {n}") for n in range(6)]
    words = [f"w{n}" for n in range(12)]
    handles: dict[str, list[str]] = {}
    for tenant in tenants:
        texts = {" ".join(chance.choices(words, k=4)) for _ in range(20)}
        handles[str(tenant.namespace)] = [one.handle for one in tenant.add(sorted(texts))]
    for _ in range(queries):
        tenant = chance.choice(tenants)
        own = set(handles[str(tenant.namespace)])
        query = " ".join(chance.choices(words, k=2))
        assert {hit.handle for hit in tenant.search(query, 50)} <= own
        if chance.random() < 0.1:
            assert {near.handle for row in tenant.recall([query]) for near in row} <= own
            foreign = chance.choice(handles[str(chance.choice(tenants).namespace)])
            if foreign not in own:
                with pytest.raises(UnknownHandleError):
                    tenant.get(foreign)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda m: m.add(5), "texts is of type int; pass texts or MemoryItems"),
        (lambda m: m.add([5]), "entry 0 is of type int; pass strings or MemoryItems"),
        (lambda m: m.add("x", colour="red"), "add has no 'colour'; the fields of an item are kind"),
        (lambda m: m.add(MemoryItem("x"), kind="y"), "kind is for bare texts, and entry 0"),
        (lambda m: m.add(""), "text is empty"),
        (lambda m: m.add("x", tier="tepid"), "tier is 'tepid'; choose one of 'hot'"),
        (lambda m: m.add("x", trust=1.5), "trust is 1.5; pass a number from 0 to 1"),
        (lambda m: m.add("x", trust=float("nan")), "trust is nan"),
        (lambda m: m.add("x", confidence=True), "confidence is True"),
        (lambda m: m.add("x", time=datetime(2026, 1, 1)), "pass a datetime with a time zone"),
        (lambda m: m.add("x", parents="mem_1"), "parents is 'mem_1'; pass a tuple"),
        (lambda m: m.add("x", metadata={"a": object()}), "metadata cannot be kept"),
        (lambda m: m.add("x", metadata={1: 2}), "metadata cannot be kept"),
        (lambda m: m.add("x", metadata={"a": float("inf")}), "metadata cannot be kept"),
        (lambda m: m.add("x", links=[5]), "links is [5]; pass Link(relation, handle)"),
        (lambda m: m.add("x", source="\ud800"), "source has a lone surrogate at character 0"),
        (lambda m: m.add("x", namespace=""), "namespace is ''; pass a name"),
        (lambda m: m.search(5), "query is of type int"),
        (lambda m: m.search("x", -1), "limit is -1; pass a whole number from 0 to 10,000"),
        (lambda m: m.search("x", 2.5), "limit is 2.5"),
        (
            lambda m: m.search("x", colours=["red"]),
            "search has no 'colours'; the filters are tiers",
        ),
        (lambda m: m.search("x", tiers=["tepid"]), "tier is 'tepid'"),
        (lambda m: m.search("x", sources="a"), "sources is 'a'; pass a list of strings"),
        (lambda m: m.search("x", kinds=[5]), "kinds holds 5; pass strings"),
        (lambda m: m.search("x", min_trust=7), "min_trust is 7"),
        (lambda m: m.search("x", after="today"), "after is 'today'; pass a datetime"),
        (lambda m: m.search("x", fusion="sum"), "fusion is 'sum'; choose one of 'calibrated'"),
        (lambda m: m.search("x", fusion=(1, 2)), "fusion is (1, 2)"),
        (lambda m: m.search("x", fusion=(0, 0, 0)), "fusion is (0, 0, 0)"),
        (lambda m: m.recall(["x"], k=-1), "k is -1"),
        (lambda m: m.recall(np.ones((2, 3))), "goes by the built-in model"),
        (lambda m: m.list(limit=-1), "limit is -1; pass a whole number from 0 up"),
        (lambda m: m.purge(), "pass source=, thread=, or everything=True"),
        (lambda m: m.purge(source="a", thread="b"), "purge removes one thing"),
        (lambda m: m.purge(everything=1), "purge removes one thing"),
        (lambda m: m.forget(5), "handles is 5"),
        (lambda m: m.get(5), "handles holds 5"),
        (lambda m: m.set_tier([], "tepid"), "tier is 'tepid'"),
        (lambda m: m.link("a", "", "b"), "relation is ''"),
        (lambda m: m.within(None), "namespace is None"),
        (lambda m: m.sync_folder("/nowhere"), "folder is '/nowhere', which isn't a folder"),
        (lambda m: m.sync_folder("/", label=""), "label is ''"),
        (lambda m: Memory.open(""), "path is ''; pass the path of a file"),
        (lambda m: Memory.open("mysql://db/x"), "pass the path of a file"),
        (lambda m: Memory.open("x.db", embedder=5), "embedder is 5"),
        (lambda m: Memory.open("x.db", embedder=None), "embedder is None, but"),
        (lambda m: Memory.open("x.db", embedder=len), "has no name for its vector space"),
        (lambda m: Memory.open("x.db", limits=5), "limits is 5"),
        (lambda m: MemoryLimits(max_items=0), "max_items is 0"),
        (lambda m: MemoryLimits(max_age_days=-1), "max_age_days is -1"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value_and_the_remedy(
    call: Any, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    memory = Memory(PlainStore(), namespace="alice")
    with pytest.raises((InvalidArgumentError, TypeError)) as raised:
        call(memory)
    assert says in f"{type(raised.value).__name__}: {raised.value}"
    assert list(tmp_path.iterdir()) == []
    assert memory.list() == []


def test_times_are_kept_in_utc_to_the_millisecond():
    moment = datetime(2026, 2, 17, 1, 2, 3, 456_789, tzinfo=timezone(timedelta(hours=2)))
    item = MemoryItem("x", time=moment)
    assert item.time == datetime(2026, 2, 16, 23, 2, 3, 456_000, tzinfo=UTC)
    assert item.time is not None
    assert item.time.tzinfo is UTC


def test_filters_tell_times_within_a_millisecond(memory: Memory):
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    memory.add("an item", time=moment)
    later = moment + timedelta(microseconds=500)
    end = datetime.max.replace(tzinfo=UTC)
    for before, after, count in [
        *((later, None, 1), (moment, None, 0), (None, later, 0), (None, moment, 1)),
        *((end, None, 1), (None, end, 0)),
    ]:
        assert len(memory.list(before=before, after=after)) == count
        assert len(memory.search("item", before=before, after=after)) == count


def test_items_that_are_not_trusted_enough_take_no_place_of_others(memory: Memory):
    # Both are the same step of an index.
    memory.add([f"the violin costs eight hundred {at}" for at in range(50)], trust=0.5)
    memory.add([f"the violin and lunch {at} of many more words" for at in range(5)], trust=0.502)
    hits = memory.search("the violin costs eight hundred", 5, min_trust=0.502)
    assert [hit.item.trust for hit in hits] == [0.502] * 5
    assert len(memory.search("the violin costs eight hundred", 9, min_trust=0.502)) == 5


def test_items_are_values(memory: Memory):
    item = MemoryItem("x", links=[["supersedes", "mem_1"]], redactions=[("jwt", 0, 1)])  # type: ignore[arg-type]
    assert item.links == (Link("supersedes", "mem_1"),)
    assert item.redactions == (Redaction("jwt", 0, 1),)
    assert pickle.loads(pickle.dumps(item)) == item
    assert hash(item) == hash(MemoryItem("x", links=item.links, redactions=item.redactions))
    (added,) = memory.add("y", metadata={"a": 1})
    found = memory.get(added.handle)
    assert pickle.loads(pickle.dumps(found)) == found


def test_an_item_that_was_read_can_be_added_elsewhere(opened: Any):
    first, second = opened(namespace="a"), opened(namespace="b")
    (added,) = first.add("x", kind="k", parents=("p",))
    item = first.get(added.handle)
    (copy,) = second.add(item)
    assert second.get(copy.handle).kind == "k"
    assert second.get(copy.handle).namespace == "b"


class Flaky:
    """A model that can be made to fail."""

    space = "flaky-v1"

    def __init__(self) -> None:
        self.fails = False
        self.asked: list[list[str]] = []

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.asked.append(texts)
        if self.fails:
            raise ConnectionError("no route to host")
        return [
            [1.0 + text.count("zebra") * 9, 1.0 + text.count("apple") * 9, 1.0] for text in texts
        ]


def test_vectors_of_an_embedder_are_handed_to_the_store():
    seen: list[Any] = []

    class Seeing(PlainStore):
        def add(self, items: Any, *, namespace: str, vectors: Any = None) -> Any:
            seen.append(vectors)
            return super().add(items, namespace=namespace, vectors=vectors)

        def search(self, *args: Any, vectors: Any = None, **options: Any) -> Any:
            seen.append(vectors)
            return super().search(*args, **options)

        def recall(self, texts: Any, k: int = 3, *, namespace: str, vectors: Any = None) -> Any:
            seen.append(vectors)
            return [[Recalled("mem_0", 1.0)] for _ in vectors.rows]

    memory = Memory(Seeing(), namespace="a", embedder=Embedder(Flaky(), space="flaky-a"))
    memory.add(["a zebra", "an apple", "password=hunter22"])
    memory.search("zebra")
    memory.recall(["zebra", "apple"])
    memory.recall(np.eye(3, dtype=np.float32))
    assert [vectors.space for vectors in seen] == ["flaky-a"] * 4
    assert [vectors.rows.shape for vectors in seen] == [(3, 3), (1, 3), (2, 3), (3, 3)]
    assert np.linalg.norm(seen[0].rows, axis=1) == pytest.approx(np.ones(3), abs=1e-6)
    assert memory.degraded == ()


def test_an_embedder_never_sees_a_secret():
    model = Flaky()
    memory = Memory(PlainStore(), namespace="a", embedder=Embedder(model, space="flaky-b"))
    memory.add("password=hunter22 opens the zebra house")
    assert model.asked == [["password=[redacted:password] opens the zebra house"]]


def test_an_embedder_that_fails_is_done_without_and_that_is_said(opened: Any):
    model = Flaky()
    model.fails = True
    memory = opened(namespace="a", embedder=Embedder(model, space="flaky-c"))
    (added,) = memory.add("the zebra house")
    assert not added.embedded
    assert memory.get(added.handle).text == "the zebra house"
    assert [hit.handle for hit in memory.search("zebra house")] == [added.handle]
    assert [near.handle for near in memory.recall(["zebra"])[0]] == [added.handle]
    assert "embedder: ConnectionError; 1 of 1" in memory.degraded[0]
    assert "found without it until rebuild()" in memory.degraded[0]
    assert memory.stats().degraded == memory.degraded


def test_a_tenant_is_told_of_troubles_in_its_own_namespace_only(tmp_path: Path):
    model = Flaky()
    path = tmp_path / "m.db"
    with Memory.open(path, embedder=Embedder(model, space="flaky-g")) as memory:
        memory.add("a zebra", namespace="alice")
    with Memory.open(path, embedder=Embedder(model, space="flaky-h")) as memory:
        alice, bob = memory.within("alice"), memory.within("bob")
        alice.search("zebra")
        model.fails = True
        bob.search("apple")
        (of_alice,), (of_bob,) = alice.degraded, bob.degraded
        assert "namespace 'alice' holds vectors of 'flaky-g'" in of_alice
        assert "ConnectionError" in of_bob
        assert memory.degraded == (of_alice, of_bob)
        for name, own in (("alice", of_alice), ("bob", of_bob)):
            assert memory.within(name).stats().degraded == (own,)
            assert memory.stats(namespace=name).degraded == (own,)
        assert memory.within("carol").degraded == memory.stats(namespace="carol").degraded == ()


def test_signs_find_what_holds_them_first_with_any_embedder(opened: Any):
    def embed(texts: list[str]) -> list[list[float]]:
        return [[1.0, float("arrow" in text or "program" in text)] for text in texts]

    memory = opened(namespace="a", embedder=Embedder(embed, space="signs"))
    memory.add(["the violin costs eight hundred", "this has -> an arrow", "a C# program"])
    for query, held in [("->", "this has -> an arrow"), ("c#", "a C# program")]:
        hits = memory.search(query, 3)
        scores = [hit.score for hit in hits]
        assert hits[0].item.text == held
        assert scores == sorted(scores, reverse=True)
        assert len({hit.handle for hit in hits}) == len(hits)


@pytest.mark.parametrize("broken", [float("nan"), 0.0])
def test_a_text_whose_vector_is_broken_is_recalled_by_its_words(opened: Any, broken: float):
    def embed(texts: list[str]) -> list[list[float]]:
        return [[broken] * 3 if "bad" in text else [1.0, len(text), 1.0] for text in texts]

    memory = opened(namespace="a", embedder=Embedder(embed, space=f"broken-{broken}"))
    memory.add(["the violin costs eight hundred", "lunch was at noon", "staging listens on 8443"])
    texts = ["bad violin costs", "lunch was at noon", " "]
    alone, together = memory.recall(texts[:1])[0], memory.recall(texts)[0]
    assert alone
    assert together == alone
    assert memory.get(together[0].handle).text == "the violin costs eight hundred"
    assert "1 of 3 texts without a vector, compared by the built-in model" in memory.degraded[-1]


def test_a_rebuild_gives_vectors_to_what_has_none(tmp_path: Path):
    model = Flaky()
    options: dict[str, Any] = {
        "namespace": "a",
        "embedder": Embedder(model, space="flaky-d", failures_to_open=99),
    }
    with Memory.open(tmp_path / "m.db", **options) as memory:
        model.fails = True
        handles = [one.handle for one in memory.add(["the zebra", "the apple"])]
        model.fails = False
        assert memory.stats().vectors == 0
        assert memory.recall(np.eye(3, dtype=np.float32)) == [[], [], []]
        assert memory.rebuild() == 2
        assert [row[0].handle for row in memory.recall(["zebra", "apple"], k=1)] == handles
        assert memory.stats().vectors == 2


def test_vectors_of_two_models_are_never_compared(tmp_path: Path):
    path = tmp_path / "m.db"
    with Memory.open(path, namespace="a", embedder=Embedder(Flaky(), space="flaky-e")) as memory:
        memory.add("the zebra")
        assert len(memory.recall(["zebra"])[0]) == 1
    with Memory.open(path, namespace="a", embedder=Embedder(Flaky(), space="flaky-f")) as memory:
        assert [len(row) for row in memory.recall(["zebra"])] == [1]
        assert not memory.add("a second zebra")[0].embedded
        assert memory.recall(np.eye(3, dtype=np.float32)) == [[], [], []]
        assert "holds vectors of 'flaky-e'; the built-in model does" in memory.degraded[0]
        assert memory.stats().vectors == 1
        memory.export_items(tmp_path / "all.jsonl")
        memory.purge(everything=True)
        memory.import_items(tmp_path / "all.jsonl")
        assert len(memory.recall(["zebra"])[0]) == 2
        assert memory.stats().vector_space == "flaky-f"


def test_a_near_memory_can_be_used_as_a_number(memory: Memory):
    memory.add("The zebra house is open on Tuesdays.")
    ((near, *_),) = memory.recall("The zebra house is open on Tuesdays.")
    assert float(near) == near.similarity > 0.9


def test_the_core_is_hot_in_the_order_it_came(memory: Memory):
    memory.add(["first rule", "second rule"], tier="hot")
    memory.add("not a rule")
    hot = memory.hot()
    assert (hot.text, hot.lines, len(hot.handles)) == ("first rule\nsecond rule", 2, 2)
    assert rehydrate.Memory.hot.__doc__


def wide(texts: list[str]) -> Any:
    return np.ones((len(texts), MAX_DIMENSIONS + 1), np.float32)


def test_vectors_of_too_many_dimensions_are_refused_wherever_they_come_in(tmp_path: Path):
    embedder = Embedder(wide, space="wide", failures_to_open=99)
    too_many = r"8,193 dimensions, the limit is 8,192; ask the model for fewer"
    with pytest.raises(EmbedderError, match=too_many):
        embedder.embed(["a"])
    with Memory.open(tmp_path / "m.db", namespace="a", embedder=embedder) as memory:
        # A model that does not fit counts as failed: an added item is stored, and found.
        (added,) = memory.add("the zebra house")
        assert not added.embedded
        assert [hit.handle for hit in memory.search("zebra house")] == [added.handle]
        assert re.search(too_many, memory.degraded[0])
        rows = wide(["the horse"])
        for refused in (
            lambda: memory.add("the horse", vectors=Vectors("wide", rows)),
            lambda: memory.search("the horse", vectors=Vectors("wide", rows)),
            lambda: memory.recall(rows),
        ):
            with pytest.raises(InvalidArgumentError, match=r"8193 components, the limit is 8192;"):
                refused()
        assert memory.stats().items == 1


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "1 GB", None, True, 2**63])
def test_a_bound_of_index_bytes_that_is_invalid_is_refused(tmp_path: Path, wrong: Any):
    with pytest.raises(InvalidArgumentError, match=r"index_bytes is .*; pass a whole number"):
        Memory.open(tmp_path / "m.db", index_bytes=wrong)
    assert not (tmp_path / "m.db").exists()


def test_a_memory_whose_indexes_never_fit_their_bound_finds_all_the_same(tmp_path: Path):
    with Memory.open(tmp_path / "m.db", index_bytes=1) as memory:
        for turn in range(3):
            for name in ("a", "b"):
                memory.add(f"turn {turn} of {name}", namespace=name)
                found = memory.search(f"turn {turn}", 1, namespace=name)
                assert [hit.item.text for hit in found] == [f"turn {turn} of {name}"]


@pytest.mark.parametrize("what", ["namespace", "source", "kind", "thread", "handle", "query"])
def test_half_a_surrogate_pair_in_a_name_is_a_typed_error(opened, what: str):
    half = "a\ud83d"
    memory = opened(namespace="a")
    memory.add("the port is 8443", source="notes")
    calls = {
        "namespace": lambda: (memory.list(namespace=half), memory.search("x", namespace=half)),
        "source": lambda: (memory.search("x", sources=[half]), memory.purge(source=half)),
        "kind": lambda: memory.list(kinds=[half]),
        "thread": lambda: (memory.list(threads=[half]), memory.purge(thread=half)),
        "handle": lambda: (memory.get(half),),
        "query": lambda: memory.search(half),
    }
    try:
        calls[what]()
    except (InvalidArgumentError, UnknownHandleError):
        assert what != "query"
    assert len(memory.list()) == 1
    assert memory.search("port")[0].item.source == "notes"


@pytest.mark.parametrize("shape", [(2, 8), (8, 2), (4, 0), (1, 4, 4), (16,)])
def test_vectors_need_a_row_for_each_text_at_every_door(tmp_path: Path, shape: tuple[int, ...]):
    texts = ["a note on tea", "a note on figs", "a note on rain", "a note on ink"]
    vectors = Vectors("letters", np.ones(shape, np.float32))
    with Memory.open(tmp_path / "m.db", namespace="a") as memory:
        store = LocalStore(tmp_path / "m.db", limits=MemoryLimits())
        handles = [one.handle for one in memory.add(texts)]
        for refused in (
            lambda: memory.add([f"{text} again" for text in texts], vectors=vectors),
            lambda: memory.search("tea", vectors=Vectors("letters", np.ones((2, 4), np.float32))),
            lambda: memory.recall(texts, vectors=vectors),
            lambda: store.set_vectors(handles, vectors, namespace="a"),
        ):
            with pytest.raises(InvalidArgumentError, match=r"vectors h(old|ave) .*; (give|pass)"):
                refused()
        assert (memory.stats().items, memory.stats().vector_space) == (4, None)
        store.close()
