"""Texts of mixed lengths, as a conversation's are: half chat, half coding session.

Those of `REHYDRATE_DATA` (real ones) where it is, else generated ones.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benches.python.inputs import generated_chat, generated_session, texts_of


def mixed_texts(count: int) -> list[str]:
    """Return texts, half chat, half coding session, always the same."""
    chat, code = list(_chats()), list(_sessions())
    draw = random.Random(0)
    half = count // 2
    texts = draw.sample(chat, min(half, len(chat))) + draw.sample(code, min(half, len(code)))
    draw.shuffle(texts)
    return texts


def _data() -> Path | None:
    folder = Path(os.environ.get("REHYDRATE_DATA", ""))
    return folder if (folder / "locomo_dev.json").is_file() else None


def _chats() -> Iterator[str]:
    data = _data()
    if data is None:
        yield from dict.fromkeys(texts_of(generated_chat(2_000)))
        return
    conversations = json.loads((data / "locomo_dev.json").read_text(encoding="utf-8"))
    yield from dict.fromkeys(_turns(conversations))


def _turns(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("text"), str) and "speaker" in value:
            yield value["text"]
        for inner in value.values():
            yield from _turns(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _turns(inner)


def _sessions() -> Iterator[str]:
    data = _data()
    found: dict[str, None] = {}
    if data is None:
        found |= dict.fromkeys(texts_of(generated_session()))
    else:
        for file in sorted((data / "claude_code").glob("*.jsonl")):
            lines = file.read_text(encoding="utf-8").splitlines()
            found |= dict.fromkeys(texts_of([json.loads(line) for line in lines if line.strip()]))
    yield from (text for text in found if text.strip())
