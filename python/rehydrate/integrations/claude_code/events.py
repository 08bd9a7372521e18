"""answer: what a hook gives back for an event. No process is needed to call it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from rehydrate.integrations.claude_code.home import Home, project_of
from rehydrate.integrations.claude_code.hook_input import HookInput, Reply
from rehydrate.integrations.mcp_server.session_files import Agent

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
