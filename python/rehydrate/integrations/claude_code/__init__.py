"""Claude Code, and Codex: hooks that keep what a compaction would lose, and put it back.

    agent -> hook -> events                   UserPromptSubmit, PostToolUse
                          `-> compaction      PreCompact, SessionStart, PostCompact, SessionEnd

hook         one process for one event: standard input, a deadline, standard output
home         the data folder, which the MCP server shares; what the hooks tell one another there
transcript   the session as a stored thread, read on since the last call
install      the plugin, or hooks in the user's settings, which are edited byte for byte
plugin/      the plugin's files

docs/integrations/claude-code.md is the user's page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.integrations.claude_code.events import EVENTS as EVENTS, answer as answer
    from rehydrate.integrations.claude_code.home import (
        Compacted as Compacted,
        CompactionRow as CompactionRow,
        Home as Home,
        Records as Records,
    )
    from rehydrate.integrations.claude_code.install import (
        WAYS as WAYS,
        Installation as Installation,
    )

__all__, __dir__, __getattr__ = front(__name__)
