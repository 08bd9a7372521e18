"""RehydrateHooks: Claude Code's hooks and tools to ask back, in the program that runs the SDK."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rehydrate._check import check_type
from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._concurrency.workers import STORING
from rehydrate._text import safe_error_text
from rehydrate.errors import MissingPackageError
from rehydrate.integrations.claude_code.events import EVENTS, TIMEOUT, answer
from rehydrate.integrations.claude_code.home import Home, project_of
from rehydrate.integrations.host_thread import RehydrateWarning
from rehydrate.integrations.mcp_server.jobs import Job
from rehydrate.integrations.mcp_server.stores import Stores
from rehydrate.integrations.mcp_server.tools import TOOLS, answer as answer_tool

if TYPE_CHECKING:
    from claude_agent_sdk import HookMatcher, SdkMcpTool
    from claude_agent_sdk.types import HookEvent, McpSdkServerConfig


MISSING = MissingPackageError("rehydrate[claude-agent-sdk]", "brings the Claude Agent SDK")


SERVER = "rehydrate"
ASKING_BACK = ("request_context", "fetch_whole", "search_memory")


class RehydrateHooks:
    """What ``rehydrate claude install`` adds to Claude Code, for one agent of the SDK.

    ``ClaudeAgentOptions(hooks=hooks.hooks, mcp_servers=hooks.mcp_servers,
    allowed_tools=hooks.allowed_tools)``: before a compaction, what was said is kept, and after it,
    what the summary may have lost is put back. A prompt is given the memories that matter for it. A
    long result of a tool is shown in part, with a handle of the whole. The model asks for the rest
    by ``request_context``, ``fetch_whole`` and ``search_memory``, which run in this process.

    All of it is in ``folder`` (`Home.of()`, unless it is given), which the plugin and the command
    line share. ``cwd`` is the agent's working folder, and tells which project it works on. A hook
    that fails or takes longer than ``timeout`` seconds leaves the session as it is, with a
    `RehydrateWarning`. `close` it after the last session.
    """

    def __init__(
        self,
        *,
        cwd: str | PathLike[str] | None = None,
        folder: str | PathLike[str] | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        """Take the folders; nothing is opened yet. Raises MissingPackageError without the SDK."""
        try:
            import claude_agent_sdk  # noqa: F401
        except ImportError:
            raise MISSING from None
        check_type("timeout", timeout, (int, float), "pass a number of seconds")
        self.home = Home.of() if folder is None else Home(Path(folder))
        self.project = project_of(str(Path.cwd() if cwd is None else Path(cwd)))
        self._timeout = timeout
        self._stores = Stores(
            memory=self.home.memory,
            threads=self.home.threads,
            namespace=self.project,
            has_sessions=False,
        )

    @property
    def hooks(self) -> dict[HookEvent, list[HookMatcher]]:
        """For ``ClaudeAgentOptions(hooks=...)``; each event has a list of its own to add to."""
        from claude_agent_sdk import HookMatcher

        found = {event: [HookMatcher(hooks=[partial(self._run, event)])] for event in EVENTS}
        return cast("dict[HookEvent, list[HookMatcher]]", found)

    @property
    def mcp_servers(self) -> dict[str, McpSdkServerConfig]:
        """For ``ClaudeAgentOptions(mcp_servers=...)``."""
        from claude_agent_sdk import create_sdk_mcp_server

        return {SERVER: create_sdk_mcp_server(SERVER, tools=self.mcp_tools)}

    @property
    def mcp_tools(self) -> list[SdkMcpTool[Any]]:
        """The tools, for an MCP server of your own; its name is to be ``rehydrate``."""
        return [self._tool(name) for name in ASKING_BACK]

    @property
    def allowed_tools(self) -> list[str]:
        """For ``ClaudeAgentOptions(allowed_tools=...)``: they only read what is stored."""
        return [f"mcp__{SERVER}__{name}" for name in ASKING_BACK]

    def close(self) -> None:
        """Close the files that the tools opened."""
        self._stores.close()

    async def _run(
        self, event: str, given: Mapping[str, Any], _tool_use_id: str | None, _context: object
    ) -> Any:
        """Answer an event; the SDK calls it."""
        import anyio

        environ = {
            **os.environ,
            "REHYDRATE_HOME": str(self.home.folder),
            "CLAUDE_PROJECT_DIR": self.project,
        }
        work = partial(
            answer, event, given, environ=environ, deadline=time.monotonic() + self._timeout
        )
        try:
            with anyio.fail_after(self._timeout):
                # A thread of its own: it may wait for a store that others lock.
                return await hand_over(work, None) or {}
        except Exception as error:
            why = safe_error_text(error, "rehydrate")
            warnings.warn(
                f"the hook for {event} did nothing: {why}", RehydrateWarning, stacklevel=1
            )
            return {}

    def _tool(self, name: str) -> SdkMcpTool[Any]:
        from claude_agent_sdk import SdkMcpTool

        served = TOOLS[name]

        async def call(arguments: Mapping[str, Any]) -> dict[str, Any]:
            work = partial(answer_tool, served, self._stores, arguments, Job())
            found = await hand_over(work, STORING)
            content = [{"type": "text", "text": found.text}]
            return {"content": content, "is_error": found.is_error}

        return SdkMcpTool(name, served.description, served.input_schema, call)
