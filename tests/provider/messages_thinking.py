"""Thinking blocks of the Messages API: signed in a reply, and checked in the next request.

Newer models bind a block to its prefix: the system prompt, the tools and all content before it,
without thinking and cache marks. Each block also remembers the thinking block before it, so blocks
may be removed from the front and from the end, but not from between.

A summary that the API wrote stands for the messages that it is of. After it a block is valid if
its messages follow directly, in another role than the last of these, and if the block was made
before the summary or after it.
https://platform.claude.com/docs/en/build-with-claude/compaction-thinking-blocks
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.provider.errors import RefusedError
from tests.provider.messages_rules import blocks_of, leading_summary
from tests.provider.signer import Signer

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
    """The prefix of a thinking block."""

    system: str
    tools: str
    blocks: str


@dataclass(frozen=True, slots=True)
class _IssuedBlock:
    """A thinking block as it was sent to the client."""

    block: str
    model: str
    prefix: _Prefix
    previous: str | None
    """The signature of the thinking block before it; None if it was the first."""
    summary: str | None
    """The signature of the summary that it was made after."""
    number: int
    """In the order in which blocks and summaries were sent."""


@dataclass(frozen=True, slots=True)
class _Summary:
    """A summary as it was sent to the client, with what it stands for."""

    head: tuple[str, str]
    content: _Content
    last_role: str
    number: int
    is_bound: bool
    """Whether its model binds thinking to a prefix."""


class CheckedThinking(NamedTuple):
    """The thinking of a request after the check: the dropped blocks, and the last valid one."""

    entries: list[dict[str, str]]
    last: str | None
    """The signature of the last thinking block that was not dropped."""


class ThinkingBlocks:
    """All thinking blocks that were sent, with their signatures.

    ``binds_prefix`` says for all models whether a block is valid only after its own prefix; None:
    depends on the model.
    """

    def __init__(self, signer: Signer, *, binds_prefix: bool | None) -> None:
        self._signer = signer
        self._binds_prefix = binds_prefix
        self._by_call: dict[str, list[Any]] = {}  # blocks of a reply, by the ids of its calls
        self._issued: dict[str, _IssuedBlock] = {}
        self._summaries: dict[str, _Summary] = {}

    def binds(self, model: str) -> bool:
        if self._binds_prefix is not None:
            return self._binds_prefix
        return model.startswith(_BINDING_MODELS)

    def sign(self, thinking: str, request: Mapping[str, Any], last: str | None) -> dict[str, Any]:
        prefix, bound = self._bound(request, last)
        signature = self._signer.sign("thinking", thinking, bound)
        block = {"type": "thinking", "thinking": thinking, "signature": signature}
        self._note(signature, block, request, prefix, last)
        return block

    def redact(self, request: Mapping[str, Any], last: str | None) -> dict[str, Any]:
        prefix, bound = self._bound(request, last)
        block = {"type": "redacted_thinking", "data": self._signer.sign("redacted", bound)}
        self._note(block["data"], block, request, prefix, last)
        return block

    def _bound(self, request: Mapping[str, Any], last: str | None) -> tuple[_Prefix, str]:
        prefix = _Prefix(*_head(request), self._content_of(request).digest)
        is_bound = self.binds(request["model"])
        return prefix, json.dumps([request["model"], prefix, last]) if is_bound else ""

    def _note(
        self,
        name: str,
        block: Mapping[str, Any],
        request: Mapping[str, Any],
        prefix: _Prefix,
        last: str | None,
    ) -> None:
        self._issued[name] = _IssuedBlock(
            json.dumps(block),
            request["model"],
            prefix,
            last,
            _summary_of(request),
            len(self._issued) + len(self._summaries),
        )

    def note_summary(self, request: Mapping[str, Any], block: Mapping[str, Any]) -> None:
        """Note what a summary stands for: all messages of the request."""
        if block["content"] is not None:
            self._summaries[block["signature"]] = _Summary(
                _head(request),
                self._content_of(request),
                request["messages"][-1]["role"],
                len(self._issued) + len(self._summaries),
                self.binds(request["model"]),
            )

    def _content_of(self, request: Mapping[str, Any]) -> _Content:
        """Return the content of a request; a summary at its beginning stands for what it is of."""
        content, messages = self._start(request)
        for message in messages:
            for block in blocks_of(message["content"]):
                if block["type"] not in _KINDS:
                    content.add(message["role"], block)
        return content

    def _start(self, request: Mapping[str, Any]) -> tuple[_Content, Sequence[Any]]:
        """Return the content that a request goes on from, and the messages that go on."""
        messages = request["messages"]
        summary = self._summaries.get(_summary_of(request) or "")
        if summary is None:
            return _Content(), messages
        content, rest = summary.content.copy(), messages[1:]
        if rest and rest[0]["role"] == summary.last_role:
            content.add("merged", {})  # into the last message that the summary is of
        return content, rest

    def remember(self, content: Sequence[Mapping[str, Any]]) -> None:
        thinking = [block for block in content if block["type"] in _KINDS]
        for block in content:
            if block["type"] == "tool_use":
                self._by_call[block["id"]] = thinking

    def check(self, request: Mapping[str, Any], *, has_controls: bool = False) -> CheckedThinking:
        """Raise RefusedError for an invalid block, or return which blocks were dropped."""
        messages = request["messages"]
        thinking = request.get("thinking") or {}
        binding = thinking.get("block_binding")
        if binding is not None and not has_controls:
            kind = thinking["type"]
            raise RefusedError(f"thinking.{kind}.block_binding: Extra inputs are not permitted")
        drops = (binding or {}).get("prefix_mismatch_behavior") == "drop_block"
        if thinking.get("type") == "enabled":
            _check_turn_begins_with_thinking(messages)
        last_reply = max(
            (index for index, message in enumerate(messages) if message["role"] == "assistant"),
            default=None,
        )
        entries: list[dict[str, str]] = []
        last: str | None = None
        head = _head(request)
        content, rest = self._start(request)
        for index, message in enumerate(rest, len(messages) - len(rest)):
            blocks = blocks_of(message["content"])
            if index == last_reply:
                self._check_unchanged(index, blocks)
            for position, block in enumerate(blocks):
                if block["type"] not in _KINDS:
                    content.add(message["role"], block)
                    continue
                where = f"messages.{index}.content.{position}"
                issued = self._check_signature(where, block)
                if issued is None:
                    continue
                prefix = _Prefix(*head, content.digest)
                reason = self._mismatch(issued, request, prefix, last)
                if reason is not None and not drops:
                    raise RefusedError(_refusal(where, reason, has_controls=has_controls))
                readable = _reads(request["model"], issued.model)
                if reason is not None or not readable:
                    why = "prefix_binding_mismatch" if readable else "model_binding_mismatch"
                    entries.append({"type": "thinking_dropped", "path": where, "reason": why})
                if reason is None:
                    last = _name(block)
        return CheckedThinking(entries, last)

    def _check_unchanged(self, index: int, blocks: list[Any]) -> None:
        """The assistant's latest message has all its thinking blocks, unchanged, or none."""
        thinking = [block for block in blocks if block["type"] in _KINDS]
        sent = next(
            (self._by_call[block["id"]] for block in blocks if block.get("id") in self._by_call),
            None,
        )
        if sent is not None and thinking and thinking != sent:
            words = (
                "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot "
                "be modified. These blocks must remain as they were in the original response."
            )
            raise RefusedError(f"messages.{index}.content.{blocks.index(thinking[0])}: {words}")

    def _check_signature(self, where: str, block: Mapping[str, Any]) -> _IssuedBlock | None:
        """Return the block as it was sent; None for one that is bound to no prefix."""
        issued = self._issued.get(_name(block))
        if block["type"] == "redacted_thinking":
            if issued is None:
                raise RefusedError(f"{where}: Invalid `data` in `redacted_thinking` block")
            return issued
        content = {key: block[key] for key in ("type", "thinking", "signature")}
        if issued is not None and json.dumps(content) == issued.block:
            return issued
        if self._signer.verify(block["signature"], "thinking", block["thinking"], ""):
            return None  # sent by another server with the same key
        raise RefusedError(f"{where}: Invalid `signature` in `thinking` block")

    def _mismatch(
        self,
        issued: _IssuedBlock,
        request: Mapping[str, Any],
        prefix: _Prefix,
        last: str | None,
    ) -> str | None:
        """Return in a sentence what has changed since the block was sent; None if nothing has."""
        if not (self.binds(request["model"]) and self.binds(issued.model)):
            return None
        return self._behind_summary(issued, request, prefix) or _difference(issued, prefix, last)

    def _behind_summary(
        self, issued: _IssuedBlock, request: Mapping[str, Any], prefix: _Prefix
    ) -> str | None:
        """Return why a summary at the beginning makes an older block invalid; None: it does not."""
        name = _summary_of(request)
        summary = self._summaries.get(name or "")
        if summary is None or issued.summary == name:
            return None
        if not summary.is_bound or summary.head != (prefix.system, prefix.tools):
            return "The compaction ran on another model, system prompt or `tools` list."
        if issued.number > summary.number:
            return "The block was created after the summary, and not behind it."
        return None


def _difference(issued: _IssuedBlock, prefix: _Prefix, last: str | None) -> str | None:
    if prefix.system != issued.prefix.system:
        return "The `system` prompt differs from the one this block was created with."
    if prefix.tools != issued.prefix.tools:
        return "The `tools` list differs from the one this block was created with."
    if prefix.blocks != issued.prefix.blocks:
        return "Content that preceded this block when it was created is missing or differs."
    if last is not None and last != issued.previous:
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
    """Return whether a model can read another model's thinking."""
    if model == other or not (model.startswith("claude-") and other.startswith("claude-")):
        return True
    if other.startswith(_BINDING_MODELS) or model in _READS:
        return other in _READS.get(model, ())
    return True


class _Content:
    """Digest of the content so far, without thinking."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=16)

    def copy(self) -> _Content:
        content = _Content()
        content._digest = self._digest.copy()
        return content

    def add(self, role: str, block: Mapping[str, Any]) -> None:
        self._digest.update(json.dumps([role, _unmarked(block)]).encode() + b"\0")

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


def _summary_of(request: Mapping[str, Any]) -> str | None:
    """Return the signature of the summary with which a request begins."""
    summary = leading_summary(request)
    return None if summary is None else summary.get("signature")


def _head(request: Mapping[str, Any]) -> tuple[str, str]:
    """Return the system prompt and the tools, without deferred ones."""
    tools = [tool for tool in request.get("tools") or () if not tool.get("defer_loading")]
    return (
        json.dumps([_unmarked(block) for block in blocks_of(request.get("system"))]),
        json.dumps(sorted(json.dumps(_unmarked(tool)) for tool in tools)),
    )


def _unmarked(block: Mapping[str, Any]) -> dict[str, Any]:
    said = {key: block[key] for key in sorted(block) if block[key] is not None}
    bare = {key: value for key, value in said.items() if key != "cache_control"}
    if bare.get("type") == "tool_result" and "content" in bare:
        bare["content"] = [_unmarked(each) for each in blocks_of(bare["content"])]
    return bare


def _check_turn_begins_with_thinking(messages: list[Any]) -> None:
    """The open turn of calls and results at the end must begin with a thinking block."""
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
        raise RefusedError(f"messages.{start}.content.0.type: {words}")
