"""What a compaction costs a cached agent, by how it is used: `python -m benches.python.sticky`.

An agent calls its model 120 times; each call sends the history so far (the shipped coding session).
Four ways: no compaction; `compact_context` on the whole history in each call (another choice of
messages each time, so the provider's cache is lost); the compacted list kept and appended to, and
compacted again when it is too long; a `Context`, which does so by itself. The cost is in
input-token units, as Anthropic bills them: 1 a token, 1.25 written to the cache, 0.1 read from it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from benches.python.inputs import EXAMPLE
from rehydrate import Budget, Context, compact_context, count_tokens, formats
from rehydrate.cost import minimum_prefix, simulate
from rehydrate.prompt import (
    CompiledPrompt,
    ContextRequest,
    History,
    PromptIR,
    compile as compile_ir,
)
from rehydrate.prompt.compiler import place_breakpoints

CALLS = 120
MODEL = "claude-sonnet-4-5"
MOST, TARGET = 20_000, 12_000
"""A longer list is compacted, to the target."""

Send = Callable[[list[Any]], CompiledPrompt]


class Bill(NamedTuple):
    """The cost of a job's prompts."""

    units: float
    sent: int
    largest: int


def calls() -> Iterator[list[Any]]:
    """Yield the history before each call of the model."""
    lines = [json.loads(line) for line in EXAMPLE.read_text(encoding="utf-8").splitlines()]
    lines = [line for line in lines if line.get("type") in ("user", "assistant")]
    made = 0
    for place, line in enumerate(lines):
        follows_itself = lines[place - 1].get("type") == "assistant" if place else True
        if line["type"] == "assistant" and not follows_itself:
            yield lines[:place]
            made += 1
            if made == CALLS:
                return


def laid_out(messages: list[Any]) -> CompiledPrompt:
    """Return the messages unchanged, with the usual cache breakpoints."""
    room = ContextRequest(budget=Budget(10**9, 10**9))
    ir = PromptIR(room, history=History(tuple(messages), "claude_code"))
    return compile_ir(
        ir,
        "anthropic",
        model=MODEL,
        passes=(place_breakpoints,),
        minimum_prefix=minimum_prefix(MODEL),
    )


def hook(history: list[Any]) -> CompiledPrompt:
    """Return the whole history, compacted in each call."""
    return laid_out(compact_context(history, budget_tokens=TARGET, format="claude_code").messages)


def kept_and_extended() -> Send:
    """Return a function that extends the last list sent, and compacts it when it is too long."""
    kept: list[Any] = []
    seen = 0

    def send(history: list[Any]) -> CompiledPrompt:
        nonlocal kept, seen
        kept, seen = [*kept, *history[seen:]], len(history)
        if count_tokens(kept, format="claude_code") > MOST:
            kept = compact_context(kept, budget_tokens=TARGET, format="claude_code").messages
        return laid_out(kept)

    return send


def context() -> Send:
    """A `Context` with the same limits; its tool results are capped and its echoes removed too."""
    # Its budgets are upper bounds of what Anthropic counts: 1.35 for one of ours.
    budget = Budget(round(MOST * 1.35), 10**9, compact_to=TARGET / MOST)
    of = Context(format="claude_code", model=MODEL, budget=budget)
    seen = 0

    def send(history: list[Any]) -> CompiledPrompt:
        nonlocal seen
        of.add(*history[seen:])
        seen = len(history)
        return of.prompt()

    return send


def bill(send: Send) -> Bill:
    """Return the cost of the job that way."""
    prompts = [send(history) for history in calls()]
    turns = simulate(prompts, model=MODEL).turns
    units = sum(turn.uncached + 1.25 * turn.written + 0.1 * turn.read for turn in turns)
    sizes = [prompt.tokens for prompt in prompts]
    return Bill(units, sum(sizes), max(sizes))


def main() -> None:
    """Print a line for each way."""
    last = list(calls())[-1]
    units = len(formats.parse(last, "claude_code").units)
    tokens = count_tokens(last, format="claude_code")
    print(f"{CALLS} calls; the last history has {tokens:,} tokens in {units:,} units")
    print(f"{'':20} {'input-token units':>18} {'sent':>12} {'largest':>9}")
    ways = (
        ("no compaction", laid_out),
        ("in each call", hook),
        ("kept and extended", kept_and_extended()),
        ("Context", context()),
    )
    for name, send in ways:
        cost = bill(send)
        print(f"{name:20} {cost.units:18,.0f} {cost.sent:12,} {cost.largest:9,}")


if __name__ == "__main__":
    main()
