"""Context: one conversation of an agent server, whose prompts extend one another."""

from rehydrate.context.context import Context
from rehydrate.context.usage import ContextUsage

__all__ = ["Context", "ContextUsage"]
