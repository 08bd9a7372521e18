"""A coding agent asks, in the middle of its turn, for last Tuesday's conversation about billing.

    pip install 'rehydrate[lab,tools]'
    python examples/ask_back.py

No network, no key: the model is scripted, and everything else is what it would be with a real one.
It has worked on `session.jsonl` for 400 messages, of which its prompt shows a part. Last Tuesday's
conversation was another one, kept in a memory. The user refers to it; the model calls
`request_context`, gets the actual messages as the result of that call, and goes on in the same turn,
after a prompt that begins byte for byte as the one before.
"""

from __future__ import annotations

import json
import re
import tempfile
from datetime import datetime
from pathlib import Path

from rehydrate import Budget, CompiledPrompt, Context, Memory, compile, hydrate
from rehydrate.agent import Interpreter
from rehydrate.context import ContextJIT
from rehydrate.memory import MemoryItem
from rehydrate.prompt import ContextRequest
from rehydrate.testing import ScriptedModel, call

HERE = Path(__file__).parent
NOW = datetime.fromisoformat("2026-03-02T10:30:00+00:00")  # the Monday of the session
ASKED = (
    "The invoice export fails now and then, too. Give it the retry rule that we agreed on last "
    "Tuesday for billing."
)


def lines(name: str) -> list[dict]:
    return [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


def last_tuesday(memory: Memory) -> None:
    """The conversation about billing goes into the memory, message by message."""
    memory.add(
        [
            MemoryItem(
                f"{said['who']}: {said['text']}",
                source="conversation/billing",
                thread="billing",
                principal=said["who"],
                time=datetime.fromisoformat(said["time"]),
            )
            for said in lines("billing.jsonl")
        ]
    )


def the_session() -> list[dict]:
    """The transcript of the work so far, as messages of Anthropic's."""
    whole = ContextRequest(budget=Budget(soft_tokens=10**6, hard_tokens=10**7))
    return compile(hydrate(whole, messages=lines("session.jsonl")), passes=()).messages


def write_rule(attempts: int, first_seconds: float) -> str:
    """Write the retry rule of the invoice export.

    Args:
        attempts: how often it is tried at most.
        first_seconds: the first pause, which doubles from attempt to attempt.
    """
    return f"export/retry.py: RetryRule(attempts={attempts}, first_seconds={first_seconds})"


def model_that_reads() -> ScriptedModel:
    """It does not know the numbers: it has them from what it is given."""

    def writes(prompt: CompiledPrompt):
        read = re.search(r"RetryRule\(attempts=(\d+), first_seconds=([\d.]+)", str(prompt.messages))
        return call("write_rule", attempts=int(read[1]), first_seconds=float(read[2]))

    def answers(prompt: CompiledPrompt):
        written = prompt.messages[-1]["content"][0]["content"]
        never = "refunds must never be retried" in str(prompt.messages)
        return f"Written, {written}.{' Refunds are left out of it, as agreed.' if never else ''}"

    asks = call("request_context", query="retry rule for billing", time_range="last tuesday")
    return ScriptedModel([asks, writes, answers])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Memory.open(f"{folder}/memory.db") as memory:
        mine = memory.within("dev")
        context = Context(
            provider="anthropic",
            system="You are a coding agent.",
            budget=Budget(soft_tokens=30_000, hard_tokens=1_000_000),
        )
        context.add(*the_session())
        first = context.prompt()
        left_out = len(context.history) - context.usage.visible_entries
        print(
            f"The session: {len(context.history)} messages; the prompt has {first.tokens:,} tokens"
            f" and leaves {left_out} messages out.\n\n> {ASKED}\n"
        )

        last_tuesday(mine)
        ContextJIT(context, sources=mine, clock=NOW.timestamp)
        agent = Interpreter(model_that_reads(), [write_rule])
        turn = agent.run(context, ASKED)

        for event in turn.events:
            data = event.to_dict()
            if data["event"] == "context_requested":
                print(
                    f"request_context({data['query']!r}, last tuesday): {data['found']} messages, "
                    f"{data['tokens']} tokens, {data['elapsed_ms']:.1f} ms"
                )
        for section in turn.ir.late_bound:
            print(f"  {section.provenance.time:%a %H:%M}  {section.content[:95]}...")
        print(f"\n{turn.answer}\n")
        print(
            f"{turn.steps} requests; the cache gave back {turn.usage.read:,} tokens, "
            f"{turn.usage.written + turn.usage.uncached:,} were new.\n"
            f"The last prompt and the one before it: {context.prefix}."
        )


if __name__ == "__main__":
    main()
