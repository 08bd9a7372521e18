"""The ids of tool calls that validators pair, and a user's message in any format.

The native `Conversation` groups messages into units (tests/formats/reading_twin.py has the
algorithm in Python).
"""

from __future__ import annotations

from typing import Any

__all__ = ["Ledger"]


class Ledger:
    """The call ids made and answered so far; the validators pair calls and results with it."""

    __slots__ = ("_answered", "_unanswered")

    def __init__(self) -> None:
        self._unanswered: dict[str, int] = {}
        self._answered: set[str] = set()

    def call(self, call: str) -> bool:
        """Record a call; return whether its id was called before."""
        is_repeated = call in self._unanswered
        self._unanswered[call] = self._unanswered.get(call, 0) + 1
        return is_repeated

    def answer(self, answer: str) -> bool:
        """Record a result; return whether it is one too many for its id."""
        if self._unanswered.get(answer):
            self._unanswered[answer] -= 1
            self._answered.add(answer)
            return False
        return answer in self._answered

    def knows(self, call: object) -> bool:
        """Return whether this id was called."""
        return isinstance(call, str) and call in self._unanswered


def user_message(text: str, format: str, *, is_turn: bool = True) -> Any:  # noqa: A002
    """Return a user's message in a format. `is_turn=False`: text that Rehydrate adds in the user's
    role, marked as no turn of the user where the format has such a mark.

    >>> user_message("hello", "anthropic")
    {'role': 'user', 'content': 'hello'}
    """
    if format == "langchain":
        from langchain_core.messages import HumanMessage

        return HumanMessage(text)
    message = {"role": "user", "content": text}
    if format == "codex":
        return {"type": "response_item", "payload": {"type": "message", **message}}
    if format != "claude_code":
        return message
    line = {"type": "user", "message": message}
    return line if is_turn else {**line, "isMeta": True}
