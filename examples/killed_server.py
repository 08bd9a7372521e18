"""An agent server is killed in the middle of its work, and goes on where it was.

    python examples/killed_server.py

No network, no key: the model is scripted. The server keeps its conversation in a file. It is killed
with SIGKILL, as by the kernel when memory runs out, after its third answer. The next process opens
the thread and sends a prompt that begins, byte for byte, as the last one that was sent: the
provider's cache holds, and nothing that was said is lost.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from rehydrate import Context

QUESTIONS = [f"Is berth {number} free?" for number in range(1, 7)]


def serve(file: str) -> None:
    """Answer the questions that are not answered yet; print how each prompt begins."""
    system = "You are the harbour's assistant."
    with Context.open(file, thread="t-42", namespace="alice", system=system) as context:
        for question in QUESTIONS[len(context.history) // 2 :]:
            prompt = context.prompt(question)
            print(json.dumps([segment.digest for segment in prompt.segments]), flush=True)
            context.add({"role": "assistant", "content": f"{question[3:-6].capitalize()} is free."})
            if len(context.history) == 6 and os.environ.get("DIES"):
                os.kill(os.getpid(), signal.SIGKILL)


def run(file: str, **environment: str) -> tuple[int, list[list[str]]]:
    """Run the server in a process of its own; return its exit code and its prompts."""
    done = subprocess.run(
        [sys.executable, __file__, file],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    """Let the server be killed, and let another one go on."""
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "threads.db")
        code, before = run(file, DIES="1")
        print(f"the first server answered {len(before)} questions and ended with {code} (SIGKILL)")
        code, after = run(file)
        print(f"the second one answered {len(after)} more and ended with {code}")
        last, first = before[-1], after[0]
        print(f"its first prompt begins with the last one before: {first[: len(last)] == last}")
        with Context.open(file, thread="t-42", namespace="alice") as context:
            said = [entry["content"] for entry in context.history]
        print(f"the history has all {len(said)} messages: {said[::2] == QUESTIONS}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(sys.argv[1])
    else:
        main()
