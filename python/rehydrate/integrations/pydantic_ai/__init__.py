"""Rehydrate inside Pydantic AI: ``pip install rehydrate[pydantic-ai]``.

RehydrateCapability    for ``Agent(capabilities=[...])``: prompts that extend one another
HostReport             what became of the last list of messages
RehydrateWarning       something failed, and the messages were sent as they are
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.integrations.host_thread import (
        HostReport as HostReport,
        RehydrateWarning as RehydrateWarning,
    )
    from rehydrate.integrations.pydantic_ai.capability import (
        RehydrateCapability as RehydrateCapability,
    )

__all__, __dir__, __getattr__ = front(__name__)
