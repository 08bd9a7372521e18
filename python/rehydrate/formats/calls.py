"""ToolCall: a tool call of any provider, and its result in that provider's shape."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from rehydrate._check import check_choice
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats._reading import Path, is_call, type_of

__all__ = [
    "Input",
    "Inputs",
    "at_path",
    "input_texts",
    "inputs_among_blocks",
    "is_signed",
    "with_texts",
]


CallFormat = Literal["anthropic", "openai_chat", "openai_responses", "bedrock", "langchain"]


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
        Converse's ``toolUse`` block, LangChain's tool call.
        """
        if isinstance(call, ToolCall):
            return call
        if not isinstance(call, Mapping):
            dump = getattr(call, "model_dump", None)
            call = dump() if callable(dump) else None
        if not isinstance(call, Mapping):
            return None
        function, used = call.get("function"), call.get("toolUse", call)
        found: ToolCall
        if isinstance(function, Mapping):
            arguments = function.get("arguments")
            found = cls("openai_chat", call.get("id", ""), function.get("name", ""), arguments)
        elif isinstance(used, Mapping) and "toolUseId" in used:
            found = cls("bedrock", used["toolUseId"], used.get("name", ""), used.get("input"))
        elif "call_id" in call:
            arguments = call.get("arguments")
            found = cls("openai_responses", call["call_id"], call.get("name", ""), arguments)
        elif "args" in call:
            found = cls("langchain", call.get("id", ""), call.get("name", ""), call["args"])
        else:
            found = cls("anthropic", call.get("id", ""), call.get("name", ""), call.get("input"))
        is_call = isinstance(found.id, str) and found.id and isinstance(found.name, str)
        return found if is_call else None

    @classmethod
    def of_tool(cls, call: Any, name: str) -> ToolCall:
        """Read a call of the tool of this name; raises InvalidArgumentError for anything else."""
        read = cls.read(call)
        if read is None or read.name != name:
            raise InvalidArgumentError(
                f"call is {call!r}, which is no call of {name}; ask handles(call) first"
            )
        return read

    def arguments(self) -> dict[str, Any]:
        """Return the arguments by name; raises InvalidArgumentError with a text for the model.

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
        """Return the result in the provider's shape; OpenAI has no mark for errors."""
        if self.format == "openai_chat":
            return {"role": "tool", "tool_call_id": self.id, "content": content}
        if self.format == "openai_responses":
            return {"type": "function_call_output", "call_id": self.id, "output": content}
        if self.format == "langchain":
            from langchain_core.messages import ToolMessage

            status: Literal["error", "success"] = "error" if is_error else "success"
            return ToolMessage(content, tool_call_id=self.id, name=self.name, status=status)
        if self.format == "bedrock":
            # Converse refuses an empty text.
            answer = {
                "toolUseId": self.id,
                "content": [{"text": content if content.strip() else "(empty)"}],
            }
            return {"toolResult": {**answer, "status": "error"} if is_error else answer}
        result = {"type": "tool_result", "tool_use_id": self.id, "content": content}
        return {**result, "is_error": True} if is_error else result


def result_entries(results: Sequence[Any]) -> list[Any]:
    """Return the results of one reply's calls as history entries.

    Anthropic and Bedrock want all of them in one user message; elsewhere each is an entry.

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
    """Return a tool as a request lists it; never strict, which restricts the schema.

    >>> sorted(tool_definition("anthropic", "ls", "List files.", {"type": "object"}))
    ['description', 'input_schema', 'name']
    """
    check_choice("provider", format, get_args(CallFormat))
    about = {"name": name, "description": description} if description else {"name": name}
    if format == "anthropic":
        return {**about, "input_schema": dict(schema)}
    if format in ("openai_chat", "langchain"):
        return {"type": "function", "function": {**about, "parameters": dict(schema)}}
    if format == "bedrock":
        return {"toolSpec": {**about, "inputSchema": {"json": dict(schema)}}}
    return {"type": "function", **about, "parameters": dict(schema), "strict": False}


def _is_block(result: Any) -> bool:
    return isinstance(result, Mapping) and (
        result.get("type") == "tool_result" or "toolResult" in result
    )


_MAX_DEPTH = 12
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"')
_COLON = re.compile(r"[ \t\n\r]*:")


class Input(NamedTuple):
    """The input of one call."""

    call: str | None
    """The call's id, which its result repeats."""
    name: object
    value: object
    paths: tuple[Path, ...]
    """Its paths in the entry: some messages hold one call in several fields."""
    is_text: bool = False
    """Whether it is free text for the tool, not JSON."""


Inputs = list[Input | None]
"""The input of each piece of kind TOOL_INPUT; None where it must not change."""


def inputs_among_blocks(entry: Mapping[str, Any]) -> Inputs:
    """Return None for each call of Anthropic's among the blocks of another format's content."""
    content = entry.get("content")
    if not isinstance(content, (list, tuple)):
        return []
    return [None for block in content if isinstance(block, Mapping) and is_call(type_of(block))]


def input_texts(value: object, *, is_text: bool = False) -> Iterator[str]:
    """Yield every string in an input that is no key, in reading order.

    >>> list(input_texts({"path": "a.py", "edits": [{"new": "x = 1"}]}))
    ['a.py', 'x = 1']
    >>> list(input_texts('{"path": "a.py", "n": 1e3}')), list(input_texts("no JSON", is_text=True))
    (['a.py'], ['no JSON'])
    """
    if not isinstance(value, str):
        yield from _strings(value, 0)
    elif is_text:
        yield value
    else:
        for match in _tokens(value):
            yield json.loads(match[0])


def with_texts(value: Any, texts: Mapping[str, str]) -> Any:
    """Return the input with the strings that are keys of `texts` replaced.

    Unchanged parts are the same objects, or keep their spelling.

    >>> with_texts('{"n": 1e3, "old": "a", "new": "b"}', {"b": 'line\\n"2"'})
    '{"n": 1e3, "old": "a", "new": "line\\\\n\\\\"2\\\\""}'
    >>> with_texts({"new": "b"}, {"b": "c"})
    {'new': 'c'}
    """
    if not isinstance(value, str):
        return _with_strings(value, texts, 0)
    if value in texts:
        return texts[value]
    out: list[str] = []
    at = 0
    for match in _tokens(value):
        text = json.loads(match[0])
        if text in texts:
            out += [value[at : match.start()], _as_token(texts[text], match[0])]
            at = match.end()
    return "".join([*out, value[at:]]) if at else value


def at_path(entry: Any, path: Path) -> Any:
    """Return the value at this path of an entry."""
    for step in path:
        if isinstance(entry, (Mapping, list, tuple)):
            entry = entry[step]  # type: ignore[index]
        else:
            entry = getattr(entry, str(step))
    return entry


_PROOFS = ("signature", "encrypted", "thought", "thinking", "reasoning")
_UNREAD = frozenset({"input", "arguments", "args", "text", "usage"})


def is_signed(value: object, depth: int = 0) -> bool:
    """Return whether a message or a content holds a thought, or a signature for its calls.

    A provider may compare the blocks beside it with what the model wrote.

    >>> is_signed([{"type": "redacted_thinking", "data": "b3Bh"}])
    True
    >>> is_signed({"tool_calls": [{"extra_content": {"google": {"thought_signature": "c2ln"}}}]})
    True
    >>> is_signed([{"type": "tool_use", "input": {"signature": "Ada"}}])
    False
    """
    if depth > _MAX_DEPTH:
        return True
    if isinstance(value, (list, tuple)):
        return any(is_signed(item, depth + 1) for item in value)
    if not isinstance(value, Mapping):
        return False
    if any(proof in type_of(value) for proof in _PROOFS):
        return True
    return any(
        bool(item) and (any(proof in str(key) for proof in _PROOFS) or is_signed(item, depth + 1))
        for key, item in value.items()
        if key not in _UNREAD
    )


def _strings(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth < _MAX_DEPTH:
        if isinstance(value, Mapping):
            value = list(value.values())
        if isinstance(value, (list, tuple)):
            for item in value:
                yield from _strings(item, depth + 1)


def _with_strings(value: Any, texts: Mapping[str, str], depth: int) -> Any:
    if isinstance(value, str):
        return texts.get(value, value)
    if depth >= _MAX_DEPTH:
        return value
    if isinstance(value, Mapping):
        rest = {key: _with_strings(item, texts, depth + 1) for key, item in value.items()}
        return value if all(rest[key] is value[key] for key in rest) else rest
    if isinstance(value, (list, tuple)):
        items = [_with_strings(item, texts, depth + 1) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return tuple(items) if isinstance(value, tuple) else items
    return value


def _tokens(source: str) -> Iterator[re.Match[str]]:
    """Yield the strings of a JSON text that are no keys; none where it is no object or list."""
    try:
        if not isinstance(json.loads(source), (dict, list)):
            return
    except (ValueError, RecursionError):
        return
    for match in _STRING.finditer(source):
        if not _COLON.match(source, match.end()):
            yield match


def _as_token(text: str, token: str) -> str:
    """Return a string as JSON, in ASCII if the token it replaces is ASCII."""
    return json.dumps(text, ensure_ascii=token.isascii())
