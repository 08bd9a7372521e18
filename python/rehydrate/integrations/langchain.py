"""Rehydrate inside LangChain's agents: ``pip install rehydrate[langchain]``.

RehydrateMiddleware    for ``create_agent(middleware=[...])``: prompts that extend one another
RehydrateEdit          the same as an edit of LangChain's own ContextEditingMiddleware
ExtractiveSummarizer   for LangChain's own SummarizationMiddleware: summaries without a model
ChatModelWriter        a chat model of LangChain as the writer of a BackgroundCompaction
HostReport             what became of the last list of messages
RehydrateWarning       something failed, and the messages were sent as they are
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Unpack

import anyio

from rehydrate import formats
from rehydrate._check import check_whole
from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._text import safe_error_text
from rehydrate.context.compaction import BackgroundCompaction
from rehydrate.context.context import Context
from rehydrate.context.context_store.store import ContextStore
from rehydrate.context.writers import (
    SummaryRequest,
    UnfinishedReplyError,
    summary_prompt,
)
from rehydrate.errors import InvalidArgumentError, MissingPackageError
from rehydrate.formats._reading import compact_json, is_same_list
from rehydrate.integrations.adapter import (
    Adapter,
    AdapterOptions,
    PassiveOptions,
    context_of,
    passing_through,
    shows_adapter_options,
)
from rehydrate.integrations.host_thread import HostReport, HostThread, RehydrateWarning
from rehydrate.messages import Provider
from rehydrate.prompt.counting import text_tokens

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain.tools import ToolRuntime
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import Runnable, RunnableConfig
    from langchain_core.tools import BaseTool, StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
except ImportError:
    raise MissingPackageError("rehydrate[langchain]", "brings LangChain's agents") from None

if TYPE_CHECKING:
    from langchain_core.messages import AnyMessage, BaseMessage

__all__ = [
    "ChatModelWriter",
    "ExtractiveSummarizer",
    "HostReport",
    "RehydrateEdit",
    "RehydrateMiddleware",
    "RehydrateWarning",
]

Summarizer = (
    str
    | BaseChatModel
    | Runnable[list["AnyMessage"], str]
    | Callable[[list["AnyMessage"]], str]
    | Callable[[list["AnyMessage"]], Coroutine[Any, Any, str]]
)
"""What writes summaries, as in LangChain's SummarizationMiddleware."""
_CONFIG: RunnableConfig = {
    "callbacks": [],
    "tags": ["nostream"],  # the host's stream shows what its own model says
    "metadata": {"lc_source": "summarization"},
    "run_name": "rehydrate_summary",
}
_UNFINISHED = {"length", "max_tokens", "content_filter", "refusal"}


class ChatModelWriter:
    """A writer for `BackgroundCompaction`: a chat model of LangChain.

    >>> from langchain_core.language_models.fake_chat_models import FakeListChatModel
    >>> writer = ChatModelWriter(FakeListChatModel(responses=["The user moors at berth 4."]))
    >>> background = BackgroundCompaction(writer=writer)
    """

    def __init__(self, model: BaseChatModel) -> None:
        """Take the model."""
        self._model = model

    def write(self, request: SummaryRequest) -> str:
        """Return the model's summary; raises UnfinishedReplyError for one that is cut off."""
        message = self._model.invoke(summary_prompt(request), _CONFIG)
        said = message.response_metadata
        stop = said.get("finish_reason") or said.get("stop_reason") or ""
        if stop in _UNFINISHED:
            raise UnfinishedReplyError(f"the model did not finish: {stop}")
        return str(message.text)


class ExtractiveSummarizer:
    """A ``summarizer`` for LangChain's SummarizationMiddleware that needs no model.

    It returns decisions, files, the task's state and preferences in the conversation's own words.
    Pass ``trim_tokens_to_summarize=None`` to that middleware, so that it sees all messages.

    >>> from langchain_core.messages import HumanMessage
    >>> print(ExtractiveSummarizer()([HumanMessage("Always use tabs.")]))
    ## Task State
    - Always use tabs. (#0)
    ## User Preferences
    - Always use tabs. (#0)
    """

    def __init__(self, *, max_tokens: int = 1_000) -> None:
        """Take the most that a summary may have."""
        check_whole("max_tokens", max_tokens, 100)
        self._max_tokens = max_tokens

    def __call__(self, messages: Sequence[AnyMessage]) -> str:
        """Return the summary of some messages."""
        conversation = formats.parse(messages, "langchain")
        store = ContextStore()
        store.update(conversation.messages)
        return store.render(self._max_tokens, conversation=conversation)


def background_with(
    background: BackgroundCompaction | None, summarizer: Summarizer | None
) -> BackgroundCompaction | None:
    """Return how summaries are written, by what was given; raises InvalidArgumentError for two
    writers."""
    if summarizer is None:
        return background
    background = background or BackgroundCompaction()
    if background.writer is not None:
        raise InvalidArgumentError(
            "summarizer and background both name a writer; leave out summarizer, or the writer of "
            "BackgroundCompaction"
        )
    return replace(background, writer=_writer_of(summarizer))


def _writer_of(summarizer: Summarizer) -> Any:
    """Return what `BackgroundCompaction` takes as a writer."""
    if isinstance(summarizer, str):
        from langchain.chat_models import init_chat_model

        summarizer = init_chat_model(summarizer)
    if isinstance(summarizer, BaseChatModel):
        return ChatModelWriter(summarizer)
    if isinstance(summarizer, Runnable):
        runnable = summarizer
        return lambda messages: runnable.invoke(messages, _CONFIG)
    if iscoroutinefunction(summarizer):
        function: Any = summarizer
        return partial(anyio.run, function)  # in the writer's thread
    return summarizer


NODE_SEPARATOR, TASK_SEPARATOR = "|", ":"
"""Of LangGraph's checkpoint namespaces: ``agent:<task>|model:<task>``."""


def _before_reply(messages: Sequence[Any]) -> Sequence[Any]:
    """Return the messages before the model's last one."""
    last = max((n for n, each in enumerate(messages) if each.type == "ai"), default=len(messages))
    return messages[:last]


def scope_of(config: Mapping[str, Any]) -> str:
    r"""Return the scope of a run: its thread's id, and the agent's place in the graph.

    Ids of tasks are left out: they change in each run.

    >>> scope_of({"configurable": {"thread_id": "t-42", "checkpoint_ns": "agent:1f|model:2e"}})
    't-42\nagent'
    """
    given = config.get("configurable") or {}
    nodes = str(given.get("checkpoint_ns") or "").split(NODE_SEPARATOR)[:-1]
    place = "/".join([node.partition(TASK_SEPARATOR)[0] for node in nodes])
    return f"{given.get('thread_id') or ''}\n{place}"


def running_config() -> Mapping[str, Any]:
    """Return the config of the run that is under way; empty outside of one."""
    from langgraph.config import get_config

    try:
        config: Mapping[str, Any] = get_config()
    except RuntimeError:
        return {}
    return config


def is_same_message(one: Any, other: Any) -> bool:
    """Return whether two messages say the same. Artifacts are not sent, and may not compare."""
    if one.type != other.type or one.content != other.content or one.name != other.name:
        return False
    # Asking a message for a field that it does not have is slow.
    if one.type == "ai" and one.tool_calls != other.tool_calls:
        return False
    if one.type == "tool" and one.tool_call_id != other.tool_call_id:
        return False
    return bool(one.additional_kwargs == other.additional_kwargs)


def _model_name(model: Any) -> str:
    for attribute in ("model_name", "model"):
        name = getattr(model, attribute, None)
        if isinstance(name, str):
            return name
    return ""


def _provider_of(model: Any, name: str) -> Provider:
    """Return the provider whose counts and rules hold for a model; OpenAI's where it is unknown."""
    kind = f"{type(model).__name__} {getattr(model, '_llm_type', '')} {name}".lower()
    return "anthropic" if "anthropic" in kind or "claude" in kind else "openai_chat"


class _AgentAdapter(Adapter):
    """An adapter of agents that LangGraph runs.

    A conversation is a list of messages that goes on, within the thread's id and the agent's place
    in a graph. So two agents that run in one thread have a context each, and so has each task of an
    agent that is a tool. Ids of messages do not count: a caller may pass them or not.
    """

    def _make_context(self, scope: str) -> Context:
        thread = {"thread": scope.partition("\n")[0]}
        return context_of({**thread, **self._given, "format": "langchain"})


class RehydrateMiddleware(_AgentAdapter, AgentMiddleware[Any, Any, Any]):
    """Keep an agent's prompts within a budget, without breaking the provider's cache.

    Each conversation has a persistent `Context`. Its prompts extend one another byte for byte; only
    a compaction breaks the prefix. The state keeps all messages. System text and tools count too.

    The agent's model gets the tools of a `ContextJIT`, by which it brings back what its prompt does
    not show. ``provider`` and ``model`` are those of the first model that is called, unless given.
    ``summarizer`` writes summaries meanwhile, in a thread of its own: a chat model, its name, a
    Runnable or a function of the messages.

    Where something fails, the model gets the messages as they are, with a `RehydrateWarning`.
    `report` says what became of the last call.

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
        self._set_up(options, "", same=is_same_message)
        self.tools: Sequence[BaseTool] = [self._tool(each) for each in self._definitions]
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
        """Take provider and model of the first model that is asked, where none was named."""
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


class RehydrateEdit(_AgentAdapter):
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

    @shows_adapter_options(PassiveOptions)
    def __init__(self, **options: Unpack[PassiveOptions]) -> None:
        """Take the options of each `Context`; raises InvalidArgumentError as it does."""
        given = {"provider": "openai_chat", **options}
        self._set_up(given, "", can_ask=False, same=is_same_message)

    def apply(
        self, messages: list[AnyMessage], *, count_tokens: Callable[[Sequence[BaseMessage]], int]
    ) -> None:
        """Replace the messages, in place, by the prompt of their conversation."""
        reserved = 0
        with suppress(Exception):  # a counter of the host's, for a list without messages
            reserved = count_tokens([])
        with passing_through():
            scope = scope_of(running_config())
            messages[:] = self._threads.prompt(messages, scope, reserved_tokens=reserved).messages
