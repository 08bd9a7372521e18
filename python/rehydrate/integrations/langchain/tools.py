"""The tools of a ContextJIT as LangChain's: an agent's model asks back, and its thread answers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._text import safe_error_text
from rehydrate.integrations.langchain.threads import MISSING, AgentThreads

try:
    from langchain.tools import ToolRuntime
    from langchain_core.tools import BaseTool, StructuredTool
except ImportError:
    raise MISSING from None


def tools_for(threads: AgentThreads) -> list[BaseTool]:
    """Return the tools of a context's JIT, answered by the thread of the run that calls them."""
    return [_tool(definition, threads) for definition in threads.definitions]


def _tool(definition: Mapping[str, Any], threads: AgentThreads) -> BaseTool:
    name = definition["name"]

    def run(runtime: ToolRuntime[Any, Any], **arguments: Any) -> str:
        return _answer(name, arguments, runtime, threads)

    async def arun(runtime: ToolRuntime[Any, Any], **arguments: Any) -> str:
        return await hand_over(partial(_answer, name, arguments, runtime, threads))

    return StructuredTool(
        name=name,
        description=definition["description"],
        args_schema=dict(definition["input_schema"]),
        func=run,
        coroutine=arun,
    )


def _answer(
    name: str, arguments: Mapping[str, Any], runtime: ToolRuntime[Any, Any], threads: AgentThreads
) -> str:
    messages, call_id = runtime.state["messages"], runtime.tool_call_id or name
    try:
        return threads.answer_in(runtime.config, messages, name, arguments, call_id)
    except Exception as error:  # it must not end the agent's run
        return f"{name}: {safe_error_text(error, name)}; answer with what you have"
