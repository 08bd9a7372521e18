"""A session of three days: the conversation never runs out, and no rule, decision or file is lost.

    python examples/three_days.py

No network, no key, no model: the tools' results are made up, everything else is real. Each day is a
process of its own. The window is small, so the conversation is summarised in the background many
times over; nobody waits for it. On the third day the prompt still holds what the user laid down in
the first minute.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rehydrate import Budget
from rehydrate.context import BackgroundCompaction, Context

RULE = "Never touch the ledger's schema without asking me first."
DECISION = "We decided to keep amounts as whole cents."
TURNS = 60


def day(number: int, file: str) -> None:
    """Work for a day on the thread, and print what it was like."""
    events: list[str] = []
    background = BackgroundCompaction(on_event=lambda event: events.append(event.kind))
    budget = Budget(soft_tokens=12_000, hard_tokens=24_000)
    slowest, fullest = 0.0, 0
    with Context.open(
        file, thread="ledger", namespace="alice", budget=budget, background=background
    ) as context:
        for turn in range(TURNS):
            name = f"ledger/part{number}_{turn}.py"
            began = time.perf_counter()
            context.prompt(f"Look after {name}. {RULE if (number, turn) == (1, 0) else ''}")
            slowest = max(slowest, time.perf_counter() - began)
            edit = {"type": "tool_use", "id": f"t{number}_{turn}", "name": "Edit"}
            edit["input"] = {"file_path": name, "old_string": "a", "new_string": "b"}
            context.add({"role": "assistant", "content": [edit]})
            result = {"type": "tool_result", "tool_use_id": edit["id"]}
            result["content"] = f"{name}: 1 line changed. " + "The rest is as it was. " * 20
            context.add({"role": "user", "content": [result]})
            context.prompt()
            context.add({"role": "assistant", "content": DECISION if turn == 0 else "Done."})
            fullest = max(fullest, context.usage.upper_bound_tokens)
        prompt = context.prompt("Where are we?")
        shown = json.dumps(prompt.messages)
        print(
            f"day {number}: {len(context.history):,} entries so far, "
            f"{events.count('swapped')} summaries swapped in, "
            f"the fullest prompt within half of the window: {fullest <= budget.hard_tokens // 2}"
        )
        print(f"  the rule is there: {RULE in shown}; the decision too: {DECISION in shown}")
        changed = len(context.store.items("Files & Code"))
        print(f"  files changed so far, all of them known: {changed == number * TURNS}")
        print(f"  the slowest prompt took {slowest * 1e3:.0f} ms")
        context.add({"role": "assistant", "content": "That is for tomorrow."})


def main() -> None:
    """Run three days, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for number in (1, 2, 3):
            command = [sys.executable, __file__, str(number), str(Path(folder) / "threads.db")]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        day(int(sys.argv[1]), sys.argv[2])
    else:
        main()
