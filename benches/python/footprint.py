"""Import, first call, memory and wheel size: `python -m benches.python.footprint`."""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from compileall import compile_dir
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any

from benches.python.inputs import ROOT, Message, generated_chat, generated_session
from benches.python.resident import resident_bytes
from benches.report.size import SIZE

RUNS = SIZE.import_runs
MEMORY_RUNS = 3
MANY_MESSAGES = 10_000
CONVERSATIONS = SIZE.cached_conversations
EAGER = "rehydrate"
OPTIONAL = (
    "numpy",
    "anyio",
    "trio",
    "asyncio",
    "tiktoken",
    "tokenizers",
    "onnxruntime",
    "langchain_core",
    "pydantic",
)
PEERS = ("langchain_core.messages", "tiktoken", "tokenizers", "onnxruntime")
SMALL = '[{"role": "user", "content": "hello"}]'


def measure(wheel_folder: Path) -> dict[str, Any]:
    """Measure every figure."""
    return {
        "import": _import(),
        "memory": {kind: _in_processes_of_their_own(kind) for kind in _CONVERSATIONS},
        "wheel": _wheel(wheel_folder),
    }


def _import() -> dict[str, Any]:
    """Measure milliseconds over bare Python, medians of runs that take turns."""
    programs = {
        "bare": "pass",
        "import": f"import {EAGER}",
        "first_call": f"import {EAGER}; {EAGER}.compact_context({SMALL})",
    } | {peer: f"import {peer}" for peer in PEERS if find_spec(peer.partition(".")[0])}
    runs: dict[str, list[float]] = {name: [] for name in programs}
    # As once installed, whatever PYTHONDONTWRITEBYTECODE says here.
    compile_dir(ROOT / "python" / EAGER, quiet=1)
    for _ in range(RUNS):
        for name, program in programs.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True)
            runs[name].append((time.perf_counter() - started) * 1e3)
    ask = f"import sys, {EAGER}; print(*(name for name in {OPTIONAL!r} if name in sys.modules))"
    said = subprocess.run([sys.executable, "-c", ask], check=True, capture_output=True, text=True)
    medians = {name: median(times) for name, times in runs.items()}
    return {f"{name}_ms": medians.pop(name) for name in ("bare", "import", "first_call")} | {
        "loaded": said.stdout.split(),
        "peers_ms": medians,
    }


def _session(number: int) -> list[Message]:
    """Return some 10,000 messages of a coding agent: two a unit, now and then a request."""
    units, size = MANY_MESSAGES * 25 // 49, MANY_MESSAGES * 800
    return generated_session(units=units, size_bytes=size, number=number)


def _chat(number: int) -> list[Message]:
    """Return 10,000 messages of 117 bytes or a few more."""
    return [
        {**message, "content": f"{number}: {message['content']}"}
        for message in generated_chat(MANY_MESSAGES)
    ]


_CONVERSATIONS: dict[str, Callable[[int], list[Message]]] = {"coding": _session, "chat": _chat}


def _in_processes_of_their_own(kind: str) -> dict[str, float]:
    """Measure in three processes, which differ by a tenth: free memory is anywhere.

    Return the figures of the one in the middle.
    """
    command = [sys.executable, "-m", "benches.python.footprint", "--grow", kind]
    runs: list[dict[str, float]] = []
    for _ in range(MEMORY_RUNS):
        said = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
        runs.append(json.loads(said.stdout))
    return sorted(runs, key=itemgetter("held_bytes"))[MEMORY_RUNS // 2]


def _grow(kind: str) -> dict[str, float]:
    """Measure the resident memory of conversations after their compaction, without the results."""
    import rehydrate
    from rehydrate import _native

    def compact(number: int) -> tuple[int, int]:
        messages = _CONVERSATIONS[kind](number)
        size = sum(len(text.encode()) for text in _texts(messages))
        rehydrate.compact_context(messages, "what about the gain per token?")
        return len(messages), size

    # One of the same shape first: the models are loaded, and Python's own arenas have their full
    # size, before anything is measured.
    compact(0)
    _native.clear_cache()
    _trim()
    before = resident_bytes()
    sizes = [compact(number) for number in range(1, CONVERSATIONS + 1)]
    peak = resident_bytes()
    _trim()
    after = resident_bytes()
    text_bytes = sum(size for _, size in sizes)
    return {
        "messages": sizes[0][0],
        "conversations": CONVERSATIONS,
        "text_bytes": text_bytes,
        "held_bytes": after - before,
        "charged_bytes": _native.cached_bytes(),
        "after_call_bytes": peak - before,
        "held_per_text": (after - before) / text_bytes,
    }


def _texts(messages: Sequence[Message]) -> list[str]:
    from benches.python.inputs import texts_of

    return texts_of(list(messages))


def _trim() -> None:
    """Give free memory back, so that resident memory is memory in use."""
    import ctypes

    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def _wheel(folder: Path) -> dict[str, Any] | None:
    wheels = sorted(folder.glob("*.whl"), key=lambda wheel: wheel.stat().st_mtime)
    return {"name": wheels[-1].name, "bytes": wheels[-1].stat().st_size} if wheels else None


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--build-wheel", action="store_true", help="build one instead of weighing what dist/ holds"
    )
    parser.add_argument("--grow", choices=_CONVERSATIONS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.grow:
        figures: dict[str, Any] = _grow(asked.grow)
    elif asked.build_wheel:
        with tempfile.TemporaryDirectory() as folder:
            build = [sys.executable, "-m", "maturin", "build", "--release", "-q"]
            build += ["--compression-level", "9", "--out", folder]  # as `make wheel` does
            subprocess.run(build, cwd=ROOT, check=True)
            figures = measure(Path(folder))
    else:
        figures = measure(ROOT / "dist")
    json.dump(figures, sys.stdout)


if __name__ == "__main__":
    main()
