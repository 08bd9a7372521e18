"""answer: what a hook gives back for an event. No process is needed to call it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from rehydrate.integrations.claude_code.home import Home, project_of
from rehydrate.integrations.claude_code.sessions import Session
from rehydrate.integrations.claude_code.transcript import transcript_path
from rehydrate.integrations.mcp_server.session_files import Agent

Reply = dict[str, Any] | None
T = TypeVar("T")


class HookInput(NamedTuple):
    """One event, with where its data is and how long there is to answer."""

    payload: Mapping[str, Any]
    agent: Agent
    home: Home
    project: str
    deadline: float

    def text(self, name: str) -> str:
        """Return a field that is a text; "" for anything else."""
        value = self.payload.get(name)
        return value if isinstance(value, str) else ""

    @property
    def session(self) -> Session:
        """The session, as a stored thread."""
        return Session(self.home, self.project, self.text("session_id") or "unnamed", self.agent)

    @property
    def transcript(self) -> Path | None:
        """The session's transcript, if it is a file that can be read."""
        return transcript_path(self.payload.get("transcript_path"))

    @property
    def seconds_left(self) -> float:
        """Until the deadline."""
        return self.deadline - time.monotonic()


def additional_context(event: str, text: str) -> Reply:
    """Return the output that gives the model a text."""
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return what the work returns; raises TimeoutError where it takes longer.

    It may wait for a store that others lock. The rest of a hook does not.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(max(0.0, seconds))
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"not done in {seconds:.1f} s")
    return results[0]


TIMEOUT = 1.5

_HANDLERS = {
    "PreCompact": "compaction:pre_compact",
    "PostCompact": "compaction:post_compact",
    "SessionStart": "compaction:session_start",
    "UserPromptSubmit": "prompts:user_prompt",
    "PostToolUse": "tool_results:post_tool",
    "SessionEnd": "compaction:session_end",
}
"""Each in a module of its own, so that a hook imports what it needs."""
EVENTS = tuple(_HANDLERS)


def answer(
    event: str,
    payload: Mapping[str, Any],
    *,
    agent: Agent = "claude_code",
    environ: Mapping[str, str] = os.environ,
    deadline: float | None = None,
) -> Reply:
    """Return the output of a hook as an object; None: it prints nothing.

    ``payload`` is the hook's input by its documented names; others are ignored, and so is an event
    that has no hook. ``deadline`` is a time of `time.monotonic`, 1.5 s from now if it is left out.
    Raises what the stores raise: `hook.main` is what never fails.

    >>> answer("SessionStart", {"source": "startup"}) is None
    True
    """
    place = _HANDLERS.get(event)
    if place is None:
        return None
    module, name = place.split(":")
    handler: Callable[[HookInput], Reply] = getattr(
        import_module(f"rehydrate.integrations.claude_code.{module}"), name
    )
    cwd = payload.get("cwd")
    return handler(
        HookInput(
            payload,
            agent,
            Home.of(environ),
            project_of(cwd if isinstance(cwd, str) else "", environ),
            time.monotonic() + TIMEOUT if deadline is None else deadline,
        )
    )
