"""Weights: the tokens of the parts of a prompt, by a counter of texts that a test may choose."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

Counter = Callable[[str], int]
IMAGE_TOKENS = 1500


def chars(text: str) -> int:
    """A token for each three and a half characters."""
    return (2 * len(text) + 6) // 7


class Weights:
    """Counts each text once, however often a conversation is sent again."""

    def __init__(self, counter: Counter) -> None:
        self.text = functools.lru_cache(maxsize=65536)(counter)

    def block(self, block: Mapping[str, Any]) -> int:
        """A content block, part or item: what the model reads of it, never the wire's wrapping."""
        kind = block.get("type")
        if kind in ("image", "image_url", "input_image"):
            return IMAGE_TOKENS
        if kind == "tool_use":
            return self.text(block["name"]) + self.text(json.dumps(block["input"]))
        if kind in ("function_call", "function"):
            function = block.get("function", block)
            return self.text(function["name"]) + self.text(function["arguments"])
        for key in ("text", "thinking", "data", "encrypted_content", "content", "output"):
            if key in block:
                return self.content(block[key])
        return self.text(json.dumps(block))

    def content(self, content: object) -> int:
        if isinstance(content, str):
            return self.text(content)
        if isinstance(content, list):
            return sum(self.block(part) for part in content)
        return self.text(json.dumps(content)) if content is not None else 0

    def json(self, value: object) -> int:
        return self.text(json.dumps(value)) if value else 0
