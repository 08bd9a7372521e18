"""compact_context, request_context and fetch_whole: a list of messages, and stored threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rehydrate.context.tool_calls import FETCH, REQUEST
from rehydrate.integrations.mcp_server.arguments import Answer, Arguments, check_names
from rehydrate.integrations.mcp_server.jobs import Job
from rehydrate.integrations.mcp_server.stores import Stores
from rehydrate.rpc import tool

MAX_NAME_CHARS = 1_000
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
