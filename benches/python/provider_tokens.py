"""How many tokens Anthropic bills for one of ours, by the transcripts of Claude Code.

    python -m benches.python.provider_tokens /path/to/transcripts

Each assistant line says what its request was billed. Between two requests the prompt grew by what
stands between them in the transcript, so that what is in every prompt and in no transcript (the
system prompt, tools) does not count.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rehydrate import _native, formats

COUNTED = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
MOST_GROWTH = 30_000
"""More growth, or a negative one, is a compaction and not a turn."""


def growths(entries: list[dict[str, Any]]) -> Iterator[tuple[int, int, int]]:
    """Yield between two requests: our tokens, messages, and the difference of their bills."""
    messages = formats.parse(entries, "claude_code").messages
    tokens = _native.message_tokens(messages, "o200k_base")
    seen: set[str] = set()
    ours = count = 0
    before: tuple[int, int, int] | None = None
    for message, cost in zip(messages, tokens, strict=True):
        said = entries[message.index]["message"]
        if message.role == "assistant" and said.get("id") not in seen:
            seen.add(said.get("id"))
            billed = sum(said.get("usage", {}).get(name, 0) for name in COUNTED)
            if before is not None and 0 < billed - before[2] < MOST_GROWTH and before[2]:
                yield ours - before[0], count - before[1], billed - before[2]
            before = ours, count, billed
        ours, count = ours + cost, count + 1


def main(folder: str) -> None:
    found: list[tuple[int, int, int]] = []
    for path in sorted(Path(folder).glob("*.jsonl")):
        lines = path.read_text(encoding="utf-8").splitlines()
        found += growths([json.loads(line) for line in lines])
    table = np.array(found, dtype=float)
    for _ in range(3):  # without outliers: reminders that the harness inserted
        ours = np.column_stack([table[:, :2], np.ones(len(table))])
        per_token, per_message, per_request = np.linalg.lstsq(ours, table[:, 2], rcond=None)[0]
        rest = table[:, 2] - ours @ np.array([per_token, per_message, per_request])
        print(
            f"{len(table)} requests: {table[:, 2].sum() / table[:, 0].sum():.2f} billed for one of "
            f"ours; {per_token:.2f} a token + {per_message:.0f} a message + {per_request:.0f} a "
            "request"
        )
        table = table[np.abs(rest) < 3 * rest.std()]


if __name__ == "__main__":
    main(sys.argv[1])
