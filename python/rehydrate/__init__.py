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
    MissingNamespaceError,
    MissingPackageError,
    ModelError,
    NewerStoreError,
    NotAStoreError,
    RehydrateError,
    StoreBusyError,
    StoreClosedError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    UnknownFormatError,
    UnknownHandleError,
    Violation,
)
from rehydrate.formats import detect_format, validate

if TYPE_CHECKING:
    from rehydrate.embedding.onnx import OnnxModel, load_model
    from rehydrate.embedding.own import Embedder
    from rehydrate.memory.folder import SyncReport
    from rehydrate.memory.items import (
        Added,
        Hit,
        Limits,
        Link,
        MemoryItem,
        MemoryStats,
        Recalled,
        Redaction,
        VerifyReport,
    )
    from rehydrate.memory.memory import Memory
    from rehydrate.memory.redaction import Redactor
    from rehydrate.memory.store import MemoryStore
    from rehydrate.memory.tools import LoadMemory

__all__ = [
    "Added",
    "BlockReport",
    "Compaction",
    "Dropped",
    "Embedder",
    "EmbedderError",
    "Explanation",
    "Hit",
    "InternalError",
    "InvalidArgumentError",
    "InvalidConversationError",
    "InvalidMessageError",
    "Limits",
    "Link",
    "LoadMemory",
    "Memory",
    "MemoryItem",
    "MemoryStats",
    "MemoryStore",
    "MissingNamespaceError",
    "MissingPackageError",
    "ModelError",
    "NewerStoreError",
    "NotAStoreError",
    "OnnxModel",
    "Recalled",
    "Redaction",
    "Redactor",
    "RehydrateError",
    "Scoring",
    "Stats",
    "StoreBusyError",
    "StoreClosedError",
    "StoreCorruptError",
    "StoreError",
    "StoreFullError",
    "StoreReadOnlyError",
    "SyncReport",
    "UnitReport",
    "UnknownFormatError",
    "UnknownHandleError",
    "VerifyReport",
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
    "Added": "rehydrate.memory.items",
    "Embedder": "rehydrate.embedding.own",
    "Hit": "rehydrate.memory.items",
    "Limits": "rehydrate.memory.items",
    "Link": "rehydrate.memory.items",
    "LoadMemory": "rehydrate.memory.tools",
    "Memory": "rehydrate.memory.memory",
    "MemoryItem": "rehydrate.memory.items",
    "MemoryStats": "rehydrate.memory.items",
    "MemoryStore": "rehydrate.memory.store",
    "OnnxModel": "rehydrate.embedding.onnx",
    "Recalled": "rehydrate.memory.items",
    "Redaction": "rehydrate.memory.items",
    "Redactor": "rehydrate.memory.redaction",
    "SyncReport": "rehydrate.memory.folder",
    "VerifyReport": "rehydrate.memory.items",
    "load_model": "rehydrate.embedding.onnx",
}


def __getattr__(name: str) -> Any:
    """Load what few programs name when one does: `import rehydrate` stays light."""
    if name in _LOADED_WHEN_NAMED:
        from importlib import import_module

        return getattr(import_module(_LOADED_WHEN_NAMED[name]), name)
    raise AttributeError(f"module 'rehydrate' has no attribute {name!r}")
