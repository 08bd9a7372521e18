"""Rehydrate inside the Claude Agent SDK: ``pip install rehydrate[claude-agent-sdk]``.

RehydrateSessionStore    for ``ClaudeAgentOptions(session_store=...)``: sessions as stored threads
RehydrateHooks           for ``hooks=`` and ``mcp_servers=``: what a compaction loses comes back
RehydrateWarning         a hook failed, and the session went on without it
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rehydrate._check import check_type
from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._concurrency.workers import STORING
from rehydrate._text import safe_error_text
from rehydrate.context.threads import Threads
from rehydrate.errors import MissingPackageError
from rehydrate.integrations.claude_code.events import EVENTS, TIMEOUT, answer
from rehydrate.integrations.claude_code.home import Home, project_of
from rehydrate.integrations.claude_code.install import MATCHERS, PLUGIN
from rehydrate.integrations.host_thread import RehydrateWarning
from rehydrate.integrations.mcp_server.jobs import Job
from rehydrate.integrations.mcp_server.stores import Stores
from rehydrate.integrations.mcp_server.tools import TOOLS, answer as answer_tool
from rehydrate.integrations.stored_entries import StoredEntries

if TYPE_CHECKING:
    from claude_agent_sdk import (
        HookMatcher,
        SdkMcpTool,
        SessionKey,
        SessionListSubkeysKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )
    from claude_agent_sdk.types import HookEvent, McpSdkServerConfig

    from rehydrate.memory.store import ThreadRow

__all__ = ["RehydrateHooks", "RehydrateSessionStore", "RehydrateWarning"]

MISSING = MissingPackageError("rehydrate[claude-agent-sdk]", "brings the Claude Agent SDK")


SERVER = "rehydrate"
ASKING_BACK = ("request_context", "fetch_whole", "search_memory")


class RehydrateHooks:
    """The hooks and tools of ``rehydrate claude install``, for one agent of the SDK.

    ``ClaudeAgentOptions(hooks=hooks.hooks, mcp_servers=hooks.mcp_servers,
    allowed_tools=hooks.allowed_tools)``: before a compaction, the messages are kept, and after it,
    what the summary may have lost is put back. A prompt is given the memories that matter for it. A
    long result of a tool is shown in part, with a handle of the whole. The model asks for the rest
    by ``request_context``, ``fetch_whole`` and ``search_memory``, which run in this process.

    All of it is in ``folder`` (`Home.of()`, unless it is given), which the plugin and the command
    line share. ``cwd`` is the agent's working folder, and shows which project it works on. A hook
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
        # A folder that is named counts, whatever $CLAUDE_PROJECT_DIR says of the process.
        self.project = project_of("") if cwd is None else project_of(str(Path(cwd).resolve()), {})
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

        found = {
            event: [HookMatcher(MATCHERS[event] or None, [partial(self._run, event)])]
            for event in EVENTS
        }
        return cast("dict[HookEvent, list[HookMatcher]]", found)

    @property
    def mcp_servers(self) -> dict[str, McpSdkServerConfig]:
        """For ``ClaudeAgentOptions(mcp_servers=...)``."""
        from claude_agent_sdk import create_sdk_mcp_server

        return {SERVER: create_sdk_mcp_server(SERVER, tools=self.mcp_tools)}

    @property
    def mcp_tools(self) -> list[SdkMcpTool[Any]]:
        """The tools, for an MCP server of your own; its name must be ``rehydrate``."""
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
            "CLAUDE_PLUGIN_ROOT": str(PLUGIN),  # its tools are served here too
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


PREFIX = "claude"
FORMAT = "claude_code"
_MAX_OPEN = 256
"""Threads whose ids are kept in memory; any other is read again when it is written to."""


class RehydrateSessionStore:
    """Sessions of Claude Code, each a thread on disk, with those of its subagents.

    Pass it as ``ClaudeAgentOptions(session_store=...)``: the SDK mirrors each session into it, and
    resumes a session from it on any machine. Lines come back equal and in order. A line with a
    ``uuid`` is stored once, so a batch that the SDK sends again changes nothing. Any number of
    processes may use one file, and what `append` has returned from survives a crash.

    A session is a thread of `Threads` in the namespace that `namespace_of` names, so ``rehydrate
    thread`` lists, exports and redacts it. `close` it after the last session.
    """

    def __init__(self, path: str | PathLike[str], *, prefix: str = PREFIX) -> None:
        """Open the file (or create it), or a postgresql:// URL; raises StoreError, and
        MissingPackageError without the SDK. ``prefix`` begins the names of its namespaces."""
        try:
            from claude_agent_sdk import fold_session_summary
        except ImportError:
            raise MISSING from None
        self._fold = fold_session_summary
        self._threads = Threads.open(path)
        self._prefix = prefix
        self._open = lru_cache(_MAX_OPEN)(
            lambda namespace, thread: StoredEntries(
                self._threads, thread, format=FORMAT, namespace=namespace, id_of=_uuid
            )
        )
        self._summaries: dict[str, dict[ThreadRow, SessionSummaryEntry]] = {}
        """For each project, by its session's row in the store, which changes with the session."""

    def namespace_of(self, project_key: str) -> str:
        """Return the namespace that has the sessions of a project."""
        return f"{self._prefix}:{project_key}"

    @staticmethod
    def thread_of(key: SessionKey | SessionListSubkeysKey) -> str:
        """Return the name of a session's thread.

        >>> RehydrateSessionStore.thread_of({"project_key": "p", "session_id": "s-1"})
        's-1'
        """
        subpath = key.get("subpath")
        session = _quoted(key["session_id"])
        return f"{session}/{subpath}" if subpath else session

    async def append(self, key: SessionKey, entries: Sequence[SessionStoreEntry]) -> None:
        """Add lines at the end; they are on disk when it returns."""
        if entries:
            await hand_over(lambda: self._entries(key).extend(entries), STORING)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the lines of a session in order; None if there is none."""

        def load() -> list[SessionStoreEntry] | None:
            entries: list[SessionStoreEntry] = self._entries(key).all()
            return entries or None

        return await hand_over(load, STORING)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project, the last changed first."""
        found = await hand_over(lambda: self._rows(project_key), STORING)
        return [
            {"session_id": _unquoted(name), "mtime": changed}
            for name, _, changed, *_ in found
            if "/" not in name
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return a summary of each session of a project, which the SDK shows.

        A summary is made from the lines, and again only where the session has changed.
        """

        def summaries() -> list[SessionSummaryEntry]:
            before = self._summaries.get(project_key, {})
            now: dict[ThreadRow, SessionSummaryEntry] = {}
            for row in self._rows(project_key):
                name, _, changed, *_ = row
                if row in before:
                    now[row] = before[row]
                elif "/" not in name:
                    key: SessionKey = {"project_key": project_key, "session_id": _unquoted(name)}
                    now[row] = self._fold(None, key, self._entries(key).all())
                    now[row]["mtime"] = changed
            self._summaries[project_key] = now
            return list(now.values())

        return await hand_over(summaries, STORING)

    async def delete(self, key: SessionKey) -> None:
        """Delete a session with its subagents, or one subagent, as `Threads.purge` does."""

        def delete() -> None:
            # The session itself goes last: a delete that was cut short can be repeated.
            if not key.get("subpath"):
                for subkey in self._subkeys(key):
                    self._entries({**key, "subpath": subkey}).clear()
            self._entries(key).clear()

        await hand_over(delete, STORING)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the names of a session's subagents."""
        return await hand_over(lambda: self._subkeys(key), STORING)

    def close(self) -> None:
        """Wait for running writes, then close the file."""
        self._threads.close()

    def _entries(self, key: SessionKey) -> StoredEntries:
        return self._open(self.namespace_of(key["project_key"]), self.thread_of(key))

    def _rows(self, project_key: str) -> Sequence[ThreadRow]:
        return self._threads.native.threads(self.namespace_of(project_key))

    def _subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        begin = f"{_quoted(key['session_id'])}/"
        names = [row[0] for row in self._rows(key["project_key"])]
        return [name.removeprefix(begin) for name in names if name.startswith(begin)]


def _uuid(entry: Mapping[str, Any]) -> str | None:
    uuid = entry.get("uuid")
    return uuid if isinstance(uuid, str) else None


def _quoted(session_id: str) -> str:
    """Return a session's id without a slash, which begins the subagent's part of a name."""
    return session_id.replace("%", "%25").replace("/", "%2F")


def _unquoted(name: str) -> str:
    return name.replace("%2F", "/").replace("%25", "%")
