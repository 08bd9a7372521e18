"""Rehydrate inside Microsoft's Agent Framework: ``pip install rehydrate[agent-framework]``.

RehydrateProvider      for ``Agent(context_providers=[...])``: prompts that extend one another
HostReport             the outcome of the last request's messages
RehydrateWarning       something failed, and the messages were sent as they are

The session's messages stay as they are. What the model gets is made from them in each request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from copy import copy
from typing import Any, Unpack

from rehydrate.errors import MissingPackageError
from rehydrate.formats._reading import compact_json
from rehydrate.integrations.adapter import (
    Adapter,
    AdapterOptions,
    Prompted,
    Scope,
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
    result_of,
    text_of,
    text_part,
    thinking_block,
)
from rehydrate.integrations.host_thread import HostReport, RehydrateWarning, warn_passed_through

try:
    from agent_framework import (
        ChatContext,
        ChatMiddleware,
        Content,
        ContextProvider,
        FunctionTool,
        HistoryProvider,
        Message,
    )
except ImportError:
    raise MissingPackageError("rehydrate[agent-framework]", "brings Agent Framework") from None

__all__ = ["HostReport", "RehydrateProvider", "RehydrateWarning"]

_MEDIA = frozenset({"data", "uri", "hosted_file"})
_CALL_OF = {"function_result": "function_call", "computer_tool_result": "computer_tool_call"}
"""The types of results, and of the calls that they answer."""
_EMPTY = text_part("")


class _Messages(Codec[Message]):
    """Agent Framework's messages: each is one entry, a tool's has one a part.

    >>> [entry.chat for entry in _Messages().entries_of([Message("user", ["Hello."])])]
    [{'role': 'user', 'content': 'Hello.'}]
    """

    def entries(self, messages: Sequence[Message]) -> Iterator[Entry]:
        for index, message in enumerate(messages):
            if message.role == "tool":
                yield from self._results(message, index)
            else:
                yield Entry(self.chat(message.role, message), index)

    def _results(self, message: Message, index: int) -> Iterator[Entry]:
        """Yield the results, then what an app says next to them, as the user's."""
        said: list[Entry] = []
        for number, content in enumerate(self.parts(message)):
            if content.type in _CALL_OF:
                yield Entry(result_of(content.call_id, _answer(content)), index, number)
            else:
                chat = {"role": "user", "content": content_of([_item(content)])}
                said.append(Entry(chat, index, number))
        yield from said

    def parts(self, message: Message) -> Sequence[Content]:
        return message.contents or ()

    def pieces(self, part: Content, message: Message) -> list[dict[str, Any]]:
        if message.role != "assistant":
            return [_item(part)]
        if _is_call(part, message.contents):
            return [call_of(part.call_id, part.name or part.type, _arguments(part))]
        if part.type == "text_reasoning":
            return [thinking_block(part.text)]
        item = _item(part)
        return [] if item == _EMPTY else [item]

    def section(self, text: str) -> str:
        return text

    def with_parts(self, message: Message | None, parts: list[Any]) -> Message | None:
        if message is None:
            return Message("user", parts)
        made = copy(message)
        made.contents = parts
        if made.role == "tool" and not _has_results(made):
            made.role = "user"
        return made if parts else None

    def changed(
        self, part: Content, pieces: Sequence[Mapping[str, Any]], text: str | None, lost: bool
    ) -> Content:
        """OpenAI refuses the ids of items that reasoning led to without the reasoning."""
        is_call = any(piece["type"] == CALL for piece in pieces)
        changes: dict[str, Any] = {}
        if text is not None:
            changes["arguments" if is_call else "text"] = text
        if is_call and lost and "fc_id" in part.additional_properties:
            kept = {k: v for k, v in part.additional_properties.items() if k != "fc_id"}
            changes["additional_properties"] = kept
        return _copy(part, **changes) if changes else part

    def changed_part(self, part: Content, now: Mapping[str, Any]) -> Content:
        shown = now["content"]
        text = shown if isinstance(shown, str) else shown[0]["text"]
        if part.type not in _CALL_OF:
            return _copy(part, text=text)
        return _copy(part, result=text, items=[Content.from_text(text), *_media_of(part)])


CODEC = _Messages()


def _answer(content: Content) -> Any:
    media, text = _media_of(content), text_of(content.result)
    return [text_part(text), *map(_item, media)] if media else text


def _media_of(content: Content) -> list[Content]:
    shown = [*(content.items or ()), content.screenshot]
    return [item for item in shown if item is not None and item.type in _MEDIA]


def _has_results(message: Message) -> bool:
    return any(each.type in _CALL_OF for each in message.contents or ())


def _is_call(content: Content, contents: Sequence[Content]) -> bool:
    """Return whether a tool's message answers it; the provider's own tools answer next to it."""
    if content.hosted or content.informational_only:
        return False
    answers = [each.call_id for each in contents if _CALL_OF.get(each.type) == content.type]
    return content.type in _CALL_OF.values() and content.call_id not in answers


def _arguments(content: Content) -> str:
    arguments = content.arguments or ({"actions": content.actions} if content.actions else {})
    return arguments if isinstance(arguments, str) else compact_json(arguments)


def _item(content: Content) -> dict[str, Any]:
    if text_of(content.type) in _MEDIA:
        return media_part(text_of(content.file_id or content.uri)[:64], text_of(content.media_type))
    if content.type == "text":
        return text_part(content.text)
    known = content.to_dict(exclude={"raw_representation", "additional_properties"})
    return other_part({key: value for key, value in known.items() if value is not None})


def _copy(content: Content, **changes: Any) -> Content:
    made = copy(content)
    made.raw_representation = None  # a client may send that instead
    for name, value in changes.items():
        setattr(made, name, value)
    return made


_CALL_ID: ContextVar[str] = ContextVar("rehydrate_call_id", default="")


class RehydrateProvider(Adapter, ContextProvider):
    """Keep an agent's prompts within a budget, without breaking the provider's cache.

    Each conversation has a persistent `Context`: a list of messages that goes on, of one agent and
    one model. Its prompts extend one another byte for byte until a compaction. The messages are the
    request's own objects; some results of a tool's message may be left out.

    The model brings back by ``request_context`` and ``fetch_whole`` what its prompt does not show.
    If something fails, the model gets the messages as they are, with a `RehydrateWarning`.
    `report` has the outcome of the last request.

    >>> from rehydrate.prompt import Budget
    >>> RehydrateProvider(budget=Budget(soft_tokens=60_000)).report.compactions
    0
    """

    _codec = CODEC

    @shows_adapter_options(AdapterOptions)
    def __init__(self, source_id: str = "rehydrate", **options: Unpack[AdapterOptions]) -> None:
        """Check the arguments; raises InvalidArgumentError as `Context` does."""
        super().__init__(source_id)
        self._set_up(options)

    async def before_run(self, *, agent: Any, session: Any, context: Any, state: Any) -> None:  # noqa: ARG002
        """Give the run its tools and the middleware; the agent calls it before each run."""
        if _loads_late(agent):
            warn_passed_through(
                "require_per_service_call_history_persistence loads the history after all providers"
            )
            return
        run = _RunMiddleware(self, str(getattr(agent, "name", None) or ""))
        context.extend_middleware(self.source_id, run)
        taken = _tool_names(agent, context)
        free = [each for each in self._definitions if each["name"] not in taken]
        context.extend_tools(self.source_id, [_AskingTool(each, run) for each in free])

    async def _prompt(self, agent: str, context: ChatContext) -> tuple[Prompted, list[Message]]:
        options = context.options or {}
        model = options.get("model") or getattr(context.client, "model", None)
        scope = Scope(str(model or ""), place=agent)
        return await self._aprompted(list(context.messages), scope, self._sent(options))

    def _sent(self, options: Mapping[str, Any]) -> list[str]:
        """Return the texts that the model gets besides the messages: instructions and tools."""
        texts = [str(options.get("instructions") or "")]
        for tool in options.get("tools") or ():
            if getattr(tool, "name", "") not in self._own_tools:
                spec = getattr(tool, "to_json_schema_spec", None)
                texts.append(compact_json(spec() if spec is not None else tool))
        return texts


def _tool_names(agent: Any, context: Any) -> set[str]:
    """Return the names of the tools that the run has already: a name given twice is an error."""
    lists = [(getattr(agent, "default_options", None) or {}).get("tools"), context.tools]
    lists.append((context.options or {}).get("tools"))
    return {str(getattr(tool, "name", "")) for tools in lists for tool in tools or ()}


def _loads_late(agent: Any) -> bool:
    """Return whether the agent loads its history in each request, if no provider sees it."""
    is_late = getattr(agent, "require_per_service_call_history_persistence", False)
    providers = getattr(agent, "context_providers", None) or ()
    return bool(is_late) and any(isinstance(each, HistoryProvider) for each in providers)


class _RunMiddleware(ChatMiddleware):
    """Puts the thread's prompt into each request of a run."""

    def __init__(self, provider: RehydrateProvider, agent: str) -> None:
        self._provider = provider
        self._agent = agent
        self.asked: Prompted | None = None
        """The last request's."""

    async def answer(self, name: str, arguments: Mapping[str, Any], call_id: str) -> str:
        """Return the answer to a call that the last request led to."""
        return await self._provider._threads.aanswer(self.asked, name, arguments, call_id)

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Replace the messages of this request alone; the run's stay as they are."""
        if not (context.options or {}).get("conversation_id"):  # else the service holds the rest
            with passing_through():
                self.asked, context.messages = await self._provider._prompt(self._agent, context)
        await call_next()


class _AskingTool(FunctionTool):
    """A tool of `ContextJIT`, for the thread of a run."""

    def __init__(self, definition: Mapping[str, Any], run: _RunMiddleware) -> None:
        name = definition["name"]

        async def answer(**arguments: Any) -> str:
            return await run.answer(name, arguments, _CALL_ID.get() or name)

        super().__init__(
            name=name,
            description=definition["description"],
            func=answer,
            input_model=definition["input_schema"],
        )

    async def invoke(self, **given: Any) -> Any:
        """Note the id of the call, which a function does not get."""
        token = _CALL_ID.set(given.get("tool_call_id") or "")
        try:
            return await super().invoke(**given)
        finally:
            _CALL_ID.reset(token)
