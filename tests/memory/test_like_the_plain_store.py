"""After any operations, the file and the plain reference store hold the same."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rehydrate import RehydrateError
from rehydrate._native import LocalStore
from rehydrate.memory import MemoryItem, MemoryLimits
from rehydrate.memory.items import TIERS
from tests.memory.plain import PlainStore

MOMENT = datetime(2026, 2, 17, tzinfo=UTC)
NAMESPACES = st.sampled_from(["alice", "bob"])
WORDS = st.sampled_from(["apple", "zebra", "שלום", "記憶", "port 8443", "x->y"])
ITEMS = st.builds(
    MemoryItem,
    st.lists(WORDS, min_size=1, max_size=3).map(" ".join),
    source=st.sampled_from(["", "a", "b"]),
    thread=st.sampled_from(["", "s"]),
    kind=st.sampled_from(["note", "decision"]),
    tier=st.sampled_from(TIERS),
    trust=st.sampled_from([0.0, 0.5, 1.0]),
    time=st.just(MOMENT),
)
RELATIONS = st.sampled_from(["supersedes", "explains"])
Key = tuple[str, str]


class BothStores(RuleBasedStateMachine):
    """Makes each call on both stores; items are matched by source and text, not by handle."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.file = LocalStore(f"{self.folder.name}/m.db", limits=MemoryLimits())
        self.plain = PlainStore()
        self.stores: tuple[Any, Any] = (self.file, self.plain)

    def teardown(self) -> None:
        self.file.close()
        self.folder.cleanup()

    def handle_in(self, store: Any, namespace: str, key: Key) -> str:
        items = store.list(namespace=namespace, limit=None)
        return next(item.handle for item in items if (item.source, item.text) == key)

    def both(self, call: Callable[[Any], Any]) -> None:
        """Call each store; the answers or errors must be the same."""
        answers = []
        for store in self.stores:
            try:
                answers.append(call(store))
            except RehydrateError:
                answers.append("refused")
        assert answers[0] == answers[1]

    @rule(namespace=NAMESPACES, items=st.lists(ITEMS, max_size=5))
    def add(self, namespace: str, items: list[MemoryItem]) -> None:
        self.both(lambda store: [one.created for one in store.add(items, namespace=namespace)])

    @rule(namespace=NAMESPACES, data=st.data())
    def forget(self, namespace: str, data: st.DataObject) -> None:
        if key := self.some(namespace, data):
            self.both(
                lambda store: store.forget(
                    [self.handle_in(store, namespace, key)], namespace=namespace
                )
            )

    @rule(namespace=NAMESPACES, data=st.data(), tier=st.sampled_from(TIERS))
    def set_tier(self, namespace: str, data: st.DataObject, tier: Any) -> None:
        if key := self.some(namespace, data):
            self.both(
                lambda store: store.set_tier(
                    self.handle_in(store, namespace, key), tier, namespace=namespace
                )
            )

    @rule(namespace=NAMESPACES, data=st.data(), relation=RELATIONS)
    def link(self, namespace: str, data: st.DataObject, relation: str) -> None:
        start, end = self.some(namespace, data), self.some(namespace, data)
        if start and end and start != end:
            self.both(
                lambda store: store.link(
                    self.handle_in(store, namespace, start),
                    relation,
                    self.handle_in(store, namespace, end),
                    namespace=namespace,
                )
            )

    @rule(namespace=NAMESPACES, what=st.sampled_from(["source", "thread", "everything"]))
    def purge(self, namespace: str, what: str) -> None:
        name = {"source": "a", "thread": "s", "everything": True}[what]
        self.both(lambda store: store.purge(namespace=namespace, **{what: name}))

    @rule(namespace=NAMESPACES, query=WORDS)
    def search(self, namespace: str, query: str) -> None:
        """Both stores find items with the words; search by meaning may find more."""
        found = []
        for store in self.stores:
            hits = store.search(query, 500, namespace=namespace)
            found.append({(hit.item.source, hit.item.text) for hit in hits})
        holds = {key for key in self.keys(namespace) if query in key[1]}
        assert holds <= found[0]
        assert found[0] <= set(self.keys(namespace))

    @rule()
    def reopen(self) -> None:
        self.file.close()
        self.file = LocalStore(f"{self.folder.name}/m.db", limits=MemoryLimits())
        self.stores = (self.file, self.plain)

    @invariant()
    def both_hold_the_same(self) -> None:
        for namespace in ("alice", "bob"):
            held = [self.held(store, namespace) for store in self.stores]
            assert held[0] == held[1]
        assert self.file.namespaces() == self.plain.namespaces()

    def held(self, store: Any, namespace: str) -> list[Any]:
        items = store.list(namespace=namespace, limit=None, newest_first=False)
        name = {item.handle: (item.source, item.text) for item in items}
        return [
            (
                *(item.text, item.source, item.thread, item.kind, item.tier, item.trust),
                sorted((link.relation, name[link.handle]) for link in item.links),
                sorted((link.relation, name[link.handle]) for link in item.linked_from),
            )
            for item in items
        ]

    def keys(self, namespace: str) -> list[Key]:
        items = self.plain.list(namespace=namespace, limit=None)
        return sorted((item.source, item.text) for item in items)

    def some(self, namespace: str, data: st.DataObject) -> Key | None:
        keys = self.keys(namespace)
        return data.draw(st.sampled_from(keys)) if keys else None


TestBothStores = BothStores.TestCase
TestBothStores.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
