"""The JIT's tools as a model is told of them."""

from __future__ import annotations

from typing import Any, NamedTuple

REQUEST_CONTEXT = "request_context"
FETCH_WHOLE = "fetch_whole"


class Definition(NamedTuple):
    """A tool's name, what it does, and its arguments as JSON Schema."""

    name: str
    description: str
    properties: dict[str, dict[str, Any]]
    required: tuple[str, ...]

    @property
    def schema(self) -> dict[str, Any]:
        """The arguments' JSON Schema."""
        return {
            "type": "object",
            "properties": self.properties,
            "required": list(self.required),
            "additionalProperties": False,
        }


REQUEST = Definition(
    REQUEST_CONTEXT,
    "Bring back what is missing from this conversation: earlier messages that are no longer shown, "
    "memories of other conversations, documents. Call it when the user refers to something you "
    "cannot see, or when a fact, decision or result from before would help. You get the actual "
    "messages, word for word, with their times; what you see already is not repeated.",
    {
        "query": {
            "type": "string",
            "description": "What is missing, in a sentence or a few words: what was it about?",
        },
        "scope": {
            "type": "string",
            "enum": ["temporal", "semantic", "knowledge"],
            "description": "Where to look: temporal, what was said at a time (with time_range); "
            "semantic, what was said about something; knowledge, documents. Leave it out to look "
            "everywhere.",
        },
        "time_range": {
            "type": "string",
            "description": "When it was said: 2026-02-17, 2026-02-01..2026-02-17, yesterday, "
            "last tuesday, past 3 days.",
        },
    },
    ("query",),
)

FETCH = Definition(
    FETCH_WHOLE,
    "Read what is shown in part, word for word: all of it, some lines, or what matches a query. "
    'Pass the handle that stands with it: orig_... in "kept whole as", rest_... where more was '
    'found, whole="mem_..." at a passage, #12 in an outline. Of something long send a query or '
    "lines.",
    {
        "handle": {"type": "string", "description": "The handle, as it stands there."},
        "query": {
            "type": "string",
            "description": "What to look for in it: brings the best matches with their line "
            "numbers and says how many lines there are.",
        },
        "lines": {
            "type": "string",
            "description": "Which lines to read, counted from 1: 3400-3500.",
        },
        "offset": {
            "type": "integer",
            "minimum": 0,
            "description": "Where to go on, in characters, if a part was given before.",
        },
    },
    ("handle",),
)
