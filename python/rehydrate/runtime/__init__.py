"""The runtime: the loop that runs an agent's turns, and what its model may ask for.

The clients import their SDKs when they are first asked, and not before.
"""

from rehydrate.runtime.interpreter import Interpreter
from rehydrate.runtime.jit import Answered, ContextJIT
from rehydrate.runtime.limits import Limits, Retry
from rehydrate.runtime.mcp import mcp_tools
from rehydrate.runtime.models import (
    AnthropicModel,
    Model,
    OpenAIChatModel,
    OpenAIResponsesModel,
    Reply,
    ScriptedModel,
    call,
)
from rehydrate.runtime.telemetry import Telemetry
from rehydrate.runtime.tools import Tool, ToolError
from rehydrate.runtime.turn import Turn

__all__ = [
    "Answered",
    "AnthropicModel",
    "ContextJIT",
    "Interpreter",
    "Limits",
    "Model",
    "OpenAIChatModel",
    "OpenAIResponsesModel",
    "Reply",
    "Retry",
    "ScriptedModel",
    "Telemetry",
    "Tool",
    "ToolError",
    "Turn",
    "call",
    "mcp_tools",
]
