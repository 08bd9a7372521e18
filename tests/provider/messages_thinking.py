"""Thoughts of the Messages API: signed when they are given, and checked when they come back.

Newer models bind a thought to its prefix: the system prompt, the tools and everything before it,
thinking and cache marks aside. Each thought remembers the one before it as well, so that thoughts
may go from the front and from the end, and not from between.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from tests.provider.messages_rules import blocks_of
from tests.provider.refused import Refused
from tests.provider.seal import Seal

BETA = "thinking-binding-controls-2026-08-01"
"""The value of the anthropic-beta header for `block_binding` and `input_transformations`."""

_KINDS = ("thinking", "redacted_thinking")
_DOCS = "https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
_BINDING = ("fable-5-1", "fable-5-2", "mythos-5-1", "mythos-5-2", "opus-5-5", "sonnet-5-5")
_BINDING_MODELS = tuple([f"claude-{name}" for name in (*_BINDING, "haiku-5-5")])
_READS = {
    "claude-fable-5-1": ("claude-opus-5", "claude-opus-5-5"),
    "claude-opus-5-5": ("claude-opus-5", "claude-sonnet-5-5", "claude-sonnet-5"),
    "claude-sonnet-5-5": ("claude-sonnet-5", "claude-opus-4-8"),
    "claude-haiku-5-5": (),
}


class _Prefix(NamedTuple):
    """What a thought was given behind."""

    system: str
    tools: str
    blocks: str


@dataclass(frozen=True, slots=True)
class _Given:
    """A thought as it was given."""

    block: str
    model: str
    prefix: _Prefix
    before: str | None
    """The signature of the thought before it; None: it was the first."""


class Transformed(NamedTuple):
    """What the API did to a request's thoughts before the model saw them."""

    entries: list[dict[str, str]]
    last: str | None
    """The signature of the last thought that stands."""


class Thoughts:
    """What was thought in each reply that calls tools, and the seals of all thoughts.

    ``binds_prefix`` says for all models whether a thought counts only behind what it was given
    behind; None: as it is for the model that is asked.
    """

    def __init__(self, seal: Seal, *, binds_prefix: bool | None) -> None:
        self._seal = seal
        self._binds_prefix = binds_prefix
        self._by_call: dict[str, list[Any]] = {}  # thoughts of a reply, by the ids of its calls
        self._given: dict[str, _Given] = {}

    def binds(self, model: str) -> bool:
        if self._binds_prefix is not None:
            return self._binds_prefix
        return model.startswith(_BINDING_MODELS)

    def sign(self, thought: str, request: Mapping[str, Any], last: str | None) -> dict[str, Any]:
        prefix = _Prefix(*_head(request), _Blocks.of(request).digest)
        bound = json.dumps([request["model"], prefix, last]) if self.binds(request["model"]) else ""
        signature = self._seal.of("thinking", thought, bound)
        block = {"type": "thinking", "thinking": thought, "signature": signature}
        self._given[signature] = _Given(json.dumps(block), request["model"], prefix, last)
        return block

    def redact(self, request: Mapping[str, Any], last: str | None) -> dict[str, Any]:
        prefix = _Prefix(*_head(request), _Blocks.of(request).digest)
        bound = json.dumps([request["model"], prefix, last]) if self.binds(request["model"]) else ""
        block = {"type": "redacted_thinking", "data": self._seal.of("redacted", bound)}
        self._given[block["data"]] = _Given(json.dumps(block), request["model"], prefix, last)
        return block

    def remember(self, content: Sequence[Mapping[str, Any]]) -> None:
        thoughts = [block for block in content if block["type"] in _KINDS]
        for block in content:
            if block["type"] == "tool_use":
                self._by_call[block["id"]] = thoughts

    def check(self, request: Mapping[str, Any], *, has_controls: bool = False) -> Transformed:
        """Raises Refused for a thought that does not count; says which were dropped instead."""
        messages = request["messages"]
        thinking = request.get("thinking") or {}
        binding = thinking.get("block_binding")
        if binding is not None and not has_controls:
            kind = thinking["type"]
            raise Refused(f"thinking.{kind}.block_binding: Extra inputs are not permitted")
        drops = (binding or {}).get("prefix_mismatch_behavior") == "drop_block"
        if thinking.get("type") == "enabled":
            _check_turn_begins_with_a_thought(messages)
        last_spoken = max(
            (at for at, message in enumerate(messages) if message["role"] == "assistant"),
            default=None,
        )
        entries: list[dict[str, str]] = []
        last: str | None = None
        head, said = _head(request), _Blocks()
        for index, message in enumerate(messages):
            blocks = blocks_of(message["content"])
            if index == last_spoken:
                self._check_unchanged(index, blocks)
            for place, block in enumerate(blocks):
                if block["type"] not in _KINDS:
                    said.add(message["role"], block)
                    continue
                where = f"messages.{index}.content.{place}"
                given = self._check_seal(where, block)
                if given is None:
                    continue
                prefix = _Prefix(*head, said.digest)
                reason = self._mismatch(given, request["model"], prefix, last)
                if reason is not None and not drops:
                    raise Refused(_refusal(where, reason, has_controls=has_controls))
                readable = _reads(request["model"], given.model)
                if reason is not None or not readable:
                    why = "prefix_binding_mismatch" if readable else "model_binding_mismatch"
                    entries.append({"type": "thinking_dropped", "path": where, "reason": why})
                if reason is None:
                    last = _name(block)
        return Transformed(entries, last)

    def _check_unchanged(self, index: int, blocks: list[Any]) -> None:
        """Of the latest message of the assistant's, all thoughts come back, or none."""
        thoughts = [block for block in blocks if block["type"] in _KINDS]
        given = next(
            (self._by_call[block["id"]] for block in blocks if block.get("id") in self._by_call),
            None,
        )
        if given is not None and thoughts and thoughts != given:
            words = (
                "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot "
                "be modified. These blocks must remain as they were in the original response."
            )
            raise Refused(f"messages.{index}.content.{blocks.index(thoughts[0])}: {words}")

    def _check_seal(self, where: str, block: Mapping[str, Any]) -> _Given | None:
        """The thought as it was given; None for one that is bound to nothing."""
        given = self._given.get(_name(block))
        if block["type"] == "redacted_thinking":
            if given is None:
                raise Refused(f"{where}: Invalid `data` in `redacted_thinking` block")
            return given
        told = {key: block[key] for key in ("type", "thinking", "signature")}
        if given is not None and json.dumps(told) == given.block:
            return given
        if self._seal.fits(block["signature"], "thinking", block["thinking"], ""):
            return None  # of another server of the same provider's
        raise Refused(f"{where}: Invalid `signature` in `thinking` block")

    def _mismatch(
        self,
        given: _Given,
        model: str,
        prefix: _Prefix,
        last: str | None,
    ) -> str | None:
        """What is not as it was when the thought was given, in a sentence; None: nothing."""
        if not (self.binds(model) and self.binds(given.model)):
            return None
        if prefix.system != given.prefix.system:
            return "The `system` prompt differs from the one this block was created with."
        if prefix.tools != given.prefix.tools:
            return "The `tools` list differs from the one this block was created with."
        if prefix.blocks != given.prefix.blocks:
            return "Content that preceded this block when it was created is missing or differs."
        if last is not None and last != given.before:
            return (
                "The `thinking` block that preceded this one when it was created is missing from "
                "this request."
            )
        return None


def _refusal(where: str, reason: str, *, has_controls: bool) -> str:
    words = (
        f"{where}: Invalid `signature` in `thinking` block. The block is bound to a different "
        "conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` "
        'to "drop_block".'
    )
    if not has_controls:
        words += f" That setting requires the `{BETA}` value in the `anthropic-beta` header."
    return f"{words} {reason}"


def _name(block: Mapping[str, Any]) -> str:
    name: str = block["signature" if block["type"] == "thinking" else "data"]
    return name


def _reads(model: str, other: str) -> bool:
    """Whether a model reads what another thought."""
    if model == other or not (model.startswith("claude-") and other.startswith("claude-")):
        return True
    if other.startswith(_BINDING_MODELS) or model in _READS:
        return other in _READS.get(model, ())
    return True


class _Blocks:
    """What was said so far, thinking aside."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=16)

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Self:
        said = cls()
        for message in request["messages"]:
            for block in blocks_of(message["content"]):
                if block["type"] not in _KINDS:
                    said.add(message["role"], block)
        return said

    def add(self, role: str, block: Mapping[str, Any]) -> None:
        self._digest.update(json.dumps([role, _unmarked(block)]).encode() + b"\0")

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


def _head(request: Mapping[str, Any]) -> tuple[str, str]:
    """The system prompt and the tools, but those that are deferred."""
    tools = [tool for tool in request.get("tools") or () if not tool.get("defer_loading")]
    return (
        json.dumps([_unmarked(block) for block in blocks_of(request.get("system"))]),
        json.dumps(sorted(json.dumps(_unmarked(tool)) for tool in tools)),
    )


def _unmarked(block: Mapping[str, Any]) -> dict[str, Any]:
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    if bare.get("type") == "tool_result" and "content" in bare:
        bare["content"] = [_unmarked(each) for each in blocks_of(bare["content"])]
    return bare


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
