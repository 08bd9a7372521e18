"""The rules of OpenAI's Responses API, for a list of items that is sent whole.

Calls and outputs pair by `call_id` at any distance, the output after the call. A turn is a run of
the model's items and the outputs behind them; only the last turn may hold an unanswered call.

Each rule is about one item and what answers or follows it, never about the distance of two units.
Dropping whole units keeps a valid list valid, and an invalid one no worse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rehydrate.errors import Violation
from rehydrate.formats._reading import type_of

__all__ = ["Item", "broken_rules", "is_by_server"]


_ROLES = frozenset({"system", "developer", "user", "assistant"})
# Calls that the client must answer; a server answers all others itself.
_CLIENT_CALLS = frozenset(
    {
        *("function_call", "custom_tool_call", "computer_call"),
        *("local_shell_call", "shell_call", "apply_patch_call"),
    }
)
# Calls that have an output of their own, which somebody must have made.
_ANSWERED = _CLIENT_CALLS | {"program", "tool_search_call"}
# The role that may write each part; from the other role it is refused.
_MODEL_PARTS = frozenset({"output_text", "refusal"})
_CLIENT_PARTS = frozenset({"input_text", "input_image", "input_file", "input_audio"})


class Item(NamedTuple):
    """One item: its type ("message" if it has none), role, and call ids."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    entry: Mapping[str, Any]
    kind: str
    role: str
    call: str | None = None
    answer: str | None = None


def is_by_server(output: Mapping[str, Any]) -> bool:
    """Return whether the provider itself made this output, in the middle of the model's turn.

    A hosted shell's, and one of a type that nobody here knows, is the provider's if it has an `id`.

    >>> is_by_server({"type": "tool_search_output", "call_id": None, "tools": []})
    True
    >>> is_by_server({"type": "shell_call_output", "call_id": "c", "output": []})
    False
    """
    kind = type_of(output).removesuffix("_output")
    if kind in ("tool_search", "tool_search_call"):
        execution = output.get("execution")
        return execution == "server" or (execution is None and output.get("call_id") is None)
    is_known = kind in _CLIENT_CALLS and kind != "shell_call"
    return not is_known and isinstance(output.get("id"), str)


def broken_rules(items: Sequence[Item]) -> list[Violation]:
    """Return every violation, ordered by index."""
    found: list[Violation] = []
    item_ids: set[str] = set()
    pairing = _Pairing()
    for item in items:
        pairing.add(item)
        if item.kind == "message":
            found += _message_rules(item)
        # The shell's first output type has the id of its call.
        item_id = item.entry.get("id") if item.kind != "local_shell_call_output" else None
        if isinstance(item_id, str):
            if item_id in item_ids:
                what = f"an item with the id '{item_id}' came before"
                found.append(Violation(item.index, "duplicate_id", what))
            item_ids.add(item_id)
    found += _reasoning_rules(items)
    pairing.settle()
    found += pairing.found
    return sorted(found, key=lambda violation: violation.index)


def _message_rules(item: Item) -> Iterable[Violation]:
    role = item.entry["role"]
    if role not in _ROLES:
        what = f"role '{role}' is unknown, it must be one of {sorted(_ROLES)}"
        yield Violation(item.index, "unknown_role", what)
    content = item.entry.get("content")
    if content is None:
        yield Violation(item.index, "null_content_without_calls", "content is null")
    if isinstance(content, (list, tuple)):
        foreign = _CLIENT_PARTS if item.role == "assistant" else _MODEL_PARTS
        for part in content:
            if isinstance(part, Mapping) and type_of(part) in foreign:
                what = f"a part of type '{type_of(part)}' stands in a message of the {role}'s"
                yield Violation(item.index, "misplaced_block", what)


def _reasoning_rules(items: Sequence[Item]) -> Iterable[Violation]:
    following: Item | None = None  # the next item that is no reasoning
    for item in reversed(items):
        if item.kind != "reasoning":
            following = item
            continue
        if following is None or following.role != "assistant":
            what = "a reasoning item is not followed by the item that it led to"
            yield Violation(item.index, "reasoning_without_item", what)
        if not isinstance(item.entry.get("summary"), (list, tuple)):
            what = "a reasoning item has no summary; an empty list will do"
            yield Violation(item.index, "reasoning_without_summary", what)


class _Pairing:
    """Matching of calls and outputs, turn by turn."""

    def __init__(self) -> None:
        self.found: list[Violation] = []
        self._waiting: dict[str, list[tuple[Item, int]]] = {}  # call id -> calls and their turns
        self._answered: set[str] = set()
        self._turn = 0
        self._is_answering = False

    def add(self, item: Item) -> None:
        if item.role == "assistant":
            self._turn += self._is_answering
        elif item.role != "tool":
            self._turn += 1
        self._is_answering = item.role == "tool"
        if item.call is not None:
            self._call(item, item.call)
        elif item.answer is not None:
            self._answer(item, item.answer)
        elif item.kind.removesuffix("_output") in _CLIENT_CALLS:
            self._found(item, "missing_id", f"a {item.kind} has no call_id")

    def settle(self) -> None:
        """Report the calls that can no longer be answered: all but those of the last turn."""
        for pending in self._waiting.values():
            for item, turn in pending:
                if item.kind in _ANSWERED and turn < self._turn:
                    self._found(item, "unanswered_tool_call", f"no output for call '{item.call}'")

    def _call(self, item: Item, call: str) -> None:
        if call in self._waiting:
            self._found(item, "duplicate_id", f"the call id '{call}' was used before")
        self._waiting.setdefault(call, []).append((item, self._turn))

    def _answer(self, item: Item, answer: str) -> None:
        if self._waiting.get(answer):
            self._waiting[answer].pop()
            self._answered.add(answer)
        elif answer in self._answered:
            self._found(item, "duplicate_result", f"a second output for '{answer}'")
        else:
            what = f"no call '{answer}' before this output"
            self._found(item, "tool_result_without_call", what)

    def _found(self, item: Item, rule: str, message: str) -> None:
        self.found.append(Violation(item.index, rule, message))
