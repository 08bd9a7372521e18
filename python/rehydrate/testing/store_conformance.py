"""The checks that every backend of a memory must pass; they need no test framework.

    from rehydrate.testing import check_all

    def test_my_backend(tmp_path):
        check_all(lambda: MyStore(tmp_path / secrets.token_hex(4)))

Each check takes a function that makes an empty store, and raises AssertionError if the store
behaves otherwise. `CHECKS` lists them, so that a test framework can run each as one test.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from rehydrate.errors import (
    InvalidArgumentError,
    RehydrateError,
    StoreClosedError,
    UnknownHandleError,
)
from rehydrate.memory.items import Filters, Link, MemoryItem, Redaction, Vectors
from rehydrate.memory.store import MemoryStore

Make = Callable[[], MemoryStore]

A, B = "alice", "bob"
_DAY = timedelta(days=1)
_START = datetime(2026, 2, 17, 12, 30, 15, 123_000, tzinfo=UTC)


def check_all(make: Make) -> None:
    """Run every check, each on a store of its own."""
    for check in CHECKS:
        check(make)


def check_what_is_added_comes_back_as_it_was(make: Make) -> None:
    """Every field of an item survives, its text byte for byte."""
    store = make()
    target = _add(store, "an older decision")
    whole = MemoryItem(
        "[redacted:jwt] Zeile\r\n\ttab \0 nul שלום 記憶 🧠 e\u0301 \ud800 end ",
        kind="decision",
        tier="cold",
        source="notes/decisions.md",
        thread="s1",
        tool="Read",
        principal="alice@example.org",
        trust=0.25,
        confidence=0.625,
        parents=("mem_x", "turn 7"),
        time=_START,
        expires=datetime(2999, 1, 1, tzinfo=UTC),
        metadata={"a": [1, 2.5, None, True, {"b": "ü"}], "z": 1, "b": 2},
        links=(Link("supersedes", target), Link("explains", target)),
        redactions=(Redaction("jwt", 0, 14),),
    )
    (added,) = store.add([whole], namespace=A)
    found = store.get(added.handle, namespace=A)
    same = (
        *("text", "kind", "tier", "source", "thread", "tool", "principal", "trust"),
        *("confidence", "parents", "time", "expires", "metadata", "redactions"),
    )
    for name in same:
        _equal(getattr(found, name), getattr(whole, name), f"the field {name}")
    _equal(list(found.metadata), list(whole.metadata), "the order of the metadata")
    _equal(set(found.links), set(whole.links), "its links")
    _equal(found.handle, added.handle, "its handle")
    _equal(found.namespace, A, "its namespace")
    _true(found.created is not None, "it says when it was stored")
    back = {Link("supersedes", added.handle), Link("explains", added.handle)}
    _equal(set(store.get(target, namespace=A).linked_from), back, "links seen from the other end")


def check_one_text_of_one_source_is_one_item(make: Make) -> None:
    """Adding again changes nothing; another source or another text is another item."""
    store = make()
    first = store.add([MemoryItem("t", source="a", tier="hot")], namespace=A)[0]
    again = store.add([MemoryItem("t", source="a", tier="cold", kind="x")], namespace=A)[0]
    _equal((first.created, again.created), (True, False), "whether they are new")
    _equal(again.handle, first.handle, "the handle")
    found = store.get(first.handle, namespace=A)
    _equal((found.tier, found.kind), ("hot", "note"), "the item, which was not overwritten")
    others = store.add(
        [MemoryItem("t", source="b"), MemoryItem("t ", source="a"), MemoryItem("t", source="b")],
        namespace=A,
    )
    _equal([one.created for one in others], [True, True, False], "whether the others are new")
    _equal(len({first.handle, *(one.handle for one in others)}), 3, "the number of handles")
    _equal(store.stats(namespace=A).items, 3, "the number of items")


def check_a_batch_is_added_whole_or_not_at_all(make: Make) -> None:
    """An item that cannot be added keeps the others of its batch out too."""
    store = make()
    for relation in ("supersedes", "a word of its own"):
        wrong = MemoryItem("two", links=(Link(relation, "mem_" + "0" * 26),))
        _raises(RehydrateError, partial(store.add, [MemoryItem("one"), wrong], namespace=A))
        _equal(store.list(namespace=A), [], "what is there after a batch that failed")


def check_handles_follow_from_namespace_source_and_text(make: Make) -> None:
    """An export keeps its handles in any store."""
    store, other = make(), make()
    handle = _add(store, "what was said", time=_START)
    item = store.get(handle, namespace=A)
    (added,) = other.add([item], namespace=A)
    _equal(added.handle, handle, "the handle")
    _equal(
        replace(other.get(handle, namespace=A), created=None),
        replace(item, created=None),
        "the item, but for when it was stored",
    )
    _equal(other.add([item], namespace=A)[0].created, False, "whether it is new the second time")


def check_items_are_listed_in_the_order_in_which_they_came(make: Make) -> None:
    """Lists are newest first or oldest first, page after page, no item twice."""
    store = make()
    texts = [f"note {number}" for number in range(2_345)]
    store.add(
        [MemoryItem(text, time=_START - _DAY * n) for n, text in enumerate(texts)], namespace=A
    )
    newest = [item.text for item in store.list(namespace=A, limit=None)]
    oldest = [item.text for item in store.list(namespace=A, limit=None, newest_first=False)]
    _equal(oldest, texts, "all items, the oldest first")
    _equal(newest, texts[::-1], "all items, the newest first")
    _equal(len(store.list(namespace=A)), 100, "a list without a limit of its own")
    _equal([item.text for item in store.list(namespace=A, limit=2)], texts[:-3:-1], "two items")
    _equal(store.list(namespace=A, limit=0), [], "none")


def check_filters_narrow_lists_and_searches(make: Make) -> None:
    """Filters select the right items, each by itself and all together."""
    store = make()
    items = [
        MemoryItem(
            f"apple number {n}",
            tier=("hot", "warm", "cold")[n % 3],
            kind=f"kind{n % 2}",
            source=f"source{n % 5}",
            thread=f"thread{n % 4}",
            trust=n % 7 / 7,
            time=_START + _DAY * (n % 11),
        )
        for n in range(60)
    ]
    store.add(items, namespace=A)
    choices: Sequence[Filters] = (
        {},
        {"tiers": ["hot"]},
        {"tiers": ["hot", "cold"]},
        {"tiers": []},
        {"kinds": ["kind1"]},
        {"kinds": ["none such"]},
        {"sources": ["source1", "source2"]},
        {"threads": ["thread3"]},
        {"after": _START + _DAY * 3},
        {"before": _START + _DAY * 3},
        {"after": _START + _DAY * 3, "before": _START + _DAY * 5},
        {"min_trust": 4 / 7},
        {"tiers": ["warm"], "kinds": ["kind0"], "min_trust": 0.2, "before": _START + _DAY * 9},
    )
    for filters in choices:
        wanted = {item.text for item in items if _is_meant(item, filters)}
        listed = {item.text for item in store.list(namespace=A, limit=None, **filters)}
        _equal(listed, wanted, f"the list with {filters}")
        hits = store.search("apple", 100, namespace=A, **filters)
        _equal({hit.item.text for hit in hits}, wanted, f"the search with {filters}")


def check_what_was_added_is_found_at_once(make: Make) -> None:
    """Items are found by words in any language, by parts of words, and by one or two characters."""
    store = make()
    texts = {
        "The staging server listens on port 8443.": ("staging port", "8443", "STAGING"),
        "Call parse_config_file before anything else.": ("parse_config_file", "config"),
        "השרת של הבדיקות עבר לפורט חדש": ("הבדיקות", "פורט"),
        "記憶は一つのファイルに保存される": ("記憶", "保存", "一"),
        "Der Schlüssel liegt in C# und nicht in Go.": ("Schlüssel", "C#"),
        "x -> y maps are pure": ("->",),
    }
    for text, queries in texts.items():
        handle = _add(store, text)
        for query in queries:
            hits = store.search(query, 10, namespace=A)
            _true(handle in [hit.handle for hit in hits], f"{query!r} finds {text!r}")
    _equal(store.search("", namespace=A), [], "what an empty query finds")
    _equal(store.search("staging", 0, namespace=A), [], "what a search for none finds")


def check_the_best_comes_first_with_a_snippet_of_it(make: Make) -> None:
    """Scores fall; the snippet is part of the text, and about the query."""
    store = make()
    filler = "Nothing of interest happened on this day, and the weather was as ever. "
    long = (
        filler * 40 + "The password of the zebra enclosure is written on the door. " + filler * 40
    )
    store.add(
        [MemoryItem(long), *(MemoryItem(f"{filler}Day {n}.") for n in range(50))], namespace=A
    )
    hits = store.search("zebra enclosure", 5, namespace=A)
    _equal(hits[0].item.text, long, "the best hit")
    _true(hits[0].snippet in long, "the snippet is in the text")
    _true(len(hits[0].snippet) < len(long) / 2, "the snippet is not the whole")
    scores = [hit.score for hit in store.search("the weather of day 7", 20, namespace=A)]
    _true(len(scores) == 20, "there are as many hits as asked for")
    _equal(scores, sorted(scores, reverse=True), "the scores, best first")


def check_recall_gives_the_nearest_of_each_text(make: Make) -> None:
    """A row for each text has at most k entries, the nearest first, 1 for the same text."""
    store = make()
    texts = [
        "The database moved to Postgres last spring.",
        "Anna prefers tea over coffee in the morning.",
        "Deployments happen on Tuesdays only.",
        "The login test fails when the clock is wrong.",
    ]
    handles = [one.handle for one in store.add([MemoryItem(t) for t in texts], namespace=A)]
    rows = store.recall(texts, 3, namespace=A)
    _equal([row[0].handle for row in rows], handles, "the nearest of each text itself")
    for row in rows:
        _true(len(row) <= 3, "no row is longer than k")
        near = [float(one) for one in row]
        _equal(near, sorted(near, reverse=True), "a row, the nearest first")
        _true(near[0] > 0.95, f"the same text is as near as can be, not {near[0]}")
    _equal(store.recall([], 3, namespace=A), [], "the answer for no text")
    _equal(store.recall(texts[:2], 3, namespace=B), [[], []], "what an empty namespace recalls")


def check_forgotten_is_gone(make: Make) -> None:
    """Forgotten items leave every list, search, recall and link; forgetting again counts 0."""
    store = make()
    keep, drop = _add(store, "keep this apple"), _add(store, "drop this pear")
    store.link(keep, "supersedes", drop, namespace=A)
    _equal(store.forget([drop], namespace=A), 1, "how many were forgotten")
    _equal(store.forget(drop, namespace=A), 0, "how many the second time")
    _raises(UnknownHandleError, lambda: store.get(drop, namespace=A))
    _equal([item.handle for item in store.list(namespace=A)], [keep], "what is left")
    found = [hit.handle for hit in store.search("pear", namespace=A)]
    _true(drop not in found, "it is not found")
    recalled = store.recall(["drop this pear"], 3, namespace=A)[0]
    _true(drop not in [one.handle for one in recalled], "it is not recalled")
    _equal(store.get(keep, namespace=A).links, (), "links to it")
    again = store.add([MemoryItem("drop this pear")], namespace=A)[0]
    _equal(again.created, True, "whether it is new when it is added once more")


def check_purging_takes_what_was_named_and_no_more(make: Make) -> None:
    """A purge removes a source, a thread, or all of one namespace."""
    store = make()
    for n in range(6):
        _add(store, f"note {n}", source=f"source{n % 2}", thread=f"thread{n % 3}")
    _add(store, "bob's", namespace=B, source="source0")
    _equal(store.purge(namespace=A, source="source0"), 3, "how many of a source")
    _equal(store.purge(namespace=A, thread="thread0"), 1, "how many of a thread")
    _equal(store.purge(namespace=A, source="none such"), 0, "how many of no source")
    left = sorted(item.text for item in store.list(namespace=A))
    _equal(left, ["note 1", "note 5"], "what is left")
    _equal(store.purge(namespace=A, everything=True), 2, "how many of the rest")
    _equal(store.list(namespace=A), [], "what is left in the end")
    _equal(len(store.list(namespace=B)), 1, "what is in the other namespace")


def check_tiers_can_be_changed(make: Make) -> None:
    """Lists, searches and figures show the new tier."""
    store = make()
    handles = [_add(store, f"apple {n}") for n in range(3)]
    _equal(store.set_tier(handles[:2], "hot", namespace=A), 2, "how many were moved")
    _equal(store.set_tier(handles[0], "hot", namespace=A), 0, "how many, again")
    _equal(store.get(handles[0], namespace=A).tier, "hot", "the tier")
    hot = store.search("apple", namespace=A, tiers=["hot"])
    _equal({hit.handle for hit in hot}, set(handles[:2]), "what is found among the hot")
    stats = store.stats(namespace=A)
    _equal((stats.items, stats.hot, stats.warm, stats.cold), (3, 2, 1, 0), "the figures")


def check_links_are_kept_and_overwrite_nothing(make: Make) -> None:
    """Both items stay unchanged and show the link; an unknown item is an error."""
    store = make()
    old, new = _add(store, "the port is 80"), _add(store, "the port is 443")
    _equal(store.link(new, "contradicts", old, namespace=A), True, "whether the link is new")
    _equal(store.link(new, "contradicts", old, namespace=A), False, "whether it is, again")
    _equal(store.get(new, namespace=A).links, (Link("contradicts", old),), "links of the one")
    _equal(store.get(old, namespace=A).linked_from, (Link("contradicts", new),), "of the other")
    _equal(store.get(old, namespace=A).text, "the port is 80", "the text that was contradicted")
    _equal(store.stats(namespace=A).links, 1, "the number of links")
    nobody = "mem_" + "0" * 26
    _raises(UnknownHandleError, lambda: store.link(new, "contradicts", nobody, namespace=A))


def check_namespaces_know_nothing_of_each_other(make: Make) -> None:
    """Random operations never return an item of another namespace."""
    store = make()
    chance = random.Random(4)
    names = [f"tenant {n}" for n in range(5)]
    vocabulary = [f"word{n}" for n in range(30)]
    for name in names:
        batch = [
            MemoryItem(
                " ".join(chance.choices(vocabulary, k=6)) + f" of {name}", source=f"s{n % 3}"
            )
            for n in range(40)
        ]
        store.add(batch, namespace=name)
    handles = {name: [i.handle for i in store.list(namespace=name, limit=None)] for name in names}
    for name, held in handles.items():
        _equal(len(held), 40, f"the number of items in {name!r}")
    for _ in range(200):
        name, other = chance.sample(names, 2)
        query = " ".join(chance.choices(vocabulary, k=2)) + f" of {other}"
        found = [hit.item for hit in store.search(query, 20, namespace=name)]
        found += store.list(namespace=name, sources=["s1"])
        _true({item.namespace for item in found} <= {name}, f"{query!r} stays in {name!r}")
        _true(all(item.text.endswith(name) for item in found), f"{query!r} stays in {name!r}")
        near = {one.handle for row in store.recall([query], 5, namespace=name) for one in row}
        _true(near <= set(handles[name]), f"recall stays in {name!r}")
        foreign = chance.choice(handles[other])
        own = chance.choice(handles[name])
        _raises(UnknownHandleError, partial(store.get, foreign, namespace=name))
        link = partial(store.link, own, "supersedes", foreign, namespace=name)
        _raises(UnknownHandleError, link)
        _equal(store.forget(foreign, namespace=name), 0, "forgetting another's")
        _equal(store.set_tier(foreign, "hot", namespace=name), 0, "moving another's")
    store.purge(namespace=names[0], everything=True)
    _equal([*store.namespaces()], names[1:], "the namespaces that are left")
    for name in names[1:]:
        _equal(store.stats(namespace=name).items, 40, "the items of the others")


def check_what_has_expired_is_not_found(make: Make) -> None:
    """An expired item is treated as missing."""
    store = make()
    past, future = datetime.now(UTC) - _DAY, datetime.now(UTC) + _DAY
    _add(store, "an apple of the past", expires=past)
    ahead = _add(store, "an apple of the future", expires=future)
    _equal([item.handle for item in store.list(namespace=A)], [ahead], "what is listed")
    _equal([hit.handle for hit in store.search("apple", namespace=A)], [ahead], "what is found")


def check_vectors_of_two_models_are_not_mixed(make: Make) -> None:
    """A namespace holds vectors of one space, if the store holds any."""
    import numpy as np

    store = make()
    one, other = (Vectors(name, np.ones((1, 2), np.float32)) for name in ("one", "other"))
    store.add([MemoryItem("apple")], namespace=A, vectors=one)
    held = store.stats(namespace=A)
    with suppress(InvalidArgumentError):
        store.add([MemoryItem("pear")], namespace=A, vectors=other)
    stats = store.stats(namespace=A)
    _equal((stats.vectors, stats.vector_space), (held.vectors, held.vector_space), "its vectors")


def check_the_store_says_that_it_is_sound(make: Make) -> None:
    """verify, rebuild and figures work, on a full store and on an empty one."""
    store = make()
    _equal(store.verify().ok, True, "an empty store")
    _equal(store.stats(namespace=A).items, 0, "the items of an unknown namespace")
    store.add([MemoryItem(f"apple {n}") for n in range(10)], namespace=A)
    report = store.verify()
    _equal((report.ok, report.items), (True, 10), "a full store")
    _equal(store.rebuild(namespace=A), 10, "the items of the index made anew")
    _equal(store.rebuild(), 10, "the items of all of them")
    _equal(len(store.search("apple", 20, namespace=A)), 10, "what is found afterwards")
    stats = store.stats(namespace=A)
    _true(stats.held_bytes >= 70, "its bytes are at least those of its texts")


def check_a_closed_store_says_so(make: Make) -> None:
    """Closing twice is harmless; any call after it is an error of its own."""
    store = make()
    store.add([MemoryItem("x")], namespace=A)
    store.close()
    store.close()
    _raises(StoreClosedError, lambda: store.add([MemoryItem("y")], namespace=A))
    _raises(StoreClosedError, lambda: store.search("x", namespace=A))


CHECKS: tuple[Callable[[Make], None], ...] = tuple(
    check
    for name, check in list(globals().items())
    if name.startswith("check_") and name != "check_all"
)


def _add(store: MemoryStore, text: str, *, namespace: str = A, **fields: Any) -> str:
    return store.add([MemoryItem(text, **fields)], namespace=namespace)[0].handle


def _is_meant(item: MemoryItem, filters: Filters) -> bool:
    """Return whether the item passes the filters, in plain code."""
    assert item.time is not None
    named = {"tiers": item.tier, "kinds": item.kind, "sources": item.source}
    named["threads"] = item.thread
    wanted: Any = filters
    return (
        all(value in wanted[name] for name, value in named.items() if name in wanted)
        and item.time >= wanted.get("after", item.time)
        and ("before" not in wanted or item.time < wanted["before"])
        and item.trust >= wanted.get("min_trust", 0.0)
    )


def _equal(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        raise AssertionError(f"{what}: {found!r}, where it should be {wanted!r}")


def _true(found: bool, what: str) -> None:
    if not found:
        raise AssertionError(f"it does not hold that {what}")


def _raises(error: type[BaseException], call: Callable[[], object]) -> None:
    try:
        call()
    except error:
        return
    raise AssertionError(f"no {error.__name__} where there should be one")
