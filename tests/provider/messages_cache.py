"""The prompt cache of the Messages API: breakpoints, lookback, minimum and lifetimes.

The prompt is a list of blocks in the order tools, system, messages. A request writes an entry at
each of its marks if the prompt up to there has the minimum of tokens. It reads the longest entry at
one of its marks, or up to 19 blocks before one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.provider.billed import Billed
from tests.provider.messages_rules import blocks_of
from tests.provider.token_counter import TokenCounter

_LOOKBACK = 20  # positions that are looked up for a mark, including its own
_SECONDS = {"5m": 300.0, "1h": 3600.0}
_UNMARKABLE = ("thinking", "redacted_thinking")


class Prompt(NamedTuple):
    """A prompt for the cache; each list has one item for a block."""

    prefixes: list[bytes]
    """A digest of each block with all before it."""
    tokens: list[int]
    """The tokens up to the end of each block."""
    marks: list[str | None]
    """The lifetime in each block's mark."""

    @property
    def total(self) -> int:
        return self.tokens[-1] if self.tokens else 0


class _Entry(NamedTuple):
    ttl: str
    until: float


class PromptCache:
    """The entries of one organisation, by a test's clock."""

    def __init__(
        self, token_counter: TokenCounter, clock: Callable[[], float], minimum_prefix: int
    ) -> None:
        self._token_counter = token_counter
        self._clock = clock
        self._minimum = minimum_prefix
        self._entries: dict[bytes, _Entry] = {}

    def prompt(self, request: Mapping[str, Any]) -> Prompt:
        prompt = Prompt([], [], [])
        prefix, total = _digest(b"", request["model"]), 0

        def add(block: Mapping[str, Any], content: object, tokens: int) -> None:
            nonlocal prefix, total
            prefix, total = _digest(prefix, content), total + tokens
            prompt.prefixes.append(prefix)
            prompt.tokens.append(total)
            prompt.marks.append(_mark_of(block))

        for tool in request.get("tools") or []:
            bare = _bare(tool)
            add(tool, ["tool", bare], self._token_counter.json(bare))
        for block in blocks_of(request.get("system")):
            add(block, ["system", _bare(block)], self._token_counter.block(block))
        # The messages are cached per tool choice and thinking.
        prefix = _digest(prefix, [request.get("tool_choice"), request.get("thinking")])
        for message in request["messages"]:
            for block in blocks_of(message["content"]):
                add(block, [message["role"], _bare(block)], self._token_counter.block(block))
        automatic = request.get("cache_control")
        if automatic and prompt.marks:
            prompt.marks[_last_markable(request, len(prompt.marks))] = automatic.get("ttl", "5m")
        return prompt

    def bill(self, prompt: Prompt) -> Billed:
        """Read and write the entries of one request; return its bill."""
        now = self._clock()
        marks = [
            index
            for index, ttl in enumerate(prompt.marks)
            if ttl and prompt.tokens[index] >= self._minimum
        ]
        read_at = self._read(prompt, marks, now)
        read = done = prompt.tokens[read_at] if read_at is not None else 0
        written = {"5m": 0, "1h": 0}
        for index in marks:
            ttl = prompt.marks[index] or "5m"
            entry = self._entries.get(prompt.prefixes[index])
            if read_at is not None and index <= read_at:
                if entry and entry.until > now:  # a used entry lives on
                    self._entries[prompt.prefixes[index]] = _Entry(
                        entry.ttl, now + _SECONDS[entry.ttl]
                    )
                continue
            written[ttl] += prompt.tokens[index] - done
            done = prompt.tokens[index]
            self._entries[prompt.prefixes[index]] = _Entry(ttl, now + _SECONDS[ttl])
        return Billed(prompt.total - done, read, written["5m"], written["1h"])

    def _read(self, prompt: Prompt, marks: list[int], now: float) -> int | None:
        for mark in reversed(marks):
            for index in range(mark, max(mark - _LOOKBACK, -1), -1):
                entry = self._entries.get(prompt.prefixes[index])
                if entry and entry.until > now:
                    fresh = _Entry(entry.ttl, now + _SECONDS[entry.ttl])
                    self._entries[prompt.prefixes[index]] = fresh
                    return index
        return None


def _mark_of(block: Mapping[str, Any]) -> str | None:
    mark = block.get("cache_control")
    if mark is None and block.get("type") == "tool_result":
        inner = [part.get("cache_control") for part in blocks_of(block.get("content"))]
        mark = next((one for one in inner if one), None)
    return None if mark is None else mark.get("ttl", "5m")


def _last_markable(request: Mapping[str, Any], count: int) -> int:
    kinds = [
        block["type"] for message in request["messages"] for block in blocks_of(message["content"])
    ]
    trailing = 0
    while trailing < len(kinds) - 1 and kinds[-1 - trailing] in _UNMARKABLE:
        trailing += 1
    return count - 1 - trailing


def _bare(value: Any) -> Any:
    """Return a block without marks, its fields sorted: the API reads them by name.

    The fields inside an input keep their order, because the model reads it.
    """
    bare = {key: value[key] for key in sorted(value) if key != "cache_control"}
    if bare.get("type") == "tool_result":
        bare["content"] = [_bare(part) for part in blocks_of(bare.get("content"))]
    return bare


def _digest(before: bytes, content: object) -> bytes:
    return hashlib.blake2b(before + json.dumps(content).encode(), digest_size=16).digest()
