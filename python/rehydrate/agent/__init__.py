"""The agent: a loop that runs turns, the tools it calls, the models it asks.


The clients import their SDKs when they are first asked, and not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.agent.events import (
        BudgetSpent as BudgetSpent,
    )
    from rehydrate.agent.events import (
        Compacted as Compacted,
    )
    from rehydrate.agent.events import (
        ContextRequested as ContextRequested,
    )
    from rehydrate.agent.events import (
        Event as Event,
    )
    from rehydrate.agent.events import (
        InputTransformed as InputTransformed,
    )
    from rehydrate.agent.events import (
        ModelReplied as ModelReplied,
    )
    from rehydrate.agent.events import (
        Noted as Noted,
    )
    from rehydrate.agent.events import (
        OnEvent as OnEvent,
    )
    from rehydrate.agent.events import (
        PromptBuilt as PromptBuilt,
    )
    from rehydrate.agent.events import (
        Retrying as Retrying,
    )
    from rehydrate.agent.events import (
        SectionAdded as SectionAdded,
    )
    from rehydrate.agent.events import (
        Stopped as Stopped,
    )
    from rehydrate.agent.events import (
        TextDelta as TextDelta,
    )
    from rehydrate.agent.events import (
        ToolEnded as ToolEnded,
    )
    from rehydrate.agent.events import (
        ToolStarted as ToolStarted,
    )
    from rehydrate.agent.events import (
        Turn as Turn,
    )
    from rehydrate.agent.events import (
        TurnEnded as TurnEnded,
    )
    from rehydrate.agent.events import (
        TurnStarted as TurnStarted,
    )
    from rehydrate.agent.interpreter import (
        Interpreter as Interpreter,
    )
    from rehydrate.agent.limits import (
        Retry as Retry,
    )
    from rehydrate.agent.limits import (
        TurnLimits as TurnLimits,
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
    )
    from rehydrate.agent.models.model import (
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
    )
    from rehydrate.agent.tools import (
        ToolError as ToolError,
    )

__all__, __dir__, __getattr__ = front(
    __name__,
    {
        "events": (
            "BudgetSpent Compacted ContextRequested Event InputTransformed ModelReplied "
            "Noted OnEvent PromptBuilt Retrying SectionAdded Stopped TextDelta ToolEnded "
            "ToolStarted Turn TurnEnded TurnStarted "
        ),
        "interpreter": "Interpreter",
        "limits": "TurnLimits Retry",
        "mcp": "mcp_tools",
        "models": "model_of",
        "models.anthropic": "AnthropicModel",
        "models.model": "Model Reply",
        "models.openai_chat": "OpenAIChatModel",
        "models.openai_responses": "OpenAIResponsesModel",
        "telemetry": "Telemetry",
        "tools": "Tool ToolError",
    },
    internal={
        "mcp": "MAX_NAME",
        "models.failures": "answered retry_after_seconds",
        "models.model": "encodable",
        "models.openai_responses": "ENCRYPTED",
        "models.sdk": "EventDecoder",
        "record": "Once",
        "replies": "call_ids fit_reply",
        "telemetry": "SCHEMA_URL",
        "tool_calls": "Answer MOST_LEFT_BEHIND Threads UNKNOWN_EFFECT answer_with",
        "tools": "tools_of",
    },
)
