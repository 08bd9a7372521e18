"""AgentConfig: the model, tools and limits that all turns of an `Interpreter` share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from rehydrate.agent.limits import TurnLimits
from rehydrate.agent.models.model import Model
from rehydrate.agent.retry import Retry, Sleep
from rehydrate.agent.tool_calls import ToolThreads
from rehydrate.agent.tools import Tool
from rehydrate.context.context import Context
from rehydrate.cost.prices import Price
from rehydrate.formats.calls import ToolCall
from rehydrate.prompt.section import ToolDef


class JIT(Protocol):
    """The part of `ContextJIT` that a turn uses: it answers the model's requests for context."""

    def handles(self, call: ToolCall) -> bool:
        """Return whether the call is for one of its own tools."""

    async def aanswer(self, call: ToolCall) -> Any:
        """Return the answer to the call."""


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """The parts that all turns of one `Interpreter` share."""

    model: Model
    tools: dict[str, Tool]
    offered: tuple[ToolDef, ...]
    """Definitions of `tools`, and of the tools that the provider runs itself."""
    jit: Callable[[Context], JIT] | None
    limits: TurnLimits
    retry: Retry
    price: Price | None
    random: Random
    sleep: Sleep
    threads: ToolThreads = field(default_factory=ToolThreads)
