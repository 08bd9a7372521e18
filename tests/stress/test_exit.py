"""An interpreter that exits while daemon threads are busy ends in order, whatever they are at."""

from __future__ import annotations

import pytest

from tests.sizes import sized
from tests.stress.programs import run_python

# The shorter the interval, the surer a thread is stopped inside Python code that Rust called.
_PROGRAM = """
import sys, threading, time
import rehydrate, rehydrate.prompt
from rehydrate import _native

sys.setswitchinterval(1e-6)
messages = [{"role": "user", "content": f"part_{n}.py failed"} for n in range(50)]

def errors():
    while True:
        try:
            _native.count("x", "no such counter")
        except rehydrate.errors.InvalidArgumentError:
            pass

def compactions():
    while True:
        _native.clear_cache()
        rehydrate.compact_context(messages, "part_7")

history = rehydrate.prompt.History(tuple(messages), "anthropic", (1,) * len(messages))
ir = rehydrate.prompt.PromptIR(history=history)

def reports():  # of named tuples and enums, which are Python code
    while True:
        ir.verify()
        ir.to_dict()

for target in [errors, errors, errors, compactions, reports]:
    threading.Thread(target=target, daemon=True).start()
time.sleep(float(sys.argv[1]))
"""


@pytest.mark.parametrize("delay", ["0.01", "0.05", "0.1"])
def test_threads_that_raise_and_compact_do_not_abort_an_exit(delay: str):
    for _ in range(sized(1, 3)):
        ended = run_python(_PROGRAM, delay)
        assert (ended.code, ended.out, ended.err) == (0, "", "")


def test_what_is_registered_for_the_exit_may_still_raise_and_compact():
    ended = run_python(
        """
        import atexit

        def last():
            kept = rehydrate.compact_context([{"role": "user", "content": "hello"}])
            try:
                rehydrate._native.count("x", "no such counter")
            except rehydrate.errors.InvalidArgumentError as error:
                print(kept.stats.before_tokens, type(error).__name__)

        atexit.register(last)  # runs after what the package itself has registered
        import rehydrate
        """
    )
    assert (ended.code, ended.out, ended.err) == (0, "1 InvalidArgumentError\n", "")


def test_a_forked_child_exits_at_once_whatever_its_parents_threads_were_raising():
    ended = run_python(
        _PROGRAM
        + """
import os
for _ in range(6):
    if (child := os.fork()) == 0:
        sys.exit()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, code
print("done")
""",
        "0.05",
    )
    assert (ended.code, ended.out, ended.err) == (0, "done\n", "")
