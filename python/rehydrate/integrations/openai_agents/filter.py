"""RehydrateFilter: the inputs of an agent's model extend one another, and are compacted rarely.

The run's items and its session stay as they are. What the model gets is made from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from rehydrate._text import safe_error_text
from rehydrate.context.context import Context
from rehydrate.errors import MissingPackageError
from rehydrate.formats._reading import compact_json
from rehydrate.integrations.adapter import Adapter, AdapterOptions, AdapterThreads, context_of
from rehydrate.integrations.host_thread import HostThread, warn_passed_through
from rehydrate.integrations.prefix_threads import Prompted
from rehydrate.messages import Provider
from rehydrate.prompt.counting import text_tokens

if TYPE_CHECKING:
    from agents import FunctionTool
    from agents.run import CallModelData, ModelInputData

FORMAT: Provider = "openai_responses"
"""The format of the SDK's items, whatever model they go to."""
MISSING = MissingPackageError("rehydrate[openai-agents]", "brings the OpenAI Agents SDK")
_RUNNING: ContextVar[tuple[AdapterThreads, Prompted] | None] = ContextVar(
    "rehydrate_running", default=None
)
"""What the run's last call of a model got. Its tools run in tasks that this task starts."""


class _ItemThreads(AdapterThreads):
    """The threads of conversations that are lists of the SDK's items."""

    _tool_format = FORMAT

    def _context(self, scope: str) -> Context:
        return context_of({"thread": scope, "provider": FORMAT, **self._options})


class RehydrateFilter(Adapter):
    """Keep the inputs of agents within a budget, without breaking the provider's cache.

    Pass it as ``RunConfig(call_model_input_filter=...)``, and its `tools` to the agents. One filter
    serves any number of conversations and runs. A conversation is a list of items that goes on: it
    has a persistent `Context`, and its inputs extend one another byte for byte until a compaction.
    ``thread`` names the conversation of a call, as in ``lambda data: data.context.user``: then none
    of it is shared with another name, and sources that ask for the thread know it.

    The model brings back by ``request_context`` and ``fetch_whole`` what its input does not show.
    ``options`` are those of `AdapterOptions`: a budget, sources, caps of tool results, background
    summaries, and others of `Context`.

    Where something fails, the model gets the items as they are, with a `RehydrateWarning`. `report`
    says what became of the last call.

    >>> from rehydrate.prompt import Budget
    >>> RehydrateFilter(budget=Budget(soft_tokens=60_000), asks_back=False).report.compactions
    0
    """

    def __init__(
        self,
        *,
        thread: Callable[[CallModelData[Any]], str] | None = None,
        **options: Unpack[AdapterOptions],
    ) -> None:
        """Check the arguments; raises InvalidArgumentError as `Context` does, and
        MissingPackageError where it has tools and the SDK is missing."""
        self._thread_of = thread
        self._threads = _ItemThreads(options, "")
        self.tools: list[FunctionTool] = [_tool(each) for each in self._threads.definitions]
        self._own = {tool.name for tool in self.tools}

    def thread(self, items: Sequence[Any], name: str = "") -> HostThread | None:
        """Return the thread of a conversation, with its `context` and the `report` of its last
        call; None where there is none.

        ``items`` are those of the run, as ``result.to_input_list()`` has them.
        """
        return self._threads.find(items, name)

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the input to send; the SDK calls it before each call of a model."""
        given = data.model_data
        if not given.input:
            return given
        try:
            name = "" if self._thread_of is None else str(self._thread_of(data))
            reserved = sum(text_tokens(self._sent_beside(data)))
        except Exception as error:
            warn_passed_through(safe_error_text(error, "rehydrate"))
            return given
        prompted = await self._threads.aprompt(given.input, name, reserved_tokens=reserved)
        _RUNNING.set((self._threads, prompted))
        return replace(given, input=prompted.messages)

    def _sent_beside(self, data: CallModelData[Any]) -> list[str]:
        """Return the texts that the model gets besides the items: instructions and tools."""
        tools = [compact_json(_definition(each)) for each in data.agent.tools if self._counts(each)]
        return [*tools, data.model_data.instructions or ""]

    def _counts(self, tool: Any) -> bool:
        """Whether it is a function's tool, and none of the context's own."""
        return hasattr(tool, "params_json_schema") and tool.name not in self._own


def _definition(tool: Any) -> Mapping[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.params_json_schema,
    }


def _tool(definition: Mapping[str, Any]) -> FunctionTool:
    try:
        from agents import FunctionTool
    except ImportError:
        raise MISSING from None
    name = definition["name"]

    async def invoke(call: Any, arguments: str) -> str:
        running = _RUNNING.get()
        if running is None:
            return f"{name}: there is nothing to ask; answer with what you have"
        threads, prompted = running
        return await threads.aanswer(prompted, name, arguments, call.tool_call_id)

    return FunctionTool(
        name=name,
        description=definition["description"],
        params_json_schema=definition["parameters"],
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )
