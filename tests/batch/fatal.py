"""A job for tests: a worker that gets a row with a mark in it ends on the spot."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any

from rehydrate.batch.jobs import compacted

MARK = "the fatal row"
JOB = f"{__name__}:compacted_or_killed"


def compacted_or_killed(rows: Any, options: Mapping[str, Any]) -> Any:
    if any(text and MARK in str(text) for text in rows["messages"].to_pylist()):
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    return compacted(rows, options)
