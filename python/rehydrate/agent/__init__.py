"""The agent loop (`Interpreter`), its tools, its events, and clients for models.

A model client imports its SDK when it sends its first request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.agent.anthropic import AnthropicModel as AnthropicModel
    from rehydrate.agent.bedrock import BedrockModel as BedrockModel
    from rehydrate.agent.events import (
        BudgetSpent as BudgetSpent,
        Compacted as Compacted,
        ContextRequested as ContextRequested,
        Event as Event,
        InputTransformed as InputTransformed,
        ModelReplied as ModelReplied,
        Noted as Noted,
        OnEvent as OnEvent,
        PromptBuilt as PromptBuilt,
        Retrying as Retrying,
        SectionAdded as SectionAdded,
        Stopped as Stopped,
        TextDelta as TextDelta,
        ToolEnded as ToolEnded,
        ToolStarted as ToolStarted,
        Turn as Turn,
        TurnEnded as TurnEnded,
        TurnStarted as TurnStarted,
    )
    from rehydrate.agent.gemini import GeminiModel as GeminiModel
    from rehydrate.agent.interpreter import Interpreter as Interpreter, model_of as model_of
    from rehydrate.agent.loop import TurnLimits as TurnLimits
    from rehydrate.agent.mcp import mcp_tools as mcp_tools
    from rehydrate.agent.model import Model as Model, Reply as Reply, Retry as Retry
    from rehydrate.agent.openai import (
        OpenAIChatModel as OpenAIChatModel,
        OpenAIResponsesModel as OpenAIResponsesModel,
    )
    from rehydrate.agent.telemetry import Telemetry as Telemetry
    from rehydrate.agent.tools import Tool as Tool, ToolError as ToolError

__all__, __dir__, __getattr__ = front(__name__)
