"""One hook of Claude Code: `python -m rehydrate.integrations.claude_code.hook EVENT`.

The event's JSON comes on standard input. What the event gives back goes to standard output, as one
JSON object, or nothing. It ends in time, with exit code 0, whatever happens.
"""

from __future__ import annotations

import json
import os
import sys
import time
from threading import Thread

TIMEOUT = 1.6
"""Seconds from the start of the module to the end of the process; Claude Code waits for it."""


def main(event: str, started: float) -> None:
    """Answer one event, and end the process."""
    answers: list[str] = []

    def work() -> None:
        try:
            payload = json.loads(sys.stdin.buffer.read())
            if isinstance(payload, dict):
                from rehydrate.integrations.claude_code.events import answer

                reply = answer(event, payload, started + TIMEOUT)
                if reply:
                    answers.append(json.dumps(reply))
        except BaseException as error:  # no failure of a hook may reach the session
            if os.environ.get("REHYDRATE_DEBUG"):
                sys.stderr.write(f"rehydrate: {type(error).__name__}: {error}\n")

    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(max(0.0, started + TIMEOUT - time.monotonic()))
    try:
        if answers:
            os.write(1, answers[0].encode() + b"\n")
    finally:
        os._exit(0)  # a thread that is late ends with the process


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "", time.monotonic())
