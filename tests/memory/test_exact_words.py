"""A search for words that only one item holds finds that item first, among any others."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from rehydrate import Memory
from rehydrate.memory import MemoryItem

PEOPLE = ["Anna", "Boris", "Clara", "Dmitri", "Elena", "Farid", "Grace"]
SERVICES = ["billing", "search", "gateway", "checkout", "ledger"]
SAID = [
    "{p}: thanks, that works for me.",
    "{p}: can you look at the {s} service again?",
    "The {s} service was deployed to staging and all checks passed.",
    "{p} said the {s} dashboard is slow since Monday.",
    "Error rate of {s} in production is back to normal.",
    "{p} prefers tea in the morning and meetings after ten.",
]
SAID_ONCE = [
    "{p}: the customer who reported it is called {u}.",
    "We saw {u} in the logs of {s}.",
    "The {s} service was deployed to staging with {u} and all checks passed.",
    "Please use {u} instead of the old helper in {s}.",
    "{p} is on holiday, ask {q} about {u}.",
]
WORDS = [
    *("zebrafish", "marzipan", "bouzouki", "tarpaulin", "obsidian", "walrus", "zeppelin", "gazebo"),
    *("Kowalski", "Oyelaran", "Thistlewood", "קיפוד", "Übersee", "東京タワー"),
]
LOOKALIKES = [
    pattern.format(1200 + step)
    for pattern in ("token{}", "OPS-{}", "ERR_CONN_{}", "parseRow{}", "user{}@example.org", "v2.{}")
    for step in range(8)
]


def fill(memory: Memory, own: list[str], chance: random.Random) -> dict[str, str]:
    """Add sessions of several sources; return the handle of each text that one item alone holds."""
    threads = []
    for word in own:
        names = {"p": chance.choice(PEOPLE), "q": chance.choice(PEOPLE)}
        names |= {"s": chance.choice(SERVICES), "u": word}
        threads.append((chance.choice(SAID_ONCE).format(**names), word))
    for _ in range(6 * len(own)):
        names = {"p": chance.choice(PEOPLE), "s": chance.choice(SERVICES)}
        place = chance.randrange(len(threads) + 1)
        threads.insert(place, (chance.choice(SAID).format(**names), ""))
    items = [
        MemoryItem(text, source=f"chat/{place % 5}", thread=f"day {place // 40}")
        for place, (text, _) in enumerate(threads)
    ]
    added = memory.add(items)
    return {word: one.handle for one, (_, word) in zip(added, threads, strict=True) if word}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("own", [WORDS, LOOKALIKES], ids=["words", "lookalikes"])
def test_what_one_item_alone_holds_finds_it_first(tmp_path: Path, own: list[str], seed: int):
    chance = random.Random(seed)
    with Memory.open(tmp_path / "memory.db", namespace="a", redact=False) as memory:
        handles = fill(memory, own, chance)
        for word, handle in handles.items():
            for query in (word, word.lower(), f"what is {word}?"):
                hits = memory.search(query, 3)
                assert hits[0].handle == handle, (query, [hit.item.text for hit in hits])
                assert hits[0].score > hits[1].score


def test_one_of_a_long_row_of_lookalikes_is_found_first(tmp_path: Path):
    with Memory.open(tmp_path / "memory.db", namespace="a", redact=False) as memory:
        added = memory.add([f"User token{n} logged in from host {n % 7}" for n in range(400)])
        for n in range(0, 400, 7):
            assert memory.search(f"token{n}", 1)[0].handle == added[n].handle


# A text that ends in a question ranks after one that answers it.


ANSWERS = "The harbour crane has got a green colour, they say."
ASKS = "What of the colour of the harbour crane?"


def first(memory: Memory, *texts: str) -> str:
    memory.add(list(texts), source="talk", namespace="harbour")
    (hit,) = memory.search("colour of the harbour crane", 1, namespace="harbour")
    return hit.item.text


@pytest.mark.parametrize("texts", [(ASKS, ANSWERS), (ANSWERS, ASKS)], ids=["before", "behind"])
def test_who_asks_comes_after_who_answers(tmp_path, texts: tuple[str, str]):
    with Memory.open(tmp_path / "m.db") as memory:
        assert first(memory, *texts) == ANSWERS


def test_without_the_question_mark_the_nearer_words_come_first(tmp_path):
    with Memory.open(tmp_path / "m.db") as memory:
        assert first(memory, ASKS.replace("?", "."), ANSWERS) == ASKS.replace("?", ".")


# A query of one or two characters finds the same items as a scan of every text.


TEXTS = st.text(st.sampled_from("abAB12 .-#+>שלום記憶存のドé"), min_size=1, max_size=12)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    path: Path = tmp_path_factory.mktemp("short") / "memory.db"
    with Memory.open(path) as memory:
        yield memory


@settings(max_examples=60)
@given(texts=st.lists(TEXTS, min_size=1, max_size=12, unique=True), data=st.data())
def test_whatever_holds_the_characters_is_found(
    store: Memory, texts: list[str], data: st.DataObject
):
    memory = store.within("one")
    memory.purge(everything=True)
    memory.add(texts)
    text = data.draw(st.sampled_from(texts))
    start = data.draw(st.integers(0, len(text) - 1))
    query = text[start : start + data.draw(st.integers(1, 2))].strip()
    if query:
        found = {hit.item.text for hit in memory.search(query, 100)}
        assert {text for text in texts if query.lower() in text.lower()} <= found
