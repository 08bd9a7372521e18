"""Rehydrate: the context engine for LLM agents.

It decides what a model sees each turn. ``compact_context`` makes a long conversation fit a token
budget in milliseconds: it keeps what matters for what comes next, byte for byte, whole messages or
excerpts of long ones, and returns a conversation that the provider accepts.
"""

from typing import TYPE_CHECKING, Any

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
    EmbedderError,
    InternalError,
    InvalidArgumentError,
    InvalidConversationError,
    InvalidMessageError,
    MissingPackageError,
    ModelError,
    RehydrateError,
    UnknownFormatError,
    Violation,
)
from rehydrate.formats import detect_format, validate

if TYPE_CHECKING:
    from rehydrate.embedding.onnx import OnnxModel, load_model
    from rehydrate.embedding.own import Embedder

__all__ = [
    "BlockReport",
    "Compaction",
    "Dropped",
    "Embedder",
    "EmbedderError",
    "Explanation",
    "InternalError",
    "InvalidArgumentError",
    "InvalidConversationError",
    "InvalidMessageError",
    "MissingPackageError",
    "ModelError",
    "OnnxModel",
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
    "load_model",
    "validate",
]


_LOADED_WHEN_NAMED = {
    "Embedder": "rehydrate.embedding.own",
    "OnnxModel": "rehydrate.embedding.onnx",
    "load_model": "rehydrate.embedding.onnx",
}


def __getattr__(name: str) -> Any:
    """Load what few programs name when one does: `import rehydrate` stays light."""
    if name in _LOADED_WHEN_NAMED:
        from importlib import import_module

        return getattr(import_module(_LOADED_WHEN_NAMED[name]), name)
    raise AttributeError(f"module 'rehydrate' has no attribute {name!r}")
