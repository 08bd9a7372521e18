"""Rehydrate inside the Claude Agent SDK: ``pip install rehydrate[claude-agent-sdk]``.

RehydrateSessionStore    for ``ClaudeAgentOptions(session_store=...)``: sessions as stored threads
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.integrations.claude_agent_sdk.session_store import (
        RehydrateSessionStore as RehydrateSessionStore,
    )

__all__, __dir__, __getattr__ = front(__name__, {"session_store": "RehydrateSessionStore"})
