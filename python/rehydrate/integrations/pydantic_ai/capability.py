"""RehydrateCapability: the prompts of a Pydantic AI agent extend one another.

The run's message history stays as it is. What the model gets is made from it in each request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from rehydrate._text import safe_error_text
from rehydrate.errors import MissingPackageError
from rehydrate.formats._reading import compact_json
from rehydrate.integrations.adapter import Adapter, AdapterOptions, AgentScope, ChatThreads
from rehydrate.integrations.host_thread import warn_passed_through
from rehydrate.integrations.pydantic_ai.messages import entries_of, picked
from rehydrate.prompt.counting import text_tokens

try:
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.tools import RunContext, Tool
    from pydantic_ai.toolsets import FunctionToolset
except ImportError:
    raise MissingPackageError("rehydrate[pydantic-ai]", "brings Pydantic AI's agents") from None

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import ModelRequestContext


class RehydrateCapability(Adapter, AbstractCapability[Any]):
    """Keep an agent's prompts within a budget, without breaking the provider's cache.

    Each conversation has a persistent `Context`: a list of messages that goes on, with one agent
    and one model. Its prompts extend one another byte for byte until a compaction. The messages are
    the history's very objects; of a request some parts may be shown.

    The model brings back by ``request_context`` and ``fetch_whole`` what its prompt does not show.
    ``options`` are those of `AdapterOptions`: a budget, sources, caps of tool results, background
    summaries, and others of `Context`.

    Where something fails, the model gets the messages as they are, with a `RehydrateWarning`.
    `report` says what became of the last request.

    >>> from rehydrate.prompt import Budget
    >>> RehydrateCapability(budget=Budget(soft_tokens=60_000)).report.compactions
    0
    """

    def __init__(self, **options: Unpack[AdapterOptions]) -> None:
        """Check the arguments; raises InvalidArgumentError as `Context` does."""
        self._threads = ChatThreads(options, AgentScope())
        self._tools = [self._tool(each) for each in self._threads.definitions]
        self._own = {tool.name for tool in self._tools}

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: its arguments are objects, which no specification holds."""
        return None

    def get_toolset(self) -> FunctionToolset[Any] | None:
        """Return the tools by which the model asks back."""
        return FunctionToolset(self._tools) if self._tools else None

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Return the request with the thread's prompt; the agent calls it before each request."""
        try:
            messages = await self._prompt(ctx, request_context)
        except Exception as error:
            warn_passed_through(safe_error_text(error, "rehydrate"))
            return request_context
        return replace(request_context, messages=messages)

    async def _prompt(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> list[ModelMessage]:
        messages = list(request_context.messages)
        entries = entries_of(messages)
        prompted = await self._threads.aprompt(
            [entry.chat for entry in entries],
            _scope(ctx, request_context.model),
            reserved_tokens=sum(text_tokens(self._sent_beside(request_context))),
        )
        return picked(messages, entries, prompted.shown)

    def _sent_beside(self, request_context: ModelRequestContext) -> list[str]:
        """Return the texts that the model gets besides the messages: instructions and tools."""
        parameters = request_context.model_request_parameters
        tools = [*parameters.function_tools, *parameters.output_tools]
        texts = [compact_json(_definition(each)) for each in tools if each.name not in self._own]
        instructions = [getattr(each, "instructions", None) for each in request_context.messages]
        return [*texts, next((each for each in reversed(instructions) if each), "")]

    def _tool(self, definition: Mapping[str, Any]) -> Tool[Any]:
        name = definition["name"]

        async def run(ctx: RunContext[Any], **arguments: Any) -> str:
            said = [entry.chat for entry in entries_of(ctx.messages)]
            asking = self._threads.asking(said, _scope(ctx, ctx.model))
            if asking is None:
                return f"{name}: there is nothing to ask; answer with what you have"
            return await self._threads.aanswer(asking, name, arguments, ctx.tool_call_id or name)

        return Tool.from_schema(
            run,
            name=name,
            description=definition["description"],
            json_schema=definition["input_schema"],
            takes_ctx=True,
        )


def _scope(ctx: RunContext[Any], model: Any) -> AgentScope:
    agent = getattr(ctx.agent, "name", None)
    return AgentScope(str(agent or ""), str(getattr(model, "model_name", "")))


def _definition(tool: Any) -> Mapping[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters_json_schema,
    }
