"""Time until the model gets the context it asks for: `python -m benches.python.jit`.

A conversation of 100,000 tokens of which the prompt shows 20,000, with a memory of 100,000 items:
the time from a call of request_context to its result, and the tokens that the result adds. Then
1,000 conversations in one process, each of 20,000 tokens with 5,000 shown and with a namespace of
its own in one memory, asked at random, one call at a time and eight at once on an event loop.

For comparison, a loop without a JIT: it hydrates and compiles the prompt again with the question,
which breaks the prefix after the system prompt.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import anyio
import numpy as np

from benches.python.hydrate import (
    ITEMS,
    Spread,
    _spread,
    conversation,
    filled,
)
from benches.python.inputs import Message
from benches.python.memory_texts import queries, texts
from benches.report.rows import Part, Row, number
from benches.report.size import SIZE
from rehydrate import Budget, Context, ContextRequest, Memory, count_tokens, hydrate
from rehydrate.context import Answered, ContextJIT
from rehydrate.prompt import compile as compile_ir

ASKED, WARM_UP = SIZE.requests, 20
CONVERSATIONS, CALLS = SIZE.conversations, SIZE.calls
AT_ONCE = 8
PREPARES = (
    "The query is compared with all that the prompt does not show; the best of what is too long "
    "for an answer are divided into blocks, and those are scored anew"
)
SHOWN_TOKENS = 20_000


def call(number_: int, query: str) -> dict[str, Any]:
    """Return a tool call as a model makes it."""
    name = "request_context"
    return {"type": "tool_use", "id": f"toolu_{number_}", "name": name, "input": {"query": query}}


def begun(
    memory: Memory, messages: Sequence[Message], shown_tokens: int
) -> tuple[Context, ContextJIT]:
    """Return a compacted conversation in the middle of a turn."""
    budget = Budget(soft_tokens=10 * shown_tokens, hard_tokens=10**9)
    context = Context(provider="anthropic", budget=budget, timeout=None)
    jit = ContextJIT(context, sources=memory, max_calls=10**9, timeout=None)
    context.add(*messages)
    if messages[-1]["role"] == "assistant":
        context.add({"role": "user", "content": "Go on."})
    context.compact(shown_tokens)
    context.prompt()
    return context, jit


def queries_of(messages: Sequence[Message], count: int) -> list[str]:
    """Return queries of a few words: half of them are about the conversation."""
    said = [str(message["content"]) for message in messages if len(str(message["content"])) > 200]
    draw = random.Random(7)
    found = []
    for _ in range(count):
        words = draw.choice(said).split()
        start = draw.randrange(max(1, len(words) - 8))
        found.append(" ".join(words[start : start + 8])[:300])
    return found


def one(memory: Memory, asked: Sequence[str], messages: list[Message]) -> list[Row]:
    """Measure one conversation, and the same with a new prompt for each question."""
    _, jit = begun(memory, messages, SHOWN_TOKENS)
    answers: list[Answered] = []
    made = 0

    def ask(query: str) -> None:
        nonlocal made
        made += 1
        answers.append(jit.answer(call(made, query)))
        forget(jit, answers[-1])

    spread = _spread("request_context", ask, asked)

    def anew(query: str) -> None:
        request = ContextRequest(query, budget=Budget(27_000, 10**9))
        ir = hydrate(request, memory, messages=messages, timeout=None)
        compile_ir(ir, "anthropic")

    beside = _spread("anew", anew, asked[: WARM_UP + 60])
    search = _spread("search", memory.search, asked)
    tokens = [count_tokens(answer.content) for answer in answers if answer.sections]
    errors = sum(answer.is_error for answer in answers)
    return [
        Row(
            "request_context, call to result, p50",
            spread.p50,
            "ms",
            3,
            beside=f"the prompt made anew {number(beside.p50)} ms "
            f"({number(beside.p50 / spread.p50)}x), memory.search {number(search.p50)} ms",
            limit=f"{PREPARES}; {spread.busy}",
        ),
        Row(
            "request_context, call to result, p99",
            spread.p99,
            "ms",
            8,
            beside=f"the prompt made anew {number(beside.p99)} ms, memory.search "
            f"{number(search.p99)} ms",
            limit=f"{PREPARES}; the windows of long results are made at the first call",
        ),
        Row(
            "tokens that a result adds, mean",
            fmean(tokens),
            "tokens",
            beside=f"anew all {SHOWN_TOKENS:,} are sent again; {len(tokens)} of {len(answers)} "
            f"calls found something, {errors} errors",
        ),
    ]


def forget(jit: ContextJIT, answered: Answered) -> None:
    """Undo a call, as if the turn were over: its result must not change the next one."""
    jit._retriever.unsplice(answered.call.id)


def many(folder: Path, held: Sequence[str]) -> list[Row]:
    """Measure a thousand conversations."""
    with Memory.open(folder / "many.db") as memory:
        for number_ in range(CONVERSATIONS):
            part = held[number_ * 20 % len(held) :][:20]
            memory.within(f"tenant{number_}").add(list(part))
    draw = random.Random(11)
    with Memory.open(folder / "many.db") as memory:
        jits, asked = [], []
        for number_ in range(CONVERSATIONS):
            messages = _talk(held, draw)
            jits.append(begun(memory.within(f"tenant{number_}"), messages, 5_000))
            asked.append(queries_of(messages, 4))
        made = 0

        def ask(_: str) -> None:
            nonlocal made
            made += 1
            which = draw.randrange(CONVERSATIONS)
            _, jit = jits[which]
            forget(jit, jit.answer(call(made, draw.choice(asked[which]))))

        alone = _spread("one of 1,000 conversations", ask, [""] * CALLS)
        at_once = anyio.run(_at_once, jits, asked)
    return [
        Row(
            f"one of {CONVERSATIONS:,} conversations, one call at a time, p50",
            alone.p50,
            "ms",
            2,
            limit=f"{PREPARES}; {alone.busy}",
        ),
        Row(
            f"one of {CONVERSATIONS:,} conversations, one call at a time, p99",
            alone.p99,
            "ms",
            50,
            limit=PREPARES,
        ),
        Row(
            f"one of {CONVERSATIONS:,} conversations, {AT_ONCE} calls at once, p99",
            at_once.p99,
            "ms",
            30,
            beside=f"p50 {number(at_once.p50)}",
            limit=f"On two processors {AT_ONCE} calls wait for each other: four times the time of "
            "one call at the least, and what Python does of a call runs one at a time",
        ),
    ]


async def _at_once(
    jits: Sequence[tuple[Context, ContextJIT]], asked: Sequence[Sequence[str]]
) -> Spread:
    """Measure eight tasks, each asking one conversation after the other."""
    taken: list[float] = []
    draw = random.Random(13)

    async def work(task: int) -> None:
        for number_ in range(CALLS // AT_ONCE):
            # Each task has conversations of its own.
            which = draw.randrange(CONVERSATIONS // AT_ONCE) * AT_ONCE + task
            started = time.perf_counter()
            made = 10**6 * (task + 1) + number_
            _, jit = jits[which]
            answered = await jit.aanswer(call(made, draw.choice(asked[which])))
            taken.append(time.perf_counter() - started)
            forget(jit, answered)

    async with anyio.create_task_group() as group:
        for task in range(AT_ONCE):
            group.start_soon(work, task)
    p50, p99 = np.percentile(taken, (50, 99)) * 1e3
    return Spread(float(p50), float(p99), 0.0)


def _talk(held: Sequence[str], draw: random.Random) -> list[Message]:
    """Return a conversation of about 20,000 tokens."""
    messages: list[Message] = []
    tokens = 0
    while tokens < SHOWN_TOKENS:
        text = draw.choice(held)
        tokens += len(text) // 4
        role = "assistant" if len(messages) % 2 else "user"
        messages.append({"role": role, "content": text})
    return messages


def measure(items: int) -> Part:
    """Measure every row."""
    held = list(texts(items))
    messages = conversation()
    asked = [
        query
        for pair in zip(queries(held, ASKED // 2), queries_of(messages, ASKED // 2), strict=True)
        for query in pair
    ]
    with tempfile.TemporaryDirectory() as folder:
        with filled(Path(folder) / "memory.db", held) as memory:
            rows = one(memory, asked, messages)
        rows += many(Path(folder), held)
    return Part(
        "JIT: request_context",
        f"A conversation of {count_tokens(messages):,} tokens with {SHOWN_TOKENS:,} shown, a "
        f"memory of {items:,} items; {ASKED} different questions, half of them about the "
        f"conversation, half about the memory. {CONVERSATIONS:,} conversations: 20,000 "
        f"tokens each with 5,000 shown, 20 memories each, {CALLS:,} calls.",
        rows,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=ITEMS)
    print(measure(parser.parse_args().items).to_json(), file=sys.stdout)
