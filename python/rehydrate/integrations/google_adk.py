"""Rehydrate inside Google's ADK: ``pip install rehydrate[google-adk]``.

RehydratePlugin        for ``App(plugins=[...])``: prompts that extend one another
HostReport             what became of the last request's contents
RehydrateWarning       something failed, and the contents were sent as they are

The session's events stay as they are. What the model gets is made from them in each request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from rehydrate.errors import MissingPackageError
from rehydrate.formats._reading import compact_json
from rehydrate.integrations.adapter import (
    Adapter,
    AdapterOptions,
    passing_through,
    shows_adapter_options,
)
from rehydrate.integrations.chat_dicts import (
    CALL,
    Codec,
    Entry,
    call_of,
    content_of,
    media_part,
    other_part,
    plain_text,
    result_of,
    text_of,
    text_part,
    thinking_block,
)
from rehydrate.integrations.host_thread import HostReport, HostThread, RehydrateWarning

try:
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.base_tool import BaseTool
    from google.genai.types import Content, FunctionDeclaration, Part
except ImportError:
    raise MissingPackageError("rehydrate[google-adk]", "brings Google's ADK") from None

if TYPE_CHECKING:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.models.llm_request import LlmRequest
    from google.adk.tools.tool_context import ToolContext

_EMPTY = text_part("")


class _Contents(Codec[Content]):
    """What a model said is one entry; of a user's content each result of a tool is one, and so is
    what is between results.

    >>> said = [Content(role="user", parts=[Part(text="Hello.")])]
    >>> [entry.chat for entry in _Contents().entries_of(said)]
    [{'role': 'user', 'content': 'Hello.'}]
    """

    joins_sections = True

    def entries(self, messages: Sequence[Content]) -> Iterator[Entry]:
        ids = _CallIds()
        for index, content in enumerate(messages):
            parts = self.parts(content)
            if content.role == "model":
                yield Entry(_with_ids(self.reply(content), parts, ids), index)
                continue
            start = 0
            for number, part in enumerate(parts):
                if part.function_response is not None:
                    if start < number:
                        yield _user(parts, index, slice(start, number))
                    yield Entry(_result(part, ids), index, slice(number, number + 1))
                    start = number + 1
            if start < len(parts):
                yield _user(parts, index, slice(start, len(parts)))

    def parts(self, message: Content) -> Sequence[Part]:
        return message.parts or []

    def pieces(self, part: Part, message: Content) -> list[dict[str, Any]]:
        if message.role != "model":
            return [_item(part)]
        if (call := part.function_call) is not None:
            return [call_of(call.id, call.name or "", compact_json(call.args or {}))]
        if part.thought:
            return [thinking_block(part.text or "")]
        item = _item(part)
        return [] if item == _EMPTY else [item]

    def section(self, text: str) -> Part:
        return Part(text=text)

    def with_parts(self, message: Content | None, parts: list[Part]) -> Content | None:
        if message is None:
            return Content(role="user", parts=parts)
        return message.model_copy(update={"parts": parts}) if parts else None

    def shown(
        self, message: Content, chat: Mapping[str, Any], now: Mapping[str, Any]
    ) -> list[Content]:
        return super().shown(message, chat, now) if message.parts else []

    def changed(
        self, part: Part, pieces: Sequence[Mapping[str, Any]], text: str | None, lost: bool
    ) -> Part:
        """The signature of a call stays with the call: Gemini refuses the call without it."""
        del lost
        if text is None:
            return part
        if any(piece["type"] == CALL for piece in pieces):
            assert part.function_call is not None
            called = part.function_call.model_copy(update={"args": json.loads(text)})
            return part.model_copy(update={"function_call": called})
        return part.model_copy(update={"text": text})

    def changed_parts(
        self, message: Content, parts: Sequence[Part], now: Mapping[str, Any]
    ) -> list[Part]:
        result = parts[0].function_response
        if result is None:
            return super().changed_parts(message, parts, now)
        cut = result.model_copy(update={"response": {"result": plain_text(now["content"])}})
        return [parts[0].model_copy(update={"function_response": cut})]


CODEC = _Contents()
entries_of, picked = CODEC.entries_of, CODEC.picked


class _CallIds:
    """The ids of calls. Gemini needs none: ADK takes its own away, and pairs by order."""

    def __init__(self) -> None:
        self._count = 0
        self._open: list[tuple[str, str]] = []

    def of_call(self, call: Any) -> str:
        self._count += 1
        made = call.id or f"call_{self._count}"
        self._open.append((call.name or "", made))
        return made

    def of_result(self, result: Any) -> str:
        if result.id:
            return str(result.id)
        named = (each for each in self._open if each[0] == result.name)
        found = next(named, None)
        if found is None:
            return "call_unknown"
        self._open.remove(found)
        return found[1]


def _with_ids(chat: dict[str, Any], parts: Sequence[Part], ids: _CallIds) -> dict[str, Any]:
    calls = [part.function_call for part in parts if part.function_call is not None]
    for made, call in zip(chat.get("tool_calls", ()), calls, strict=True):
        made["id"] = text_of(ids.of_call(call))
    return chat


def _result(part: Part, ids: _CallIds) -> dict[str, Any]:
    result = part.function_response
    assert result is not None
    text = result_text(result.response)
    files = [_media(each.inline_data or each.file_data) for each in result.parts or ()]
    content: Any = [text_part(text), *files] if files else text
    return result_of(ids.of_result(result), content)


def result_text(response: Mapping[str, Any] | None) -> str:
    """Return what a tool answered: ADK puts what is not a dict under `result`.

    >>> result_text({"result": "Berth 4."}), result_text({"berth": 4})
    ('Berth 4.', '{"berth":4}')
    """
    only = (response or {}).get("result") if len(response or {}) == 1 else None
    return only if isinstance(only, str) else compact_json(response or {})


def _user(parts: Sequence[Part], index: int, those: slice) -> Entry:
    content = content_of([_item(part) for part in parts[those]])
    return Entry({"role": "user", "content": content}, index, those)


def _item(part: Part) -> dict[str, Any]:
    if part.inline_data or part.file_data:
        return _media(part.inline_data or part.file_data)
    if part.text is not None:
        return text_part(part.text)
    known = part.model_dump(mode="json", exclude_none=True, exclude={"thought_signature"})
    return other_part(known) if known else text_part("")


def _media(media: Any) -> dict[str, Any]:
    name = getattr(media, "file_uri", None) or getattr(media, "display_name", None) or "inline"
    return media_part(name, getattr(media, "mime_type", None))


__all__ = ["HostReport", "RehydratePlugin", "RehydrateWarning"]


class _Scope(NamedTuple):
    """The ids that tell a conversation from others, besides its contents."""

    app: str = ""
    user: str = ""
    session: str = ""
    agent: str = ""
    branch: str = ""
    model: str = ""


class RehydratePlugin(Adapter, BasePlugin):
    """Keep the prompts of an app's agents within a budget, without breaking the provider's cache.

    Each agent of a session has a persistent `Context`. Its prompts extend one another byte for byte
    until a compaction. The contents are the request's very objects; of a user's content some parts
    may be shown.

    The model brings back by ``request_context`` and ``fetch_whole`` what its prompt does not show.
    Where something fails, the model gets the contents as they are, with a `RehydrateWarning`.
    `report` says what became of the last request.

    >>> from rehydrate.prompt import Budget
    >>> RehydratePlugin(budget=Budget(soft_tokens=60_000)).report.compactions
    0
    """

    _codec = CODEC

    @shows_adapter_options(AdapterOptions)
    def __init__(self, name: str = "rehydrate", **options: Unpack[AdapterOptions]) -> None:
        """Check the arguments; raises InvalidArgumentError as `Context` does."""
        super().__init__(name)
        self._set_up(options, _Scope())

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Put the thread's prompt into the request; the runner calls it before each request."""
        if llm_request.previous_interaction_id:
            return  # the provider holds the conversation
        with passing_through():
            llm_request.contents = await self._prompt(callback_context, llm_request)

    async def _prompt(
        self, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> list[Content]:
        lasting, passing = _parted(llm_request.contents, callback_context.session.events)
        texts = [part.text or "" for _, each in passing for part in each.parts or ()]
        scope = _scope(callback_context, llm_request)
        prompted, made = await self._prompted(lasting, scope, [*_sent(llm_request), *texts])
        for after, content in passing:
            made.insert(max(len(made) - after, 0), content)
        tools = [_AskingTool(each, prompted.thread) for each in self._definitions]
        llm_request.append_tools([t for t in tools if t.name not in llm_request.tools_dict])
        return made


class _AskingTool(BaseTool):
    """A tool of `ContextJIT`, for the thread that the request is of."""

    def __init__(self, definition: Mapping[str, Any], thread: HostThread) -> None:
        super().__init__(name=definition["name"], description=definition["description"])
        self._schema = definition["input_schema"]
        self._thread = thread

    def _get_declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._schema
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> str:
        call_id = tool_context.function_call_id or self.name
        return await self._thread.aanswer(self.name, args, call_id)


def _scope(callback_context: CallbackContext, llm_request: LlmRequest) -> _Scope:
    session = callback_context.session
    branch = [callback_context.branch, callback_context.isolation_scope]
    return _Scope(
        session.app_name,
        session.user_id,
        session.id,
        callback_context.agent_name,
        "/".join(each for each in branch if each),
        str(llm_request.model or ""),
    )


def _sent(llm_request: LlmRequest) -> list[str]:
    """Return the texts that the model gets besides the contents: instructions and tools."""
    config = llm_request.config
    system = config.system_instruction
    texts = [system if isinstance(system, str) else str(system or "")]
    for tool in config.tools or ():
        declarations = getattr(tool, "function_declarations", None) or ()
        texts += [compact_json(each.model_dump(exclude_none=True)) for each in declarations]
    return texts


def _parted(
    contents: Sequence[Content], events: Sequence[Any]
) -> tuple[list[Content], list[tuple[int, Content]]]:
    """Return the contents that last, and those of this request alone, each with the number of
    lasting ones after it.

    ADK writes an instruction that may change, and what a run brings along, into each request before
    the last thing that the user said; no event has them.
    """
    start = len(contents)
    while start and _is_said(contents[start - 1]):
        start -= 1
    lasting, passing = list(contents[:start]), list[Content]()
    places: list[int] = []
    for content in contents[start:]:
        if _is_of_an_event(content, events):
            lasting.append(content)
        else:
            passing.append(content)
            places.append(len(lasting))
    after = [len(lasting) - place for place in places]
    return lasting, list(zip(after, passing, strict=True))


def _is_said(content: Content) -> bool:
    """Return whether a content is a user's, without a tool's answer."""
    parts = content.parts or []
    return content.role == "user" and not any(part.function_response for part in parts)


def _is_of_an_event(content: Content, events: Sequence[Any]) -> bool:
    """Return whether a content is an event's, or tells of another agent's."""
    parts = content.parts or []
    if parts and (parts[0].text or "").startswith("For context:"):
        return True
    said = (event.content for event in reversed(events) if event.content is not None)
    return any(each.role == "user" and each.parts == parts for each in said)
