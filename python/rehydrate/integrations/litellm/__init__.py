"""Rehydrate inside LiteLLM: ``pip install rehydrate[litellm]``.

RehydrateProxyHook    for the proxy's ``litellm_settings: callbacks``: any client of the gateway
RehydrateHook         for ``litellm.callbacks`` of a program that calls ``litellm.acompletion``
HostReport            what became of the last list of messages
RehydrateWarning      something failed, and the messages were sent as they are
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.integrations.host_thread import (
        HostReport as HostReport,
        RehydrateWarning as RehydrateWarning,
    )
    from rehydrate.integrations.litellm.hooks import (
        RehydrateHook as RehydrateHook,
        RehydrateProxyHook as RehydrateProxyHook,
    )

__all__, __dir__, __getattr__ = front(__name__)
