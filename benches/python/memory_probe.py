"""Opening a store in a new process: `python -m benches.python.memory_probe FILE NAMESPACE QUERY...`
prints JSON of milliseconds and bytes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rehydrate import Memory


def probe(file: Path, namespace: str, queries: Sequence[str]) -> dict[str, float]:
    """Run the probe in a process of its own."""
    command = [sys.executable, "-m", "benches.python.memory_probe", str(file), namespace, *queries]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def evict(file: Path) -> None:
    """Ask the kernel to drop a store's pages, so that they are read from the disk."""
    for path in [file, *Path(f"{file}-index").glob("*")]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def _memory() -> tuple[int, int]:
    """Return bytes of this process's own, and of files it has mapped and touched."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    own, mapped = (
        int(re.findall(rf"{name}:\s+(\d+) kB", status)[0]) for name in ("RssAnon", "RssFile")
    )
    return own * 1024, mapped * 1024


def _measure(file: Path, namespace: str, queries: Sequence[str]) -> dict[str, Any]:
    evict(file)
    own_before, mapped_before = _memory()
    started = time.perf_counter()
    memory = Memory.open(file, namespace=namespace)
    opened = time.perf_counter()
    memory.search(queries[0])
    searched = time.perf_counter()
    for query in queries:
        memory.search(query)
    own, mapped = _memory()
    memory.close()
    return {
        "open_ms": (opened - started) * 1e3,
        "first_search_ms": (searched - opened) * 1e3,
        "own_bytes": own - own_before,
        "mapped_bytes": mapped - mapped_before,
    }


if __name__ == "__main__":
    print(json.dumps(_measure(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])))
