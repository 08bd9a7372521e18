"""Rehydrate inside the OpenAI Agents SDK: ``pip install rehydrate[openai-agents]``.

RehydrateFilter     for ``RunConfig(call_model_input_filter=...)``: inputs that extend one another
RehydrateSession    a Session in a file of stored threads
HostReport          the outcome of the last list of items
RehydrateWarning    something failed, and the items were sent as they are

The run's items and its session stay as they are. What the model gets is made from them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._concurrency.workers import STORING
from rehydrate.context.threads import Threads
from rehydrate.errors import MissingPackageError
from rehydrate.formats._reading import compact_json
from rehydrate.integrations.adapter import (
    Adapter,
    AdapterOptions,
    PrefixThreads,
    Prompted,
    Scope,
    passing_through,
    shows_adapter_options,
    tool_text,
)
from rehydrate.integrations.host_thread import HostReport, HostThread, RehydrateWarning
from rehydrate.integrations.stored_entries import StoredEntries
from rehydrate.messages import Provider

if TYPE_CHECKING:
    from agents import Agent, FunctionTool
    from agents.memory import SessionSettings
    from agents.run import CallModelData, ModelInputData

__all__ = ["HostReport", "RehydrateFilter", "RehydrateSession", "RehydrateWarning"]

_T = TypeVar("_T")
NAMESPACE = "agents"
FORMAT: Provider = "openai_responses"
"""The format of the SDK's items, whatever model they go to."""
MISSING = MissingPackageError("rehydrate[openai-agents]", "brings the OpenAI Agents SDK")
_RUNNING: ContextVar[tuple[PrefixThreads, Prompted] | None] = ContextVar(
    "rehydrate_running", default=None
)
"""The input of the run's last call of a model. Its tools run in tasks that this task starts."""


class RehydrateFilter(Adapter):
    """Keep the inputs of agents within a budget, without breaking the provider's cache.

    Pass it as ``RunConfig(call_model_input_filter=...)``, and its `tools` to the agents. One filter
    serves any number of conversations and runs. A conversation is a list of items that goes on: it
    has a persistent `Context`, and its inputs extend one another byte for byte until a compaction.
    ``thread`` names the conversation of a call, as in ``lambda data: data.context.user``: then none
    of it is shared with another name, and sources that ask for the thread know it.

    The model brings back by ``request_context`` and ``fetch_whole`` what its input does not show.
    If something fails, the model gets the items as they are, with a `RehydrateWarning`. `report`
    has the outcome of the last call.

    >>> from rehydrate.prompt import Budget
    >>> RehydrateFilter(budget=Budget(soft_tokens=60_000), asks_back=False).report.compactions
    0
    """

    _tool_format = FORMAT
    _usual: Mapping[str, Any] = {"provider": FORMAT}
    _fixed: Mapping[str, Any] = {}

    @shows_adapter_options(AdapterOptions)
    def __init__(
        self,
        *,
        thread: Callable[[CallModelData[Any]], str] | None = None,
        **options: Unpack[AdapterOptions],
    ) -> None:
        """Check the arguments; raises InvalidArgumentError as `Context` does, and
        MissingPackageError if it has tools and the SDK is missing."""
        self._thread_of = thread
        self._set_up(options)
        self.tools: list[FunctionTool] = [_tool(each, self._threads) for each in self._definitions]

    def thread(self, items: Sequence[Any], name: str = "") -> HostThread | None:
        """Return the thread of a conversation, with its `context` and the `report` of its last
        call; None if there is none.

        ``items`` are those of the run, as ``result.to_input_list()`` has them.
        """
        return self._threads.find(items, Scope(thread=name))

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the input to send; the SDK calls it before each call of a model."""
        given = data.model_data
        _RUNNING.set(None)  # another run's, of the same task
        if not given.input:
            return given
        with passing_through():
            name = "" if self._thread_of is None else str(self._thread_of(data))
            scope = Scope(thread=name)
            prompted, items = await self._aprompted(given.input, scope, self._sent(data))
            _RUNNING.set((self._threads, prompted))
            return replace(given, input=items)
        return given

    def _sent(self, data: CallModelData[Any]) -> list[str]:
        """Return the texts that the model gets besides the items: instructions, tools and the
        output's schema."""
        tools = _offered(data.agent)
        texts = [tool_text(*each) for each in tools if each[0] not in self._own_tools]
        return [*texts, _output_schema(data.agent.output_type), data.model_data.instructions or ""]


def _offered(agent: Agent[Any]) -> Iterator[tuple[str, str | None, Any]]:
    """Yield the name, the description and the parameters of each function that an agent's model is
    offered. A tool that loads when it is searched for is not there yet."""
    from agents import FunctionTool, Handoff

    for tool in agent.tools:
        if isinstance(tool, FunctionTool) and tool.is_enabled and not tool.defer_loading:
            yield tool.name, tool.description, tool.params_json_schema
    for server in agent.mcp_servers:
        chosen = getattr(server, "tool_filter", None)
        chosen = chosen if isinstance(chosen, Mapping) else {}
        for each in getattr(server, "cached_tools", None) or ():  # the run has just listed them
            is_allowed = each.name in chosen.get("allowed_tool_names", (each.name,))
            if is_allowed and each.name not in chosen.get("blocked_tool_names", ()):
                schema = each.model_dump(by_alias=True).get("inputSchema")
                yield each.name, each.description or each.title, schema
    for target in agent.handoffs:
        if isinstance(target, Handoff):
            if target.is_enabled:
                yield target.tool_name, target.tool_description, target.input_json_schema
        else:
            name, about = (
                Handoff.default_tool_name(target),
                Handoff.default_tool_description(target),
            )
            yield name, about, {}


def _output_schema(kind: Any) -> str:
    """Return the schema of an agent's answers as its model reads it; "" for a text."""
    from agents import AgentOutputSchema, AgentOutputSchemaBase

    if kind is None or kind is str:
        return ""
    schema = kind if isinstance(kind, AgentOutputSchemaBase) else AgentOutputSchema(kind)
    return "" if schema.is_plain_text() else compact_json(schema.json_schema())


def _tool(definition: Mapping[str, Any], own: PrefixThreads) -> FunctionTool:
    try:
        from agents import FunctionTool
    except ImportError:
        raise MISSING from None
    name = definition["name"]

    async def invoke(call: Any, arguments: str) -> str:
        threads, prompted = _RUNNING.get() or (own, None)
        return await threads.aanswer(prompted, name, arguments, call.tool_call_id)

    return FunctionTool(
        name=name,
        description=definition["description"],
        params_json_schema=definition["parameters"],
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )


class RehydrateSession:
    """A conversation's items, each on disk when `add_items` returns.

    It keeps all items, and `get_items` returns all of them: `RehydrateFilter` decides what the
    model gets. The thread is one of `Threads`, so ``rehydrate thread`` lists, exports, forks and
    redacts it, and `Context.open` goes on from it. Any number of processes may use one session.
    A popped item stays in the file until `clear_session`, which leaves no byte of the thread.
    """

    def __init__(
        self,
        session_id: str,
        path: str | PathLike[str],
        *,
        namespace: str = NAMESPACE,
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
    ) -> None:
        """Open the file (or create it), or a postgresql:// URL; raises StoreError, and
        MissingPackageError without the SDK."""
        try:
            from agents.memory import SessionSettings
        except ImportError:
            raise MISSING from None
        if not isinstance(session_settings, SessionSettings):
            session_settings = SessionSettings(**(session_settings or {}))
        self.session_id = session_id
        self.session_settings: SessionSettings | None = session_settings
        self._threads = Threads.open(path, namespace=namespace)
        self._entries = StoredEntries(self._threads, session_id, format=FORMAT)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the items in order; the last ``limit`` of them, by default as many as the
        session's settings say."""
        settings = self.session_settings
        if limit is None and settings is not None:
            limit = settings.limit
        items = await hand_over(self._entries.all, STORING)
        return items if limit is None else items[max(len(items) - limit, 0) :]

    async def add_items(self, items: Sequence[Any]) -> None:
        """Add items at the end."""
        if items:
            await _to_its_end(lambda: self._entries.extend(items))

    async def pop_item(self) -> Any | None:
        """Remove the last item and return it; None if there is none."""
        return await _to_its_end(self._entries.pop)

    async def clear_session(self) -> None:
        """Delete the thread."""
        await _to_its_end(self._entries.clear)

    def close(self) -> None:
        """Close the file."""
        self._threads.close()


async def _to_its_end(change: Callable[[], _T]) -> _T:
    """Make a change, and wait for it even if the caller is cancelled meanwhile.

    The SDK undoes what a cancelled call wrote, so it must know that nothing is written after.
    """
    task = asyncio.ensure_future(hand_over(change, STORING))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # it is known now, and nobody else asks
        raise cancelled
    return task.result()
