"""RehydratePlugin: the prompts of ADK's agents extend one another.

The session's events stay as they are. What the model gets is made from them in each request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from rehydrate._text import safe_error_text
from rehydrate.errors import MissingPackageError
from rehydrate.formats._reading import compact_json
from rehydrate.integrations.adapter import Adapter, AdapterOptions, ChatThreads
from rehydrate.integrations.chat_dicts import (
    Entry,
    assistant_chat,
    call_of,
    content_of,
    is_same_list,
    loses_thinking,
    media_part,
    other_part,
    plain_text,
    reply_content,
    result_of,
    text_part,
    texts_of,
    thinking_block,
)
from rehydrate.integrations.host_thread import HostThread, Shown, warn_passed_through
from rehydrate.prompt.counting import text_tokens

try:
    from google.genai.types import Content, Part
except ImportError:
    raise MissingPackageError("rehydrate[google-adk]", "brings Google's ADK") from None

try:
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.base_tool import BaseTool
    from google.genai.types import Content, FunctionDeclaration
except ImportError:
    raise MissingPackageError("rehydrate[google-adk]", "brings Google's ADK") from None

if TYPE_CHECKING:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.models.llm_request import LlmRequest
    from google.adk.tools.tool_context import ToolContext


def entries_of(contents: Sequence[Content]) -> list[Entry]:
    """Return the entries of the contents, in order.

    What a model said is one; of a user's content each result of a tool is one, and so is what
    is between results.

    >>> said = [Content(role="user", parts=[Part(text="Hello.")])]
    >>> [entry.chat for entry in entries_of(said)]
    [{'role': 'user', 'content': 'Hello.'}]
    """
    return list(_entries(contents))


def _entries(contents: Sequence[Content]) -> Iterator[Entry]:
    calls = _CallIds()
    for index, content in enumerate(contents):
        parts = content.parts or []
        if content.role == "model":
            yield Entry(_model(parts, calls), index, slice(0, len(parts)))
            continue
        start = 0
        for number, part in enumerate(parts):
            if part.function_response is not None:
                if start < number:
                    yield _user(parts, index, slice(start, number))
                yield Entry(_result(part, calls), index, slice(number, number + 1))
                start = number + 1
        if start < len(parts):
            yield _user(parts, index, slice(start, len(parts)))


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


def _model(parts: Sequence[Part], calls: _CallIds) -> dict[str, Any]:
    said, made, thoughts = [], [], []
    for part in parts:
        if (call := part.function_call) is not None:
            arguments = compact_json(call.args or {})
            made.append(call_of(calls.of_call(call), call.name or "", arguments))
        elif part.thought:
            thoughts.append(thinking_block(part.text or ""))
        elif (item := _item(part)) != _EMPTY:
            said.append(item)
    return assistant_chat(reply_content(said), made, thoughts)


def _result(part: Part, calls: _CallIds) -> dict[str, Any]:
    result = part.function_response
    assert result is not None
    text = result_text(result.response)
    files = [_media(each.inline_data or each.file_data) for each in result.parts or ()]
    content: Any = [text_part(text), *files] if files else text
    return result_of(calls.of_result(result), content)


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


_EMPTY = text_part("")


def _media(media: Any) -> dict[str, Any]:
    name = getattr(media, "file_uri", None) or getattr(media, "display_name", None) or "inline"
    return media_part(name, getattr(media, "mime_type", None))


def picked(
    contents: Sequence[Content], entries: Sequence[Entry], shown: Sequence[Shown]
) -> list[Content]:
    """Return the contents that a prompt shows; ``entries`` are those of the contents.

    A section of context becomes a part of the user's content that it is before, so that none
    comes between a call and its result.
    """
    made: list[Content] = []
    open_index, parts = -1, list[Part]()  # of the user's content that is being made
    waiting: list[Part] = []

    def close() -> None:
        nonlocal parts
        if parts:
            whole = contents[open_index] if open_index >= 0 else None
            made.append(_content(whole, parts))
        parts = []

    for index, chat in shown:
        if index is None:
            waiting.append(Part(text=plain_text(chat["content"])))
            continue
        entry = entries[index]
        content = contents[entry.message]
        own = (content.parts or [])[entry.part]
        if entry.message != open_index:
            close()
        if content.role == "model":
            open_index, parts = -1, waiting
            close()
            if kept := _changed_model(own, entry.chat, chat):  # it may have been thinking alone
                made.append(_content(content, kept))
        else:
            open_index = entry.message
            parts += [*waiting, *_changed(own, entry.chat, chat)]
        waiting = []
    if open_index < 0:
        parts = waiting
    else:
        parts += waiting
    close()
    return made


def _content(whole: Content | None, parts: list[Part]) -> Content:
    """Return a content with these parts; the very object where they are all that it has."""
    if whole is None:
        return Content(role="user", parts=parts)
    own = whole.parts or []
    return whole if is_same_list(parts, own) else whole.model_copy(update={"parts": parts})


def _changed(
    parts: Sequence[Part], chat: Mapping[str, Any], now: Mapping[str, Any]
) -> Sequence[Part]:
    """Return a user's parts with what is shown of them; the parts themselves where that is all."""
    if chat is now or chat == now:
        return parts
    result = parts[0].function_response
    if result is not None:
        cut = result.model_copy(update={"response": {"result": plain_text(now["content"])}})
        return [parts[0].model_copy(update={"function_response": cut})]
    content = now["content"]
    items = [text_part(content)] if isinstance(content, str) else content
    pairs = zip(parts, items, strict=True)
    return [_shortened(part, str(item.get("text", ""))) for part, item in pairs]


def _shortened(part: Part, text: str) -> Part:
    return part if part.text in (None, text) else part.model_copy(update={"text": text})


def _changed_model(
    parts: Sequence[Part], chat: Mapping[str, Any], now: Mapping[str, Any]
) -> list[Part]:
    """Return what a model said with what is shown of it.

    The signature of a call stays with the call: Gemini refuses the call without it.
    """
    if chat is now or chat == now:
        return list(parts)
    keeps_thinking = not loses_thinking(chat, now)
    texts = texts_of(now["content"])
    calls = iter(now.get("tool_calls") or ())
    made: list[Part] = []
    for part in parts:
        if part.function_call is not None:
            arguments = next(calls)["function"]["arguments"]
            made.append(_called(part, arguments))
        elif part.thought:
            if keeps_thinking:
                made.append(part)
        elif part.text:
            made.append(_shortened(part, next(texts)))
        else:
            made.append(part)
    return made


def _called(part: Part, arguments: str) -> Part:
    call = part.function_call
    assert call is not None
    if compact_json(call.args or {}) == arguments:
        return part
    changed = call.model_copy(update={"args": json.loads(arguments)})
    return part.model_copy(update={"function_call": changed})


class _Scope(NamedTuple):
    """What tells a conversation from others, besides its contents."""

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
    ``options`` are those of `AdapterOptions`: a budget, sources, caps of tool results, background
    summaries, and others of `Context`.

    Where something fails, the model gets the contents as they are, with a `RehydrateWarning`.
    `report` says what became of the last request.

    >>> from rehydrate.prompt import Budget
    >>> RehydratePlugin(budget=Budget(soft_tokens=60_000)).report.compactions
    0
    """

    def __init__(self, name: str = "rehydrate", **options: Unpack[AdapterOptions]) -> None:
        """Check the arguments; raises InvalidArgumentError as `Context` does."""
        super().__init__(name)
        self._threads = ChatThreads(options, _Scope())

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Put the thread's prompt into the request; the runner calls it before each request."""
        if llm_request.previous_interaction_id:
            return  # the provider holds the conversation
        try:
            llm_request.contents = await self._prompt(callback_context, llm_request)
        except Exception as error:
            warn_passed_through(safe_error_text(error, "rehydrate"))

    async def _prompt(
        self, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> list[Content]:
        lasting, passing = _parted(llm_request.contents, callback_context.session.events)
        entries = entries_of(lasting)
        texts = [part.text or "" for _, each in passing for part in each.parts or ()]
        prompted = await self._threads.aprompt(
            [entry.chat for entry in entries],
            _scope(callback_context, llm_request),
            reserved_tokens=sum(text_tokens([*_sent_beside(llm_request), *texts])),
        )
        made = picked(lasting, entries, prompted.shown)
        for behind, content in passing:
            made.insert(max(len(made) - behind, 0), content)
        tools = [_AskingTool(each, prompted.thread) for each in self._threads.definitions]
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


def _sent_beside(llm_request: LlmRequest) -> list[str]:
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
    behind = [len(lasting) - place for place in places]
    return lasting, list(zip(behind, passing, strict=True))


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
