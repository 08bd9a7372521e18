"""Rehydrate inside the OpenAI Agents SDK: ``pip install rehydrate[openai-agents]``.

RehydrateFilter     for ``RunConfig(call_model_input_filter=...)``: inputs that extend one another
RehydrateSession    a Session in a file of stored threads
HostReport          what became of the last list of items
RehydrateWarning    something failed, and the items were sent as they are
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.integrations.host_thread import (
        HostReport as HostReport,
        RehydrateWarning as RehydrateWarning,
    )
    from rehydrate.integrations.openai_agents.filter import RehydrateFilter as RehydrateFilter
    from rehydrate.integrations.openai_agents.session import RehydrateSession as RehydrateSession

__all__, __dir__, __getattr__ = front(__name__)
