"""A model in a process that forks, spawns, is interrupted, or exits during a call."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="writes the tiny model; pip install onnx")

from rehydrate.embedding import OnnxModel, load_model
from tests.embedding.tiny_onnx import write_model
from tests.sizes import PATIENCE_SECONDS

TEXTS = ["a b c", "d e", "f"]

# Forking with running threads is what this tests.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("tiny"))


def embed_into(queue: multiprocessing.Queue[bytes], model: OnnxModel) -> None:
    queue.put(model.embed(TEXTS).tobytes())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_embeds_and_exits_whatever_the_parent_is_doing(folder: Path) -> None:
    script = (
        "import os, signal, sys, threading, time\n"
        "import numpy as np\n"
        "from rehydrate.embedding.onnx import load_model\n"
        "model = load_model(sys.argv[1], threads=4)\n"
        "expected = model.embed(['a b', 'c'])\n"
        "many = [f'a b {i}' for i in range(1_000_000)]\n"
        "threading.Thread(target=model.embed, args=(many,), daemon=True).start()\n"
        "time.sleep(0.2)\n"
        "for how in ('exit', 'drop', 'again'):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        f"        signal.alarm({PATIENCE_SECONDS})\n"  # a child that hangs is killed, and so fails
        "        if how != 'exit':\n"
        "            assert np.array_equal(model.embed(['a b', 'c']), expected)\n"
        "        if how == 'again':\n"
        "            grandchild = os.fork()\n"
        "            if grandchild:\n"
        "                assert os.waitpid(grandchild, 0)[1] == 0\n"
        "            assert np.array_equal(model.embed(['a b', 'c']), expected)\n"
        "        del model\n"
        "        sys.exit(0)\n"
        "    assert os.waitpid(child, 0)[1] == 0, how\n"
        "assert np.array_equal(model.embed(['a b', 'c']), expected)\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", script, str(folder)]
    done = subprocess.run(command, timeout=PATIENCE_SECONDS, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_every_kind_of_process_takes_the_model_with_it(folder: Path, method: str) -> None:
    model = load_model(folder)
    expected = model.embed(TEXTS)
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=embed_into, args=(queue, model))
    process.start()
    try:
        rows = np.frombuffer(queue.get(timeout=PATIENCE_SECONDS), np.float32).reshape(
            expected.shape
        )
        process.join(PATIENCE_SECONDS)
        assert process.exitcode == 0
    finally:
        process.kill()
    np.testing.assert_array_equal(rows, expected)


@pytest.mark.parametrize("threads", [1, 4])
def test_the_interpreter_exits_while_threads_embed(folder: Path, threads: int) -> None:
    script = (
        "import sys, threading, time\n"
        "from rehydrate.embedding.onnx import load_model\n"
        "model = load_model(sys.argv[1])\n"
        "def forever():\n"
        "    while True:\n"
        "        try:\n"
        "            model.embed([f'a b {i}' for i in range(100_000)])\n"
        "        except Exception: pass\n"
        "for _ in range(int(sys.argv[2])):\n"
        "    threading.Thread(target=forever, daemon=True).start()\n"
        "time.sleep(0.5)\n"
        "print('leaving')\n"
    )
    command = [sys.executable, "-c", script, str(folder), str(threads)]
    done = subprocess.run(command, timeout=PATIENCE_SECONDS, check=False, capture_output=True)
    assert (done.returncode, done.stdout.strip()) == (0, b"leaving"), done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_ctrl_c_ends_an_embedding_and_leaves_the_model_whole(folder: Path) -> None:
    script = (
        "import os, signal, sys, threading, time\n"
        "from rehydrate.embedding.onnx import load_model\n"
        "model = load_model(sys.argv[1])\n"
        "model.embed(['b'])\n"  # numpy prints another error when interrupted during its import
        "many = [f'a b {i}' for i in range(1_000_000)]\n"
        "try:\n"
        "    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "    model.embed(many)\n"
        "except KeyboardInterrupt:\n"
        "    assert model.embed(['a']).any()\n"
        "    print('interrupted')\n"
    )
    command = [sys.executable, "-c", script, str(folder)]
    done = subprocess.run(command, timeout=PATIENCE_SECONDS, check=False, capture_output=True)
    assert done.stdout.strip() == b"interrupted", done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_other_threads_run_while_one_embeds(folder: Path) -> None:
    model = load_model(folder, threads=1)
    ticks = []
    previous = signal.signal(signal.SIGALRM, lambda *_: ticks.append(time.monotonic()))
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        model.embed([f"a b {i}" for i in range(300_000)], deadline=time.monotonic() + 2)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert ticks, "a signal handler ran in the middle of the call"
