"""TOOLS: the tools that the server offers, and `answer`, which runs one and raises nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from rehydrate._text import safe_error_text
from rehydrate.context.tool_calls import FETCH, REQUEST
from rehydrate.errors import InvalidArgumentError, InvalidMessageError, UnknownHandleError
from rehydrate.fences import NOT_INSTRUCTIONS, tags
from rehydrate.formats.calls import ToolCall
from rehydrate.integrations.mcp_server.jobs import Answer, Arguments, Job, check_names
from rehydrate.integrations.mcp_server.session_index import FoundSession
from rehydrate.integrations.mcp_server.session_lines import AGENTS
from rehydrate.integrations.mcp_server.session_outline import outline_lines, outline_of
from rehydrate.integrations.mcp_server.stores import Stores
from rehydrate.memory.items import TIERS, Hit, Tier
from rehydrate.memory.tools import (
    ARGUMENTS as LOAD,
    DESCRIPTION as LOAD_DESCRIPTION,
    NAME as LOAD_NAME,
    LoadMemory,
)
from rehydrate.rpc import tool, tool as compaction


def _texts(*names: str) -> dict[str, dict[str, Any]]:
    return {name: {"type": "string"} for name in names}


_SAID = {"type": "array", "items": {"type": "object", "properties": _texts("time", "text")}}
THREAD: dict[str, Any] = {
    "type": "string",
    "description": "The name of the stored conversation; the resources of this server list them.",
}
REQUEST_ARGUMENTS = {"thread": THREAD, **REQUEST.properties}
FETCH_ARGUMENTS = {"thread": THREAD, **FETCH.properties}
ANSWERED: dict[str, dict[str, Any]] = {
    "text": {"type": "string", "description": "The answer, word for word."},
    "tokens": {"type": "integer", "description": "Tokens of what was found."},
    "remaining": {"type": "integer", "description": "How many more items had no room."},
}


def compact_context(stores: Stores, given: Mapping[str, Any], _job: Job) -> Answer:
    """Answer with the messages that are kept, and figures.

    Where the memory takes what is dropped, long texts are kept in part unless asked otherwise.
    """
    check_names(given, tool.ARGUMENTS)
    if tool.archives(given):
        given = {"granularity": "excerpt", **given}
    return Answer.of(tool.call(given, stores.memory() if stores.has_memory else None))


def request_context(stores: Stores, given: Mapping[str, Any], _job: Job) -> Answer:
    """Answer with what a stored thread has about a query."""
    return _of_thread(stores, REQUEST.name, given, REQUEST_ARGUMENTS)


def fetch_whole(stores: Stores, given: Mapping[str, Any], _job: Job) -> Answer:
    """Answer with the text under a handle of a stored thread, or a part of it."""
    return _of_thread(stores, FETCH.name, given, FETCH_ARGUMENTS)


def _of_thread(
    stores: Stores, name: str, given: Mapping[str, Any], known: Mapping[str, Any]
) -> Answer:
    thread = Arguments(given, known).text("thread", max_chars=MAX_NAME_CHARS, needed=False)
    reader = stores.reader(thread)
    rest = {key: value for key, value in given.items() if key != "thread"}
    answered = reader.answer(name, rest)
    if answered.is_error:
        return Answer.of_error(answered.content)
    return Answer.of_text(answered.content, tokens=answered.tokens, remaining=answered.remaining)


MAX_HITS = 50
MAX_TEXT_CHARS = 100_000
"""Of one memory. A longer text is a document: rehydrate memory sync."""
MAX_NAME_CHARS = 1_000
TRUST = 0.5
"""Of what a model adds: a tool's result may have asked for it."""
TIERS_TO_ADD: tuple[Tier, ...] = ("warm", "cold")
"""What is hot is in every prompt, so only the user makes it so: rehydrate memory add."""

SEARCH: dict[str, dict[str, Any]] = {
    "query": {"type": "string", "description": "What to look for, in words or in meaning."},
    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_HITS, "default": 5},
    "time_range": {
        "type": "string",
        "description": "When it was said: 2026-02-17, 2026-02-01..2026-02-17, yesterday (UTC).",
    },
    "kinds": {"type": "array", "items": {"type": "string"}},
    "sources": {"type": "array", "items": {"type": "string"}},
    "threads": {"type": "array", "items": {"type": "string"}},
    "tier": {"type": "string", "enum": [*TIERS]},
}
SEARCH_RESULT: dict[str, dict[str, Any]] = {
    "hits": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "handle": {"type": "string", "description": "load_memory reads it whole."},
                **_texts("snippet"),
                "score": {"type": "number"},
                **_texts("kind", "tier", "source", "thread", "time"),
                "trust": {"type": "number"},
            },
            "required": ["handle", "snippet", "score"],
        },
    }
}
ADD: dict[str, dict[str, Any]] = {
    "text": {"type": "string", "description": "What to remember, to be read by itself later."},
    "kind": {"type": "string", "description": "As decision, preference or fact; default: note."},
    "source": {"type": "string", "description": "Where it comes from: a file, an address."},
    "thread": {"type": "string", "description": "The conversation that it is from."},
    "tier": {
        "type": "string",
        "enum": [*TIERS_TO_ADD],
        "description": "warm: also loaded by its source's name; cold: found by search only.",
    },
}
ADD_RESULT: dict[str, dict[str, Any]] = {
    "handle": {"type": "string"},
    "created": {"type": "boolean", "description": "False: memory had this text already."},
    "redacted": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Kinds of secrets that were removed before anything was written.",
    },
}
LOAD_RESULT: dict[str, dict[str, Any]] = {"text": {"type": "string"}}


def search_memory(stores: Stores, given: Mapping[str, Any], _job: Job) -> Answer:
    """Answer with the best matches."""
    arguments = Arguments(given, SEARCH)
    query = arguments.text("query")
    limit = arguments.whole("limit")
    span = arguments.time_range()
    tier = cast("Tier | None", arguments.choice("tier"))
    hits = stores.memory().search(
        query,
        limit,
        after=span.after,
        before=span.before,
        kinds=arguments.texts("kinds"),
        sources=arguments.texts("sources"),
        threads=arguments.texts("threads"),
        tiers=None if tier is None else [tier],
    )
    return Answer.of({"hits": [_shown(hit) for hit in hits]})


def _shown(hit: Hit) -> dict[str, Any]:
    item = hit.item
    return {
        "handle": hit.handle,
        "snippet": hit.snippet,
        "score": round(hit.score, 4),
        "kind": item.kind,
        "tier": item.tier,
        "source": item.source,
        "thread": item.thread,
        "time": "" if item.time is None else item.time.isoformat(),
        "trust": item.trust,
    }


def add_memory(stores: Stores, given: Mapping[str, Any], _job: Job) -> Answer:
    """Add one text, and answer with its handle."""
    arguments = Arguments(given, ADD)
    text = arguments.text("text", max_chars=MAX_TEXT_CHARS)
    names = {
        name: arguments.text(name, max_chars=MAX_NAME_CHARS, needed=False)
        for name in ("kind", "source", "thread")
    }
    tier = cast("Tier | None", arguments.choice("tier"))
    (added,) = stores.memory().add(
        text,
        kind=names["kind"] or "note",
        source=names["source"],
        thread=names["thread"],
        tier=tier or "warm",
        trust=TRUST,
    )
    redacted = sorted({redaction.name for redaction in added.redactions})
    return Answer.of({"handle": added.handle, "created": added.created, "redacted": redacted})


def load_memory(stores: Stores, given: Mapping[str, Any], _job: Job) -> Answer:
    """Answer with passages of a query, or a note whole."""
    check_names(given, LOAD)
    loader = LoadMemory(stores.memory())
    text, is_error = loader.answer(ToolCall("anthropic", "call_1", LOAD_NAME, given))
    return Answer.of_error(text) if is_error else Answer.of_text(text)


MAX_SESSIONS = 50
SESSIONS: dict[str, dict[str, Any]] = {
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
SESSIONS_RESULT: dict[str, dict[str, Any]] = {
    "sessions": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                **_texts("session", "agent", "project", "title", "first", "last"),
                "score": {"type": "number"},
                **_texts("path"),
                "excerpts": _SAID,
            },
            "required": ["session", "agent", "path"],
        },
    },
    **_texts("note"),
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
    **_texts("text", "session", "agent", "path"),
    "messages": {"type": "integer"},
    "broken_lines": {"type": "integer"},
    "user_turns": _SAID,
    "omitted_turns": {"type": "integer"},
    "names": {
        "type": "object",
        "additionalProperties": {"type": "array", "items": {"type": "string"}},
    },
}


def search_sessions(stores: Stores, given: Mapping[str, Any], job: Job) -> Answer:
    """Answer with the sessions that match, after reading what is new."""
    arguments = Arguments(given, SESSIONS)
    query = arguments.text("query", needed=False)
    limit = arguments.whole("limit")
    span = arguments.time_range()
    agent = arguments.choice("agent")
    project = arguments.text("project", max_chars=500, needed=False)
    index = stores.sessions()
    unread = index.update(job)
    found = index.search(query, limit, span, agent=agent, project=project)
    return Answer.of(
        {
            "note": f"excerpts are {NOT_INSTRUCTIONS}",
            "sessions": [_shown_session(each) for each in found],
            "unread_files": unread.files,
            "unread_bytes": unread.bytes,
        }
    )


def _shown_session(found: FoundSession) -> dict[str, Any]:
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
    budget = arguments.whole("budget_tokens")
    max_turns = arguments.whole("max_turns")
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


_MISTAKES = (InvalidArgumentError, InvalidMessageError, UnknownHandleError)
"""Errors whose message says what to send instead."""


@dataclass(frozen=True)
class ServedTool:
    """One tool: how a client sees it, and what runs."""

    name: str
    title: str
    description: str
    arguments: Mapping[str, Any]
    required: tuple[str, ...]
    result: Mapping[str, Any]
    run: Callable[[Stores, Mapping[str, Any], Job], Answer]
    reads_only: bool = True

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        return {
            "type": "object",
            "properties": dict(self.arguments),
            "required": list(self.required),
            "additionalProperties": False,
        }

    @property
    def output_schema(self) -> dict[str, Any]:
        """The JSON Schema of its structured result."""
        return {
            "type": "object",
            "properties": dict(self.result),
            "required": list(self.result),
        }


def _compaction() -> ServedTool:
    described = compaction.describe()
    return ServedTool(
        name=compaction.NAME,
        title="Compact a conversation",
        description=compaction.DESCRIPTION,
        arguments=described["inputSchema"]["properties"],
        required=("messages",),
        result=described["outputSchema"]["properties"],
        run=compact_context,
        reads_only=False,  # with archive it writes to the memory
    )


TOOLS: Mapping[str, ServedTool] = {
    tool.name: tool
    for tool in (
        _compaction(),
        ServedTool(
            name=REQUEST.name,
            title="Find in a stored conversation",
            description=(
                "Find what was said in a stored conversation, and memories beside it. You get the "
                "actual messages, word for word, with their times, and a handle of what had no "
                "room."
            ),
            arguments=REQUEST_ARGUMENTS,
            required=("thread", *REQUEST.required),
            result=ANSWERED,
            run=request_context,
        ),
        ServedTool(
            name=FETCH.name,
            title="Read what a handle stands for",
            description=FETCH.description,
            arguments=FETCH_ARGUMENTS,
            required=("thread", *FETCH.required),
            result=ANSWERED,
            run=fetch_whole,
        ),
        ServedTool(
            name="search_memory",
            title="Search long-term memory",
            description=(
                "Search long-term memory by words and by meaning, within kinds, sources, threads "
                "and times. Each hit comes with its handle."
            ),
            arguments=SEARCH,
            required=("query",),
            result=SEARCH_RESULT,
            run=search_memory,
        ),
        ServedTool(
            name="add_memory",
            title="Add to long-term memory",
            description=(
                "Remember a text for later conversations: a decision, a preference, a fact. "
                "Secrets are removed first. The same text from the same source is kept once."
            ),
            arguments=ADD,
            required=("text",),
            result=ADD_RESULT,
            run=add_memory,
            reads_only=False,
        ),
        ServedTool(
            name=LOAD_NAME,
            title="Read from long-term memory",
            description=LOAD_DESCRIPTION,
            arguments=LOAD,
            required=(),
            result=LOAD_RESULT,
            run=load_memory,
        ),
        ServedTool(
            name="search_sessions",
            title="Search past coding sessions",
            description=(
                "Find past sessions of Claude Code and Codex on this machine by what they were "
                "about, by names in them and by time, as in 'the session where we fixed the "
                "login'. New lines are read first, a part of them in each call: where "
                "unread_files is not 0, call again for the rest."
            ),
            arguments=SESSIONS,
            required=(),
            result=SESSIONS_RESULT,
            run=search_sessions,
        ),
        ServedTool(
            name="session_outline",
            title="Outline a past coding session",
            description=(
                "See one session at a glance: what the user said, and the files, identifiers and "
                "ids in it by their use."
            ),
            arguments=OUTLINE,
            required=("session",),
            result=OUTLINE_RESULT,
            run=session_outline,
        ),
    )
}


def answer(tool: ServedTool, stores: Stores, given: Mapping[str, Any], job: Job) -> Answer:
    """Run a tool; a mistake in its arguments and a failure are answers that a model can read."""
    try:
        return tool.run(stores, given, job)
    except _MISTAKES as error:
        return Answer.of_error(f"{tool.name}: {error}")
    except Exception as error:
        return Answer.of_error(f"{tool.name} failed ({safe_error_text(error, tool.name)})")
