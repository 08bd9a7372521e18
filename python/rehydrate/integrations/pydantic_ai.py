"""Rehydrate inside Pydantic AI: ``pip install rehydrate[pydantic-ai]``.

RehydrateCapability    for ``Agent(capabilities=[...])``: prompts that extend one another
HostReport             the outcome of the last list of messages
RehydrateWarning       something failed, and the messages were sent as they are

The run's message history stays as it is. What the model gets is made from it in each request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from rehydrate.errors import MissingPackageError
from rehydrate.formats._reading import compact_json
from rehydrate.integrations.adapter import (
    Adapter,
    AdapterOptions,
    Prompted,
    Scope,
    passing_through,
    shows_adapter_options,
    tool_text,
)
from rehydrate.integrations.chat_dicts import (
    STATE_PART,
    Codec,
    Entry,
    call_of,
    other_part,
    result_of,
    text_of,
    text_part,
    thinking_block,
)
from rehydrate.integrations.host_thread import HostReport, RehydrateWarning, Shown
from rehydrate.prompt.compiler import BEGINNING

try:
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import (
        BinaryContent,
        ImageUrl,
        ModelMessage,
        ModelRequest,
        ModelResponse,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.tools import RunContext, Tool
    from pydantic_ai.toolsets import FunctionToolset
except ImportError:
    raise MissingPackageError("rehydrate[pydantic-ai]", "brings Pydantic AI's agents") from None

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.tools import ToolDefinition

_OWN_TOOLS = frozenset({"builtin-tool-call", "builtin-tool-search-call"})
_SUPPORTS_BOTH = "google_supports_tool_combination"


class _Messages(Codec[ModelMessage]):
    """A response is one entry, a request one a part.

    >>> messages = [ModelRequest([UserPromptPart("Hello.")]), ModelResponse([TextPart("Hi.")])]
    >>> [entry.chat for entry in _Messages().entries_of(messages)]
    [{'role': 'user', 'content': 'Hello.'}, {'role': 'assistant', 'content': 'Hi.'}]
    """

    joins_sections = True

    def entries(self, messages: Sequence[ModelMessage]) -> Iterator[Entry]:
        for index, message in enumerate(messages):
            if isinstance(message, ModelResponse):
                yield Entry(self.chat("assistant", message), index)
            else:
                for number, part in enumerate(self.parts(message)):
                    yield Entry(_request_part(part), index, number)

    def parts(self, message: ModelMessage) -> Sequence[Any]:
        return message.parts or ()

    def pieces(self, part: Any, message: ModelMessage) -> list[dict[str, Any]]:
        del message
        if isinstance(part, ToolCallPart):
            return [
                call_of(
                    part.tool_call_id, part.tool_name, _written(part.args_as_json_str, part.args)
                )
            ]
        if isinstance(part, ThinkingPart):
            return [thinking_block(part.content, part.signature or "")]
        return _reply_parts(part)

    def section(self, text: str) -> UserPromptPart:
        return UserPromptPart(text)

    def with_parts(self, message: ModelMessage | None, parts: list[Any]) -> ModelMessage:
        whole: Any = message  # a request or a response: the fields are called the same
        return ModelRequest(parts=parts) if whole is None else replace(whole, parts=parts)

    def loses_thinking(
        self, message: ModelMessage, chat: Mapping[str, Any], now: Mapping[str, Any]
    ) -> bool:
        """OpenAI refuses the id of what reasoning led to without the reasoning, and takes it
        without an id; only a call of its own tools needs one, and keeps the reasoning."""
        has_own_tools = any(part.part_kind in _OWN_TOOLS for part in message.parts)
        return not has_own_tools and super().loses_thinking(message, chat, now)

    def changed(
        self, part: Any, pieces: Sequence[Mapping[str, Any]], text: str | None, lost: bool
    ) -> Any:
        del pieces
        changes: dict[str, Any] = {}
        if text is not None and isinstance(part, ToolCallPart | TextPart):
            changes["args" if isinstance(part, ToolCallPart) else "content"] = text
        if lost and getattr(part, "id", None) is not None:
            changes["id"] = None
        return replace(part, **changes) if changes else part

    def changed_part(self, part: Any, now: Mapping[str, Any]) -> Any:
        content = now["content"]
        if isinstance(part, ToolReturnPart) and part.files:
            content = [content[0]["text"], *part.files]
        elif isinstance(part, UserPromptPart) and not isinstance(part.content, str):
            items = zip(part.content, content, strict=True)
            content = [_changed_item(item, shown) for item, shown in items]
        elif not isinstance(part, ToolReturnPart | UserPromptPart):
            return part
        return replace(part, content=content)

    def picked(
        self, messages: Sequence[ModelMessage], entries: Sequence[Entry], shown: Sequence[Shown]
    ) -> list[ModelMessage]:
        """Return the messages that a prompt shows, with all that says which tools there are: the
        framework reads that from the messages that are sent."""
        lasting = _lasting(messages, entries)
        missing = sorted(lasting - {each.index for each in shown})
        made: list[Shown] = []
        for each in shown:
            while missing and each.index is not None and missing[0] < each.index:
                made.append(_whole(missing.pop(0), entries))
            if each.index in lasting and each.message["role"] == "tool":
                made.append(_whole(each.index, entries))
            else:
                made.append(each)
        made += [_whole(index, entries) for index in missing]
        first = next((n for n, each in enumerate(made) if each.message["role"] != "system"), 0)
        if lasting and made[first].message["role"] == "assistant":
            made.insert(first, Shown(None, {"role": "user", "content": BEGINNING}))
        return super().picked(messages, entries, made)


CODEC = _Messages()

_LASTING = frozenset({"tool-search", "capability-load"})


def _lasting(messages: Sequence[ModelMessage], entries: Sequence[Entry]) -> set[int]:
    """Return the indices of the entries of exchanges by which tools were found or loaded."""
    is_of = [any(getattr(p, "tool_kind", "") in _LASTING for p in m.parts) for m in messages]
    calls, found = set[str](), set[int]()
    if not any(is_of):
        return found
    for index, entry in enumerate(entries):
        if entry.part is None and is_of[entry.message]:
            calls.update(call["id"] for call in entry.chat.get("tool_calls") or ())
        elif entry.chat.get("tool_call_id") not in calls:
            continue
        found.add(index)
    return found


def _whole(index: int, entries: Sequence[Entry]) -> Shown:
    """Return an entry as it is, but without thinking, which may be sent after its own past only."""
    chat = entries[index].chat
    return Shown(index, {key: chat[key] for key in chat if key not in _THOUGHTS})


_THOUGHTS = ("thinking_blocks", "reasoning_content")


def _reply_parts(part: Any) -> list[dict[str, Any]]:
    """Return the chat parts of a response's part other than a call or a thought."""
    content = getattr(part, "content", None)
    if part.part_kind == "compaction":
        return [{"type": STATE_PART, "content": content or ""}]
    if isinstance(content, str) and part.part_kind not in _NATIVE_RETURNS:
        return [text_part(content)] if content else []
    if part.part_kind == "file":
        return [_media(content)]
    if part.part_kind == "speech":
        heard = text_part(part.transcript) if part.transcript else None
        return [each for each in (heard, _media(part.audio) if part.audio else None) if each]
    if part.part_kind in _NATIVE_RETURNS:
        return [other_part(_readable(content))]
    return [text_part(_text_of(part))]


_NATIVE_RETURNS = frozenset({"builtin-tool-return", "builtin-tool-search-return"})


_DEEPEST = 100
"""Levels of a provider's return in which files are looked for; what is deeper is a text."""


def _readable(value: Any, depth: int = 0) -> Any:
    """Return the value that a provider's own tool returned, with a part for each file in it."""
    is_file = isinstance(value, BinaryContent | bytes) or hasattr(value, "force_download")
    if is_file:
        return _media(value)
    if depth == _DEEPEST:
        return compact_json(value)
    if is_dataclass(value) and not isinstance(value, type):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key: _readable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_readable(item, depth + 1) for item in value]
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else value


def _request_part(part: Any) -> dict[str, Any]:
    if isinstance(part, UserPromptPart):
        return {"role": "user", "content": _content(part.content)}
    if isinstance(part, ToolReturnPart):
        # Each model marks an error as its provider does.
        text = _written(lambda: part.model_response_str(wrap_if_error=False), part.content)
        content: Any = [text_part(text), *map(_media, part.files)] if part.files else text
        return result_of(part.tool_call_id, content)
    kind = part.part_kind
    if kind == "retry-prompt" and part.tool_name is not None:
        return result_of(part.tool_call_id, _text_of(part))
    # The framework's notes on instructions, tools and settings are kept as system text is.
    role = "user" if kind in _SAID_BY_USER else "system"
    return {"role": role, "content": _text_of(part)}


def _written(write: Callable[[], str], value: Any) -> str:
    """Return a value as the framework writes it; its JSON cannot hold half a surrogate pair."""
    try:
        return write()
    except ValueError:
        return text_of(value)


_SAID_BY_USER = frozenset({"retry-prompt", "retry-feedback", "speech"})


def _content(content: Any) -> Any:
    """Return what a user said as a text, or as one part for each of its items."""
    if not isinstance(content, list | tuple):
        return text_of(content)
    return [_item(item) for item in content]


def _item(item: Any) -> dict[str, Any]:
    text = _said(item)
    return _media(item) if text is None else text_part(text)


def _said(item: Any) -> str | None:
    """Return an item's text; None if it is a file."""
    if isinstance(item, str):
        return item
    if getattr(item, "kind", "") == "cache-point":
        return ""
    text = getattr(item, "content", None)
    return text if isinstance(text, str) else None


def _media(item: Any) -> dict[str, Any]:
    is_image = isinstance(item, ImageUrl) or (isinstance(item, BinaryContent) and item.is_image)
    if not is_image:
        return {"type": "file", "file": {"file_id": str(getattr(item, "identifier", ""))}}
    url = item.url if isinstance(item, ImageUrl) else f"image:{item.identifier}"
    return {"type": "image_url", "image_url": {"url": url}}


def _text_of(part: Any) -> str:
    """Return the text of a part of any kind, for its size and its words."""
    content = getattr(part, "content", None)
    if isinstance(content, str):
        return content
    known = {key: getattr(part, key, None) for key in ("tool_name", "args", "content")}
    return compact_json({key: value for key, value in known.items() if value is not None})


def _changed_item(item: Any, shown: Mapping[str, Any]) -> Any:
    text = _said(item)
    return item if text is None or text == shown["text"] else shown["text"]


__all__ = ["HostReport", "RehydrateCapability", "RehydrateWarning"]


class RehydrateCapability(Adapter, AbstractCapability[Any]):
    """Keep an agent's prompts within a budget, without breaking the provider's cache.

    Each conversation has a persistent `Context`: a list of messages that goes on, with one agent
    and one model. Its prompts extend one another byte for byte until a compaction. The messages are
    the history's own objects; some parts of a request may be left out.

    The model brings back by ``request_context`` and ``fetch_whole`` what its prompt does not show.
    If something fails, the model gets the messages as they are, with a `RehydrateWarning`.
    `report` has the outcome of the last request.

    >>> from rehydrate.prompt import Budget
    >>> RehydrateCapability(budget=Budget(soft_tokens=60_000)).report.compactions
    0
    """

    _codec = CODEC

    @shows_adapter_options(AdapterOptions)
    def __init__(self, **options: Unpack[AdapterOptions]) -> None:
        """Check the arguments; raises InvalidArgumentError as `Context` does."""
        self._set_up(options)
        self._asking: Prompted | None = None

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: its arguments are objects, which no specification holds."""
        return None

    async def for_run(self, ctx: RunContext[Any]) -> RehydrateCapability:
        """Return a copy for one run, which knows what the run's model was sent last."""
        del ctx
        return copy(self)

    def get_toolset(self) -> FunctionToolset[Any] | None:
        """Return the tools by which the model asks back."""
        tools = list(map(self._tool, self._definitions))
        return FunctionToolset(tools) if tools else None

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Return the request with the thread's prompt; the agent calls it before each request."""
        request_context = self._suited(request_context)
        with passing_through():
            messages = list(request_context.messages)
            scope = _scope(ctx, request_context.model)
            texts = self._sent(request_context)
            self._asking, shown = await self._aprompted(messages, scope, texts)
            return replace(request_context, messages=shown)
        return request_context

    def _foreign(self, tools: Sequence[ToolDefinition]) -> list[ToolDefinition]:
        return [each for each in tools if each.name not in self._own_tools]

    def _suited(self, request_context: ModelRequestContext) -> ModelRequestContext:
        """Return the request, without our tools where they are the only functions and the model
        takes none beside its provider's own tools or a schema of the output."""
        given = request_context.model_request_parameters
        takes_both = request_context.model.profile.get(_SUPPORTS_BOTH, True)
        is_alone = given.native_tools or given.output_mode == "native"
        if takes_both or not is_alone or self._foreign(given.function_tools):
            return request_context
        return replace(request_context, model_request_parameters=replace(given, function_tools=[]))

    def _sent(self, request_context: ModelRequestContext) -> list[str]:
        """Return the texts that the model gets besides the messages: instructions, tools and the
        output's schema. A tool that loads when it is searched for is not there yet."""
        given = request_context.model_request_parameters
        texts = [
            tool_text(each.name, each.description, each.parameters_json_schema)
            for each in self._foreign([*given.function_tools, *given.output_tools])
            if not each.defer_loading or each.name in given.revealed_tool_names
        ]
        if given.output_object is not None:
            texts.append(compact_json(given.output_object.json_schema))
        instructions = [getattr(each, "instructions", None) for each in request_context.messages]
        return [*texts, next((each for each in reversed(instructions) if each), "")]

    def _tool(self, definition: Mapping[str, Any]) -> Tool[Any]:
        name = definition["name"]

        async def run(ctx: RunContext[Any], **arguments: Any) -> str:
            asking = self._asking
            if asking is None:  # the run goes on from a call of an earlier one
                said = [entry.chat for entry in CODEC.entries_of(ctx.messages)]
                asking = self._threads.asking(said, _scope(ctx, ctx.model))
            return await self._threads.aanswer(asking, name, arguments, ctx.tool_call_id or name)

        return Tool.from_schema(
            run,
            name=name,
            description=definition["description"],
            json_schema=definition["input_schema"],
            takes_ctx=True,
        )


def _scope(ctx: RunContext[Any], model: Any) -> Scope:
    agent = str(getattr(ctx.agent, "name", None) or "")
    return Scope(str(getattr(model, "model_name", "")), place=agent)
