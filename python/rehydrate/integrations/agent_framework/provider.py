"""RehydrateProvider: the prompts of Agent Framework's agents extend one another.

The session's messages stay as they are. What the model gets is made from them in each request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from copy import copy
from typing import Any, Unpack

from rehydrate._text import safe_error_text
from rehydrate.errors import MissingPackageError
from rehydrate.formats._reading import compact_json
from rehydrate.integrations.adapter import Adapter, AdapterOptions, AgentScope, ChatThreads
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
    text_of,
    text_part,
    texts_of,
    thinking_block,
)
from rehydrate.integrations.host_thread import Shown, warn_passed_through
from rehydrate.integrations.prefix_threads import Prompted
from rehydrate.prompt.counting import text_tokens

try:
    from agent_framework import Content, Message
except ImportError:
    raise MissingPackageError("rehydrate[agent-framework]", "brings Agent Framework") from None

try:
    from agent_framework import (
        ChatContext,
        ChatMiddleware,
        ContextProvider,
        FunctionTool,
        HistoryProvider,
        Message,
    )
except ImportError:
    raise MissingPackageError("rehydrate[agent-framework]", "brings Agent Framework") from None


def entries_of(messages: Sequence[Message]) -> list[Entry]:
    """Return the entries of the messages, in order: each is one, a tool's has one a result.

    >>> [entry.chat for entry in entries_of([Message("user", ["Hello."])])]
    [{'role': 'user', 'content': 'Hello.'}]
    """
    return list(_entries(messages))


def _entries(messages: Sequence[Message]) -> Iterator[Entry]:
    for index, message in enumerate(messages):
        if message.role == "tool":
            for number, content in enumerate(message.contents or ()):
                if content.type == "function_result":
                    yield Entry(result_of(content.call_id, _answer(content)), index, number)
        elif message.role == "assistant":
            yield Entry(_said(message.contents or ()), index, None)
        else:
            role = "system" if message.role in ("system", "developer") else "user"
            said = content_of([_item(each) for each in message.contents or ()])
            yield Entry({"role": role, "content": said}, index, None)


def _answer(content: Content) -> Any:
    media = _media_of(content)
    text = _result_text(content)
    return [text_part(text), *map(_item, media)] if media else text


def _result_text(content: Content) -> str:
    return text_of(content.result)


def _media_of(content: Content) -> list[Content]:
    return [item for item in content.items or () if item.type in _MEDIA]


_MEDIA = frozenset({"data", "uri", "hosted_file"})


def _said(contents: Sequence[Content]) -> dict[str, Any]:
    parts, calls, thoughts = [], [], []
    for content in contents:
        if _is_call(content, contents):
            calls.append(call_of(content.call_id, content.name, _arguments(content)))
        elif content.type == "text_reasoning":
            thoughts.append(thinking_block(content.text))
        elif (item := _item(content)) != _EMPTY:
            parts.append(item)
    return assistant_chat(reply_content(parts), calls, thoughts)


def _is_call(content: Content, contents: Sequence[Content]) -> bool:
    """Return whether a tool's message answers it; the provider's own tools answer next to it."""
    if content.type != "function_call" or content.hosted or content.informational_only:
        return False
    answers = (each for each in contents if each.type == "function_result")
    return all(each.call_id != content.call_id for each in answers)


def _arguments(content: Content) -> str:
    arguments = content.arguments
    return arguments if isinstance(arguments, str) else compact_json(arguments or {})


def _item(content: Content) -> dict[str, Any]:
    if text_of(content.type) in _MEDIA:
        return media_part(text_of(content.file_id or content.uri)[:64], text_of(content.media_type))
    if content.type == "text":
        return text_part(content.text)
    known = content.to_dict(exclude={"raw_representation", "additional_properties"})
    return other_part({key: value for key, value in known.items() if value is not None})


_EMPTY = text_part("")


def picked(
    messages: Sequence[Message], entries: Sequence[Entry], shown: Sequence[Shown]
) -> list[Message]:
    """Return the messages that a prompt shows; ``entries`` are those of the messages.

    The results of one tool message stay in one; a section of context is a user's message.
    """
    made: list[Message] = []
    open_index, results = -1, list[Content]()

    def close() -> None:
        nonlocal open_index
        if open_index >= 0:
            made.append(_with_contents(messages[open_index], results[:]))
        open_index = -1
        results.clear()

    for index, chat in shown:
        entry = None if index is None else entries[index]
        if entry is None or entry.message != open_index:
            close()
        if entry is None:
            made.append(Message("user", [plain_text(chat["content"])]))
            continue
        message = messages[entry.message]
        if entry.part is not None:
            open_index = entry.message
            content = message.contents[entry.part]
            results.append(_changed_result(content, entry.chat, chat))
        elif chat is entry.chat or chat == entry.chat:
            made.append(message)
        elif contents := _changed(message, entry.chat, chat):  # it may have been thinking alone
            made.append(_with_contents(message, contents))
    close()
    return made


def _with_contents(message: Message, contents: list[Content]) -> Message:
    """Return a message with these contents; the very object where they are all that it has."""
    if is_same_list(contents, message.contents):
        return message
    made = copy(message)
    made.contents = contents
    return made


def _copy(content: Content, **changes: Any) -> Content:
    made = copy(content)
    made.raw_representation = None  # a client may send that instead
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def _changed_result(content: Content, chat: Mapping[str, Any], now: Mapping[str, Any]) -> Content:
    if chat is now or chat == now:
        return content
    shown = now["content"]
    text = shown if isinstance(shown, str) else shown[0]["text"]
    return _copy(content, result=text, items=[Content.from_text(text), *_media_of(content)])


def _changed(message: Message, chat: Mapping[str, Any], now: Mapping[str, Any]) -> list[Content]:
    """Return the contents with what is shown of them.

    OpenAI refuses the id of what reasoning led to without the reasoning.
    """
    is_without_thinking = loses_thinking(chat, now)
    texts, calls = texts_of(now["content"]), iter(now.get("tool_calls") or ())
    made: list[Content] = []
    for content in message.contents or ():
        changes: dict[str, Any] = {}
        if message.role == "assistant" and content.type == "text_reasoning":
            if not is_without_thinking:
                made.append(content)
            continue
        if message.role == "assistant" and _is_call(content, message.contents):
            arguments = next(calls)["function"]["arguments"]
            if arguments != _arguments(content):
                changes["arguments"] = arguments
            if is_without_thinking and "fc_id" in content.additional_properties:
                kept = {k: v for k, v in content.additional_properties.items() if k != "fc_id"}
                changes["additional_properties"] = kept
        elif content.type == "text" and (content.text or message.role != "assistant"):
            shown = next(texts)
            if shown != content.text:
                changes["text"] = shown
        made.append(_copy(content, **changes) if changes else content)
    return made


_CALL_ID: ContextVar[str] = ContextVar("rehydrate_call_id", default="")


class RehydrateProvider(Adapter, ContextProvider):
    """Keep an agent's prompts within a budget, without breaking the provider's cache.

    Each conversation has a persistent `Context`: a list of messages that goes on, of one agent and
    one model. Its prompts extend one another byte for byte until a compaction. The messages are the
    request's very objects; of a tool's message some results may be shown.

    The model brings back by ``request_context`` and ``fetch_whole`` what its prompt does not show.
    ``options`` are those of `AdapterOptions`: a budget, sources, caps of tool results, background
    summaries, and others of `Context`.

    Where something fails, the model gets the messages as they are, with a `RehydrateWarning`.
    `report` says what became of the last request.

    >>> from rehydrate.prompt import Budget
    >>> RehydrateProvider(budget=Budget(soft_tokens=60_000)).report.compactions
    0
    """

    def __init__(self, source_id: str = "rehydrate", **options: Unpack[AdapterOptions]) -> None:
        """Check the arguments; raises InvalidArgumentError as `Context` does."""
        super().__init__(source_id)
        self._threads = ChatThreads(options, AgentScope())
        self._own = {definition["name"] for definition in self._threads.definitions}

    async def before_run(self, *, agent: Any, session: Any, context: Any, state: Any) -> None:  # noqa: ARG002
        """Give the run its tools and the middleware; the agent calls it before each run."""
        if _loads_late(agent):
            warn_passed_through(
                "require_per_service_call_history_persistence loads the history behind all "
                "providers"
            )
            return
        run = _RunMiddleware(self, str(getattr(agent, "name", None) or ""))
        context.extend_middleware(self.source_id, run)
        taken = _tool_names(agent, context)
        free = [each for each in self._threads.definitions if each["name"] not in taken]
        context.extend_tools(self.source_id, [_AskingTool(each, run) for each in free])

    async def _prompted(self, agent: str, context: ChatContext) -> tuple[Prompted, list[Message]]:
        messages = list(context.messages)
        entries = entries_of(messages)
        options = context.options or {}
        model = options.get("model") or getattr(context.client, "model", None)
        chats = [entry.chat for entry in entries]
        scope = AgentScope(agent, str(model or ""))
        prompted = await self._threads.aprompt(
            chats,
            scope,
            reserved_tokens=sum(text_tokens(self._sent_beside(options))),
        )
        return prompted, picked(messages, entries, prompted.shown)

    def _sent_beside(self, options: Mapping[str, Any]) -> list[str]:
        """Return the texts that the model gets besides the messages: instructions and tools."""
        texts = [str(options.get("instructions") or "")]
        for tool in options.get("tools") or ():
            if getattr(tool, "name", "") not in self._own:
                spec = getattr(tool, "to_json_schema_spec", None)
                texts.append(compact_json(spec() if spec is not None else tool))
        return texts


def _tool_names(agent: Any, context: Any) -> set[str]:
    """Return the names of the tools that the run has already: two of a name are an error."""
    lists = [(getattr(agent, "default_options", None) or {}).get("tools"), context.tools]
    lists.append((context.options or {}).get("tools"))
    return {str(getattr(tool, "name", "")) for tools in lists for tool in tools or ()}


def _loads_late(agent: Any) -> bool:
    """Return whether the agent loads its history in each request, where no provider sees it."""
    is_late = getattr(agent, "require_per_service_call_history_persistence", False)
    providers = getattr(agent, "context_providers", None) or ()
    return bool(is_late) and any(isinstance(each, HistoryProvider) for each in providers)


class _RunMiddleware(ChatMiddleware):
    """Puts the thread's prompt into each request of a run."""

    def __init__(self, provider: RehydrateProvider, agent: str) -> None:
        self._provider = provider
        self._agent = agent
        self.asked: Prompted | None = None
        """Of the last request."""

    async def answer(self, name: str, arguments: Mapping[str, Any], call_id: str) -> str:
        """Return the answer to a call that the last request led to."""
        if self.asked is None:
            return f"{name}: there is nothing to ask; answer with what you have"
        return await self._provider._threads.aanswer(self.asked, name, arguments, call_id)

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Replace the messages of this request alone; the run's stay as they are."""
        if not (context.options or {}).get("conversation_id"):  # else the service holds the rest
            try:
                self.asked, messages = await self._provider._prompted(self._agent, context)
                context.messages = messages
            except Exception as error:
                warn_passed_through(safe_error_text(error, "rehydrate"))
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
