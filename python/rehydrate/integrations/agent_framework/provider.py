"""RehydrateProvider: the prompts of Agent Framework's agents extend one another.

The session's messages stay as they are. What the model gets is made from them in each request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple, Unpack

from rehydrate._text import safe_error_text
from rehydrate.errors import MissingPackageError
from rehydrate.formats._reading import compact_json
from rehydrate.integrations.adapter import Adapter, AdapterOptions, ChatThreads
from rehydrate.integrations.agent_framework.messages import entries_of, picked
from rehydrate.integrations.host_thread import warn_passed_through
from rehydrate.integrations.prefix_threads import Prompted
from rehydrate.prompt.counting import text_tokens

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


_CALL_ID: ContextVar[str] = ContextVar("rehydrate_call_id", default="")


class _Scope(NamedTuple):
    """What tells a conversation from others, beside its messages."""

    agent: str = ""
    model: str = ""


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
        self._threads = ChatThreads(options, _Scope())
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
        scope = _Scope(agent, str(model or ""))
        prompted = await self._threads.aprompt(
            chats,
            scope,
            reserved_tokens=sum(text_tokens(self._sent_beside(options))),
        )
        return prompted, picked(messages, entries, prompted.shown)

    def _sent_beside(self, options: Mapping[str, Any]) -> list[str]:
        """Return the texts that the model gets beside the messages: instructions and tools."""
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
