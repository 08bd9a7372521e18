"""How much a run measures: `FULL` is what RESULTS.md holds, `QUICK` is for a developer.

`REHYDRATE_BENCH_SIZE` chooses by name; `make bench QUICK=1` sets it. A bench takes its numbers from
`SIZE` and from nowhere else.
"""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """Rounds, items and questions of a run, and the steps that it leaves out."""

    name: str
    cold_rounds: int
    """Cold calls of each case; warm calls are five times as many."""
    count_rounds: int
    peer_rounds: int
    """Rounds of peers that take some hundred milliseconds."""
    thread_rounds: int
    import_runs: int
    footprint: tuple[str, ...]
    """Arguments of `benches.python.footprint`."""
    cached_conversations: int
    """Conversations whose memory in the content cache is weighed."""
    growth_messages: tuple[int, ...]
    growth_bytes: tuple[int, ...]
    memory_items: tuple[int, ...]
    postgres_items: int
    batch_rows: int
    searches: int
    peer_searches: int
    locomo_conversations: int
    """Conversations that are memories to search in."""
    retention: tuple[str, ...]
    """Arguments of `benches.python.retention`."""
    prompts: int
    requests: int
    conversations: int
    """Conversations in one process that ask with `request_context`, one of them at a time."""
    calls: int
    model_texts: int
    model_rounds: int
    baseline_units: int
    loop_seconds: int
    patience_seconds: int
    """How long a run waits, all its steps together, for a machine that is busy with others."""
    left_out: frozenset[str] = frozenset()
    """Steps of `running.STEPS` that are not run."""
    made_smaller: str = ""
    """A warning to the reader of the figures."""


FULL = Size(
    name="full",
    cold_rounds=15,
    count_rounds=30,
    peer_rounds=15,
    thread_rounds=7,
    import_runs=11,
    footprint=("--build-wheel",),
    cached_conversations=5,
    growth_messages=(1_000, 10_000, 100_000, 1_000_000),
    growth_bytes=(125_000, 500_000, 2_000_000, 8_000_000),
    memory_items=(10_000, 100_000, 1_000_000),
    postgres_items=100_000,
    batch_rows=20_000,
    searches=1_000,
    peer_searches=200,
    locomo_conversations=100,
    retention=(),
    prompts=300,
    requests=220,
    conversations=1_000,
    calls=2_000,
    model_texts=128,
    model_rounds=5,
    baseline_units=305,
    loop_seconds=900,
    patience_seconds=300,
)

QUICK = Size(
    name="quick",
    cold_rounds=7,
    count_rounds=10,
    peer_rounds=3,
    thread_rounds=3,
    import_runs=5,
    footprint=(),
    cached_conversations=2,
    growth_messages=(1_000, 10_000, 100_000),
    growth_bytes=(125_000, 500_000, 2_000_000),
    memory_items=(100_000,),
    postgres_items=10_000,
    batch_rows=2_000,
    searches=300,
    peer_searches=40,
    locomo_conversations=2,
    retention=("--every", "5", "--methods", "whole", "excerpts", "last", "trim", "coverage"),
    prompts=100,
    requests=100,
    conversations=100,
    calls=400,
    model_texts=32,
    model_rounds=3,
    baseline_units=60,
    loop_seconds=0,
    patience_seconds=20,
    left_out=frozenset(
        {
            "core",
            "vector_indexes",
            "laws",
            "shapes",
            "novelty",
            "needles",
            "caps_retention",
            "cache_replay",
            "recommendations",
            "outlines",
            "hosts",
            "claude_hooks",
            "proxy",
            "agent_stores",
            "postgres",
            "batch",
            "retention_peers",
            "memory_loop",
        }
    ),
    made_smaller=(
        "Fewer rounds and questions than in RESULTS.md: a 99th percentile is of 80 to 300 calls, "
        "and plain Python runs on 60 units. Growth ends at 100,000 messages, memories at 100,000 "
        "items, and `request_context` asks 100 conversations, not 1,000. Retention asks every "
        "fifth question, a memory is searched for two of its five conversations: compare "
        "such a share with another quick run's only. Left out: Criterion's benches (the core by "
        "itself, `select` of 10,000 units), a million items or messages, the peers of retention, "
        "other agents, PostgreSQL, batches, the laws, and "
        "the hour's memory."
    ),
)

SIZES = {size.name: size for size in (FULL, QUICK)}
SIZE = SIZES[os.environ.get("REHYDRATE_BENCH_SIZE", FULL.name)]
"""The size of this run."""
