"""The prompt cache of the Messages API: breakpoints, lookback, minimum and lifetimes.

The prompt is a list of blocks in the order tools, system, messages. A request writes an entry at
each of its marks, where the prompt up to there has the minimum of tokens, and reads the longest
entry that one of its marks finds at itself or up to 19 blocks before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.provider.billed import Billed
from tests.provider.messages_rules import blocks_of
from tests.provider.weights import Weights

_LOOKBACK = 20  # positions that a mark looks at, itself among them
_SECONDS = {"5m": 300.0, "1h": 3600.0}
_UNMARKABLE = ("thinking", "redacted_thinking")


class Prompt(NamedTuple):
    """A prompt as the cache sees it, each list with one place a block."""

    prefixes: list[bytes]
    """Tells each block and all before it from any other."""
    tokens: list[int]
    """The tokens up to and with each block."""
    marks: list[str | None]
    """The lifetime that each block's mark asks for."""

    @property
    def total(self) -> int:
        return self.tokens[-1] if self.tokens else 0


class _Entry(NamedTuple):
    ttl: str
    until: float


class PromptCache:
    """Entries of one organisation, on a clock of the test's."""

    def __init__(self, weights: Weights, clock: Callable[[], float], minimum_prefix: int) -> None:
        self._weights = weights
        self._clock = clock
        self._minimum = minimum_prefix
        self._entries: dict[bytes, _Entry] = {}

    def prompt(self, request: Mapping[str, Any]) -> Prompt:
        prompt = Prompt([], [], [])
        prefix, total = _digest(b"", request["model"]), 0

        def add(block: Mapping[str, Any], told: object, tokens: int) -> None:
            nonlocal prefix, total
            prefix, total = _digest(prefix, told), total + tokens
            prompt.prefixes.append(prefix)
            prompt.tokens.append(total)
            prompt.marks.append(_mark_of(block))

        for tool in request.get("tools") or []:
            bare = _bare(tool)
            add(tool, ["tool", bare], self._weights.json(bare))
        for block in blocks_of(request.get("system")):
            add(block, ["system", _bare(block)], self._weights.block(block))
        # These change how messages are read: with another choice none of them is found.
        prefix = _digest(prefix, [request.get("tool_choice"), request.get("thinking")])
        for message in request["messages"]:
            for block in blocks_of(message["content"]):
                add(block, [message["role"], _bare(block)], self._weights.block(block))
        automatic = request.get("cache_control")
        if automatic and prompt.marks:
            prompt.marks[_last_markable(request, len(prompt.marks))] = automatic.get("ttl", "5m")
        return prompt

    def bill(self, prompt: Prompt) -> Billed:
        """Read and write for one request, and say what it is billed for."""
        now = self._clock()
        marks = [
            at for at, ttl in enumerate(prompt.marks) if ttl and prompt.tokens[at] >= self._minimum
        ]
        read_at = self._read(prompt, marks, now)
        read = done = prompt.tokens[read_at] if read_at is not None else 0
        written = {"5m": 0, "1h": 0}
        for at in marks:
            ttl = prompt.marks[at] or "5m"
            known = self._entries.get(prompt.prefixes[at])
            if read_at is not None and at <= read_at:
                if known and known.until > now:  # it was of use: it lives on
                    self._entries[prompt.prefixes[at]] = _Entry(
                        known.ttl, now + _SECONDS[known.ttl]
                    )
                continue
            written[ttl] += prompt.tokens[at] - done
            done = prompt.tokens[at]
            self._entries[prompt.prefixes[at]] = _Entry(ttl, now + _SECONDS[ttl])
        return Billed(prompt.total - done, read, written["5m"], written["1h"])

    def _read(self, prompt: Prompt, marks: list[int], now: float) -> int | None:
        for mark in reversed(marks):
            for at in range(mark, max(mark - _LOOKBACK, -1), -1):
                entry = self._entries.get(prompt.prefixes[at])
                if entry and entry.until > now:
                    fresh = _Entry(entry.ttl, now + _SECONDS[entry.ttl])
                    self._entries[prompt.prefixes[at]] = fresh
                    return at
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
    behind = 0
    while behind < len(kinds) - 1 and kinds[-1 - behind] in _UNMARKABLE:
        behind += 1
    return count - 1 - behind


def _bare(value: Any) -> Any:
    """Without marks, the fields of a block in one order: the API reads them by name.

    What is inside an input keeps its order, which is what the model reads.
    """
    bare = {key: value[key] for key in sorted(value) if key != "cache_control"}
    if bare.get("type") == "tool_result":
        bare["content"] = [_bare(part) for part in blocks_of(bare.get("content"))]
    return bare


def _digest(before: bytes, told: object) -> bytes:
    return hashlib.blake2b(before + json.dumps(told).encode(), digest_size=16).digest()
