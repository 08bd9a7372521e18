"""RehydrateMiddleware: an agent's prompts extend one another, and are compacted rarely.

The graph's state stays as it is. What the model gets is made from it in each call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Unpack

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._text import safe_error_text
from rehydrate.formats._reading import compact_json
from rehydrate.integrations.adapter import Adapter, AdapterOptions, PassiveOptions
from rehydrate.integrations.chat_dicts import is_same_list
from rehydrate.integrations.host_thread import HostThread, warn_passed_through
from rehydrate.integrations.langchain.summaries import Summarizer, background_with
from rehydrate.integrations.langchain.threads import (
    MISSING,
    AgentThreads,
    running_config,
    scope_of,
    tools_for,
)
from rehydrate.prompt.counting import text_tokens

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain_core.utils.function_calling import convert_to_openai_tool
except ImportError:
    raise MISSING from None

if TYPE_CHECKING:
    from langchain_core.messages import AnyMessage, BaseMessage
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool


class RehydrateMiddleware(Adapter, AgentMiddleware[Any, Any, Any]):
    """Keep an agent's prompts within a budget, without breaking the provider's cache.

    Each conversation has a persistent `Context`. Its prompts extend one another byte for byte; only
    a compaction breaks the prefix. The state keeps all messages. System text and tools count too.

    The agent's model gets the tools of a `ContextJIT`, by which it brings back what its prompt does
    not show. ``options`` are those of `AdapterOptions`: a budget, sources, caps of tool results,
    background summaries, and others of `Context`. ``provider`` and ``model`` are those of the first
    model that is called, unless given. ``summarizer`` writes summaries meanwhile, in a thread of
    its own: a chat model, its name, a Runnable or a function of the messages.

    Where something fails, the model gets the messages as they are, with a `RehydrateWarning`.
    `report` says what became of the last call.

    >>> from rehydrate.prompt import Budget
    >>> middleware = RehydrateMiddleware(budget=Budget(soft_tokens=60_000))
    >>> [tool.name for tool in middleware.tools]
    ['request_context', 'fetch_whole']
    """

    _threads: AgentThreads

    def __init__(
        self, *, summarizer: Summarizer | None = None, **options: Unpack[AdapterOptions]
    ) -> None:
        """Check the arguments; raises InvalidArgumentError as `Context` does."""
        super().__init__()
        options["background"] = background_with(options.get("background"), summarizer)
        self._threads = AgentThreads(options)
        self.tools: Sequence[BaseTool] = tools_for(self._threads)
        self._own = {tool.name for tool in self.tools}
        self._counted: tuple[tuple[Any, ...], int] = (), 0
        """System text and tools that were counted, the very objects, and their tokens."""

    def thread(self, config: RunnableConfig, messages: Sequence[Any]) -> HostThread | None:
        """Return the thread of a conversation, with its `context` and the `report` of its last
        call; None where there is none.

        ``config`` is the one that the agent is invoked with, ``messages`` are those of its state.
        """
        return self._threads.find(messages, scope_of(config))

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Call the model with the thread's prompt."""
        return handler(self._prepared(request, running_config()))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """`wrap_model_call` for async agents; the prompt is made in a worker thread."""
        config = running_config()
        return await handler(await hand_over(lambda: self._prepared(request, config)))

    def _prepared(self, request: ModelRequest[Any], config: Mapping[str, Any]) -> ModelRequest[Any]:
        if not request.messages:
            return request
        try:
            self._threads.suit(request.model)
            reserved = self._reserved_tokens(request)
            scope = scope_of(config)
            prompted = self._threads.prompt(request.messages, scope, reserved_tokens=reserved)
        except Exception as error:
            warn_passed_through(safe_error_text(error, "rehydrate"))
            return request
        return request.override(messages=prompted.messages)

    def _reserved_tokens(self, request: ModelRequest[Any]) -> int:
        """Return the tokens of system text and tools, but for the thread's own tools."""
        system = request.system_message
        sent = (system, *[tool for tool in request.tools if _name_of(tool) not in self._own])
        counted, tokens = self._counted
        if not is_same_list(sent, counted):
            texts = [compact_json(_definition(tool)) for tool in sent[1:]]
            if system is not None:
                texts.append(system.text)
            tokens = sum(text_tokens(texts))
            self._counted = sent, tokens
        return tokens


def _definition(tool: Any) -> Mapping[str, Any]:
    return tool if isinstance(tool, Mapping) else convert_to_openai_tool(tool)


def _name_of(tool: Any) -> str:
    name = tool.get("name") if isinstance(tool, Mapping) else tool.name
    return str(name)


class RehydrateEdit(Adapter):
    """A `ContextEdit`: the messages of each conversation become its `Context`'s prompt.

    It is for agents that have a ContextEditingMiddleware already. An edit offers no tools, so the
    model cannot ask back; `RehydrateMiddleware` lets it. With ``token_count_method="model"`` the
    system text and the tools count too.

    Pass it as ``ContextEditingMiddleware(edits=[edit])``.

    >>> from rehydrate.prompt import Budget
    >>> edit = RehydrateEdit(budget=Budget(soft_tokens=60_000))
    >>> edit.report.compactions
    0
    """

    def __init__(self, **options: Unpack[PassiveOptions]) -> None:
        """Take the options of each `Context`; raises InvalidArgumentError as it does."""
        self._threads = AgentThreads({"provider": "openai_chat", **options}, can_ask=False)

    def apply(
        self, messages: list[AnyMessage], *, count_tokens: Callable[[Sequence[BaseMessage]], int]
    ) -> None:
        """Replace the messages, in place, by the prompt of their conversation."""
        reserved = 0
        with suppress(Exception):  # a counter of the host's, for a list without messages
            reserved = count_tokens([])
        try:
            scope = scope_of(running_config())
            prompted = self._threads.prompt(messages, scope, reserved_tokens=reserved)
        except Exception as error:
            warn_passed_through(safe_error_text(error, "rehydrate"))
            return
        messages[:] = prompted.messages
