"""TOOLS: the tools that the server offers, and `answer`, which runs one and raises nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rehydrate._text import safe_error_text
from rehydrate.context.tool_calls import FETCH, REQUEST
from rehydrate.errors import InvalidArgumentError, InvalidMessageError, UnknownHandleError
from rehydrate.integrations.mcp_server import context_tools, memory_tools, session_tools
from rehydrate.integrations.mcp_server.arguments import Answer
from rehydrate.integrations.mcp_server.jobs import Job
from rehydrate.integrations.mcp_server.stores import Stores
from rehydrate.memory.tools import (
    ARGUMENTS as LOAD,
    DESCRIPTION as LOAD_DESCRIPTION,
    NAME as LOAD_NAME,
)
from rehydrate.rpc import tool as compaction

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
        run=context_tools.compact_context,
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
            arguments=context_tools.REQUEST_ARGUMENTS,
            required=("thread", *REQUEST.required),
            result=context_tools.ANSWERED,
            run=context_tools.request_context,
        ),
        ServedTool(
            name=FETCH.name,
            title="Read what a handle stands for",
            description=FETCH.description,
            arguments=context_tools.FETCH_ARGUMENTS,
            required=("thread", *FETCH.required),
            result=context_tools.ANSWERED,
            run=context_tools.fetch_whole,
        ),
        ServedTool(
            name="search_memory",
            title="Search long-term memory",
            description=(
                "Search long-term memory by words and by meaning, within kinds, sources, threads "
                "and times. Each hit comes with its handle."
            ),
            arguments=memory_tools.SEARCH,
            required=("query",),
            result=memory_tools.SEARCH_RESULT,
            run=memory_tools.search_memory,
        ),
        ServedTool(
            name="add_memory",
            title="Add to long-term memory",
            description=(
                "Remember a text for later conversations: a decision, a preference, a fact. "
                "Secrets are removed first. The same text from the same source is kept once."
            ),
            arguments=memory_tools.ADD,
            required=("text",),
            result=memory_tools.ADD_RESULT,
            run=memory_tools.add_memory,
            reads_only=False,
        ),
        ServedTool(
            name=LOAD_NAME,
            title="Read from long-term memory",
            description=LOAD_DESCRIPTION,
            arguments=LOAD,
            required=(),
            result=memory_tools.LOAD_RESULT,
            run=memory_tools.load_memory,
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
            arguments=session_tools.SEARCH,
            required=(),
            result=session_tools.SEARCH_RESULT,
            run=session_tools.search_sessions,
        ),
        ServedTool(
            name="session_outline",
            title="Outline a past coding session",
            description=(
                "See one session at a glance: what the user said, and the files, identifiers and "
                "ids in it by their use."
            ),
            arguments=session_tools.OUTLINE,
            required=("session",),
            result=session_tools.OUTLINE_RESULT,
            run=session_tools.session_outline,
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
