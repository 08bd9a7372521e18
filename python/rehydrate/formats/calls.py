"""ToolCall: a tool call of any provider, and its result in that provider's shape."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from rehydrate._native import call_result, read_call, result_entries, tool_definition
from rehydrate.errors import InvalidArgumentError

__all__ = ["CallFormat", "ToolCall", "result_entries", "tool_definition"]

CallFormat = Literal[
    "anthropic", "openai_chat", "openai_responses", "bedrock", "gemini", "ai_sdk", "langchain"
]


class ToolCall(NamedTuple):
    """One call of a tool: its id, the tool's name and the arguments.

    >>> call = ToolCall.read({"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {}})
    >>> call.result("src\\ntests")
    {'type': 'tool_result', 'tool_use_id': 'toolu_1', 'content': 'src\\ntests'}
    """

    format: CallFormat
    """The format of the call, and of its result."""
    id: str
    name: str
    raw_arguments: Any
    """As received: an object, or its JSON."""

    @classmethod
    def read(cls, call: Any) -> ToolCall | None:
        """Read a provider's object, a dict or one of its SDK; None for anything else.

        Anthropic's ``tool_use`` block, OpenAI chat's tool call, Responses' ``function_call`` item,
        Converse's ``toolUse`` block, Gemini's part with a ``functionCall``, the AI SDK's
        ``tool-call``, LangChain's tool call.
        Gemini's may have no id: then it is "", and its result is found by the tool's name.
        """
        if isinstance(call, ToolCall):
            return call
        found = read_call(call)
        return found and cls(*found)

    @classmethod
    def of_tool(cls, call: Any, name: str) -> ToolCall:
        """Read a call of the tool of this name; raises InvalidArgumentError for anything else."""
        read = cls.read(call)
        if read is None or read.name != name:
            raise InvalidArgumentError(
                f"call is {call!r}, which isn't a call of {name}; ask handles(call) first"
            )
        return read

    @property
    def pair_id(self) -> str:
        """The id under which a `Conversation` has the call and its result: made of the tool's name
        if the call has none."""
        return self.id or f"function_call:{self.name}"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments by name; raises InvalidArgumentError with a text for the model.

        >>> ToolCall("openai_chat", "call_1", "ls", '{"path": "src"}').arguments()
        {'path': 'src'}
        """
        given = self.raw_arguments
        if isinstance(given, (str, bytes)):
            try:
                given = json.loads(given or "{}")
            except (ValueError, RecursionError) as error:
                raise InvalidArgumentError(
                    f"the arguments of {self.name} aren't JSON ({error}); send an object"
                ) from None
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            raise InvalidArgumentError(
                f"the arguments of {self.name} are of type {type(given).__name__}; send an object"
            )
        return dict(given)

    def result(self, content: str, *, is_error: bool = False) -> Any:
        """Return the result in the provider's shape; OpenAI has no mark for errors."""
        if self.format == "langchain":
            from langchain_core.messages import ToolMessage

            status: Literal["error", "success"] = "error" if is_error else "success"
            return ToolMessage(content, tool_call_id=self.id, name=self.name, status=status)
        return call_result(self.format, self.id, self.name, content, is_error)
