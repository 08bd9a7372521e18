"""SentItems: what the Responses API remembers of the items it sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.provider.errors import RefusedError
from tests.provider.responses_rules import is_by_model, kind_of
from tests.provider.signer import Signer

Item = Mapping[str, Any]


class SentItems:
    """Items of all responses: the reasoning that each needs, and the stored ones."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self._reasoning_of: dict[str, str] = {}  # the reasoning item that an item came from
        self._following: dict[str, str] = {}  # the item that followed a reasoning item
        self._stored: dict[str, Item] = {}
        self._responses: dict[str, list[Item]] = {}

    def encrypted(self, item_id: str) -> str:
        """Return the encrypted content of a reasoning item."""
        return "gAAAA" + self._signer.sign("reasoning", item_id)

    def compaction(self, item_id: str, text: str) -> Item:
        """Return a compaction item: a summary that nobody but the API can read."""
        encrypted = "gAAAA" + self._signer.sign("compaction", item_id) + text.encode().hex()
        return {"id": item_id, "type": "compaction", "encrypted_content": encrypted}

    def remember(self, response_id: str, before: Sequence[Item], output: Sequence[Item]) -> None:
        """Store a response with all items before it."""
        self._responses[response_id] = [*before, *output]
        for item in output:
            self._stored[item["id"]] = item

    def link(self, output: Sequence[Item]) -> None:
        """Note which reasoning the items of a response came from."""
        reasoning = None
        for item in output:
            if item["type"] == "reasoning":
                reasoning = item["id"]
            elif reasoning is not None:
                self._reasoning_of[item["id"]] = reasoning
                self._following.setdefault(reasoning, item["id"])

    def history(self, request: Mapping[str, Any]) -> list[Item]:
        """Return the items up to the previous response."""
        previous = request.get("previous_response_id")
        if previous is None:
            return []
        if previous not in self._responses:
            raise RefusedError(
                f"Previous response with id '{previous}' not found.",
                param="previous_response_id",
                code="previous_response_not_found",
            )
        return self._responses[previous]

    def resolved(self, items: Sequence[Item]) -> list[Item]:
        """Return the items, each reference replaced by its item."""
        return [self._stored_item(item["id"]) if _is_reference(item) else item for item in items]

    def _stored_item(self, item_id: str) -> Item:
        if item_id not in self._stored:
            words = (
                f"Item with id '{item_id}' not found. Items are not persisted when `store` is set"
            )
            raise RefusedError(
                f"{words} to false. Try again with `store` set to true, or remove this item from "
                "your input.",
                status=404,
                param="input",
            )
        return self._stored[item_id]

    def check(self, items: Sequence[Item], *, checks_signatures: bool) -> None:
        """Raise RefusedError if reasoning lacks the item that followed it, or is invalid."""
        seen: set[str] = set()
        for index, item in enumerate(items):
            item_id = item.get("id") or ""
            needed = self._reasoning_of.get(item_id)
            if needed is not None and needed not in seen:
                words = f"Item '{item_id}' of type '{kind_of(item)}' was provided without its"
                raise RefusedError(f"{words} required 'reasoning' item: '{needed}'.", param="input")
            seen.add(item_id)
            if checks_signatures and kind_of(item) == "compaction":
                expected = "gAAAA" + self._signer.sign("compaction", item_id)
                if not item["encrypted_content"].startswith(expected):
                    raise _unreadable(item)
            if kind_of(item) != "reasoning":
                continue
            following = next(
                (later for later in items[index + 1 :] if kind_of(later) != "reasoning"), None
            )
            expected = self._following.get(item_id)
            is_other = expected is not None and (following or {}).get("id", expected) != expected
            if following is None or not is_by_model(following) or is_other:
                words = f"Item '{item_id}' of type 'reasoning' was provided without its required"
                raise RefusedError(f"{words} following item.", param="input")
            if checks_signatures:
                self._check_signature(item)

    def _check_signature(self, item: Item) -> None:
        encrypted = item.get("encrypted_content")
        if encrypted is None:
            self._stored_item(item["id"])
        elif not (
            encrypted.startswith("gAAAA")
            and self._signer.verify(encrypted[5:], "reasoning", item["id"])
        ):
            raise _unreadable(item)


def _unreadable(item: Item) -> RefusedError:
    words = f"The encrypted content for item {item.get('id')} could not be verified. Reason:"
    return RefusedError(
        f"{words} Encrypted content could not be decrypted or parsed.",
        code="invalid_encrypted_content",
    )


def _is_reference(item: Item) -> bool:
    return kind_of(item) == "item_reference"
