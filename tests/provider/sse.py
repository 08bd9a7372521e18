"""Server-sent events, and texts cut into the pieces that they carry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_PIECE_CHARS = 24


def event(data: Any, *, name: str | None = None) -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def pieces(text: str) -> Iterator[str]:
    """Yield the text in pieces of one size; the last is shorter."""
    for start in range(0, len(text), _PIECE_CHARS):
        yield text[start : start + _PIECE_CHARS]
