"""One hook as a process: `python -m rehydrate.integrations.claude_code.hook EVENT [AGENT]`.

The event's JSON comes on standard input. What the event gives back goes to standard output, as one
JSON object, or nothing. It ends in time, with exit code 0, whatever happens.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

TIMEOUT = 1.6
"""Seconds from the start of the module to the end of the process; the agent waits for it."""
TIMEOUT_VARIABLE = "REHYDRATE_HOOK_SECONDS"
"""Other seconds, for a slow machine; the agent ends a hook that takes more than 5."""
MAX_SECONDS = 3_600
MAX_INPUT_BYTES = 64_000_000
_LEAST_SECONDS = 0.1
"""To write the answer, and to end."""
DEBUG_VARIABLE = "REHYDRATE_DEBUG"
"""If it is set, a failure is written to standard error."""


def main(arguments: Sequence[str], started: float) -> None:
    """Answer one event, and end the process."""
    gc.disable()  # the process ends before there are many circles
    out = _own_output()
    try:
        in_time = _by_a_child if hasattr(os, "fork") else _by_a_thread
        answer = in_time(arguments, started + timeout_seconds(os.environ))
        if answer:
            os.write(out, answer)
    except BaseException as error:
        _note(error)
    finally:
        os._exit(0)  # a thread that is late ends with the process


def timeout_seconds(environ: Mapping[str, str]) -> float:
    """Return how long a hook may take; any other value is not used.

    >>> timeout_seconds({"REHYDRATE_HOOK_SECONDS": "3"}), timeout_seconds({})
    (3.0, 1.6)
    """
    try:
        seconds = float(environ.get(TIMEOUT_VARIABLE, TIMEOUT))
    except ValueError:
        return TIMEOUT
    return seconds if 0 < seconds <= MAX_SECONDS else TIMEOUT


def _by_a_child(arguments: Sequence[str], deadline: float) -> bytes:
    """Return the answer of a child process, or nothing when its time is over.

    A thread could hold the interpreter, and with it the clock, for as long as one call takes.
    """
    import select
    import signal

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            # If its parent is ended, it ends by itself.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, max(_LEAST_SECONDS, deadline - time.monotonic()))
            with open(writer, "wb", closefd=False) as pipe:
                pipe.write(_answer(arguments, deadline))
        except BaseException as error:  # no failure of a hook may reach the session
            _note(error)
        finally:
            os._exit(0)
    os.close(writer)
    pieces: list[bytes] = []
    try:
        while select.select([reader], [], [], max(0.0, deadline - time.monotonic()))[0]:
            piece = os.read(reader, 1 << 16)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
    finally:
        os.kill(child, signal.SIGKILL)
    return b""


def _by_a_thread(arguments: Sequence[str], deadline: float) -> bytes:
    """Return the answer of a thread; raises TimeoutError when its time is over."""
    from rehydrate.integrations.claude_code.events import within

    return within(deadline - time.monotonic(), lambda: _answer(arguments, deadline))


def _answer(arguments: Sequence[str], deadline: float) -> bytes:
    if sys.stdin is None or sys.stdin.isatty():
        return b""
    text = sys.stdin.buffer.read(MAX_INPUT_BYTES)
    payload = json.loads(text)
    if not isinstance(payload, dict):
        return b""
    event = arguments[0] if arguments else str(payload.get("hook_event_name", ""))
    from rehydrate.integrations.claude_code.events import answer

    reply = answer(
        event,
        payload,
        agent="codex" if "codex" in arguments[1:] else "claude_code",
        deadline=deadline - _LEAST_SECONDS,
    )
    # ASCII, so that no encoding of a terminal can refuse it.
    return b"" if reply is None else json.dumps(reply).encode() + b"\n"


def _own_output() -> int:
    """Return a copy of standard output, and send all else that writes there or to standard error
    to nowhere: what PreCompact prints would become an instruction to the summariser."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        out = os.dup(1)
    except OSError:  # it is closed
        out = nowhere
    os.dup2(nowhere, 1)
    if not os.environ.get(DEBUG_VARIABLE):
        os.dup2(nowhere, 2)
    return out


def _note(error: BaseException) -> None:
    """Keep the text of the last failure, which `rehydrate claude status` shows."""
    if os.environ.get(DEBUG_VARIABLE):
        os.write(2, f"rehydrate: {type(error).__name__}: {error}\n".encode(errors="replace"))
    with suppress(Exception):
        from rehydrate._text import safe_error_text
        from rehydrate.integrations.claude_code.home import Home

        home = Home.of()
        if home.folder.is_dir():
            home.failure.write_text(safe_error_text(error, "hook") + "\n", "utf-8", "replace")


if __name__ == "__main__":
    main(sys.argv[1:], time.monotonic())
