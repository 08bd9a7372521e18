"""Rehydrate: the context engine for LLM agents.

It decides what a model sees each turn. ``compact_context`` makes a long conversation fit a token
budget in milliseconds: it keeps whole messages, byte for byte, chooses those that matter for what
comes next, and returns a conversation that the provider accepts.
"""

from rehydrate._native import __version__
from rehydrate.compact.compaction import (
    BlockReport,
    Compaction,
    Dropped,
    Explanation,
    Stats,
    UnitReport,
)
from rehydrate.compact.scoring import Scoring
from rehydrate.compact.verbatim import acompact_context, compact_context
from rehydrate.counting import count_tokens, estimate_tokens
from rehydrate.errors import (
    InternalError,
    InvalidArgumentError,
    InvalidConversationError,
    InvalidMessageError,
    RehydrateError,
    UnknownFormatError,
    Violation,
)
from rehydrate.formats import detect_format, validate

__all__ = [
    "BlockReport",
    "Compaction",
    "Dropped",
    "Explanation",
    "InternalError",
    "InvalidArgumentError",
    "InvalidConversationError",
    "InvalidMessageError",
    "RehydrateError",
    "Scoring",
    "Stats",
    "UnitReport",
    "UnknownFormatError",
    "Violation",
    "__version__",
    "acompact_context",
    "compact_context",
    "count_tokens",
    "detect_format",
    "estimate_tokens",
    "validate",
]
