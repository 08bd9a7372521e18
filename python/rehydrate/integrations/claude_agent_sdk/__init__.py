"""Rehydrate inside the Claude Agent SDK: ``pip install rehydrate[claude-agent-sdk]``.

RehydrateSessionStore    for ``ClaudeAgentOptions(session_store=...)``: sessions as stored threads
RehydrateHooks           for ``hooks=`` and ``mcp_servers=``: what a compaction loses comes back
RehydrateWarning         a hook failed, and the session went on without it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.integrations.claude_agent_sdk.hooks import RehydrateHooks as RehydrateHooks
    from rehydrate.integrations.claude_agent_sdk.session_store import (
        RehydrateSessionStore as RehydrateSessionStore,
    )
    from rehydrate.integrations.host_thread import RehydrateWarning as RehydrateWarning

__all__, __dir__, __getattr__ = front(__name__)
