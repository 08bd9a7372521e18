"""What a host sent, as a line of the table."""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from benches.python.hosts.script import CALLS, code, is_tool_call, query_of
from rehydrate import count_tokens
from rehydrate.integrations import HostThread

ASKED_ABOUT = 20
"""Codes that are asked for."""
WRITTEN, READ = 1.25, 0.1
HEAD = (
    "| | input units | largest | breaks | shown | found | added, p50 / p99 |\n"
    "|---|---|---|---|---|---|---|"
)


class Row(NamedTuple):
    """One way of keeping the conversation."""

    name: str
    sent: list[list[str]]
    """The messages that the model got in each call, each as text."""
    seconds: Sequence[float] = ()
    thread: HostThread | None = None
    other_units: float = 0.0
    """What other calls cost, such as those of a model that writes summaries."""


def as_texts(messages: Iterable[Any]) -> list[str]:
    """Return messages that are dicts as texts."""
    return [json.dumps(message, sort_keys=True, ensure_ascii=False) for message in messages]


class Figures(NamedTuple):
    """A row as numbers."""

    name: str
    units: float
    """What the prompts cost, in input-token units."""
    largest: int
    """Tokens of the largest prompt, each message as JSON."""
    breaks: int
    """Prompts that do not begin with the one before."""
    shown: float
    found: float | None
    added_ms: tuple[float, float] | None
    """Median and 99th percentile."""

    def line(self) -> str:
        """Return them as a line of the table."""
        found = "-" if self.found is None else f"{self.found:.2f}"
        added = "{:.1f} / {:.1f} ms".format(*self.added_ms) if self.added_ms else "-"
        return (
            f"| {self.name} | {self.units / 1e3:,.0f}k | {self.largest:,} | {self.breaks} | "
            f"{self.shown:.2f} | {found} | {added} |"
        )


def figures_of(row: Row) -> Figures:
    """Measure what was sent."""
    units, largest, breaks = row.other_units, 0, 0
    earlier: list[str] = []
    for sent in row.sent:
        tokens = [_tokens(text) for text in sent]
        shared = 0
        while shared < min(len(sent), len(earlier)) and sent[shared] == earlier[shared]:
            shared += 1
        breaks += shared < len(earlier)
        units += READ * sum(tokens[:shared]) + WRITTEN * sum(tokens[shared:])
        largest = max(largest, sum(tokens))
        earlier = sent
    queries = [query_of(call) for call in range(CALLS) if is_tool_call(call)]
    text = "".join(earlier)
    shown = sum(code(query) in text for query in queries) / len(queries)
    cuts = statistics.quantiles(row.seconds, n=100) if row.seconds else []
    return Figures(
        row.name,
        units,
        largest,
        breaks,
        shown,
        _share_found(row.thread, queries) if row.thread is not None else None,
        (cuts[49] * 1e3, cuts[98] * 1e3) if cuts else None,
    )


def timed(seconds: list[float], call: Callable[..., Any]) -> Callable[..., Any]:
    """Return an async function that notes how long each call took."""

    async def run(*given: Any, **more: Any) -> Any:
        started = time.perf_counter()
        done = await call(*given, **more)
        seconds.append(time.perf_counter() - started)
        return done

    return run


@lru_cache(maxsize=10_000)
def _tokens(text: str) -> int:
    return count_tokens([{"role": "user", "content": text}])


def _share_found(thread: HostThread, queries: Sequence[str]) -> float:
    """Return the share of codes that `request_context` brings back, of those that are not shown.

    Each is asked for in a thread of its own, just after a compaction: where a turn has no room
    left, an answer is a handle only.
    """
    hits = []
    for query in random.Random(1).sample(list(queries), len(queries)):
        fresh = HostThread(thread._make, asks_back=True)
        shown = fresh.prompt(thread.context.history)
        if code(query) not in str(shown):
            said = fresh.answer("request_context", {"query": f"the lock of {query}"}, query)
            hits.append(code(query) in said)
            if len(hits) == ASKED_ABOUT:
                break
    return sum(hits) / len(hits)
