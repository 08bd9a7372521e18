"""Claude Code: hooks that keep what a compaction would lose, and put it back.

hook        one process for one event: standard input, a deadline, standard output
events      what each event does
transcript  the end of a transcript, whatever is in it
records     what the hooks keep between two processes: compactions and whole results
install     the plugin's folder, and its hooks in the user's settings
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.integrations.claude_code.install import (
        Installation as Installation,
    )
    from rehydrate.integrations.claude_code.records import (
        Compacted as Compacted,
        Records as Records,
    )

__all__, __dir__, __getattr__ = front(
    __name__,
    {"install": "Installation", "records": "Compacted Records"},
)
