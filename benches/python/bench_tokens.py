"""Counting and tokenising the texts of a session, one thread, against tiktoken and tokenizers."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from benches.python import peers
from benches.python.inputs import generated_session, recorded_session, texts_of
from benches.report.size import SIZE
from rehydrate import _native

ENCODINGS = ("o200k_base", "cl100k_base")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return texts_of(recorded_session() or generated_session())


@pytest.mark.parametrize("encoding", ENCODINGS)
def bench_rehydrate(benchmark: Any, texts: list[str], encoding: str) -> None:
    """Count every text again; the thread has counted before, as a server's has."""
    _measure(
        benchmark,
        texts,
        lambda: sum(_native.count(text, encoding) for text in texts),
        rounds=SIZE.count_rounds,
    )


@pytest.mark.parametrize("encoding", ENCODINGS)
def bench_rehydrate_fresh_thread(benchmark: Any, texts: list[str], encoding: str) -> None:
    """Count every text on a thread that has never counted: its cache of words is empty."""

    def count() -> int:
        counted: list[int] = []
        thread = Thread(
            target=lambda: counted.append(sum(_native.count(text, encoding) for text in texts))
        )
        thread.start()
        thread.join()
        return counted[0]

    _measure(benchmark, texts, count, rounds=SIZE.count_rounds)


@pytest.mark.parametrize("encoding", ENCODINGS)
def bench_tiktoken(benchmark: Any, texts: list[str], encoding: str) -> None:
    """Count with tiktoken, text by text."""
    encode = peers.encoding(encoding).encode_ordinary
    _measure(
        benchmark,
        texts,
        lambda: sum(len(encode(text)) for text in texts),
        rounds=SIZE.peer_rounds,
    )


def bench_tokenizers_wordpiece(
    benchmark: Any, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Count with the `tokenizers` package's WordPiece, text by text; ours is in the Rust bench."""
    monkeypatch.setitem(os.environ, "TOKENIZERS_PARALLELISM", "false")
    encode = peers.wordpiece().encode
    _measure(
        benchmark,
        texts,
        lambda: sum(len(encode(t, add_special_tokens=False).ids) for t in texts),
        rounds=SIZE.peer_rounds,
    )


def _measure(benchmark: Any, texts: list[str], work: Callable[[], int], rounds: int) -> None:
    tokens = benchmark.pedantic(work, setup=_native.clear_cache, rounds=rounds, warmup_rounds=1)
    benchmark.extra_info |= {"tokens": tokens, "bytes": sum(len(text.encode()) for text in texts)}
