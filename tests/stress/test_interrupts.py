"""Ctrl-C, and whatever a signal handler raises, ends a compaction soon: no text is too long."""

from __future__ import annotations

import signal
import sys

import pytest

from tests.stress.programs import run_python

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")

# A second's work, 100 times; the signal comes in the middle of it.
_LONG = r"""
import os, signal, sys, threading, time
import rehydrate

words = "The quick brown fox of part_%d.py jumped over %x, see line %d.\n"
lines = [words % (n, n * 7919, n * 31 % 977) for n in range(100_000)]
endless = {
    "many texts": [{"role": "user", "content": line} for line in lines],
    "one text": [{"role": "user", "content": "".join(lines)}],
    "one tool input": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "tool_calls": [
            {"id": "t", "function": {"name": "x", "arguments": "".join(lines) + "\\\\n"}}]},
    ],
    "one word": [{"role": "user", "content": " " * 3_000_000}],
    "one line of ideographs": [{"role": "user", "content": "\u6f22\u5b57" * 750_000}],
}[sys.argv[1]]
"""

_INTERRUPTED = (
    _LONG
    + """
def shoot():
    time.sleep(float(sys.argv[2]))
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=shoot, daemon=True).start()
try:
    for _ in range(100):
        rehydrate._native.clear_cache()
        rehydrate.compact_context(endless, "the fox of part_9.py")
except KeyboardInterrupt:
    # The stopped call left nothing half done.
    kept = rehydrate.compact_context([{"role": "user", "content": "hello"}] * 3)
    print("interrupted", kept.stats.before_tokens)
"""
)


@pytest.mark.parametrize(
    ("work", "delay"),
    [
        ("many texts", "0.05"),
        ("many texts", "0.6"),
        ("one text", "0.05"),
        ("one text", "0.6"),
        ("one tool input", "0.6"),
        ("one word", "0.3"),
        ("one line of ideographs", "0.05"),
    ],
)
def test_ctrl_c_ends_a_compaction_in_its_middle(work: str, delay: str):
    ended = run_python(_INTERRUPTED, work, delay)
    assert (ended.code, ended.out, ended.err) == (0, "interrupted 3\n", "")


def test_what_a_handler_raises_reaches_the_caller():
    ended = run_python(
        _LONG
        + """
class Late(Exception): pass

def late(*_):
    raise Late("a minute is over")

signal.signal(signal.SIGALRM, late)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    for _ in range(100):
        rehydrate._native.clear_cache()
        rehydrate.compact_context(endless, "the fox")
except Late as error:
    print("late:", error)
""",
        "one text",
    )
    assert (ended.code, ended.out, ended.err) == (0, "late: a minute is over\n", "")


def test_a_handler_may_compact_too():
    ended = run_python(
        _LONG
        + """
seen = []

def compact(*_):
    small = [{"role": "user", "content": f"part_{n}.py \u6f22"} for n in range(20)]
    seen.append(rehydrate.compact_context(small, "part_3").stats.after_tokens)

signal.signal(signal.SIGALRM, compact)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
first = rehydrate.compact_context(endless, "the fox").stats.before_tokens
signal.setitimer(signal.ITIMER_REAL, 0)
rehydrate._native.clear_cache()
assert rehydrate.compact_context(endless, "the fox").stats.before_tokens == first
print(len(set(seen)))
""",
        "one text",
    )
    assert (ended.code, ended.out, ended.err) == (0, "1\n", "")


def test_the_command_line_ends_with_130():
    ended = run_python(
        """
        import json, signal, subprocess, sys

        line = "The quick brown fox of part_%d.py jumped over line %d. "
        said = [{"role": "user", "content": line % (n, n * 7)} for n in range(100_000)]
        child = subprocess.Popen(
            [sys.executable, "-m", "rehydrate", "compact", "-", "--query", "the fox"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        child.stdin.write(json.dumps(said).encode())  # it has started when it has read most of it
        child.send_signal(signal.SIGINT)
        err = child.communicate()[1]
        print(child.returncode, err)
        """
    )
    assert ended.out == f"{128 + signal.SIGINT} b''\n", ended
