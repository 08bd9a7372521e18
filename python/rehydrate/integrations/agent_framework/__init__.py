"""Rehydrate inside Microsoft's Agent Framework: ``pip install rehydrate[agent-framework]``.

RehydrateProvider      for ``Agent(context_providers=[...])``: prompts that extend one another
HostReport             what became of the last request's messages
RehydrateWarning       something failed, and the messages were sent as they are
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.integrations.agent_framework.provider import (
        RehydrateProvider as RehydrateProvider,
    )
    from rehydrate.integrations.host_thread import (
        HostReport as HostReport,
        RehydrateWarning as RehydrateWarning,
    )

__all__, __dir__, __getattr__ = front(__name__)
