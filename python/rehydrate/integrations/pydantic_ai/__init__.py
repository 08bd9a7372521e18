"""Rehydrate inside Pydantic AI: ``pip install rehydrate[pydantic-ai]``.

RehydrateCapability    for ``Agent(capabilities=[...])``: prompts that extend one another
HostReport             what became of the last list of messages
RehydrateWarning       something failed, and the messages were sent as they are

The run's message history stays as it is. What the model gets is made from it in each request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from rehydrate.errors import MissingPackageError
from rehydrate.integrations.adapter import (
    Adapter,
    AdapterOptions,
    AgentScope,
    nothing_to_ask,
    passing_through,
    shows_adapter_options,
    tool_text,
)
from rehydrate.integrations.host_thread import HostReport, RehydrateWarning
from rehydrate.integrations.pydantic_ai.messages import CODEC

try:
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.tools import RunContext, Tool
    from pydantic_ai.toolsets import FunctionToolset
except ImportError:
    raise MissingPackageError("rehydrate[pydantic-ai]", "brings Pydantic AI's agents") from None

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestContext

__all__ = ["HostReport", "RehydrateCapability", "RehydrateWarning"]


class RehydrateCapability(Adapter, AbstractCapability[Any]):
    """Keep an agent's prompts within a budget, without breaking the provider's cache.

    Each conversation has a persistent `Context`: a list of messages that goes on, with one agent
    and one model. Its prompts extend one another byte for byte until a compaction. The messages are
    the history's very objects; of a request some parts may be shown.

    The model brings back by ``request_context`` and ``fetch_whole`` what its prompt does not show.
    Where something fails, the model gets the messages as they are, with a `RehydrateWarning`.
    `report` says what became of the last request.

    >>> from rehydrate.prompt import Budget
    >>> RehydrateCapability(budget=Budget(soft_tokens=60_000)).report.compactions
    0
    """

    _codec = CODEC

    @shows_adapter_options(AdapterOptions)
    def __init__(self, **options: Unpack[AdapterOptions]) -> None:
        """Check the arguments; raises InvalidArgumentError as `Context` does."""
        self._set_up(options, AgentScope())
        self._tools = [self._tool(each) for each in self._definitions]

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
        with passing_through():
            messages = list(request_context.messages)
            scope = _scope(ctx, request_context.model)
            _, shown = await self._prompted(messages, scope, self._sent(request_context))
            return replace(request_context, messages=shown)
        return request_context

    def _sent(self, request_context: ModelRequestContext) -> list[str]:
        """Return the texts that the model gets besides the messages: instructions and tools."""
        parameters = request_context.model_request_parameters
        tools = [*parameters.function_tools, *parameters.output_tools]
        foreign = [each for each in tools if each.name not in self._own_tools]
        texts = [tool_text(each, each.parameters_json_schema) for each in foreign]
        instructions = [getattr(each, "instructions", None) for each in request_context.messages]
        return [*texts, next((each for each in reversed(instructions) if each), "")]

    def _tool(self, definition: Mapping[str, Any]) -> Tool[Any]:
        name = definition["name"]

        async def run(ctx: RunContext[Any], **arguments: Any) -> str:
            said = [entry.chat for entry in CODEC.entries_of(ctx.messages)]
            asking = self._threads.asking(said, _scope(ctx, ctx.model))
            if asking is None:
                return nothing_to_ask(name)
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
