"""A message in which the user says something, in any format."""

from __future__ import annotations

from typing import Any


def user_message(text: str, format: str, *, is_turn: bool = True) -> Any:  # noqa: A002
    """What the user says, as a message of a format; or what we say in the user's name, which is no
    turn of the user's where the format can say so.

    >>> user_message("hello", "anthropic")
    {'role': 'user', 'content': 'hello'}
    """
    if format == "langchain":
        from langchain_core.messages import HumanMessage

        return HumanMessage(text)
    message = {"role": "user", "content": text}
    if format != "claude_code":
        return message
    line = {"type": "user", "message": message}
    return line if is_turn else {**line, "isMeta": True}
