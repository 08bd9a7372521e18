"""One compaction end to end, from dicts to dicts, compared with today's usual tools."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

import rehydrate
from benches.python import peers
from benches.python.inputs import (
    QUERY,
    RATIO,
    Message,
    as_entry,
    generated_session,
    next_turn,
    recorded_session,
    texts_of,
)
from benches.report.size import SIZE
from rehydrate import _native, formats
from rehydrate.retention.baselines import to_langchain, trim

PROFILES = ("chitta", "balanced")


@pytest.fixture(scope="module", params=["305 units", "recorded"])
def session(request: pytest.FixtureRequest) -> list[Message]:
    """A session of the size that the targets are for, and the smaller one we recorded."""
    found = generated_session() if request.param == "305 units" else recorded_session()
    if found is None:
        pytest.skip("examples/session.jsonl is not there")
    return found


@pytest.fixture(autouse=True)
def _empty_cache() -> Iterator[None]:
    _native.clear_cache()
    yield
    _native.clear_cache()


@pytest.mark.parametrize("query", [None, QUERY], ids=["no query", "query"])
@pytest.mark.parametrize("scoring", PROFILES)
def bench_cold(benchmark: Any, session: list[Message], scoring: str, query: str | None) -> None:
    """Time a call on a conversation that was never seen before."""
    kept = benchmark.pedantic(
        rehydrate.compact_context,
        setup=_native.clear_cache,
        args=(session, query, RATIO),
        kwargs={"scoring": scoring},
        rounds=SIZE.cold_rounds,
        warmup_rounds=2,
    )
    benchmark.extra_info |= {
        "units": kept.stats.units,
        "tokens": kept.stats.before_tokens,
        "kept_tokens": kept.stats.after_tokens,
        "bytes": sum(len(text.encode()) for text in texts_of(session)),
        "embedding": kept.stats.embedding,
    }


@pytest.mark.parametrize("query", [None, QUERY], ids=["no query", "query"])
@pytest.mark.parametrize("scoring", PROFILES)
def bench_warm(benchmark: Any, session: list[Message], scoring: str, query: str | None) -> None:
    """Time a call with one new message since the last call; the call itself remembers nothing."""
    rehydrate.compact_context(session, query, RATIO, scoring=scoring)
    numbers = count()

    def one_more() -> tuple[tuple[Any, ...], dict[str, Any]]:
        turn = as_entry(next_turn(next(numbers)), like=session[0])
        return ([*session, turn], query, RATIO), {"scoring": scoring}

    benchmark.pedantic(
        rehydrate.compact_context, setup=one_more, rounds=5 * SIZE.cold_rounds, warmup_rounds=5
    )


def bench_parse(benchmark: Any, session: list[Message]) -> None:
    """Time the reading alone: dicts to columns and units."""
    benchmark.pedantic(formats.parse, args=(session,), rounds=5 * SIZE.cold_rounds, warmup_rounds=5)


def bench_plain_python(benchmark: Any, session: list[Message]) -> None:
    """Time tokenizers, numpy, re and tiktoken, combined by hand."""
    texts = texts_of(session)
    benchmark.pedantic(
        peers.plain_python,
        args=(texts, QUERY, RATIO),
        rounds=SIZE.peer_rounds,
        warmup_rounds=1,
    )


@pytest.mark.parametrize("counter", ["tiktoken", "approximate"])
def bench_langchain(benchmark: Any, session: list[Message], counter: str) -> None:
    """Time LangChain's trim_messages on the same conversation at the same budget."""
    counted: Any = peers.o200k_counter() if counter == "tiktoken" else "approximate"
    messages = to_langchain(session)
    budget = rehydrate.compact_context(session, None, RATIO).stats.target_tokens
    kept = benchmark.pedantic(
        trim, args=(messages, budget, counted), rounds=SIZE.peer_rounds, warmup_rounds=1
    )
    benchmark.extra_info |= {"kept": len(kept), "of": len(messages)}
