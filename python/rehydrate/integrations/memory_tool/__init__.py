"""The memory tool over a `Memory`: files that a model writes, kept exactly and found by searches.

MemoryFiles                 the six commands of the tool, for any loop and any provider
FileLimits                  how much the files may hold
RehydrateMemoryTool         the same for the ``tool_runner`` of Anthropic's SDK
AsyncRehydrateMemoryTool    the same for an ``AsyncAnthropic``
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.integrations.memory_tool.anthropic_tool import (
        AsyncRehydrateMemoryTool as AsyncRehydrateMemoryTool,
        RehydrateMemoryTool as RehydrateMemoryTool,
    )
    from rehydrate.integrations.memory_tool.memory_files import (
        FileLimits as FileLimits,
        MemoryFiles as MemoryFiles,
    )

__all__, __dir__, __getattr__ = front(__name__)
