"""hydrate and what surrounds it: Ctrl-C, forks, the end of the program."""

from __future__ import annotations

import sys

import pytest

from tests.stress.programs import needs_fork, run_python

needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")

_HANGING = """
import os, signal, threading, time
from rehydrate import hydrate
from rehydrate.prompt.sources import HydrationSource, function

def hang(request):
    started.set()
    time.sleep(600)

started = threading.Event()
"""


@needs_posix
@pytest.mark.parametrize("deadline", ["None", "500_000"])
@pytest.mark.parametrize("blocking", ["True", "False"])
def test_ctrl_c_ends_the_waiting_for_a_source(deadline: str, blocking: str):
    ended = run_python(
        _HANGING
        + f"""
def shoot():
    started.wait()
    time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=shoot, daemon=True).start()
slow = function("slow", lambda request: time.sleep(600), timeout=None)
try:
    hydrate("x", [slow, HydrationSource("hang", hang, timeout={deadline}, blocking={blocking})])
except KeyboardInterrupt:
    good = function("good", lambda request: "here", timeout=None)
    print("interrupted", hydrate("x", good).sections[0].content)
"""
    )
    assert (ended.code, ended.out, ended.err) == (0, "interrupted here\n", "")


def test_a_source_that_never_comes_back_does_not_keep_the_interpreter_alive():
    ended = run_python(
        _HANGING
        + """
report = hydrate("x", function("hang", hang, timeout=0.01)).meta.sources[0]
print(report.status)
"""
    )
    warned = "source 'hang' was left out: late: no answer within 0.01 s\n"
    assert (ended.code, ended.out, ended.err) == (0, "late\n", warned)


def test_it_works_while_the_interpreter_exits():
    ended = run_python(
        """
import atexit
from rehydrate import hydrate

def last():
    ir = hydrate("x", lambda request: "here", timeout=None)
    print(ir.sections[0].content)

atexit.register(last)
"""
    )
    assert (ended.code, ended.out, ended.err) == (0, "here\n", "")


@needs_fork
def test_a_forked_child_hydrates_whatever_its_parent_waited_for():
    ended = run_python(
        _HANGING
        + """
import warnings
from rehydrate import Memory
import tempfile

warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, which is the point

def content(question, source):
    ir = hydrate(question, source, timeout=None)
    return [section.content for section in ir.sections]

with tempfile.TemporaryDirectory() as folder:
    with Memory.open(f"{folder}/m.db", namespace="alice") as memory:
        memory.add("Staging listens on 8443.")
        here = content("staging", memory)
        for _ in range(40):  # more than may be left behind
            hydrate("x", function("hang", hang, timeout=0.0))
        child = os.fork()
        if child == 0:
            same = content("staging", memory) == here == ["Staging listens on 8443."]
            called = content("x", function("hang", lambda request: "called", timeout=None))
            os._exit(0 if same and called == ["called"] else 1)
        signal.alarm(60)
        _, status = os.waitpid(child, 0)
        print("child", os.waitstatus_to_exitcode(status), content("staging", memory) == here)
"""
    )
    assert (ended.code, ended.out) == (0, "child 0 True\n")
    assert ended.err.count("was left out: late") == ended.err.count("\n") >= 1  # once of a cause
