"""The frozen values that every format is read into: Piece, Message, Unit, Conversation.

A format module reads a provider's entries into a `Conversation`, which is native. Everything after
it (counting, embedding, scoring, packing) uses only these values, and returns indices into the
caller's list. The entries themselves are never copied and never changed.

Named tuples, not dataclasses: they are made by the thousand, in C.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Literal, NamedTuple, get_args

from rehydrate._native import Conversation, provider_of

__all__ = [
    "Conversation",
    "Message",
    "Piece",
    "PieceKind",
    "Unit",
    "problems_of",
    "provider_of",
]


class PieceKind(IntEnum):
    """The kind of a text, which decides how much of it an agent will need again."""

    TEXT = 0
    TOOL_INPUT = 1
    TOOL_RESULT = 2
    THINKING = 3


class Piece(NamedTuple):
    """One text of a message; a tool call's is its name, a blank and its input as compact JSON."""

    text: str
    kind: PieceKind


class Message(NamedTuple):
    """One entry of the caller's list, as the engine sees it.

    `role` is system, user, assistant, tool, or any other string in the entry. `images` counts
    images, documents and other media, which are never text. `calls` and `answers` hold the ids of
    tool calls and of tool results. `is_user_turn` is true for text of the user's own, false for
    tool results and for text that a harness writes as the user. `media_tokens` are those of the
    media; 0 counts 1,600 each.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    role: str
    pieces: tuple[Piece, ...]
    images: int = 0
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    is_user_turn: bool = False
    media_tokens: int = 0

    @property
    def text(self) -> str:
        """All its pieces, a line break between them."""
        return "\n".join(piece.text for piece in self.pieces)


class Unit(NamedTuple):
    """Messages that are kept or dropped together; `members` are their indices, ascending."""

    members: tuple[int, ...]
    messages: tuple[Message, ...]

    @property
    def role(self) -> str:
        """The role of its first message: assistant for a call with its results."""
        return self.messages[0].role

    @property
    def is_system(self) -> bool:
        """Whether all its messages are the system's."""
        # The first message decides for nearly all units, and every call asks all units.
        messages = self.messages
        return messages[0].role == "system" and all(item.role == "system" for item in messages)


_MAX_PROBLEMS = 5


def problems_of(unknown: Mapping[str, int]) -> tuple[str, ...]:
    """Return a sentence on each type of block that no format knows.

    >>> problems_of({"hologram": 2})
    ("blocks of the type 'hologram' are of no format here: 2 are counted by what can be read",)
    """
    return tuple(
        [
            f"blocks of the type {name!r} are of no format here: {count} "
            f"{'is' if count == 1 else 'are'} counted by what can be read"
            for name, count in sorted(unknown.items())[:_MAX_PROBLEMS]
        ]
    )


Provider = Literal["anthropic", "openai_chat", "openai_responses", "bedrock", "gemini", "ai_sdk"]
FormatName = Literal[
    "claude_code",
    "codex",
    "openai_responses",
    "openai_chat",
    "anthropic",
    "bedrock",
    "gemini",
    "ai_sdk",
    "ai_sdk_ui",
    "langchain",
    "plain",
]
FORMAT_NAMES: tuple[FormatName, ...] = get_args(FormatName)
"""The formats of messages, in the order of their detection (`rehydrate.formats.FORMATS`)."""

PROVIDER_OF: Mapping[str, Provider] = {"claude_code": "anthropic", "codex": "openai_responses"}
"""The formats of agents' transcripts, and the provider whose messages are in their lines. What a
line means depends on other lines."""


PROVIDERS: tuple[Provider, ...] = get_args(Provider)


def own_provider(format: str) -> Provider | None:  # noqa: A002  the field's word
    """Return the provider whose messages a format holds; None where several take them."""
    return PROVIDER_OF.get(format) or next((one for one in PROVIDERS if one == format), None)


SYSTEM_APART: frozenset[str] = frozenset({"ai_sdk", "anthropic", "bedrock", "gemini"})
"""The providers whose requests have the system prompt in a field of its own, and whose messages
begin with the user's."""

CACHE_MARKED: frozenset[str] = frozenset({"ai_sdk", "anthropic", "bedrock"})
"""The providers whose requests mark what is cached, the AI SDK's for a Claude that it may ask; the
others cache prefixes by themselves."""

MESSAGES_KEY: Mapping[str, str] = {"openai_responses": "input", "gemini": "contents"}
"""The argument that holds the messages, if it is not `messages`."""
