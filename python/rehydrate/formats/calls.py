"""ToolCall: a model's tool call, whichever provider's, and its result as that provider takes it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from rehydrate.errors import InvalidArgumentError

CallFormat = Literal["anthropic", "openai_chat", "openai_responses", "langchain"]


class ToolCall(NamedTuple):
    """One call of a tool: its id, the tool's name and the arguments.

    >>> call = ToolCall.read({"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {}})
    >>> call.result("src\\ntests")
    {'type': 'tool_result', 'tool_use_id': 'toolu_1', 'content': 'src\\ntests'}
    """

    format: CallFormat
    """Whose shape it came in, and its result goes out in."""
    id: str
    name: str
    raw_arguments: Any
    """As they came: an object, or the JSON of one."""

    @classmethod
    def read(cls, call: Any) -> ToolCall | None:
        """From a provider's object, a dict or one of its SDK; None for anything else.

        Anthropic's ``tool_use`` block, OpenAI chat's tool call, Responses' ``function_call`` item,
        LangChain's tool call.
        """
        if isinstance(call, ToolCall):
            return call
        if not isinstance(call, Mapping):
            dump = getattr(call, "model_dump", None)
            call = dump() if callable(dump) else None
        if not isinstance(call, Mapping):
            return None
        function = call.get("function")
        found: ToolCall
        if isinstance(function, Mapping):
            arguments = function.get("arguments")
            found = cls("openai_chat", call.get("id", ""), function.get("name", ""), arguments)
        elif "call_id" in call:
            arguments = call.get("arguments")
            found = cls("openai_responses", call["call_id"], call.get("name", ""), arguments)
        elif "args" in call:
            found = cls("langchain", call.get("id", ""), call.get("name", ""), call["args"])
        else:
            found = cls("anthropic", call.get("id", ""), call.get("name", ""), call.get("input"))
        is_call = isinstance(found.id, str) and found.id and isinstance(found.name, str)
        return found if is_call else None

    def arguments(self) -> dict[str, Any]:
        """The arguments by name; raises InvalidArgumentError, in words that the model can act on.

        >>> ToolCall("openai_chat", "call_1", "ls", '{"path": "src"}').arguments()
        {'path': 'src'}
        """
        given = self.raw_arguments
        if isinstance(given, (str, bytes)):
            try:
                given = json.loads(given or "{}")
            except ValueError as error:
                raise InvalidArgumentError(
                    f"the arguments of {self.name} are no JSON ({error}); send an object"
                ) from None
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            raise InvalidArgumentError(
                f"the arguments of {self.name} are of type {type(given).__name__}; send an object"
            )
        return dict(given)

    def result(self, content: str, *, is_error: bool = False) -> Any:
        """The answer, as the call's provider takes it; only Anthropic has a mark for errors."""
        if self.format == "openai_chat":
            return {"role": "tool", "tool_call_id": self.id, "content": content}
        if self.format == "openai_responses":
            return {"type": "function_call_output", "call_id": self.id, "output": content}
        if self.format == "langchain":
            from langchain_core.messages import ToolMessage

            status: Literal["error", "success"] = "error" if is_error else "success"
            return ToolMessage(content, tool_call_id=self.id, name=self.name, status=status)
        result = {"type": "tool_result", "tool_use_id": self.id, "content": content}
        return {**result, "is_error": True} if is_error else result


def result_entries(results: Sequence[Any]) -> list[Any]:
    """Results of the calls of one reply, as the entries of a history that answer it.

    Anthropic wants all of them in one message of the user's; elsewhere each is an entry.

    >>> result_entries([{"type": "tool_result", "tool_use_id": "toolu_1"}])
    [{'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': 'toolu_1'}]}]
    """
    blocks = [each for each in results if _is_block(each)]
    rest = [each for each in results if not _is_block(each)]
    return [{"role": "user", "content": blocks}, *rest] if blocks else rest


def tool_definition(
    format: str,  # noqa: A002  the field's word
    name: str,
    description: str,
    schema: Mapping[str, Any],
) -> dict[str, Any]:
    """A tool as a request to a provider lists it; never strict, which asks more of a schema.

    >>> sorted(tool_definition("anthropic", "ls", "List files.", {"type": "object"}))
    ['description', 'input_schema', 'name']
    """
    about = {"name": name, "description": description} if description else {"name": name}
    if format == "anthropic":
        return {**about, "input_schema": dict(schema)}
    if format in ("openai_chat", "langchain"):
        return {"type": "function", "function": {**about, "parameters": dict(schema)}}
    if format == "openai_responses":
        return {"type": "function", **about, "parameters": dict(schema), "strict": False}
    names = ", ".join(map(repr, get_args(CallFormat)))
    raise InvalidArgumentError(f"provider is {format!r}; choose one of {names}")


def _is_block(result: Any) -> bool:
    return isinstance(result, Mapping) and result.get("type") == "tool_result"
