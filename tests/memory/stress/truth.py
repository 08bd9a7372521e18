"""Checks of every stress test: all items are there, once, and the index agrees with the rows."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

from rehydrate import Memory
from rehydrate.memory import MemoryItem

_SYLLABLES = [
    *("ba", "de", "fi", "go", "lu", "ma", "ne", "pi", "ro", "su", "ta", "ve", "wi", "xo", "zu"),
    *("kra", "ble", "dri", "sto", "pla"),
]
VOCABULARY = [
    first + second + third
    for first in _SYLLABLES
    for second in _SYLLABLES
    for third in _SYLLABLES[:6]
]
GROUPS = 61
"""Number of shared words; each item holds one of them."""
PROBES = 8
WORDS_ONLY = (1.0, 0.0, 0.0)
"""The fusion of a search whose answer a scan of the texts can predict."""


def name_of(namespace: str, number: int) -> str:
    """Return the word that only this item holds."""
    return f"{namespace}item{number}q"


def group_of(number: int) -> str:
    return VOCABULARY[2_000 + number % GROUPS]


def text_of(namespace: str, number: int) -> str:
    """Return some words, a word shared with few others, and a word of its own."""
    words = [VOCABULARY[(number * 7919 + place * 104_729) % 1_999] for place in range(8)]
    return " ".join([*words, group_of(number), name_of(namespace, number)])


def number_in(text: str) -> int:
    return int(text.rpartition("item")[2].removesuffix("q"))


def listed(memory: Memory, namespace: str) -> dict[int, MemoryItem]:
    """Return all items by number; a doubled one fails."""
    items = memory.list(namespace=namespace, limit=None)
    found = {number_in(item.text): item for item in items}
    assert len(found) == len(items), f"{len(items) - len(found)} items of {namespace!r} twice"
    for number, item in found.items():
        assert item.text == text_of(namespace, number), f"{item.handle} holds {item.text!r}"
        assert item.namespace == namespace
    return found


def check_found(
    memory: Memory,
    namespace: str,
    items: Mapping[int, MemoryItem],
    gone: Iterable[int],
    chance: random.Random,
) -> None:
    """Compare search and recall with a scan of the rows."""
    handles = {item.handle for item in items.values()}
    probes = chance.sample(sorted(items), min(PROBES, len(items)))
    for number in probes:
        word = name_of(namespace, number)
        hits = memory.search(word, 3, namespace=namespace, fusion=WORDS_ONLY)
        found = {hit.handle: hit.item for hit in hits}
        assert items[number].handle in found, f"{word} is in the rows and not in the index"
        assert found[items[number].handle] == items[number]
    for number in chance.sample([*gone], min(PROBES, len([*gone]))):
        word = name_of(namespace, number)
        for hit in memory.search(word, 20, namespace=namespace):
            assert hit.handle in handles, f"{word} was forgotten and finds {hit.item.text!r}"
            assert word not in hit.item.text
    for group in {group_of(number) for number in probes[:3]}:
        wanted = {item.handle for item in items.values() if group in item.text.split()}
        most = len(wanted) + 20
        hits = memory.search(group, most, namespace=namespace, fusion=WORDS_ONLY)
        found = [hit.handle for hit in hits]
        assert len(found) == len(set(found)), f"{group}: an item twice"
        assert set(found) <= handles, f"{group} finds what is not in the rows"
        assert wanted <= set(found), f"{group}: {len(wanted - set(found))} of {len(wanted)} missing"
    texts = [items[number].text for number in probes]
    for number, near in zip(probes, memory.recall(texts, 3, namespace=namespace), strict=True):
        assert len(near) == min(3, len(items)), f"recall gives {len(near)} of {len(items)} items"
        assert {one.handle for one in near} <= handles, "recall finds what is not in the rows"
        cosines = {one.handle: float(one) for one in near}
        best = max(cosines.values())
        own = cosines.get(items[number].handle, 0.0)
        assert own >= best - 0.01, f"item {number} is not nearest to itself: {own}, {best}"
