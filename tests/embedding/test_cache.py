"""The vector cache: stored rows are found under their space, within a limit of bytes."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rehydrate.embedding.cache import VectorCache

ROW_BYTES = 256 + 4 * 4


def row(value: float) -> np.ndarray:
    return np.full(4, value, np.float32)


def test_a_row_is_found_under_its_own_space_only():
    cache = VectorCache()
    cache.put("one", ["text"], [row(1)])
    assert cache.get("one", ["text"])[0].tolist() == [1] * 4
    assert cache.get("two", ["text"]) == [None]
    assert cache.get("one", ["other"]) == [None]


def test_the_least_recently_used_go_first():
    cache = VectorCache(3 * ROW_BYTES)
    cache.put("s", ["a", "b", "c"], [row(1), row(2), row(3)])
    cache.get("s", ["a"])
    cache.put("s", ["d"], [row(4)])
    found = cache.get("s", ["a", "b", "c", "d"])
    assert [known is not None for known in found] == [True, False, True, True]


def test_a_row_of_zeros_is_no_vector_and_is_asked_for_again():
    cache = VectorCache()
    cache.put("s", ["late"], [row(0)])
    assert cache.get("s", ["late"]) == [None]


def test_what_happens_to_an_array_afterwards_does_not_reach_the_cache():
    cache = VectorCache()
    batch = np.ones((2, 4), np.float32)
    cache.put("s", ["a", "b"], batch)
    batch[:] = 7
    (found,) = cache.get("s", ["a"])
    assert found.tolist() == [1] * 4
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 7


def test_any_text_has_a_key():
    cache = VectorCache()
    texts = ["", "\ud800", "\x00", "א", "🙂"]
    cache.put("s", texts, [row(n + 1) for n in range(5)])
    assert [found[0] for found in cache.get("s", texts)] == [1, 2, 3, 4, 5]


def test_it_forgets_everything_when_told():
    cache = VectorCache()
    cache.put("s", ["a"], [row(1)])
    cache.clear()
    assert (len(cache), cache.bytes_held, cache.get("s", ["a"])) == (0, 0, [None])


@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(1, 9)), max_size=60),
    st.integers(0, 5),
)
def test_it_holds_the_latest_rows_and_never_more_than_its_bound(
    puts: list[tuple[str, int]], fits: int
):
    cache = VectorCache(fits * ROW_BYTES)
    latest: dict[str, int] = {}
    for text, value in puts:
        cache.put("s", [text], [row(value)])
        latest.pop(text, None)
        latest[text] = value
        assert cache.bytes_held <= cache.capacity_bytes
        assert cache.bytes_held == len(cache) * ROW_BYTES
    expected = dict(list(latest.items())[max(0, len(latest) - fits) :])
    found = dict(zip("abcdefgh", cache.get("s", list("abcdefgh")), strict=True))
    assert {text: int(r[0]) for text, r in found.items() if r is not None} == expected


def test_threads_may_share_it():
    cache = VectorCache(50 * ROW_BYTES)
    wrong = []

    def work(seed: int) -> None:
        for n in range(300):
            text = f"{(n * seed) % 100}"
            cache.put("s", [text], [row(1 + int(text))])
            (found,) = cache.get("s", [text])
            if found is not None and found[0] != 1 + int(text):
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 3, 7, 11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert cache.bytes_held == len(cache) * ROW_BYTES <= cache.capacity_bytes
