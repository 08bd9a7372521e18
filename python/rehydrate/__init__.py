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
    BudgetExceededError,
    ContextOverflowError,
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
    OriginalGoneError,
    OriginalsFullError,
    ProviderError,
    ProviderUnavailableError,
    PurgeIncompleteError,
    RateLimitError,
    RehydrateError,
    RequestRefusedError,
    StoreBusyError,
    StoreClosedError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    UnknownFormatError,
    UnknownHandleError,
    UnreadableIRError,
    UnreadableSessionError,
    Violation,
)
from rehydrate.formats import detect_format, validate

if TYPE_CHECKING:
    from rehydrate.cache.prefix import PrefixReport, prefix_report
    from rehydrate.cache.simulate import simulate
    from rehydrate.cache.worth import worth_compacting
    from rehydrate.compiler.caps import Caps
    from rehydrate.compiler.compile import acompile, compile  # noqa: A004  the contract's word
    from rehydrate.compiler.hydrate import ahydrate, hydrate
    from rehydrate.compiler.originals import HeldOriginals, MemoryOriginals
    from rehydrate.compiler.sources import HydrationSource
    from rehydrate.context import Context, ContextUsage
    from rehydrate.embedding.onnx import OnnxModel, load_model
    from rehydrate.embedding.own import Embedder
    from rehydrate.ir import (
        BrokenLaw,
        Budget,
        CompiledPrompt,
        CompositionMode,
        ContextRequest,
        ContextStrategy,
        History,
        Position,
        Priority,
        PromptIR,
        Provenance,
        Section,
        Stability,
        TimeRange,
        ToolDef,
    )
    from rehydrate.linting.lint import lint
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
    from rehydrate.runtime.interpreter import Interpreter
    from rehydrate.runtime.jit import ContextJIT
    from rehydrate.text_cache import cache_limit, cached_bytes, clear_cache
    from rehydrate.warming import WarmedPart, WarmUp, awarm_up, warm_up

__all__ = [
    "Added",
    "BlockReport",
    "BrokenLaw",
    "Budget",
    "BudgetExceededError",
    "Caps",
    "Compaction",
    "CompiledPrompt",
    "CompositionMode",
    "Context",
    "ContextJIT",
    "ContextOverflowError",
    "ContextRequest",
    "ContextStrategy",
    "ContextUsage",
    "Dropped",
    "Embedder",
    "EmbedderError",
    "Explanation",
    "HeldOriginals",
    "History",
    "Hit",
    "HydrationSource",
    "InternalError",
    "Interpreter",
    "InvalidArgumentError",
    "InvalidConversationError",
    "InvalidMessageError",
    "Limits",
    "Link",
    "LoadMemory",
    "Memory",
    "MemoryItem",
    "MemoryOriginals",
    "MemoryStats",
    "MemoryStore",
    "MissingNamespaceError",
    "MissingPackageError",
    "ModelError",
    "NewerStoreError",
    "NotAStoreError",
    "OnnxModel",
    "OriginalGoneError",
    "OriginalsFullError",
    "Position",
    "PrefixReport",
    "Priority",
    "PromptIR",
    "Provenance",
    "ProviderError",
    "ProviderUnavailableError",
    "PurgeIncompleteError",
    "RateLimitError",
    "Recalled",
    "Redaction",
    "Redactor",
    "RehydrateError",
    "RequestRefusedError",
    "Scoring",
    "Section",
    "Stability",
    "Stats",
    "StoreBusyError",
    "StoreClosedError",
    "StoreCorruptError",
    "StoreError",
    "StoreFullError",
    "StoreReadOnlyError",
    "SyncReport",
    "TimeRange",
    "ToolDef",
    "UnitReport",
    "UnknownFormatError",
    "UnknownHandleError",
    "UnreadableIRError",
    "UnreadableSessionError",
    "VerifyReport",
    "Violation",
    "WarmUp",
    "WarmedPart",
    "__version__",
    "acompact_context",
    "acompile",
    "ahydrate",
    "awarm_up",
    "cache_limit",
    "cached_bytes",
    "clear_cache",
    "compact_context",
    "compile",
    "count_tokens",
    "detect_format",
    "estimate_tokens",
    "hydrate",
    "lint",
    "load_model",
    "prefix_report",
    "simulate",
    "validate",
    "warm_up",
    "worth_compacting",
]


_LOADED_WHEN_NAMED = {
    "Added": "rehydrate.memory.items",
    "BrokenLaw": "rehydrate.ir",
    "Budget": "rehydrate.ir",
    "Caps": "rehydrate.compiler.caps",
    "CompiledPrompt": "rehydrate.ir",
    "CompositionMode": "rehydrate.ir",
    "Context": "rehydrate.context",
    "ContextJIT": "rehydrate.runtime.jit",
    "ContextRequest": "rehydrate.ir",
    "ContextStrategy": "rehydrate.ir",
    "ContextUsage": "rehydrate.context",
    "Embedder": "rehydrate.embedding.own",
    "HeldOriginals": "rehydrate.compiler.originals",
    "History": "rehydrate.ir",
    "Hit": "rehydrate.memory.items",
    "HydrationSource": "rehydrate.compiler.sources",
    "Interpreter": "rehydrate.runtime.interpreter",
    "Limits": "rehydrate.memory.items",
    "Link": "rehydrate.memory.items",
    "LoadMemory": "rehydrate.memory.tools",
    "Memory": "rehydrate.memory.memory",
    "MemoryItem": "rehydrate.memory.items",
    "MemoryOriginals": "rehydrate.compiler.originals",
    "MemoryStats": "rehydrate.memory.items",
    "MemoryStore": "rehydrate.memory.store",
    "OnnxModel": "rehydrate.embedding.onnx",
    "Position": "rehydrate.ir",
    "PrefixReport": "rehydrate.cache",
    "Priority": "rehydrate.ir",
    "PromptIR": "rehydrate.ir",
    "Provenance": "rehydrate.ir",
    "Recalled": "rehydrate.memory.items",
    "Redaction": "rehydrate.memory.items",
    "Redactor": "rehydrate.memory.redaction",
    "Section": "rehydrate.ir",
    "Stability": "rehydrate.ir",
    "SyncReport": "rehydrate.memory.folder",
    "TimeRange": "rehydrate.ir",
    "ToolDef": "rehydrate.ir",
    "VerifyReport": "rehydrate.memory.items",
    "WarmUp": "rehydrate.warming",
    "WarmedPart": "rehydrate.warming",
    "acompile": "rehydrate.compiler.compile",
    "ahydrate": "rehydrate.compiler.hydrate",
    "awarm_up": "rehydrate.warming",
    "cache_limit": "rehydrate.text_cache",
    "cached_bytes": "rehydrate.text_cache",
    "clear_cache": "rehydrate.text_cache",
    "compile": "rehydrate.compiler.compile",
    "hydrate": "rehydrate.compiler.hydrate",
    "lint": "rehydrate.linting",
    "load_model": "rehydrate.embedding.onnx",
    "prefix_report": "rehydrate.cache",
    "simulate": "rehydrate.cache",
    "warm_up": "rehydrate.warming",
    "worth_compacting": "rehydrate.cache",
}


def __dir__() -> list[str]:
    """Every public name, those that are not loaded yet too."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Load what few programs name when one does: `import rehydrate` stays light."""
    if name in _LOADED_WHEN_NAMED:
        from importlib import import_module

        return getattr(import_module(_LOADED_WHEN_NAMED[name]), name)
    raise AttributeError(f"module 'rehydrate' has no attribute {name!r}")
