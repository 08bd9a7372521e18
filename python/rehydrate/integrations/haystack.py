"""Rehydrate inside Haystack: ``pip install rehydrate[haystack]``.

RehydrateChatGenerator    around a chat generator of an agent or a pipeline: prompts that extend one
                          another
HostReport                the outcome of the last request's messages
RehydrateWarning          something failed, and the messages were sent as they are

The agent's messages stay as they are. What the generator gets is made from them for each call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Unpack

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._native import json_object
from rehydrate.errors import MissingPackageError
from rehydrate.formats._reading import compact_json
from rehydrate.integrations.adapter import (
    Adapter,
    PassiveOptions,
    Scope,
    passing_through,
    shows_adapter_options,
)
from rehydrate.integrations.chat_dicts import (
    Codec,
    Entry,
    call_of,
    media_part,
    other_part,
    result_of,
    text_part,
    texts_of,
    thinking_block,
)
from rehydrate.integrations.host_thread import HostReport, RehydrateWarning
from rehydrate.prompt.request import Budget

try:
    from haystack import component, default_from_dict, default_to_dict
    from haystack.core.serialization import component_to_dict
    from haystack.dataclasses import (
        ChatMessage,
        FileContent,
        ImageContent,
        ReasoningContent,
        StreamingCallbackT,
        TextContent,
        ToolCall,
        ToolCallResult,
    )
    from haystack.tools import ToolsType, flatten_tools_or_toolsets
    from haystack.utils import deserialize_chatgenerator_inplace
except ImportError:
    raise MissingPackageError("rehydrate[haystack]", "brings Haystack") from None

__all__ = ["HostReport", "RehydrateChatGenerator", "RehydrateWarning"]


class _Messages(Codec[ChatMessage]):
    """Haystack's messages: each is one entry, a tool's has one a result."""

    def entries(self, messages: Sequence[ChatMessage]) -> Iterator[Entry]:
        for index, message in enumerate(messages):
            role = message.role.value
            if role == "tool":
                for number, part in enumerate(self.parts(message)):
                    yield Entry(result_of(_id_of(part.origin), _answer(part)), index, number)
            else:
                yield Entry(self.chat(role, message), index)

    def parts(self, message: ChatMessage) -> Sequence[Any]:
        parts: Sequence[Any] = message._content
        return parts

    def pieces(self, part: Any, message: ChatMessage) -> list[dict[str, Any]]:
        del message
        if isinstance(part, ToolCall):
            return [call_of(_id_of(part), part.tool_name, part.arguments)]
        if isinstance(part, ReasoningContent):
            return [thinking_block(part.reasoning_text)]
        return [_item(part)]

    def section(self, text: str) -> TextContent:
        return TextContent(text)

    def with_parts(self, message: ChatMessage | None, parts: list[Any]) -> ChatMessage | None:
        if message is None:
            return ChatMessage.from_user(content_parts=parts)
        return replace(message, _content=parts) if parts else None

    def changed(
        self, part: Any, pieces: Sequence[Mapping[str, Any]], text: str | None, lost: bool
    ) -> Any:
        del pieces, lost
        if text is None:
            return part
        if isinstance(part, ToolCall):
            return replace(part, arguments=json_object(text) or {})
        return replace(part, text=text)

    def changed_part(self, part: Any, now: Mapping[str, Any]) -> Any:
        texts = texts_of(now["content"])
        if isinstance(part.result, str):
            return replace(part, result=next(texts))
        shown = [
            replace(each, text=next(texts, "")) if isinstance(each, TextContent) else each
            for each in part.result
        ]
        return replace(part, result=[each for each in shown if each != TextContent("")])


CODEC = _Messages()


def _id_of(call: ToolCall) -> str:
    """Return a call's id; some models give none, and the tool's name pairs call and result."""
    return str(call.id or call.tool_name)


def _answer(part: ToolCallResult) -> Any:
    return part.result if isinstance(part.result, str) else list(map(_item, part.result))


def _item(part: Any) -> dict[str, Any]:
    if isinstance(part, TextContent):
        return text_part(part.text)
    if isinstance(part, ImageContent):
        return media_part("image", "image/png")
    if isinstance(part, FileContent):
        return media_part(part.filename or "file", part.mime_type)
    return other_part(asdict(part))


@component
class RehydrateChatGenerator(Adapter):
    """Keep the prompts of a chat generator within a budget, without breaking the provider's cache.

    It takes the place of the generator in an `Agent` or a `Pipeline`. Each conversation has a
    persistent `Context`: a list of messages that goes on. Its prompts extend one another byte for
    byte until a compaction. The messages are the list's own objects; some results of a tool's
    message may be left out, and a long text may be shown in part.

    If something fails, the generator gets the messages as they are, with a `RehydrateWarning`.
    `report` has the outcome of the last call.

    >>> from haystack.components.generators.chat import MockChatGenerator
    >>> generator = RehydrateChatGenerator(MockChatGenerator(), budget=Budget(soft_tokens=60_000))
    >>> generator.run([ChatMessage.from_user("Which berth?")])["replies"][0].text
    'Which berth?'
    """

    _codec = CODEC

    @shows_adapter_options(PassiveOptions)
    def __init__(self, chat_generator: Any, **options: Unpack[PassiveOptions]) -> None:
        """Take the generator, and the options; raises InvalidArgumentError as `Context` does."""
        self.chat_generator = chat_generator
        self._options = dict(options)
        self._set_up(options, can_ask=False)

    @component.output_types(replies=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage] | str,
        generation_kwargs: dict[str, Any] | None = None,
        tools: ToolsType | None = None,
        streaming_callback: StreamingCallbackT | None = None,
    ) -> dict[str, Any]:
        """Return the generator's replies to the prompt that these messages make."""
        more = _given(generation_kwargs, tools, streaming_callback)
        return dict(self.chat_generator.run(messages=self._shown(messages, tools), **more))

    @component.output_types(replies=list[ChatMessage])
    async def run_async(
        self,
        messages: list[ChatMessage] | str,
        generation_kwargs: dict[str, Any] | None = None,
        tools: ToolsType | None = None,
        streaming_callback: StreamingCallbackT | None = None,
    ) -> dict[str, Any]:
        """`run` for asyncio; the prompt is made in a worker thread."""
        inner, more = self.chat_generator, _given(generation_kwargs, tools, streaming_callback)
        shown = await hand_over(lambda: self._shown(messages, tools))
        if hasattr(inner, "run_async"):
            return dict(await inner.run_async(messages=shown, **more))
        return dict(await hand_over(lambda: inner.run(messages=shown, **more)))

    def _shown(self, messages: list[ChatMessage] | str, tools: ToolsType | None) -> Any:
        if isinstance(messages, str):
            return messages
        with passing_through():
            scope = Scope(str(getattr(self.chat_generator, "model", None) or ""))
            sent = [compact_json(tool.tool_spec) for tool in flatten_tools_or_toolsets(tools)]
            return self._prompted(messages, scope, sent)[1]
        return messages

    def warm_up(self) -> None:
        """Let the generator get ready; Haystack calls it."""
        if hasattr(self.chat_generator, "warm_up"):
            self.chat_generator.warm_up()

    def close(self) -> None:
        """Let the generator go; Haystack calls it."""
        if hasattr(self.chat_generator, "close"):
            self.chat_generator.close()

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` reads: for options that YAML can hold, and a `Budget`."""
        inner = component_to_dict(self.chat_generator, name="chat_generator")
        options: dict[str, Any] = {**self._options}
        if "budget" in options:
            options["budget"] = asdict(options["budget"])
        made: dict[str, Any] = default_to_dict(self, chat_generator=inner, **options)
        return made

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RehydrateChatGenerator:
        """Return the generator that `to_dict` wrote."""
        given = data["init_parameters"]
        deserialize_chatgenerator_inplace(given)
        if "budget" in given:
            given["budget"] = Budget(**given["budget"])
        made: RehydrateChatGenerator = default_from_dict(cls, data)
        return made


def _given(
    generation_kwargs: dict[str, Any] | None, tools: Any, streaming_callback: Any
) -> dict[str, Any]:
    """Return the arguments that were given: a generator need not know all."""
    named = {
        "generation_kwargs": generation_kwargs,
        "tools": tools,
        "streaming_callback": streaming_callback,
    }
    return {name: value for name, value in named.items() if value is not None}
