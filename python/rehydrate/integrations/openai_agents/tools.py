"""The tools of a ContextJIT as the SDK's: the model asks back, and the run's thread answers."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from rehydrate.context.context import Context
from rehydrate.context.jit import ContextJIT
from rehydrate.errors import MissingPackageError
from rehydrate.integrations.prefix_threads import PrefixThreads, Prompted

if TYPE_CHECKING:
    from agents import FunctionTool

MISSING = MissingPackageError("rehydrate[openai-agents]", "brings the OpenAI Agents SDK")

RUNNING: ContextVar[tuple[PrefixThreads, Prompted] | None] = ContextVar(
    "rehydrate_running", default=None
)
"""What the run's last call of a model got. Its tools run in tasks that this task starts."""


def tools_for(context: Context) -> list[FunctionTool]:
    """Return the tools of a context's JIT, answered by the thread of the run that calls them."""
    return [_tool(each) for each in ContextJIT(context).tools("openai_responses")]


def _tool(definition: Mapping[str, Any]) -> FunctionTool:
    try:
        from agents import FunctionTool
    except ImportError:
        raise MISSING from None
    name = definition["name"]

    async def invoke(call: Any, arguments: str) -> str:
        running = RUNNING.get()
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
