"""answer: the output of a hook for an event. No process is needed to call it.

UserPromptSubmit brings memories of the project that matter for the prompt. PostToolUse shows long
results in part, in the shape that the tool gave them. The other events are in `compaction`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rehydrate._native import fence_tags, relevant_hits
from rehydrate.integrations.claude_code.home import Home, project_of
from rehydrate.integrations.claude_code.transcript import Session, transcript_path

if TYPE_CHECKING:
    from rehydrate.integrations.mcp_server.session_index import Agent

Reply = dict[str, Any] | None
T = TypeVar("T")


class HookInput(NamedTuple):
    """One event, with the place of its data and the time for an answer."""

    payload: Mapping[str, Any]
    agent: Agent
    home: Home
    project: str
    deadline: float
    has_tools: bool
    """Whether the model has the tools of our MCP server."""

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
    """Return the result of the work; raises TimeoutError if it takes longer.

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
    "UserPromptSubmit": "events:user_prompt",
    "PostToolUse": "events:post_tool",
    "SessionEnd": "compaction:session_end",
}
"""By module, so that a hook imports what it needs."""
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
    Raises what the stores raise; only `hook.main` never fails.

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
            agent == "codex" or bool(environ.get("CLAUDE_PLUGIN_ROOT")),
        )
    )


MAX_QUERY_CHARS = 2_000
MAX_MEMORIES = 5
MAX_CHARS = 4_000
MIN_RELEVANCE = 0.45
"""The best memory for a prompt needs it. At 0.45 it brings memories for 24% of what is said in the
sessions that they are from, for 3% of LoCoMo's questions and for one of 15 general ones; at 0.35
for 50%, 4% and four of 15, at 0.55 for 8%, 1% and one (`benches/python/claude_hooks.py`)."""
_COMMAND = re.compile(r"/[^\s/]*(\s|$)|!|#(?!\d)")
"""A prompt that is for the agent itself, and no path or number of an issue."""
_EPISODE = re.compile(r"\d+->\d+ tokens, ")
"""The record of a compaction, which says nothing about the project."""


def _trust(trust: float) -> str:
    """Return the text before a memory that the user did not say.

    >>> _trust(0.5), _trust(1.0)
    ('(trust 0.5) ', '')
    """
    return "" if trust >= 1.0 else f"(trust {trust:g}) "


def user_prompt(given: HookInput) -> Reply:
    """Return the memories, each once between two compactions."""
    prompt = given.text("prompt").strip()[:MAX_QUERY_CHARS]
    if not prompt or _COMMAND.match(prompt) or not given.home.memory.exists():
        return None
    from rehydrate.integrations.claude_code.home import Records

    with given.home.open_memory(given.project) as memory:
        found = memory.search(prompt, MAX_MEMORIES)
    hits = [
        hit
        for hit in relevant_hits(found, prompt, MIN_RELEVANCE)
        if not _EPISODE.match(hit.item.text)
    ]
    if not hits:
        return None
    with Records(given.home) as records:
        fresh = set(records.unshown(given.text("session_id"), [hit.handle for hit in hits]))
    lines = [
        f"- {_trust(hit.item.trust)}{' '.join(hit.snippet.split())}"
        for hit in hits
        if hit.handle in fresh
    ]
    text = "\n".join(lines)[:MAX_CHARS]
    if not text:
        return None
    opening, closing = fence_tags("memories", "memories", "", "of this project", None, True, text)
    return additional_context("UserPromptSubmit", f"{opening}\n{text}\n{closing}")


CAP_TOKENS = 8_000
MIN_CAPPED_CHARS = 8_000
"""A shorter text is not counted: most results are short, and counting loads the engine."""
_BINARY_KEYS = frozenset({"data", "base64", "blob"})
_DATA_URL = re.compile(r"\s*data:[\w.+-]{1,80}/[\w.+-]{1,80}(?:;[\w.=+-]{1,80}){0,4};base64,")
_MAX_DEPTH = 32


def post_tool(given: HookInput) -> Reply:
    """Return the result with its long texts cut, the whole of each kept under a handle.

    Where the whole cannot be kept, nothing is cut.
    """
    tool = given.text("tool_name")
    response = given.payload.get("tool_response")
    # Our own tools answer within a budget, and with whole texts when they are asked for.
    if "rehydrate" in tool:
        return None
    session = given.session

    def capped(text: str) -> str:
        from rehydrate.prompt.caps import cap_text

        short = cap_text(text, CAP_TOKENS, tool=tool)
        if short is None:
            return text
        handle = session.keep(text)
        return f"{short.render()}\n{how_to_read(handle, session.id)}"

    changed = _map_texts(response, capped)
    if changed == response:
        return None
    return {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": changed}}


def how_to_read(handle: str, session: str) -> str:
    """Return how a model reads the whole, in a line."""
    return (
        f"[the whole: fetch_whole of the MCP server rehydrate, with handle {handle!r} and thread "
        f"{session!r}; or in a shell: rehydrate claude fetch {handle}]"
    )


def _map_texts(value: Any, change: Callable[[str], str], depth: int = 0) -> Any:
    """Return the value in its own shape, its long texts changed; binary data stays."""
    if isinstance(value, str):
        is_text = len(value) > MIN_CAPPED_CHARS and not _DATA_URL.match(value)
        return change(value) if is_text else value
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, list):
        return [_map_texts(one, change, depth + 1) for one in value]
    if isinstance(value, dict):
        if value.get("isImage") is True:  # Bash printed a picture
            return value
        return {
            key: one if key in _BINARY_KEYS else _map_texts(one, change, depth + 1)
            for key, one in value.items()
        }
    return value
