"""Conversations as the frameworks of the adapters have them, as plain values, and their doors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rehydrate import Budget, Context
from rehydrate.integrations.chat_dicts import Codec
from rehydrate.integrations.host_thread import shown_messages
from tests.stress.mutations import PIXELS


class Host(NamedTuple):
    """One framework: how its messages are made of plain values, and what its adapter does."""

    turn: Callable[[str], list[Any]]
    """A user turn with a tool loop, as plain values; the text makes its ids its own."""
    load: Callable[[list[Any]], Sequence[Any]]
    """Raises what it likes for what are not messages of the framework."""
    codec: Codec[Any] | None = None
    """None: the framework's messages are Gemini's contents, which are read as they are."""

    @property
    def format(self) -> Any:
        """The format of what an adapter makes of the messages."""
        return "openai_chat" if self.codec else "gemini"

    def read(self, messages: Sequence[Any]) -> list[Any]:
        """Return what an adapter makes of the messages to have them judged."""
        if self.codec is None:
            return list(messages)
        return [entry.chat for entry in self.codec.entries_of(messages)]


_BUDGET = Budget(soft_tokens=1_500)


def through(
    host: Host, messages: Sequence[Any], budget: Budget = _BUDGET
) -> tuple[list[Any], Sequence[Any]]:
    """Return what an adapter makes of its host's messages, and what it sends."""
    read = host.read(messages)
    context = Context(provider=host.format, budget=budget)
    context.add(*read)
    shown = shown_messages(context.prompt())
    if host.codec is None:
        return read, [each.message for each in shown]
    return read, host.codec.picked(messages, host.codec.entries_of(messages), shown)


def hosts() -> dict[str, Host]:
    """Return the hosts whose packages are installed."""
    found = {}
    for make in (_pydantic_ai, _google_adk, _llama_index, _agent_framework):
        try:
            found[make.__name__[1:]] = make()
        except ImportError as error:
            if (error.name or "").startswith("rehydrate"):
                raise  # an adapter's own module has another name now
    return found


def _pydantic_ai() -> Host:
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    from rehydrate.integrations.pydantic_ai import CODEC

    def turn(name: str) -> list[Any]:
        call = {"part_kind": "tool-call", "tool_name": "look", "tool_call_id": f"c_{name}"}
        picture = {"kind": "binary", "data": PIXELS, "media_type": "image/png"}
        answer = {"tool_name": "look", "tool_call_id": f"c_{name}"}
        again = {"tool_name": "look", "tool_call_id": f"d_{name}"}
        return [
            {
                "kind": "request",
                "parts": [
                    {"part_kind": "system-prompt", "content": "Be brief."},
                    {"part_kind": "user-prompt", "content": [f"Look at {name}.", picture]},
                ],
            },
            {
                "kind": "response",
                "parts": [
                    {"part_kind": "thinking", "content": "Hm.", "signature": "c2ln"},
                    {"part_kind": "text", "content": "I look."},
                    {**call, "args": {"path": name}},
                    {**call, "args": '{"path": "b"}', "tool_call_id": f"d_{name}"},
                ],
            },
            {
                "kind": "request",
                "parts": [
                    {"part_kind": "tool-return", **answer, "content": {"rows": ["word "] * 90}},
                    {"part_kind": "retry-prompt", **again, "content": "Again."},
                ],
            },
            {
                "kind": "response",
                "parts": [
                    {"part_kind": "builtin-tool-call", **again, "provider_name": "openai"},
                    {
                        "part_kind": "builtin-tool-return",
                        **again,
                        "content": {"text": "found"},
                        "provider_name": "openai",
                    },
                    {"part_kind": "text", "content": "Four. " * 60},
                ],
            },
        ]

    return Host(turn, ModelMessagesTypeAdapter.validate_python, CODEC)


def _google_adk() -> Host:
    from google.genai.types import Content

    def turn(name: str) -> list[Any]:
        blob = {"data": PIXELS, "mime_type": "image/png"}
        call = {"id": f"c_{name}", "name": "look", "args": {"path": name}}
        answer = {"id": f"c_{name}", "name": "look", "response": {"result": "word " * 90}}
        other = {"name": "look", "response": {"output": [1, 2]}, "parts": [{"inline_data": blob}]}
        return [
            {"role": "user", "parts": [{"text": f"Look at {name}."}, {"inline_data": blob}]},
            {
                "role": "model",
                "parts": [
                    {"text": "Hm.", "thought": True, "thought_signature": "c2ln"},
                    {"function_call": call, "thought_signature": "c2ln"},
                    {"function_call": {"name": "look", "args": {}}},
                ],
            },
            {
                "role": "user",
                "parts": [{"function_response": answer}, {"function_response": other}],
            },
            {
                "role": "model",
                "parts": [
                    {"text": "Four. " * 60},
                    {"executable_code": {"code": "print(1)", "language": "PYTHON"}},
                    {"code_execution_result": {"outcome": "OUTCOME_OK", "output": "1"}},
                    {"file_data": {"file_uri": "gs://a/b", "mime_type": "image/png"}},
                ],
            },
        ]

    def load(values: list[Any]) -> list[Any]:
        return [Content.model_validate(each) for each in values]

    return Host(turn, load)


def _llama_index() -> Host:
    from llama_index.core.llms import ChatMessage

    from rehydrate.integrations.llama_index import CODEC

    def turn(name: str) -> list[Any]:
        call = {"block_type": "tool_call", "tool_name": "look"}
        return [
            {
                "role": "user",
                "blocks": [
                    {"block_type": "text", "text": f"Look at {name}."},
                    {"block_type": "image", "image": PIXELS, "image_mimetype": "image/png"},
                    {"block_type": "document", "data": PIXELS, "title": "T"},
                ],
            },
            {
                "role": "assistant",
                "blocks": [
                    {"block_type": "thinking", "content": "Hm."},
                    {**call, "tool_call_id": f"c_{name}", "tool_kwargs": {"path": name}},
                    {**call, "tool_call_id": f"d_{name}", "tool_kwargs": '{"path": "b"}'},
                ],
            },
            {
                "role": "tool",
                "additional_kwargs": {"tool_call_id": f"c_{name}"},
                "blocks": [{"block_type": "text", "text": "word " * 90}],
            },
            {
                "role": "tool",
                "additional_kwargs": {"tool_call_id": f"d_{name}"},
                "blocks": [{"block_type": "text", "text": "none"}],
            },
            {
                "role": "assistant",
                "additional_kwargs": {"tool_calls": []},
                "blocks": [{"block_type": "text", "text": "Four. " * 60}],
            },
        ]

    def load(values: list[Any]) -> list[Any]:
        return [ChatMessage.model_validate(each) for each in values]

    return Host(turn, load, CODEC)


def _agent_framework() -> Host:
    from agent_framework import Message

    from rehydrate.integrations.agent_framework import CODEC

    def turn(name: str) -> list[Any]:
        def call(number: str) -> dict[str, Any]:
            given = {"name": "look", "arguments": {"path": name}}
            return {"type": "function_call", "call_id": f"{number}_{name}", **given}

        return [
            {
                "role": "user",
                "contents": [
                    {"type": "text", "text": f"Look at {name}."},
                    {
                        "type": "data",
                        "uri": f"data:image/png;base64,{PIXELS}",
                        "media_type": "image/png",
                    },
                ],
            },
            {
                "role": "assistant",
                "contents": [
                    {"type": "text_reasoning", "text": "Hm.", "protected_data": "c2ln"},
                    call("c"),
                    call("d"),
                ],
            },
            {
                "role": "tool",
                "contents": [
                    {"type": "function_result", "call_id": f"c_{name}", "result": "word " * 90},
                    {"type": "function_result", "call_id": f"d_{name}", "result": "none"},
                ],
            },
            {
                "role": "assistant",
                "contents": [
                    {"type": "text", "text": "Four. " * 60},
                    {"type": "uri", "uri": "https://a/b.png", "media_type": "image/png"},
                    {"type": "usage", "usage_details": {"input_token_count": 3}},
                ],
            },
        ]

    def load(values: list[Any]) -> list[Any]:
        return [Message.from_dict(each) for each in values]

    return Host(turn, load, CODEC)
