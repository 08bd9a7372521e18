"""RehydrateMiddleware: an agent of LangChain whose prompts extend one another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._text import safe_error_text
from rehydrate.errors import MissingPackageError
from rehydrate.formats._reading import compact_json, is_same_list
from rehydrate.integrations.adapter import AdapterOptions, passing_through, shows_adapter_options
from rehydrate.integrations.host_thread import HostThread
from rehydrate.integrations.langchain.agents import (
    AgentAdapter,
    background_with,
    is_same_message,
    running_config,
    scope_of,
)
from rehydrate.messages import Provider
from rehydrate.prompt.counting import text_tokens

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain.tools import ToolRuntime
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool, StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
except ImportError:
    raise MissingPackageError("rehydrate[langchain]", "brings LangChain's agents") from None

if TYPE_CHECKING:
    from rehydrate.integrations.langchain.agents import Summarizer


class RehydrateMiddleware(AgentAdapter, AgentMiddleware[Any, Any, Any]):
    """Keep an agent's prompts within a budget, without breaking the provider's cache.

    Each conversation has a persistent `Context`. Its prompts extend one another byte for byte; only
    a compaction breaks the prefix. The state keeps all messages. System text and tools count too.

    The agent's model gets the tools of a `ContextJIT`, by which it brings back what its prompt does
    not show. ``provider`` and ``model`` are those of the first model that is called, unless given.
    ``summarizer`` writes summaries meanwhile, in a thread of its own: a chat model, its name, a
    Runnable or a function of the messages.

    If something fails, the model gets the messages as they are, with a `RehydrateWarning`.
    `report` has the outcome of the last call.

    >>> from rehydrate.prompt import Budget
    >>> middleware = RehydrateMiddleware(budget=Budget(soft_tokens=60_000))
    >>> [tool.name for tool in middleware.tools]
    ['request_context', 'fetch_whole']
    """

    @shows_adapter_options(AdapterOptions)
    def __init__(
        self, *, summarizer: Summarizer | None = None, **options: Unpack[AdapterOptions]
    ) -> None:
        """Check the arguments; raises InvalidArgumentError as `Context` does."""
        super().__init__()
        options["background"] = background_with(options.get("background"), summarizer)
        self._set_up(options, same=is_same_message)
        self.tools: Sequence[BaseTool] = [self._tool(each) for each in self._definitions]
        self._counted: tuple[tuple[Any, ...], int] = (), 0
        """System text and tools that were counted, the same objects, and their tokens."""

    def thread(self, config: RunnableConfig, messages: Sequence[Any]) -> HostThread | None:
        """Return the thread of a conversation, with its `context` and the `report` of its last
        call; None if there is none.

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
        with passing_through():
            self._suit(request.model)
            reserved, scope = self._reserved_tokens(request), scope_of(config)
            prompted = self._threads.prompt(request.messages, scope, reserved_tokens=reserved)
            return request.override(messages=prompted.messages)
        return request

    def _reserved_tokens(self, request: ModelRequest[Any]) -> int:
        """Return the tokens of system text and tools, but for the thread's own tools."""
        system = request.system_message
        own = self._own_tools
        sent = (system, *[tool for tool in request.tools if _name_of(tool) not in own])
        counted, tokens = self._counted
        if not is_same_list(sent, counted):
            texts = [compact_json(_definition(tool)) for tool in sent[1:]]
            if system is not None:
                texts.append(system.text)
            tokens = sum(text_tokens(texts))
            self._counted = sent, tokens
        return tokens

    def _suit(self, model: Any) -> None:
        """Take provider and model of the first model that is asked, if none was named."""
        if "provider" not in self._given:
            name = _model_name(model)
            self._given.setdefault("model", name)
            self._given["provider"] = _provider_of(model, name)

    def _tool(self, definition: Mapping[str, Any]) -> BaseTool:
        name = definition["name"]

        def run(runtime: ToolRuntime[Any, Any], **arguments: Any) -> str:
            return self._answer(name, arguments, runtime)

        async def arun(runtime: ToolRuntime[Any, Any], **arguments: Any) -> str:
            return await hand_over(partial(self._answer, name, arguments, runtime))

        return StructuredTool(
            name=name,
            description=definition["description"],
            args_schema=dict(definition["input_schema"]),
            func=run,
            coroutine=arun,
        )

    def _answer(
        self, name: str, arguments: Mapping[str, Any], runtime: ToolRuntime[Any, Any]
    ) -> str:
        """Answer a call of the last message, from what this run's messages say.

        A run may go on in another process than the one that called the model.
        """
        messages = runtime.state["messages"]
        try:
            scope = scope_of(runtime.config)
            asking = self._threads.asking(messages, scope)
            if asking is None:
                asking = self._threads.prompt(_before_reply(messages), scope)
            return self._threads.answer(asking, name, arguments, runtime.tool_call_id or name)
        except Exception as error:  # it must not end the agent's run
            return f"{name}: {safe_error_text(error, name)}; answer with what you have"


def _definition(tool: Any) -> Mapping[str, Any]:
    return tool if isinstance(tool, Mapping) else convert_to_openai_tool(tool)


def _name_of(tool: Any) -> str:
    name = tool.get("name") if isinstance(tool, Mapping) else tool.name
    return str(name)


def _before_reply(messages: Sequence[Any]) -> Sequence[Any]:
    """Return the messages before the model's last one."""
    last = max((n for n, each in enumerate(messages) if each.type == "ai"), default=len(messages))
    return messages[:last]


def _model_name(model: Any) -> str:
    names = [getattr(model, attribute, None) for attribute in ("model_name", "model")]
    return next((name for name in names if isinstance(name, str)), "")


def _provider_of(model: Any, name: str) -> Provider:
    """Return the provider whose counts and rules hold for a model; OpenAI's if it is unknown."""
    kind = f"{type(model).__name__} {getattr(model, '_llm_type', '')} {name}".lower()
    return "anthropic" if "anthropic" in kind or "claude" in kind else "openai_chat"
