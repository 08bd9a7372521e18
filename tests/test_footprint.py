"""What the cache says it holds is what the process holds, and it is little beside the texts."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, gc, json, os
from pathlib import Path
import rehydrate
from rehydrate import _native

def resident():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

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
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    )
    found: dict[str, int] = json.loads(told.stdout)
    return found


def test_the_cache_charges_what_the_process_holds(figures: dict[str, int]) -> None:
    assert 0.75 <= figures["held"] / figures["charged"] <= 1.25, figures


def test_a_cached_conversation_of_short_messages_takes_three_times_its_text_at_most(
    figures: dict[str, int],
) -> None:
    assert figures["held"] / figures["texts"] <= 3, figures
