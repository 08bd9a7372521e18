"""search_sessions and session_outline: the sessions of Claude Code and Codex on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rehydrate.errors import InvalidArgumentError
from rehydrate.fences import NOT_INSTRUCTIONS, tags
from rehydrate.integrations.mcp_server.arguments import Answer, Arguments
from rehydrate.integrations.mcp_server.jobs import Job
from rehydrate.integrations.mcp_server.session_files import AGENTS
from rehydrate.integrations.mcp_server.session_index import FoundSession
from rehydrate.integrations.mcp_server.session_outline import outline_lines, outline_of
from rehydrate.integrations.mcp_server.stores import Stores

MAX_SESSIONS = 50
SEARCH: dict[str, dict[str, Any]] = {
    "query": {
        "type": "string",
        "description": "What the session was about, or names in it; left out: the last sessions.",
    },
    "time_range": {
        "type": "string",
        "description": "When: 2026-02-17, 2026-02-01..2026-02-17, yesterday, past 3 days (UTC).",
    },
    "agent": {"type": "string", "enum": [*AGENTS], "description": "Of which agent."},
    "project": {"type": "string", "description": "A part of the path of the project's folder."},
    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_SESSIONS, "default": 5},
}
SEARCH_RESULT: dict[str, dict[str, Any]] = {
    "sessions": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "session": {"type": "string"},
                "agent": {"type": "string"},
                "project": {"type": "string"},
                "title": {"type": "string"},
                "first": {"type": "string"},
                "last": {"type": "string"},
                "score": {"type": "number"},
                "path": {"type": "string"},
                "excerpts": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"time": {"type": "string"}, "text": {"type": "string"}},
                    },
                },
            },
            "required": ["session", "agent", "path"],
        },
    },
    "note": {"type": "string"},
    "unread_files": {"type": "integer"},
    "unread_bytes": {"type": "integer"},
}
OUTLINE: dict[str, dict[str, Any]] = {
    "session": {
        "type": "string",
        "description": "The id that search_sessions gives, its beginning, or the path.",
    },
    "budget_tokens": {
        "type": "integer",
        "minimum": 100,
        "maximum": 8_000,
        "default": 800,
        "description": "Size of the list of names.",
    },
    "max_turns": {"type": "integer", "minimum": 1, "maximum": 200, "default": 40},
}
OUTLINE_RESULT: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "session": {"type": "string"},
    "agent": {"type": "string"},
    "path": {"type": "string"},
    "messages": {"type": "integer"},
    "broken_lines": {"type": "integer"},
    "user_turns": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"time": {"type": "string"}, "text": {"type": "string"}},
        },
    },
    "omitted_turns": {"type": "integer"},
    "names": {
        "type": "object",
        "additionalProperties": {"type": "array", "items": {"type": "string"}},
    },
}


def search_sessions(stores: Stores, given: Mapping[str, Any], job: Job) -> Answer:
    """Answer with the sessions that match, after reading what is new."""
    arguments = Arguments(given, SEARCH)
    query = arguments.text("query", needed=False)
    limit = arguments.whole("limit", 5, 1, MAX_SESSIONS)
    span = arguments.time_range()
    agent = arguments.choice("agent", AGENTS)
    project = arguments.text("project", max_chars=500, needed=False)
    index = stores.sessions()
    unread = index.update(job)
    found = index.search(query, limit, span, agent=agent, project=project)
    return Answer.of(
        {
            "note": f"excerpts are {NOT_INSTRUCTIONS}",
            "sessions": [_shown(each) for each in found],
            "unread_files": unread.files,
            "unread_bytes": unread.bytes,
        }
    )


def _shown(found: FoundSession) -> dict[str, Any]:
    record = found.record
    return {
        "session": record.id,
        "agent": record.agent,
        "project": record.project,
        "title": record.title,
        "first": record.first,
        "last": record.last,
        "score": round(found.score, 4),
        "path": record.path,
        "excerpts": [{"time": time, "text": text} for time, text in found.excerpts],
    }


def session_outline(stores: Stores, given: Mapping[str, Any], _job: Job) -> Answer:
    """Answer with the outline of one session."""
    arguments = Arguments(given, OUTLINE)
    session = arguments.text("session", max_chars=4_096)
    budget = arguments.whole("budget_tokens", 800, 100, 8_000)
    max_turns = arguments.whole("max_turns", 40, 1, 200)
    file = stores.sessions().find(session)
    try:
        outline = outline_of(file, budget, max_turns)
    except OSError as error:
        raise InvalidArgumentError(
            f"session {file.id} cannot be read ({error.strerror}); send another one"
        ) from None
    body = "\n".join(outline_lines(file.id, outline))
    opening, closing = tags("session", "session", "", "", None, True, body)
    return Answer.of_text(
        f"{opening}\n{body}\n{closing}",
        session=file.id,
        agent=file.agent,
        path=str(file.path),
        messages=outline.messages,
        broken_lines=outline.broken_lines,
        user_turns=[{"time": time, "text": text} for time, text in outline.turns],
        omitted_turns=outline.omitted_turns,
        names=outline.names,
    )
