"""RehydrateMemory: the prompts of LlamaIndex' agents extend one another.

The chat store keeps all messages. What an agent gets of them is made in each request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._text import safe_error_text
from rehydrate.context.compaction import BackgroundCompaction
from rehydrate.context.jit import ContextJIT
from rehydrate.errors import InvalidMessageError, MissingPackageError
from rehydrate.integrations.adapter import chat_context
from rehydrate.integrations.chat_dicts import (
    assistant_chat,
    call_of,
    content_of,
    loses_thinking,
    media_part,
    other_part,
    plain_text,
    result_of,
    text_part,
    texts_of,
    thinking_block,
)
from rehydrate.integrations.host_thread import HostReport, HostThread, Shown, warn_passed_through
from rehydrate.prompt.caps import Caps
from rehydrate.prompt.request import Budget

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

try:
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY, BaseChatStoreMemory
    from llama_index.core.storage.chat_store import BaseChatStore, SimpleChatStore
    from llama_index.core.tools import FunctionTool, ToolMetadata
    from llama_index.core.workflow import Context as RunContext
except ImportError:
    raise MissingPackageError("rehydrate[llama-index]", "brings LlamaIndex") from None

if TYPE_CHECKING:
    from rehydrate.prompt.sources import Given


def chat_of(message: ChatMessage) -> dict[str, Any]:
    """Return a message as a chat dict.

    >>> chat_of(ChatMessage(role="user", content="Hello."))
    {'role': 'user', 'content': 'Hello.'}
    """
    role = str(getattr(message.role, "value", message.role))
    content = _content(message.blocks or ())
    if role in ("tool", "function"):
        return result_of(message.additional_kwargs.get("tool_call_id"), content)
    if role not in ("assistant", "chatbot", "model"):
        is_system = role in ("system", "developer")
        return {"role": "system" if is_system else "user", "content": content}
    thoughts = [
        each.content or "" for each in message.blocks or () if isinstance(each, ThinkingBlock)
    ]
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
    """Return the calls: blocks, or what older clients keep next to them."""
    blocks = [each for each in message.blocks or () if isinstance(each, ToolCallBlock)]
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
    given = arguments if isinstance(arguments, str) else arguments or {}
    return call_of(call_id, name, given)


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


class RehydrateMemory(BaseChatStoreMemory):
    """Keep an agent's prompts within a budget, without breaking the provider's cache.

    One memory is one conversation, with a persistent `Context`. Its prompts extend one another byte
    for byte until a compaction. The chat store keeps every message; what is sent are its objects.

    With ``tools=[..., *memory.tools()]`` the model brings back by ``request_context`` and
    ``fetch_whole`` what its prompt does not show. A tool's result over its cap (``caps``) is shown
    in part from the next turn on, with a handle of the whole. ``sources`` are a `Memory`, folders
    or functions that are asked in each user turn. With ``background``, summaries are written
    meanwhile. ``options`` are other arguments of `Context`. LlamaIndex does not tell a memory what
    the system prompt and the tools weigh: pass that as ``reserved_tokens``.

    Where something fails, the agent gets the messages as they are, with a `RehydrateWarning`.
    `report` says what became of the last list.

    >>> memory = RehydrateMemory(budget=Budget(soft_tokens=60_000))
    >>> memory.put(ChatMessage(role="user", content="Which berth is free?"))
    >>> memory.get()[0].content, memory.report.compactions
    ('Which berth is free?', 0)
    """

    _thread: HostThread = PrivateAttr()
    _reserved: int = PrivateAttr()
    _last: tuple[list[dict[str, Any]], list[Shown]] | None = PrivateAttr(default=None)
    _calls: int = PrivateAttr(default=0)

    def __init__(
        self,
        *,
        chat_store: BaseChatStore | None = None,
        chat_store_key: str = DEFAULT_CHAT_STORE_KEY,
        budget: Budget = Budget(),  # noqa: B008  it is frozen
        sources: Given = (),
        background: BackgroundCompaction | None = None,
        caps: Caps | None = None,
        reserved_tokens: int = 0,
        **options: Any,
    ) -> None:
        """Check the arguments; raises InvalidArgumentError as `Context` does."""
        super().__init__(chat_store=chat_store or SimpleChatStore(), chat_store_key=chat_store_key)
        given = {"budget": budget, "sources": sources, "background": background, "caps": caps}
        self._thread = HostThread(lambda: chat_context({**given, **options}), asks_back=True)
        self._thread.context  # noqa: B018  it raises for a wrong option
        self._reserved = reserved_tokens

    @classmethod
    def class_name(cls) -> str:
        """Return the name by which LlamaIndex knows it."""
        return "RehydrateMemory"

    @classmethod
    def from_defaults(
        cls,
        chat_history: list[ChatMessage] | None = None,
        llm: Any = None,  # noqa: ARG003  the base class has it
        **options: Any,
    ) -> RehydrateMemory:
        """Return a memory that begins with these messages."""
        memory = cls(**options)
        if chat_history:
            memory.set(chat_history)
        return memory

    @property
    def report(self) -> HostReport:
        """What became of the last list of messages."""
        return self._thread.report

    def get(self, input: str | None = None, **_: Any) -> list[ChatMessage]:  # noqa: A002, ARG002
        """Return the messages that the prompt shows."""
        return self._prompt(list(self.get_all()))

    async def aget(self, input: str | None = None, **_: Any) -> list[ChatMessage]:  # noqa: A002, ARG002
        """`get` for asyncio; the prompt is made in a worker thread."""
        messages = list(await self.aget_all())
        return await hand_over(lambda: self._prompt(messages))

    def tools(self) -> list[FunctionTool]:
        """Return the tools by which an agent's model asks back."""
        definitions = ContextJIT(self._thread.context).tools("anthropic")
        return [self._tool(each) for each in definitions]

    def _prompt(self, messages: list[ChatMessage]) -> list[ChatMessage]:
        try:
            chats = [chat_of(message) for message in messages]
            return self._picked(messages, chats, self._shown(chats))
        except Exception as error:
            why = safe_error_text(error, "rehydrate")
            self._thread.note_failure(why)
            warn_passed_through(why)
            return messages

    def _shown(self, chats: list[dict[str, Any]]) -> list[Shown]:
        if not chats:
            return []
        # An agent asks again in each step, with what the step added kept elsewhere.
        if self._last is None or self._last[0] != chats:
            shown = self._thread.shown(chats, reserved_tokens=self._reserved)
            self._last = None if self._thread.report.failure else (chats, shown)
            return shown
        return self._last[1]

    def _picked(
        self, messages: list[ChatMessage], chats: list[dict[str, Any]], shown: Sequence[Shown]
    ) -> list[ChatMessage]:
        made = picked(messages, chats, shown)
        # An agent with a state writes it into the last message that it gets.
        return [*made[:-1], made[-1].model_copy(deep=True)] if made else made

    def _tool(self, definition: Any) -> FunctionTool:
        name = definition["name"]

        async def answer(ctx: Any = None, **arguments: Any) -> str:
            try:
                call_id = await _call_id(ctx, name, arguments)
            except Exception:  # a scratchpad of another kind of agent
                call_id = None
            if call_id is None:
                self._calls += 1
                call_id = f"{name}_{self._calls}"
            return await self._thread.aanswer(name, arguments, call_id)

        answer.__annotations__["ctx"] = RunContext  # by this LlamaIndex knows the parameter
        metadata = _Metadata(definition["description"], name, fn_schema=None)
        metadata.schema = definition["input_schema"]
        return FunctionTool(async_fn=answer, metadata=metadata)


class _Metadata(ToolMetadata):
    """What a model is told of a tool whose arguments have a JSON schema."""

    schema: dict[str, Any]

    def get_parameters_dict(self) -> dict[str, Any]:
        """Return the schema of the arguments."""
        return self.schema


def _is_same(text: str, arguments: dict[str, Any]) -> bool:
    try:
        return bool(json.loads(text) == arguments)
    except ValueError:
        return False


async def _call_id(ctx: Any, name: str, arguments: dict[str, Any]) -> str | None:
    """Return the id of a call under way, which LlamaIndex does not tell a tool."""
    store = getattr(ctx, "store", None)
    if store is None:
        return None
    said: list[ChatMessage] = await store.get("scratchpad", default=[])
    for message in reversed(said):
        for call in chat_of(message).get("tool_calls") or ():
            function = call["function"]
            if function["name"] == name and _is_same(function["arguments"], arguments):
                return str(call["id"])
    return None
