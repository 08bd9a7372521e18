"""What the Responses API remembers of the items it gave: their reasoning, and those it stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.provider.refused import Refused
from tests.provider.responses_rules import is_by_model, kind_of
from tests.provider.seal import Seal

Item = Mapping[str, Any]


class GivenItems:
    """Items of all responses: which reasoning each came from, which were stored, all seals."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal
        self._needs: dict[str, str] = {}  # the reasoning that an item came from
        self._leads: dict[str, str] = {}  # the item that followed a reasoning
        self._stored: dict[str, Item] = {}
        self._responses: dict[str, list[Item]] = {}

    def seal(self, item_id: str) -> str:
        """The encrypted content of a reasoning item."""
        return "gAAAA" + self._seal.of("reasoning", item_id)

    def remember(self, response_id: str, before: Sequence[Item], output: Sequence[Item]) -> None:
        """Store a response with all that went before it."""
        self._responses[response_id] = [*before, *output]
        for item in output:
            self._stored[item["id"]] = item

    def link(self, output: Sequence[Item]) -> None:
        """Know which reasoning the items of a response came from."""
        reasoning = None
        for item in output:
            if item["type"] == "reasoning":
                reasoning = item["id"]
            elif reasoning is not None:
                self._needs[item["id"]] = reasoning
                self._leads.setdefault(reasoning, item["id"])

    def history(self, request: Mapping[str, Any]) -> list[Item]:
        """The items of the response before this one."""
        previous = request.get("previous_response_id")
        if previous is None:
            return []
        if previous not in self._responses:
            raise Refused(
                f"Previous response with id '{previous}' not found.",
                param="previous_response_id",
                code="previous_response_not_found",
            )
        return self._responses[previous]

    def resolved(self, items: Sequence[Item]) -> list[Item]:
        """References as the items that they stand for."""
        return [self._found(item["id"]) if _is_reference(item) else item for item in items]

    def _found(self, item_id: str) -> Item:
        if item_id not in self._stored:
            words = (
                f"Item with id '{item_id}' not found. Items are not persisted when `store` is set"
            )
            raise Refused(
                f"{words} to false. Try again with `store` set to true, or remove this item from "
                "your input.",
                status=404,
                param="input",
            )
        return self._stored[item_id]

    def check(self, items: Sequence[Item], *, checks_seals: bool) -> None:
        """Reasoning stands before the item it led to, which comes with it; its seal is whole."""
        seen: set[str] = set()
        for index, item in enumerate(items):
            item_id = item.get("id") or ""
            needed = self._needs.get(item_id)
            if needed is not None and needed not in seen:
                words = f"Item '{item_id}' of type '{kind_of(item)}' was provided without its"
                raise Refused(f"{words} required 'reasoning' item: '{needed}'.", param="input")
            seen.add(item_id)
            if kind_of(item) != "reasoning":
                continue
            following = next(
                (later for later in items[index + 1 :] if kind_of(later) != "reasoning"), None
            )
            led_to = self._leads.get(item_id)
            is_other = led_to is not None and (following or {}).get("id", led_to) != led_to
            if following is None or not is_by_model(following) or is_other:
                words = f"Item '{item_id}' of type 'reasoning' was provided without its required"
                raise Refused(f"{words} following item.", param="input")
            if checks_seals:
                self._check_seal(item)

    def _check_seal(self, item: Item) -> None:
        sealed = item.get("encrypted_content")
        if sealed is None:
            self._found(item["id"])
        elif not (
            sealed.startswith("gAAAA") and self._seal.fits(sealed[5:], "reasoning", item["id"])
        ):
            words = f"The encrypted content for item {item['id']} could not be verified. Reason:"
            raise Refused(
                f"{words} Encrypted content could not be decrypted or parsed.",
                code="invalid_encrypted_content",
            )


def _is_reference(item: Item) -> bool:
    return kind_of(item) == "item_reference"
