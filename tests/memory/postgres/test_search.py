"""Search on the server: candidates, the contract's statement, hostile text."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rehydrate import Embedder, Memory
from rehydrate._native import read_server_text, server_text
from rehydrate.memory import MemoryItem

pytest.importorskip("psycopg")

SERVER_ONLY = 1
"""Bytes for indexes in this process: no namespace fits."""
PORTS = ["staging", "billing", "search", "gateway", "checkout", "reports", "mail", "login"]
HOSTILE = [
    "'; DROP TABLE memory_chunks; --",
    "a NUL \0 in it",
    "\x1a0000 is written like an escape",
    "%s %(name)s {braces} $1 $$ \\ 'quotes' \"double\"",
    "& | ! <-> ( ) : * 'unbalanced",
    "lone \ud800 surrogate",
    "a\u0000\u001a\udfffb",
    "100% of _ and \\% patterns",
    "שלום עולם 記憶 🧠",
]


def _services(number: int) -> list[str]:
    return [
        f"The {PORTS[n % 8]} server number {n} listens on port {8000 + n} since release {n % 13}."
        for n in range(number)
    ]


def test_the_servers_candidates_hold_what_an_index_finds(opened: Callable[..., Memory]):
    held = opened(namespace="a")
    held.add(_services(600), source="notes")
    server = opened(namespace="a", index_bytes=SERVER_ONLY)
    for number in range(0, 600, 37):
        query = f"which port does the {PORTS[number % 8]} server number {number} use?"
        best = held.search(query)[0].item.text
        assert f"port {8000 + number} " in best
        assert server.search(query)[0].item.text == best
    assert server.search("8123")[0].item.text == _services(124)[-1]
    assert "81" in server.search("ort 8123 sinc")[0].item.text


def test_large_and_small_namespaces_filter_alike(opened: Callable[..., Memory]):
    held = opened(namespace="a")
    held.add(
        [
            MemoryItem(text, kind=f"kind{n % 3}", source=f"s{n % 5}", thread=f"t{n % 4}", trust=0.5)
            for n, text in enumerate(_services(200))
        ]
    )
    server = opened(namespace="a", index_bytes=SERVER_ONLY)
    for filters in (
        {"kinds": ["kind1"]},
        {"sources": ["s2", "s3"]},
        {"threads": ["t0"]},
        {"min_trust": 0.6},
        {"tiers": ["hot"]},
        {"kinds": ["kind1"], "sources": ["s1"]},
    ):
        found = [
            {hit.handle for hit in memory.search("server", 300, **filters)}
            for memory in (held, server)
        ]
        wanted = {item.handle for item in held.list(limit=None, **filters)}
        assert found == [wanted, wanted], filters


def test_the_contracts_statement_weighs_words_trigrams_and_meaning(opened: Callable[..., Memory]):
    memory = opened(namespace="a")
    memory.add([*_services(50), "Lunch was at noon."])
    hits = memory.search("checkout server number 12", fusion="weighted")
    assert hits[0].item.text == _services(13)[12]
    for hit in hits:
        meaning = 0.0 if hit.cosine is None else 0.2 * hit.cosine
        assert hit.score == pytest.approx(0.5 * hit.text + 0.3 * hit.trigram + meaning, abs=1e-4)
    assert memory.search("zzzz qqqq", fusion="weighted") == []


def test_a_namespace_has_its_language(opened: Callable[..., Memory]):
    german = opened(namespace="de", language="german")
    german.add("Die Häuser stehen am Fluss.")
    english = opened(namespace="en")
    english.add("Die Häuser stehen am Fluss.")
    assert german.search("Haus", fusion=(1, 0, 0)) or german.search("Haus", fusion="weighted")
    assert german.search("Haus", fusion="weighted")
    assert not english.search("Haus", fusion="weighted")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_comes_back_as_it_was(opened: Callable[..., Memory], text: str):
    memory = opened(namespace="a", index_bytes=SERVER_ONLY, redact=False)
    metadata = {"text": text.encode("utf-8", "replace").decode()}
    (added,) = memory.add(text, metadata=metadata)
    assert memory.get(added.handle).text == text
    assert memory.get(added.handle).metadata == metadata
    for fusion in (None, "weighted", "reciprocal_rank"):
        for hit in memory.search(text, fusion=fusion):
            assert hit.item.text == text
    assert memory.recall([text]) is not None
    assert memory.verify().ok
    assert read_server_text(server_text(text)) == text


def test_a_text_of_megabytes_is_kept_and_found(opened: Callable[..., Memory]):
    memory = opened(namespace="a", index_bytes=SERVER_ONLY, redact=False)
    words = " ".join(f"word{number}" for number in range(200_000))
    text = f"the zebra enclosure {words} and the pangolin at its end"
    assert len(text) > 2_000_000  # an index of words takes one
    (added,) = memory.add(text)
    memory.add("something else")
    assert memory.get(added.handle).text == text
    assert memory.search("zebra enclosure")[0].handle == added.handle
    assert len(memory.search("zebra enclosure")[0].snippet) < 2_000


def test_who_writes_elsewhere_is_seen_at_once(opened: Callable[..., Memory]):
    one, other = opened(namespace="a"), opened(namespace="a")
    handles = []
    for number in range(30):
        (added,) = one.add(f"apple number {number}")
        handles.append(added.handle)
        assert other.search(f"apple number {number}")[0].handle == added.handle
    one.forget(handles[::2])
    assert {hit.handle for hit in other.search("apple", 50)} == set(handles[1::2])
    one.set_tier(handles[1], "cold")
    assert [hit.handle for hit in other.search("apple", 50, tiers=["cold"])] == [handles[1]]
    one.purge(everything=True)
    assert other.search("apple") == []
    one.add("apple number 1")  # as long a history as before, and another one
    assert len(other.search("apple")) == 1
    assert len(other.recall(["apple number 1"])[0]) == 1


def test_vectors_of_an_embedder_are_ranked_by(opened: Callable[..., Memory]):
    def embed(texts: list[str]) -> np.ndarray:
        rows = np.zeros((len(texts), 384), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[len(text) % 384] = 1
        return rows

    memory = opened(namespace="a", embedder=Embedder(embed, space="length"))
    memory.add(["x" * 7, "yy" * 20, "zz zz zz"])
    assert float(memory.recall(["1234567"])[0][0]) == pytest.approx(1)
    assert memory.get(memory.recall(["1234567"])[0][0].handle).text == "x" * 7
    assert memory.stats().vectors == 3
    assert memory.drop_vectors() == 3
    assert memory.stats().vectors == 0
    assert memory.rebuild() == 3
    assert memory.stats().vectors == 3


def test_a_large_namespace_recalls(opened: Callable[..., Memory]):
    opened(namespace="a").add(_services(300))
    server = opened(namespace="a", index_bytes=SERVER_ONLY)
    texts = _services(40)
    found = server.recall(texts)
    if server.degraded:  # then by the words that texts share
        assert "CREATE EXTENSION vector" in server.degraded[0]
    right = sum(
        server.get(row[0].handle).text == text for row, text in zip(found, texts, strict=True)
    )
    assert right >= 38
    assert all(float(row[0]) <= 1.01 for row in found)


def test_a_statement_that_takes_too_long_is_a_busy_store(postgres: str):
    from rehydrate.errors import StoreBusyError
    from rehydrate.memory.postgres import PostgresStore

    store = PostgresStore(postgres, statement_seconds=0.2)
    with pytest.raises(StoreBusyError, match=r"took longer than 0\.2 s"):
        store._connections.read("a", lambda cursor: cursor.execute("SELECT pg_sleep(600)"))
    store.close()


def test_a_small_namespace_among_a_large_one_recalls_its_own(opened: Callable[..., Memory]):
    opened(namespace="large").add(_services(2_000))
    opened(namespace="small").add(_services(50))
    server = opened(namespace="small", index_bytes=SERVER_ONLY)
    found = server.recall(_services(20))
    own = {item.handle for item in server.list(limit=None)}
    assert all(len(row) == 3 for row in found)
    hostile = [
        "& | ! : * ( 'a\\' \\",
        "\0 \ud800",
        "the",
        "",
        "the 'staging' \\ server & number :*",
    ]
    rows = server.recall(hostile)
    assert len(rows) == len(hostile)
    assert rows[-1]
    assert {one.handle for row in [*found, *rows] for one in row} <= own


def test_a_query_of_two_characters_reads_page_by_page(
    opened: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
):
    from rehydrate.memory.postgres import queries

    memory = opened(namespace="a")
    texts = [f"go {n}" if n % 3 else f"a good one {n}" for n in range(60)]
    memory.add(texts)
    whole = [text for text in reversed(texts) if text.startswith("go ")]
    parts = [text for text in reversed(texts) if not text.startswith("go ")]
    read = []

    def scanned(query: str, rows: list[tuple[int, str]], limit: int) -> list[tuple[int, float]]:
        read.append(len(rows))
        return real(query, rows, limit)

    real = queries._native.scanned
    monkeypatch.setattr(queries._native, "scanned", scanned)
    monkeypatch.setattr(queries, "_SCANNED", 7, raising=False)
    for limit in (1, 5, 45, 60):
        found = [hit.item.text for hit in memory.search("go", limit)]
        assert found == [*whole, *parts][:limit]
    assert max(read) == 7
    assert read[0] == 7 and len(read) < 4 * 9  # it ends where enough was found
