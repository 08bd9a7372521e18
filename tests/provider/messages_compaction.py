"""Compaction on demand of the Messages API: a request for a summary, and the block that it returns.

A request with `compaction` is answered with one signed block. Later requests have that block first,
as it was sent, in place of the messages that it is of. Both need the beta.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.provider.errors import RefusedError
from tests.provider.messages_rules import blocks_of, leading_summary
from tests.provider.signer import Signer

BETA = "compact-2026-09-04"


class Compactions:
    """Checks requests for a summary, and the summaries that come back."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self._issued: dict[str, str] = {}
        """Summaries by their signatures."""

    def check(self, request: Mapping[str, Any], *, has_beta: bool) -> None:
        if request.get("compaction") is not None:
            if not has_beta:
                raise RefusedError("compaction: Extra inputs are not permitted")
            if request.get("context_management") is not None:
                raise RefusedError("compaction: cannot be combined with `context_management`")
        for index, message in enumerate(request["messages"]):
            for position, block in enumerate(blocks_of(message["content"])):
                if block["type"] == "compaction":
                    where = f"messages.{index}.content.{position}"
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

    def block(self, text: str) -> dict[str, Any]:
        """Return the block of a summary; one without text failed."""
        if not text:
            return {"type": "compaction", "content": None}
        signature = self._signer.sign("compaction", text, str(len(self._issued)))
        self._issued[signature] = text
        return {"type": "compaction", "content": text, "signature": signature}
