"""AgentConfig: the model, tools and limits that all turns of an `Interpreter` share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from rehydrate.agent.limits import TurnLimits
from rehydrate.agent.models.model import Model
from rehydrate.agent.retry import Retry, Sleep
from rehydrate.agent.tool_calls import ToolThreads
from rehydrate.agent.tools import Tool
from rehydrate.context.context import Context
from rehydrate.context.thread import ToolHandler
from rehydrate.cost.prices import Price
from rehydrate.prompt.tool_def import ToolDef


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """The parts that all turns of one `Interpreter` share."""

    model: Model
    tools: dict[str, Tool]
    offered: tuple[ToolDef, ...]
    """Definitions of `tools`, and of the tools that the provider runs itself."""
    jit: Callable[[Context], ToolHandler] | None
    """Makes what answers a context's requests for context, where it has none."""
    limits: TurnLimits
    retry: Retry
    price: Price | None
    random: Random
    sleep: Sleep
    threads: ToolThreads = field(default_factory=ToolThreads)
