"""A job for tests: a worker that gets a row with a mark in it ends on the spot."""

from __future__ import annotations

import os
import signal
from typing import Any

from rehydrate.batch import compact_batch

MARK = "the fatal row"
JOB = f"{__name__}:compacted_or_killed"


def compacted_or_killed(rows: Any, **options: Any) -> Any:
    if any(text and MARK in str(text) for text in rows["messages"].to_pylist()):
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    return compact_batch(rows, **options)
