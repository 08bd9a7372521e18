"""Agent: what all turns of an Interpreter have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from rehydrate.cache.prices import Price
from rehydrate.context import Context
from rehydrate.formats.calls import ToolCall
from rehydrate.ir import ToolDef
from rehydrate.runtime.asking import Sleep
from rehydrate.runtime.limits import Limits, Retry
from rehydrate.runtime.models.model import Model
from rehydrate.runtime.threads import Threads
from rehydrate.runtime.tools import Tool


class JIT(Protocol):
    """What answers the model's own requests for context: `ContextJIT`."""

    def handles(self, call: ToolCall) -> bool:
        """Whether the call is one of its own."""

    async def answer(self, call: ToolCall) -> Any:
        """What the call is answered with."""


@dataclass(frozen=True, slots=True)
class Agent:
    """What all turns of an Interpreter have in common."""

    model: Model
    tools: dict[str, Tool]
    offered: tuple[ToolDef, ...]
    """The definitions of these, and of tools that the provider runs."""
    jit: Callable[[Context], JIT] | None
    limits: Limits
    retry: Retry
    price: Price | None
    random: Random
    sleep: Sleep
    threads: Threads = field(default_factory=Threads)
