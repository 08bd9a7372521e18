"""TokenCounter: the tokens of a prompt's parts; a test may choose how texts are counted."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

CountTokens = Callable[[str], int]
IMAGE_TOKENS = 1500


def count_by_chars(text: str) -> int:
    """Count one token for 3.5 characters."""
    return (2 * len(text) + 6) // 7


class TokenCounter:
    """Counts tokens, each text only once: a conversation is sent again in every request."""

    def __init__(self, counter: CountTokens) -> None:
        self.text = functools.lru_cache(maxsize=65536)(counter)

    def block(self, block: Mapping[str, Any]) -> int:
        """Count what the model reads of a content block, part or item, not the JSON around it."""
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
