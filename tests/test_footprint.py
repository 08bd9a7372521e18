"""The cache's own figure is the memory that the process holds, and it is small beside the texts."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, gc, json
from pathlib import Path
import rehydrate
from rehydrate import _native

def resident():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    # Not the library's own pages: the system takes those and gives them back.
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if "RssAnon" in line)

def chat(messages, name):
    roles = ("user", "assistant")
    return [
        {"role": roles[n % 2], "content": f"{name} has walked to house {n} in weather number "
         f"{n * 7919 % 1009}, bought {n % 17} apples there and then went home by tram {n % 31} "
         "as ever."}
        for n in range(messages)
    ]

# Python's own arenas are as large as they get before anything is weighed.
rehydrate.compact_context(chat(10_000, "Emily"), "apples and trams")
_native.clear_cache()
before, texts = resident(), 0
for name in ("Anna", "Berta", "Clara"):
    messages = chat(10_000, name)
    texts += sum(len(message["content"]) for message in messages)
    rehydrate.compact_context(messages, "apples and trams")
    del messages
print(json.dumps({
    "texts": texts,
    "held": resident() - before,
    "charged": _native.cached_bytes(),
}))
"""


@pytest.fixture(scope="module")
def figures() -> dict[str, int]:
    if sys.platform != "linux":
        pytest.skip("resident memory is read from /proc")
    # What is resident also depends on when the system takes pages back: the middle one of three.
    runs = [
        subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
        for _ in range(3)
    ]
    found: list[dict[str, int]] = [json.loads(run.stdout) for run in runs]
    return sorted(found, key=lambda figures: figures["held"])[1]


def test_the_cache_charges_what_the_process_holds(figures: dict[str, int]) -> None:
    assert 0.75 <= figures["held"] / figures["charged"] <= 1.25, figures


def test_a_cached_conversation_of_short_messages_takes_a_few_times_its_text(
    figures: dict[str, int],
) -> None:
    assert figures["held"] / figures["texts"] <= 3.5, figures
