"""Thoughts of the Messages API: signed when they are given, and checked when they come back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.provider.messages_rules import blocks_of
from tests.provider.refused import Refused
from tests.provider.seal import Seal

_KINDS = ("thinking", "redacted_thinking")
_DOCS = "https://docs.claude.com/en/docs/build-with-claude/extended-thinking"


class Thoughts:
    """What was thought in each reply that calls tools, and the seals of all thoughts.

    With `binds_prefix` a seal is of the conversation before the thought too: newer models refuse a
    thought in any other.
    """

    def __init__(self, seal: Seal, *, binds_prefix: bool) -> None:
        self._seal = seal
        self._binds_prefix = binds_prefix
        self._given: dict[str, list[Any]] = {}  # thoughts of a reply, by the ids of its calls

    def sign(self, thought: str, request: Mapping[str, Any]) -> dict[str, Any]:
        signature = self._seal.of("thinking", thought, self._prefixes(request)[-1])
        return {"type": "thinking", "thinking": thought, "signature": signature}

    def remember(self, content: Sequence[Mapping[str, Any]]) -> None:
        thoughts = [block for block in content if block["type"] in _KINDS]
        for block in content:
            if block["type"] == "tool_use":
                self._given[block["id"]] = thoughts

    def check(self, request: Mapping[str, Any]) -> None:
        messages = request["messages"]
        if (request.get("thinking") or {}).get("type") == "enabled":
            _check_turn_begins_with_a_thought(messages)
        prefixes = self._prefixes(request)
        last = max(
            (at for at, message in enumerate(messages) if message["role"] == "assistant"),
            default=None,
        )
        for index, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            blocks = blocks_of(message["content"])
            if index == last:
                self._check_unchanged(index, blocks)
            for place, block in enumerate(blocks):
                if block["type"] in _KINDS:
                    where = f"messages.{index}.content.{place}"
                    self._check_seal(where, block, prefixes[index])

    def _check_unchanged(self, index: int, blocks: list[Any]) -> None:
        """Of the latest message of the assistant's, all thoughts come back, or none."""
        thoughts = [block for block in blocks if block["type"] in _KINDS]
        given = next(
            (self._given[block["id"]] for block in blocks if block.get("id") in self._given), None
        )
        if given is not None and thoughts and thoughts != given:
            words = (
                "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot "
                "be modified. These blocks must remain as they were in the original response."
            )
            raise Refused(f"messages.{index}.content.{blocks.index(thoughts[0])}: {words}")

    def _check_seal(self, where: str, block: Mapping[str, Any], prefix: str) -> None:
        if block["type"] == "redacted_thinking":
            if not self._seal.fits(block["data"], "redacted"):
                raise Refused(f"{where}: Invalid `data` in `redacted_thinking` block")
            return
        if self._seal.fits(block["signature"], "thinking", block["thinking"], prefix):
            return
        words = f"{where}: Invalid `signature` in `thinking` block"
        if self._binds_prefix:
            words += ". The block is bound to a different conversation. Remove the block"
        raise Refused(words)

    def redacted(self) -> dict[str, Any]:
        return {"type": "redacted_thinking", "data": self._seal.of("redacted")}

    def _prefixes(self, request: Mapping[str, Any]) -> list[str]:
        """Tells the conversation before each message, and before the reply, from any other."""
        count = len(request["messages"]) + 1
        if not self._binds_prefix:
            return [""] * count
        digest = hashlib.blake2b(digest_size=16)
        for block in blocks_of(request.get("system")):
            digest.update(json.dumps(_unmarked(block)).encode())
        prefixes = [digest.hexdigest()]
        for message in request["messages"]:
            for block in blocks_of(message["content"]):
                digest.update(json.dumps([message["role"], _unmarked(block)]).encode())
            prefixes.append(digest.hexdigest())
        return prefixes


def _unmarked(block: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key != "cache_control"}


def _check_turn_begins_with_a_thought(messages: list[Any]) -> None:
    """The open turn of calls and results at the end starts with what led to it."""
    start = len(messages)
    for index in range(len(messages) - 1, -1, -1):
        kinds = {block["type"] for block in blocks_of(messages[index]["content"])}
        if messages[index]["role"] == "user" and "tool_result" not in kinds:
            break
        if messages[index]["role"] == "assistant":
            start = index
    if start == len(messages):
        return
    first = blocks_of(messages[start]["content"])[0]["type"]
    if first not in _KINDS:
        words = (
            f"Expected `thinking` or `redacted_thinking`, but found `{first}`. When `thinking` is "
            "enabled, a final `assistant` message must start with a thinking block (preceeding the "
            "lastmost set of `tool_use` and `tool_result` blocks). We recommend you include "
            "thinking blocks from previous turns. To avoid this requirement, disable `thinking`. "
            f"Please consult our documentation at {_DOCS}"
        )
        raise Refused(f"messages.{start}.content.0.type: {words}")
