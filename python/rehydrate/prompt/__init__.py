"""The prompt: `hydrate` collects a PromptIR, `compile` turns it into a provider's request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.messages import PROVIDERS as PROVIDERS, Provider as Provider
    from rehydrate.prompt.caps import (
        Caps as Caps,
        CapToolResults as CapToolResults,
        RemoveEchoes as RemoveEchoes,
    )
    from rehydrate.prompt.compiler import (
        BEGINNING as BEGINNING,
        DEFAULT_PASSES as DEFAULT_PASSES,
        acompile as acompile,
        compile as compile,  # noqa: A004  the contract's word
    )
    from rehydrate.prompt.entries import History as History
    from rehydrate.prompt.hydration import (
        HydrateOptions as HydrateOptions,
        ahydrate as ahydrate,
        ahydrate_source as ahydrate_source,
        hydrate as hydrate,
        hydrate_source as hydrate_source,
    )
    from rehydrate.prompt.ir import (
        USUAL_MINIMUM_PREFIX as USUAL_MINIMUM_PREFIX,
        CompiledPrompt as CompiledPrompt,
        Pass as Pass,
        PromptIR as PromptIR,
        ProviderSummary as ProviderSummary,
        Segment as Segment,
        Target as Target,
    )
    from rehydrate.prompt.originals import (
        HeldOriginals as HeldOriginals,
        MemoryOriginals as MemoryOriginals,
        Originals as Originals,
    )
    from rehydrate.prompt.reports import (
        BrokenLaw as BrokenLaw,
        Change as Change,
        IRDiff as IRDiff,
        Law as Law,
        PromptExplanation as PromptExplanation,
        PromptRow as PromptRow,
        Why as Why,
        verify as verify,
    )
    from rehydrate.prompt.request import (
        Budget as Budget,
        ContextRequest as ContextRequest,
        ContextStrategy as ContextStrategy,
        ProviderPolicy as ProviderPolicy,
        TimeRange as TimeRange,
    )
    from rehydrate.prompt.section import (
        FULL_TRUST as FULL_TRUST,
        CompositionMode as CompositionMode,
        DroppedSection as DroppedSection,
        Meta as Meta,
        Outcome as Outcome,
        Position as Position,
        Priority as Priority,
        Provenance as Provenance,
        Section as Section,
        SourceReport as SourceReport,
        SourceStatus as SourceStatus,
        Stability as Stability,
        ToolDef as ToolDef,
        Trace as Trace,
    )
    from rehydrate.prompt.sources.source import (
        Found as Found,
        HydrationSource as HydrationSource,
        SourceRequest as SourceRequest,
    )

__all__, __dir__, __getattr__ = front(__name__)
