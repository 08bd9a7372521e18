"""Rehydrate inside LlamaIndex: ``pip install rehydrate[llama-index]``.

RehydrateMemory        for ``agent.run(..., memory=...)``: prompts that extend one another
HostReport             the outcome of the last list of messages
RehydrateWarning       something failed, and the messages were sent as they are

The chat store keeps all messages. What an agent gets of them is made in each request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Unpack

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._native import json_object
from rehydrate._text import safe_error_text
from rehydrate.context.jit import ContextJIT
from rehydrate.errors import InvalidMessageError, MissingPackageError
from rehydrate.integrations.adapter import CHAT, ContextOptions, context_of, shows_adapter_options
from rehydrate.integrations.chat_dicts import (
    CALL,
    THINKING,
    Codec,
    Entry,
    call_of,
    content_of,
    media_part,
    other_part,
    reply_chat,
    result_of,
    text_part,
    thinking_block,
)
from rehydrate.integrations.host_thread import (
    HostReport,
    HostThread,
    RehydrateWarning,
    Shown,
    warn_passed_through,
)
from rehydrate.prompt.request import Budget

try:
    from llama_index.core.base.llms.types import (
        ChatMessage,
        ImageBlock,
        TextBlock,
        ThinkingBlock,
        ToolCallBlock,
    )
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY, BaseChatStoreMemory
    from llama_index.core.storage.chat_store import BaseChatStore, SimpleChatStore
    from llama_index.core.tools import FunctionTool, ToolMetadata
    from llama_index.core.workflow import Context as RunContext
except ImportError:
    raise MissingPackageError("rehydrate[llama-index]", "brings LlamaIndex") from None

__all__ = ["HostReport", "RehydrateMemory", "RehydrateWarning"]


class _Messages(Codec[ChatMessage]):
    """Each message is one entry.

    >>> [entry.chat for entry in CODEC.entries_of([ChatMessage(role="user", content="Hello.")])]
    [{'role': 'user', 'content': 'Hello.'}]
    """

    def entries(self, messages: Sequence[ChatMessage]) -> Iterator[Entry]:
        for index, message in enumerate(messages):
            yield Entry(self._chat(message), index)

    def _chat(self, message: ChatMessage) -> dict[str, Any]:
        role = str(getattr(message.role, "value", message.role))
        pieces = [piece for part in self.parts(message) for piece in self.pieces(part, message)]
        if role in ("assistant", "chatbot", "model"):
            return reply_chat([*pieces, *_calls_next_to_it(message, pieces)])
        content = content_of([each for each in pieces if each["type"] not in (CALL, THINKING)])
        if role in ("tool", "function"):
            return result_of(message.additional_kwargs.get("tool_call_id"), content)
        is_system = role in ("system", "developer")
        return {"role": "system" if is_system else "user", "content": content}

    def parts(self, message: ChatMessage) -> Sequence[Any]:
        return message.blocks or ()

    def pieces(self, part: Any, message: ChatMessage) -> list[dict[str, Any]]:
        del message
        if isinstance(part, ThinkingBlock):
            return [thinking_block(part.content or "")]
        if isinstance(part, ToolCallBlock):
            return [_call(part.tool_call_id, part.tool_name, part.tool_kwargs)]
        return [_item(part)]

    def section(self, text: str) -> TextBlock:
        return TextBlock(text=text)

    def with_parts(self, message: ChatMessage | None, parts: list[Any]) -> ChatMessage | None:
        if message is None:
            return ChatMessage(role="user", blocks=parts)
        is_empty = not parts and not message.additional_kwargs
        return None if is_empty else message.model_copy(update={"blocks": parts})

    def changed(
        self, part: Any, pieces: Sequence[Mapping[str, Any]], text: str | None, lost: bool
    ) -> Any:
        del pieces, lost
        if text is None or not isinstance(part, TextBlock | ToolCallBlock):
            return part
        name = "text" if isinstance(part, TextBlock) else "tool_kwargs"
        return part.model_copy(update={name: text})


CODEC = _Messages()


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
    about = {"title": block.title, "source": block.source}
    return {"type": "search_result", **about, "content": inside}


def _calls_next_to_it(
    message: ChatMessage, pieces: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the calls that older clients keep next to the blocks, if none is a block."""
    calls = message.additional_kwargs.get("tool_calls")
    if not isinstance(calls, list | tuple) or any(each["type"] == CALL for each in pieces):
        return
    for call in calls:
        if not isinstance(call, Mapping) and not hasattr(call, "model_dump"):
            where, remedy = "additional_kwargs['tool_calls']", "pass ToolCallBlock blocks"
            raise InvalidMessageError(None, where, call, "a list of calls", remedy)
        known = call if isinstance(call, Mapping) else call.model_dump()
        function = known.get("function")
        function = function if isinstance(function, Mapping) else known
        arguments = function.get("arguments", function.get("input"))
        yield _call(known.get("id"), function.get("name"), arguments)


def _call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    given = arguments if isinstance(arguments, str) else arguments or {}
    return call_of(call_id, name, given)


class RehydrateMemory(BaseChatStoreMemory):
    """Keep an agent's prompts within a budget, without breaking the provider's cache.

    One memory is one conversation, with a persistent `Context`. Its prompts extend one another byte
    for byte until a compaction. The chat store keeps every message; what is sent are its objects.

    With ``tools=[..., *memory.tools()]`` the model brings back by ``request_context`` and
    ``fetch_whole`` what its prompt does not show. A tool's result over its cap (``caps``) is shown
    in part from the next turn on. LlamaIndex does not tell a memory what the system prompt and the
    tools weigh: pass that as ``reserved_tokens``.

    If something fails, the agent gets the messages as they are, with a `RehydrateWarning`.
    `report` has the outcome of the last list. A pickle or deep copy has the messages and the
    options, and begins a `Context` of its own.

    >>> memory = RehydrateMemory(budget=Budget(soft_tokens=60_000))
    >>> memory.put(ChatMessage(role="user", content="Which berth is free?"))
    >>> memory.get()[0].content, memory.report.compactions
    ('Which berth is free?', 0)
    """

    _thread: HostThread = PrivateAttr()
    _options: dict[str, Any] = PrivateAttr()
    _last: tuple[list[dict[str, Any]], list[Shown]] | None = PrivateAttr(default=None)
    _calls: int = PrivateAttr(default=0)

    @shows_adapter_options(ContextOptions)
    def __init__(
        self,
        *,
        chat_store: BaseChatStore | None = None,
        chat_store_key: str = DEFAULT_CHAT_STORE_KEY,
        reserved_tokens: int = 0,
        **options: Unpack[ContextOptions],
    ) -> None:
        """Check the arguments; raises InvalidArgumentError as `Context` does."""
        super().__init__(chat_store=chat_store or SimpleChatStore(), chat_store_key=chat_store_key)
        given = {"budget": Budget(), **options}
        self._thread = HostThread(lambda: context_of(given, provider=CHAT), asks_back=True)
        self._thread.context  # noqa: B018  it raises for a wrong option
        self._options = {"reserved_tokens": reserved_tokens, **options}

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle holds: the arguments, which LlamaIndex makes a memory of again."""
        return {"__dict__": {**self.__dict__, **self._options}}

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> RehydrateMemory:
        """Return a memory with a copy of the messages and the same options."""
        fields = deepcopy(self.__dict__, memo)
        return type(self)(**fields, **self._options)

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
        """The outcome of the last list of messages."""
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
            entries = CODEC.entries_of(messages)
            made = CODEC.picked(messages, entries, self._shown([each.chat for each in entries]))
        except Exception as error:
            why = safe_error_text(error, "rehydrate")
            self._thread.note_failure(why)
            warn_passed_through(why)
            return messages
        # An agent with a state writes it into the last message that it gets.
        return [*made[:-1], made[-1].model_copy(deep=True)] if made else made

    def _shown(self, chats: list[dict[str, Any]]) -> list[Shown]:
        if not chats:
            return []
        # An agent asks again in each step, with what the step added kept elsewhere.
        last = self._last  # another thread may be asking
        if last is None or last[0] != chats:
            reserved = self._options["reserved_tokens"]
            shown = self._thread.shown(chats, reserved_tokens=reserved)
            self._last = None if self._thread.report.failure else (chats, shown)
            return shown
        return last[1]

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
    """The metadata of a tool whose arguments have a JSON schema."""

    schema: dict[str, Any]

    def get_parameters_dict(self) -> dict[str, Any]:
        """Return the schema of the arguments."""
        return self.schema


async def _call_id(ctx: Any, name: str, arguments: dict[str, Any]) -> str | None:
    """Return the id of a call under way, which LlamaIndex does not tell a tool."""
    store = getattr(ctx, "store", None)
    if store is None:
        return None
    said: list[ChatMessage] = await store.get("scratchpad", default=[])
    for message in reversed(said):
        (entry,) = CODEC.entries_of([message])
        for call in entry.chat.get("tool_calls") or ():
            function = call["function"]
            if function["name"] == name and json_object(function["arguments"]) == arguments:
                return str(call["id"])
    return None
