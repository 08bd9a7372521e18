"""The real Claude Code that the Claude Agent SDK brings, on loopback, in folders of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import claude_agent_sdk
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

from tests.provider import StrictProvider
from tests.sizes import PATIENCE_SECONDS

_BUNDLED = Path(claude_agent_sdk.__file__).parent / "_bundled"
IS_THERE = any(_BUNDLED.glob("claude")) and sys.platform != "win32"
MODEL = "claude-sonnet-4-5"
"""Of newer models the CLI asks for betas that the strict provider does not know."""


class Machine:
    """A home, a configuration and a working folder, as of one machine."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.config = folder / "config"
        self.work = folder / "work"
        for each in (self.home, self.config, self.work):
            each.mkdir(parents=True, exist_ok=True)

    def options(self, provider: StrictProvider, **more: Any) -> ClaudeAgentOptions:
        env = {
            "ANTHROPIC_BASE_URL": provider.url,
            "ANTHROPIC_API_KEY": "x",
            "HOME": str(self.home),
            "USERPROFILE": str(self.home),
            "CLAUDE_CONFIG_DIR": str(self.config),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        return ClaudeAgentOptions(
            env=env,
            cwd=str(self.work),
            setting_sources=[],
            model=MODEL,
            thinking={"type": "disabled"},
            allowed_tools=["Bash", "Read", "Task"],
            **more,
        )

    def transcripts(self) -> list[Path]:
        return sorted(self.config.rglob("*.jsonl"))


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run the work, which a CLI that hangs does not hold up for ever."""
    asyncio.run(asyncio.wait_for(work, PATIENCE_SECONDS))


async def ask(text: str, options: ClaudeAgentOptions) -> ResultMessage:
    """Let the agent answer one message; return the end of its turn."""
    found: ResultMessage | None = None
    async for message in query(prompt=text, options=options):
        if isinstance(message, ResultMessage):
            found = message
    assert found is not None
    assert not found.is_error
    return found
