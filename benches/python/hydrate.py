"""How fast a prompt comes together: `python -m benches.python.hydrate [--items N]`.

A conversation of 100,000 tokens (of `REHYDRATE_DATA`, else a generated one) in Anthropic's format
with a memory of 100,000 items, as much of both as a day's work leaves: a prompt from
nothing, a turn of a `Context`, and what a `Context` weighs beyond its messages.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from benches.python import peers
from benches.python.inputs import RATIO, ROOT, Message, generated_session
from benches.python.memory_texts import queries, texts
from benches.python.sources import data_folder
from benches.report.rows import Part, Row, number
from benches.report.size import SIZE
from rehydrate import Budget, Context, ContextRequest, Memory, count_tokens, hydrate
from rehydrate.prompt import compile as compile_ir, hydrate_source
from rehydrate.prompt.sources.memory import semantic
from rehydrate.retention.baselines import to_langchain, trim

ITEMS = 100_000
TOKENS = 100_000
BATCH = 1_000
ASKED, WARM_UP = SIZE.prompts, 20
NAMESPACE = "bench"
ROOMY = Budget(10**7, 10**9)
"""Nothing is pruned: the conversation is measured as it is."""
CONTEXTS = 20
TURNS = 20
"""Turns of one conversation; few, so that its size stays about the same."""
NOTES = ROOT / "examples" / "notes"
FROM_NOTHING = "No prompt before it to extend: every entry is read, counted, checked and capped"
EXTENDS = (
    "What is new is read, counted, checked and rendered, a few microseconds for each of these and "
    "for each section"
)
SEARCH = "The search, its hits fitted into a budget, and two changes of threads"


class Spread(NamedTuple):
    """Milliseconds of one call over many; busy: processor time of all threads of the process."""

    p50: float
    p99: float
    busy_p50: float

    @property
    def busy(self) -> str:
        """Note next to a row."""
        return f"on the processor {number(self.busy_p50)} ms, the rest waits for one"


def conversation() -> list[Message]:
    """Return the first 100,000 tokens of the longest real session, or of a generated one."""
    folder = data_folder()
    sessions = sorted((folder / "claude_code").glob("*.jsonl")) if folder else []
    if sessions:
        longest = max(sessions, key=lambda path: path.stat().st_size)
        lines = longest.read_text(encoding="utf-8").splitlines()
        messages = [json.loads(line) for line in lines if line.strip()]
    else:
        messages = generated_session(400)
    least, most = 0, len(messages)
    while most - least > 1:
        middle = (least + most) // 2
        is_more = count_tokens(messages[:middle]) > TOKENS
        least, most = (least, middle) if is_more else (middle, most)
    whole = hydrate(ContextRequest(budget=ROOMY), messages=messages[:least])
    return list(compile_ir(whole, "anthropic", passes=()).messages)


def filled(path: Path, items: Sequence[str]) -> Memory:
    """Return an indexed memory of these items."""
    with Memory.open(path, namespace=NAMESPACE) as memory:
        for start in range(0, len(items), BATCH):
            memory.add(items[start : start + BATCH], source=f"source {start // BATCH}")
        memory.add("Answer in one sentence, and name the file.", tier="hot")
    return Memory.open(path, namespace=NAMESPACE)  # closing waits for the index


def measure(items: int) -> Part:
    """Measure every row."""
    held = list(texts(items))
    asked = queries(held, ASKED)
    messages = conversation()
    tokens = count_tokens(messages)
    with tempfile.TemporaryDirectory() as folder:
        memory = filled(Path(folder) / "memory.db", held)
        rows = _rows(memory, messages, asked, f"{tokens:,} tokens, {items:,} items")
        memory.close()
    return Part(
        "Hydrate and compile",
        f"A conversation of {len(messages):,} entries and {tokens:,} tokens, a memory of {items:,} "
        f"items with a hot one; hot, temporal and semantic run at once. {ASKED} different "
        "questions, sources as they come but for the deadline (none).",
        rows,
    )


def _rows(memory: Memory, messages: list[Message], asked: Sequence[str], size: str) -> list[Row]:
    search = _spread("search", memory.search, asked)
    hot = _spread("hot", lambda _: memory.hot(), asked)
    of_it = (
        f"memory.search {number(search.p50)} ({number(search.busy_p50)} on the processor), "
        f"memory.hot {number(hot.p50)} ({number(hot.busy_p50)})"
    )
    trimmed = f"LangChain trim_messages (tiktoken) of the same {number(_trim_ms(messages))} ms"
    whole = _spread("hydrate and compile", lambda query: _prompt(query, memory, messages), asked)
    brought = _spread(
        "hydrate", lambda query: hydrate(query, memory, messages=messages, timeout=None), asked
    )
    turn = _spread("a turn", _turns(memory, messages), asked)
    step = _spread("a step of a turn", _steps(Context(memory, **_settings()), messages), asked)
    alone = _spread("history", lambda query: hydrate(query, messages=messages), asked)
    source = semantic(memory, timeout=None)
    one = _spread("one source", lambda query: hydrate_source(query, source), asked)
    notes = _spread("notes", lambda query: hydrate(query, NOTES, timeout=None), asked)
    return [
        Row(
            f"hydrate and compile, {size}, p50",
            whole.p50,
            "ms",
            10,
            beside=f"{of_it}; {trimmed}",
            limit=f"{FROM_NOTHING}; {whole.busy}",
        ),
        Row("hydrate and compile, p99", whole.p99, "ms"),
        Row("of it hydrate, p50", brought.p50, "ms", limit=brought.busy),
        Row(
            "a `Context`, a turn that adds the user's message and searches, p50",
            turn.p50,
            "ms",
            3,
            beside=f"{of_it}; {trimmed}",
            limit=f"The search, then a prompt. {EXTENDS}; {turn.busy}",
        ),
        Row(
            "a `Context`, a step of a turn: a call and its result, p50",
            step.p50,
            "ms",
            1,
            beside=trimmed,
            limit=f"{EXTENDS}; {step.busy}",
        ),
        Row(
            "a `Context` beyond its messages",
            _overhead(messages),
            "kB",
            200,
            limit="What it keeps of each entry: ids, counts, digests, the last prompt",
        ),
        Row("history alone: read and counted, p50", alone.p50, "ms", limit=alone.busy),
        Row(
            "hydrate_source(semantic), p50",
            one.p50,
            "ms",
            5,
            beside=of_it,
            limit=f"{SEARCH}; {one.busy}",
        ),
        Row("hydrate_source(semantic), p99", one.p99, "ms", 20, limit=SEARCH),
        Row("knowledge of the ten notes in examples, p50", notes.p50, "ms", limit=notes.busy),
    ]


def _trim_ms(messages: list[Message]) -> float:
    """Return the milliseconds in which LangChain's way cuts the same messages, median of five."""
    turns, counter = to_langchain(messages), peers.o200k_counter()
    budget = int(counter(turns) * RATIO)
    taken = []
    for _ in range(5):
        before = time.perf_counter()
        trim(turns, budget, counter)
        taken.append(time.perf_counter() - before)
    return median(taken) * 1e3


def _settings() -> dict[str, Any]:
    return {"system": "You are a coding agent.", "budget": ROOMY, "timeout": None}


def _prompt(query: str, memory: Memory, messages: list[Message]) -> None:
    request = ContextRequest(query, budget=ROOMY)
    ir = hydrate(request, memory, messages=messages, system="Be brief.", timeout=None)
    compile_ir(ir, "anthropic")


def _turns(memory: Memory, messages: list[Message]) -> Callable[[str], None]:
    """Return a function that makes prompts of user turns: a few turns of each conversation."""
    contexts = [_begun(Context(memory, **_settings()), messages) for _ in range(-(-ASKED // TURNS))]
    done = 0

    def turn(query: str) -> None:
        nonlocal done
        context = contexts[done // TURNS]
        done += 1
        context.prompt(query)
        context.add({"role": "assistant", "content": "Done."})

    return turn


def _begun(context: Context, messages: list[Message]) -> Context:
    context.add(*_up_to_an_answer(messages))
    context.prompt("Go on.")
    context.add({"role": "assistant", "content": "Done."})
    return context


def _steps(context: Context, messages: list[Message]) -> Callable[[str], None]:
    """Return a function that makes prompts of one turn, each for a tool result."""
    context.add(*_up_to_an_answer(messages))
    context.prompt("Go on.")
    done = 0

    def step(query: str) -> None:
        nonlocal done
        call = f"toolu_step_{done}"
        done += 1
        asked = {"type": "tool_use", "id": call, "name": "grep", "input": {"pattern": query}}
        found = {"type": "tool_result", "tool_use_id": call, "content": query}
        context.add({"role": "assistant", "content": [asked]}, {"role": "user", "content": [found]})
        context.prompt()

    return step


def _up_to_an_answer(messages: list[Message]) -> list[Message]:
    """Cut the messages so that every call is answered and the assistant spoke last."""
    most = len(messages)
    while messages[most - 1]["role"] != "user":
        most -= 1
    return [*messages[:most], {"role": "assistant", "content": "That is all."}]


def _overhead(messages: list[Message]) -> float:
    """Return the kilobytes of a context, its prompts and caches, without the messages.

    The tool results are capped before: the text of a cap counts as text too.
    """
    capped = Context(**_settings())
    capped.add(*_up_to_an_answer(messages))
    said = [*capped.prompt("And now?").messages, {"role": "assistant", "content": "Done."}]

    def used() -> Context:
        context = Context(**_settings())
        context.add(*said)
        context.prompt("And now?")
        context.add({"role": "assistant", "content": "Done."})
        context.prompt("And then?")
        return context

    used()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    held = [used() for _ in range(CONTEXTS)]
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / len(held) / 1e3


def _spread(name: str, call: Callable[[str], Any], asked: Sequence[str]) -> Spread:
    for query in asked[:WARM_UP]:
        call(query)
    taken, busy = [], []
    for query in asked[WARM_UP:]:
        before, busy_before = time.perf_counter(), time.process_time()
        call(query)
        taken.append(time.perf_counter() - before)
        busy.append(time.process_time() - busy_before)
    p50, p99 = np.percentile(taken, (50, 99)) * 1e3
    reported = Spread(float(p50), float(p99), float(np.median(busy)) * 1e3)
    print(f"  {name}: {reported}", file=sys.stderr, flush=True)
    return reported


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=ITEMS)
    print(measure(parser.parse_args().items).to_json())
