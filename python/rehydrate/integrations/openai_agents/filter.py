"""RehydrateFilter: the inputs of an agent's model extend one another, and are compacted rarely.

The run's items and its session stay as they are. What the model gets is made from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rehydrate._text import safe_error_text
from rehydrate.context.background.compactor import BackgroundCompaction
from rehydrate.context.context import Context
from rehydrate.formats._reading import compact_json
from rehydrate.integrations.host_thread import (
    MAX_THREADS,
    HostReport,
    HostThread,
    warn_passed_through,
)
from rehydrate.integrations.openai_agents.tools import RUNNING, tools_for
from rehydrate.integrations.prefix_threads import PrefixThreads
from rehydrate.integrations.tool_caps import passes_with
from rehydrate.prompt.caps import Caps
from rehydrate.prompt.counting import text_tokens
from rehydrate.prompt.request import Budget

if TYPE_CHECKING:
    from agents import FunctionTool
    from agents.run import CallModelData, ModelInputData

    from rehydrate.prompt.sources.arguments import Given

FORMAT = "openai_responses"
"""The format of the SDK's items, whatever model they go to."""


class RehydrateFilter:
    """Keep the inputs of agents within a budget, without breaking the provider's cache.

    Pass it as ``RunConfig(call_model_input_filter=...)``, and its `tools` to the agents. One filter
    serves any number of conversations and runs. A conversation is a list of items that goes on: it
    has a persistent `Context`, and its inputs extend one another byte for byte until a compaction.
    ``thread`` names the conversation of a call, as in ``lambda data: data.context.user``: then none
    of it is shared with another name, and sources that ask for the thread know it.

    The model brings back by ``request_context`` and ``fetch_whole`` what its input does not show
    (``asks_back=False``: none). A tool's output over its cap (``caps``) is shown in part, with a
    handle of the whole. ``sources`` are a `Memory`, folders or functions that are asked in each
    user turn. With ``background``, summaries are written meanwhile. ``options`` are other arguments
    of `Context`. Instructions and the agent's function tools count in the budget.

    Where something fails, the model gets the items as they are, with a `RehydrateWarning`. `report`
    says what became of the last call.

    >>> RehydrateFilter(budget=Budget(soft_tokens=60_000), asks_back=False).report.compactions
    0
    """

    def __init__(
        self,
        *,
        budget: Budget = Budget(),  # noqa: B008  it is frozen
        sources: Given = (),
        background: BackgroundCompaction | None = None,
        caps: Caps | None = None,
        asks_back: bool = True,
        thread: Callable[[CallModelData[Any]], str] | None = None,
        max_threads: int = MAX_THREADS,
        **options: Any,
    ) -> None:
        """Check the arguments; raises InvalidArgumentError as `Context` does, and
        MissingPackageError where it has tools and the SDK is missing."""
        self._options: dict[str, Any] = {
            "budget": budget,
            "sources": sources,
            "background": background,
            **options,
        }
        self._caps = caps
        self._thread_of = thread
        self._threads = PrefixThreads(self._context, asks_back=asks_back, max_threads=max_threads)
        empty = self._context("")  # raises for a wrong option
        self.tools: list[FunctionTool] = tools_for(empty) if asks_back else []
        self._own = {tool.name for tool in self.tools}

    @property
    def report(self) -> HostReport:
        """What became of the last call's items, of any conversation."""
        return self._threads.report

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
        RUNNING.set((self._threads, prompted))
        return replace(given, input=prompted.messages)

    def _context(self, name: str) -> Context:
        options = {"thread": name, "provider": FORMAT, **self._options}
        if self._caps is not None:
            options["passes"] = passes_with(self._caps)
        return Context(**options)

    def _sent_beside(self, data: CallModelData[Any]) -> list[str]:
        """Return the texts that the model gets beside the items: instructions and tools."""
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
