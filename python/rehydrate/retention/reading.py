"""A minimal reading of messages in any format: role, text, tool inputs, and the steps of a session.

This is deliberately not the product's parser: a measure that shares its code with what it
measures shares its mistakes.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Message = dict[str, Any]
_Object = Mapping[str, Any]

# What a harness writes into the user's messages, around or beside what the user says.
_HARNESS = re.compile(
    r"<(system-reminder|command-[a-z]+|local-command-[a-z]+|bash-[a-z]+)>.*?</\1>", re.S
)


def payload(message: Message) -> _Object:
    """The API message itself: a transcript entry carries it under `message`."""
    inner = message.get("message")
    return inner if isinstance(inner, Mapping) else message


def role_of(message: Message) -> str:
    """The role as written, or that of the item type for OpenAI Responses items."""
    body = payload(message)
    if body.get("type") == "function_call":
        return "assistant"
    if body.get("type") == "function_call_output":
        return "tool"
    return str(body.get("role", ""))


def text_of(message: Message) -> str:
    """Everything a reader of the message sees: text, tool calls with their inputs, tool results.

    Thinking is left out, since providers drop it, and so is every payload that is no text.
    """
    return "\n".join(_texts(payload(message)))


def tool_inputs(message: Message) -> str:
    """The values that the message passes to tools, one a line, without the parameters' names."""
    body = payload(message)
    inputs = [block.get("input") for block in _blocks(body) if block.get("type") == "tool_use"]
    inputs += [_arguments(call.get("function", {})) for call in _calls(body)]
    if body.get("type") == "function_call":
        inputs.append(_arguments(body))
    return "\n".join(leaf for value in inputs for leaf in _leaves(value))


def is_tool_result(message: Message) -> bool:
    """Whether the message answers a tool call."""
    return role_of(message) == "tool" or any(
        block.get("type") == "tool_result" for block in _blocks(payload(message))
    )


def said_by_user(message: Message) -> str:
    """What the user says in it: no tool result, and nothing that a harness says in the user's name.

    >>> said_by_user({"role": "user", "content": "Go on. <system-reminder>x</system-reminder>"})
    'Go on.'
    """
    body = payload(message)
    if role_of(message) != "user" or message.get("isMeta") or is_summary(message):
        return ""
    content = body.get("content")
    texts = [content] if isinstance(content, str) else [b.get("text") for b in _blocks(body)]
    return _HARNESS.sub("", "\n".join(text for text in texts if isinstance(text, str))).strip()


def is_summary(message: Message) -> bool:
    """Whether an agent wrote it in place of what came before, when its window was full."""
    return message.get("isCompactSummary") is True


def count_messages(messages: Sequence[Message]) -> int:
    """How many messages these are, where a transcript's entries with one id count once."""
    return len({str(payload(m).get("id") or f"#{i}") for i, m in enumerate(messages)})


def estimate_cost(message: Message) -> int:
    """Tokens by characters, for when no exact counter is at hand: ceil(chars / 3.5)."""
    return math.ceil(len(text_of(message)) / 3.5)


def steps(messages: Sequence[Message]) -> list[range]:
    """The indices of the messages, grouped so that no tool call stands apart from its results.

    A step starts at a message that answers no tool call and continues no assistant message begun
    before: transcripts write one message as several entries with one id, results in between.

    >>> call = {"role": "assistant", "tool_calls": []}
    >>> steps([{"role": "user", "content": "Hi"}, call, {"role": "tool", "content": "42"}])
    [range(0, 1), range(1, 3)]
    """
    seen: set[str] = set()
    starts: list[int] = []
    for index, message in enumerate(messages):
        identity = payload(message).get("id") if role_of(message) == "assistant" else None
        continues = isinstance(identity, str) and identity in seen
        if not starts or not (continues or is_tool_result(message)):
            starts.append(index)
        if isinstance(identity, str):
            seen.add(identity)
    return [range(a, b) for a, b in zip(starts, [*starts[1:], len(messages)], strict=True)]


def _texts(body: _Object) -> Iterator[str]:
    content = body.get("content")
    if isinstance(content, str):
        yield content
    for block in _blocks(body):
        kind = block.get("type")
        if kind == "tool_use":
            yield str(block.get("name", ""))
            yield from _leaves(block.get("input"))
        elif kind == "tool_result":
            yield from _texts(block)
        elif kind not in ("thinking", "redacted_thinking") and isinstance(block.get("text"), str):
            yield block["text"]
    for call in _calls(body):
        function = call.get("function", {})
        yield str(function.get("name", ""))
        yield from _leaves(_arguments(function))
    if body.get("type") == "function_call":
        yield str(body.get("name", ""))
        yield from _leaves(_arguments(body))
    if isinstance(body.get("output"), str):
        yield body["output"]


def _blocks(body: _Object) -> list[_Object]:
    content = body.get("content")
    return [b for b in content if isinstance(b, Mapping)] if isinstance(content, list) else []


def _calls(body: _Object) -> list[_Object]:
    calls = body.get("tool_calls")
    return [c for c in calls if isinstance(c, Mapping)] if isinstance(calls, list) else []


def _arguments(function: _Object) -> Any:
    """The arguments of a call, decoded; the raw text where it is no JSON."""
    raw = function.get("arguments")
    if not isinstance(raw, str):
        return raw
    try:
        return json.loads(raw)
    except ValueError:
        return raw


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
