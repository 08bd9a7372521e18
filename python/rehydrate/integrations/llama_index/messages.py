"""LlamaIndex' messages as OpenAI chat dicts, and back.

The dicts are for judging what a prompt shows. What is sent are the messages themselves, picked by
their indices; only one of which the prompt shows less is a changed copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rehydrate.errors import InvalidMessageError, MissingPackageError
from rehydrate.formats._reading import compact_json
from rehydrate.integrations.chat_dicts import (
    assistant_chat,
    call_of,
    content_of,
    loses_thinking,
    media_part,
    other_part,
    plain_text,
    text_part,
    texts_of,
    thinking_block,
)
from rehydrate.integrations.host_thread import Shown

try:
    from llama_index.core.base.llms.types import (
        ChatMessage,
        ImageBlock,
        TextBlock,
        ThinkingBlock,
        ToolCallBlock,
    )
except ImportError:
    raise MissingPackageError("rehydrate[llama-index]", "brings LlamaIndex") from None


def chat_of(message: ChatMessage) -> dict[str, Any]:
    """Return a message as a chat dict.

    >>> chat_of(ChatMessage(role="user", content="Hello."))
    {'role': 'user', 'content': 'Hello.'}
    """
    role = str(message.role.value)
    content = _content(message.blocks)
    if role in ("tool", "function"):
        call_id = str(message.additional_kwargs.get("tool_call_id") or "")
        return {"role": "tool", "tool_call_id": call_id, "content": content}
    if role not in ("assistant", "chatbot", "model"):
        is_system = role in ("system", "developer")
        return {"role": "system" if is_system else "user", "content": content}
    thoughts = [each.content or "" for each in message.blocks if isinstance(each, ThinkingBlock)]
    calls = [_call(each) for each in _calls(message)]
    return assistant_chat(content, calls, list(map(thinking_block, thoughts)))


def _content(blocks: Sequence[Any]) -> Any:
    items = [_item(block) for block in blocks if not isinstance(block, _APART)]
    return content_of(items) if items else ""


_APART = (ThinkingBlock, ToolCallBlock)


def _item(block: Any) -> dict[str, Any]:
    if isinstance(block, TextBlock):
        return text_part(block.text)
    if isinstance(block, ImageBlock):
        return media_part(str(block.url or block.path or "inline"), "image/")
    if block.block_type in ("audio", "video", "document"):
        return media_part(block.block_type, None)
    inner = getattr(block, "content", None) or getattr(block, "cited_content", None)
    if inner is None:
        return other_part(block.model_dump(mode="json", exclude_none=True))
    inside = [_item(each) for each in (inner if isinstance(inner, list) else [inner])]
    return {
        "type": "search_result",
        "title": block.title,
        "source": block.source,
        "content": inside,
    }


def _calls(message: ChatMessage) -> list[Any]:
    """Return the calls: blocks, or what older clients keep beside them."""
    blocks = [each for each in message.blocks if isinstance(each, ToolCallBlock)]
    beside = message.additional_kwargs.get("tool_calls")
    return blocks or (list(beside) if isinstance(beside, list | tuple) else [])


def _call(call: Any) -> dict[str, Any]:
    call_id: Any
    name: Any
    arguments: Any
    if isinstance(call, ToolCallBlock):
        call_id, name, arguments = call.tool_call_id, call.tool_name, call.tool_kwargs
    else:
        if not isinstance(call, Mapping) and not hasattr(call, "model_dump"):
            where, remedy = "additional_kwargs['tool_calls']", "pass ToolCallBlock blocks"
            raise InvalidMessageError(None, where, call, "a list of calls", remedy)
        known = call if isinstance(call, Mapping) else call.model_dump()
        function = known.get("function")
        function = function if isinstance(function, Mapping) else known
        call_id, name = known.get("id"), function.get("name")
        arguments = function.get("arguments", function.get("input"))
    text = arguments if isinstance(arguments, str) else compact_json(arguments or {})
    return call_of(str(call_id or ""), str(name or ""), text)


def picked(
    messages: Sequence[ChatMessage], chats: Sequence[Mapping[str, Any]], shown: Sequence[Shown]
) -> list[ChatMessage]:
    """Return the messages that a prompt shows; ``chats`` are the dicts of the messages."""
    made: list[ChatMessage] = []
    for index, chat in shown:
        if index is None:
            made.append(ChatMessage(role="user", content=plain_text(chat["content"])))
            continue
        message = _changed(messages[index], chats[index], chat)
        if message.blocks or message is messages[index] or message.additional_kwargs:
            made.append(message)  # else it was thinking alone
    return made


def _changed(message: ChatMessage, chat: Mapping[str, Any], now: Mapping[str, Any]) -> ChatMessage:
    """Return a message with what is shown of it; the message itself where that is all."""
    if chat is now or chat == now:
        return message
    is_without_thinking = loses_thinking(chat, now)
    texts, calls = texts_of(now["content"]), iter(now.get("tool_calls") or ())
    made: list[Any] = []
    for block in message.blocks:
        if isinstance(block, ThinkingBlock):
            if not is_without_thinking:
                made.append(block)
        elif isinstance(block, ToolCallBlock):
            arguments = next(calls)["function"]["arguments"]
            is_same = _call(block)["function"]["arguments"] == arguments
            made.append(block if is_same else block.model_copy(update={"tool_kwargs": arguments}))
        elif _item(block)["type"] == "text":
            text = next(texts)
            is_cut = isinstance(block, TextBlock) and block.text != text
            made.append(block.model_copy(update={"text": text}) if is_cut else block)
        else:
            made.append(block)
    return message.model_copy(update={"blocks": made})
