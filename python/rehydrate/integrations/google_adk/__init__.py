"""Rehydrate inside Google's ADK: ``pip install rehydrate[google-adk]``.

RehydratePlugin        for ``App(plugins=[...])``: prompts that extend one another
HostReport             what became of the last request's contents
RehydrateWarning       something failed, and the contents were sent as they are
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.integrations.google_adk.plugin import RehydratePlugin as RehydratePlugin
    from rehydrate.integrations.host_thread import (
        HostReport as HostReport,
        RehydrateWarning as RehydrateWarning,
    )

__all__, __dir__, __getattr__ = front(__name__)
