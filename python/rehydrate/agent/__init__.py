"""The agent loop (`Interpreter`), its tools, its events, and clients for models.

A model client imports its SDK when it sends its first request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.agent.config import (
        Retry as Retry,
        TurnLimits as TurnLimits,
    )
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
    from rehydrate.agent.interpreter import (
        Interpreter as Interpreter,
    )
    from rehydrate.agent.mcp import (
        mcp_tools as mcp_tools,
    )
    from rehydrate.agent.models import (
        model_of as model_of,
    )
    from rehydrate.agent.models.anthropic import (
        AnthropicModel as AnthropicModel,
    )
    from rehydrate.agent.models.model import (
        Model as Model,
        Reply as Reply,
    )
    from rehydrate.agent.models.openai_chat import (
        OpenAIChatModel as OpenAIChatModel,
    )
    from rehydrate.agent.models.openai_responses import (
        OpenAIResponsesModel as OpenAIResponsesModel,
    )
    from rehydrate.agent.telemetry import (
        Telemetry as Telemetry,
    )
    from rehydrate.agent.tools import (
        Tool as Tool,
        ToolError as ToolError,
    )

__all__, __dir__, __getattr__ = front(__name__)
