"""Compaction of the Messages API: a request for a summary, and the block that it returns.

On demand, a request with `compaction` is answered with one signed block. Later requests have that
block first, as it was sent, in place of the messages that it is of. Both need the beta.

At a threshold, an answer begins with a block that has no signature. It is sent back where it is, as
it was sent, and all before the last one is ignored. Both need another beta. Written from
https://platform.claude.com/docs/en/build-with-claude/compaction-threshold
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.provider.errors import RefusedError
from tests.provider.messages_rules import blocks_of, leading_summary
from tests.provider.signer import Signer

BETA = "compact-2026-09-04"
THRESHOLD_BETA = "compact-2026-01-12"
_LEAST_TRIGGER = 50_000


class Compactions:
    """Checks requests for a summary, and the summaries that come back."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self._issued: dict[str, str] = {}
        """Summaries by their signatures."""
        self._unsigned: list[Mapping[str, Any]] = []

    def check(self, request: Mapping[str, Any], betas: frozenset[str]) -> None:
        has_beta = BETA in betas
        trigger = self.trigger(request)
        if trigger is not None and THRESHOLD_BETA not in betas:
            raise RefusedError("context_management.edits: Input tag 'compact_20260112' not found")
        if trigger is not None and trigger < _LEAST_TRIGGER:
            words = f"Input should be greater than or equal to {_LEAST_TRIGGER}"
            raise RefusedError(f"context_management.edits.trigger.value: {words}")
        if request.get("compaction") is not None:
            if not has_beta:
                raise RefusedError("compaction: Extra inputs are not permitted")
            if request.get("context_management") is not None:
                raise RefusedError("compaction: cannot be combined with `context_management`")
        for index, message in enumerate(request["messages"]):
            for position, block in enumerate(blocks_of(message["content"])):
                if block["type"] == "compaction":
                    where = f"messages.{index}.content.{position}"
                    if block.get("signature") is None and THRESHOLD_BETA in betas:
                        self._check_unsigned(where, block)
                    else:
                        self._check_block(where, block, request, has_beta=has_beta)

    def _check_block(
        self, where: str, block: Mapping[str, Any], request: Mapping[str, Any], *, has_beta: bool
    ) -> None:
        if not has_beta:
            raise RefusedError(f"{where}: `compaction` blocks require the `{BETA}` beta")
        if block is not leading_summary(request):
            words = "a `compaction` block must be the first block of the first message"
            raise RefusedError(f"{where}: {words}")
        if not block["content"]:
            raise RefusedError(f"{where}.content: must be non-empty")
        if self._issued.get(block.get("signature", "")) != block["content"]:
            raise RefusedError(f"{where}: Invalid `signature` in `compaction` block")

    def _check_unsigned(self, where: str, block: Mapping[str, Any]) -> None:
        said = {
            key: value
            for key, value in block.items()
            if key != "cache_control" and (value is not None or key == "content")
        }
        if said not in self._unsigned:
            raise RefusedError(f"{where}: the `compaction` block is not as it was returned")

    def trigger(self, request: Mapping[str, Any]) -> int | None:
        """Return the tokens at which a request is compacted; None: never."""
        edits = (request.get("context_management") or {}).get("edits", ())
        found = [edit for edit in edits if edit["type"] == "compact_20260112"]
        return (found[0].get("trigger") or {}).get("value", 150_000) if found else None

    def applied(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a request without all before its last summary of a threshold."""
        messages = request["messages"]
        for index in range(len(messages) - 1, -1, -1):
            blocks = blocks_of(messages[index]["content"])
            for position in range(len(blocks) - 1, -1, -1):
                block = blocks[position]
                is_ours = block["type"] == "compaction" and block.get("signature") is None
                if is_ours and block["content"]:
                    first = {**messages[index], "content": blocks[position:]}
                    return {**request, "messages": [first, *messages[index + 1 :]]}
        return request

    def unsigned(self, text: str | None) -> dict[str, Any]:
        """Return the block of a threshold; one without text failed."""
        block = {"type": "compaction", "content": text}
        if text:
            block["encrypted_content"] = self._signer.sign("encrypted", text)
        self._unsigned.append(block)
        return block

    def block(self, text: str) -> dict[str, Any]:
        """Return the block of a summary; one without text failed."""
        if not text:
            return {"type": "compaction", "content": None}
        signature = self._signer.sign("compaction", text, str(len(self._issued)))
        self._issued[signature] = text
        return {"type": "compaction", "content": text, "signature": signature}
