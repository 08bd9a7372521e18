"""ChatStream: the chunks of a chat completion, put together to the completion."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_NOT_JOINED = frozenset({"role", "tool_calls"})


class ChatStream:
    """Takes chunk after chunk, OpenAI's or those of servers that speak its wire format."""

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._head: dict[str, Any] = {}
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._calls: list[dict[str, Any]] = []
        self._at: dict[Any, dict[str, Any]] = {}
        self._reason: str | None = None

    def add(self, chunk: Mapping[str, Any]) -> str:
        """Take the next chunk; the piece of text in it. The last one has the usage, no choice."""
        text = ""
        self._head |= {
            key: value for key, value in chunk.items() if value is not None and key != "choices"
        }
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            for call in delta.get("tool_calls") or ():
                self._add_call(call)
            for key, value in delta.items():
                if value is not None and key not in _NOT_JOINED:
                    self._message[key] = _joined(self._message.get(key), value)
            text += text_of(delta.get("content"))
            self._reason = choice.get("finish_reason") or self._reason
        return text

    def body(self) -> dict[str, Any] | None:
        """The completion; None where it was not said to be over."""
        if self._reason is None:
            return None
        message = {**self._message, "tool_calls": self._calls}
        return {**self._head, "choices": [{"message": message, "finish_reason": self._reason}]}

    def _add_call(self, delta: Mapping[str, Any]) -> None:
        call = self._call_of(delta)
        for key, value in delta.items():
            if value and key not in ("index", "function"):
                call[key] = value
        function = call["function"]
        for key, value in (delta.get("function") or {}).items():
            if key == "arguments" and value is not None and not isinstance(value, str):
                function[key] += json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            elif value is not None and not (key == "name" and value == function["name"]):
                function[key] = _joined(function.get(key), value)

    def _call_of(self, delta: Mapping[str, Any]) -> dict[str, Any]:
        """The call that this is a piece of: that of its index, or the last one that had none. But
        what brings another id and a name is another call: some servers number all of theirs 0."""
        index, call_id = delta.get("index"), delta.get("id")
        has_name = bool((delta.get("function") or {}).get("name"))
        call = self._at.get(index)
        is_other = has_name and bool(call_id) and call is not None and call_id != call.get("id")
        if call is None or is_other or (has_name and index is None):
            call = {"function": {"name": "", "arguments": ""}}
            self._calls.append(call)
            self._at[index] = call
        return call


def text_of(content: Any) -> str:
    """The text of a content: a string, or a list of parts."""
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join([text for text in texts if isinstance(text, str)])
    return content if isinstance(content, str) else ""


def _joined(before: Any, value: Any) -> Any:
    """Texts and lists grow piece by piece, anything else comes whole."""
    if isinstance(before, str) and isinstance(value, str):
        return before + value
    if isinstance(before, list) and isinstance(value, list):
        return [*before, *value]
    return value
