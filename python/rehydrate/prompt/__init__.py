"""The prompt: what may go into it (hydrate), what does (compile), and the IR between the two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.messages import PROVIDERS as PROVIDERS
    from rehydrate.messages import Provider as Provider
    from rehydrate.prompt.caps import (
        Caps as Caps,
    )
    from rehydrate.prompt.compiler import (
        BEGINNING as BEGINNING,
    )
    from rehydrate.prompt.compiler import (
        DEFAULT_PASSES as DEFAULT_PASSES,
    )
    from rehydrate.prompt.compiler import (
        acompile as acompile,
    )
    from rehydrate.prompt.compiler import (
        compile as compile,  # noqa: A004  the contract's word
    )
    from rehydrate.prompt.diff import (
        Change as Change,
    )
    from rehydrate.prompt.diff import (
        IRDiff as IRDiff,
    )
    from rehydrate.prompt.explain import (
        PromptExplanation as PromptExplanation,
    )
    from rehydrate.prompt.explain import (
        PromptRow as PromptRow,
    )
    from rehydrate.prompt.hydration import (
        HydrateOptions as HydrateOptions,
    )
    from rehydrate.prompt.hydration import (
        ahydrate as ahydrate,
    )
    from rehydrate.prompt.hydration import (
        ahydrate_source as ahydrate_source,
    )
    from rehydrate.prompt.hydration import (
        hydrate as hydrate,
    )
    from rehydrate.prompt.hydration import (
        hydrate_source as hydrate_source,
    )
    from rehydrate.prompt.ir import USUAL_MINIMUM_PREFIX as USUAL_MINIMUM_PREFIX
    from rehydrate.prompt.ir import CompiledPrompt as CompiledPrompt
    from rehydrate.prompt.ir import DroppedSection as DroppedSection
    from rehydrate.prompt.ir import History as History
    from rehydrate.prompt.ir import Meta as Meta
    from rehydrate.prompt.ir import PromptIR as PromptIR
    from rehydrate.prompt.ir import Segment as Segment
    from rehydrate.prompt.ir import SourceReport as SourceReport
    from rehydrate.prompt.ir import SourceStatus as SourceStatus
    from rehydrate.prompt.ir import Trace as Trace
    from rehydrate.prompt.laws import (
        BrokenLaw as BrokenLaw,
    )
    from rehydrate.prompt.laws import (
        Law as Law,
    )
    from rehydrate.prompt.laws import (
        verify as verify,
    )
    from rehydrate.prompt.originals import (
        HeldOriginals as HeldOriginals,
    )
    from rehydrate.prompt.originals import (
        MemoryOriginals as MemoryOriginals,
    )
    from rehydrate.prompt.originals import (
        Originals as Originals,
    )
    from rehydrate.prompt.passes.cap import (
        CapToolResults as CapToolResults,
    )
    from rehydrate.prompt.passes.echo import (
        RemoveEchoes as RemoveEchoes,
    )
    from rehydrate.prompt.request import (
        Budget as Budget,
    )
    from rehydrate.prompt.request import (
        ContextRequest as ContextRequest,
    )
    from rehydrate.prompt.request import (
        ContextStrategy as ContextStrategy,
    )
    from rehydrate.prompt.request import (
        TimeRange as TimeRange,
    )
    from rehydrate.prompt.section import FULL_TRUST as FULL_TRUST
    from rehydrate.prompt.section import CompositionMode as CompositionMode
    from rehydrate.prompt.section import Position as Position
    from rehydrate.prompt.section import Priority as Priority
    from rehydrate.prompt.section import Provenance as Provenance
    from rehydrate.prompt.section import Section as Section
    from rehydrate.prompt.section import Stability as Stability
    from rehydrate.prompt.section import ToolDef as ToolDef
    from rehydrate.prompt.sources.source import (
        Found as Found,
    )
    from rehydrate.prompt.sources.source import (
        HydrationSource as HydrationSource,
    )
    from rehydrate.prompt.sources.source import (
        SourceRequest as SourceRequest,
    )
    from rehydrate.prompt.target import (
        Pass as Pass,
    )
    from rehydrate.prompt.target import (
        Target as Target,
    )

__all__, __dir__, __getattr__ = front(
    __name__,
    {
        "caps": "Caps",
        "compiler": "BEGINNING DEFAULT_PASSES acompile compile",
        "diff": "Change IRDiff",
        "explain": "PromptExplanation PromptRow",
        "hydration": "HydrateOptions ahydrate ahydrate_source hydrate hydrate_source",
        "rehydrate.messages": "PROVIDERS Provider",
        "ir": (
            "CompiledPrompt DroppedSection History Meta PromptIR Segment "
            "SourceReport SourceStatus Trace USUAL_MINIMUM_PREFIX "
        ),
        "laws": "BrokenLaw Law verify",
        "originals": "HeldOriginals MemoryOriginals Originals",
        "passes.cap": "CapToolResults",
        "passes.echo": "RemoveEchoes",
        "request": "Budget ContextRequest ContextStrategy TimeRange",
        "section": (
            "CompositionMode FULL_TRUST Position Priority Provenance Section Stability ToolDef "
        ),
        "sources.source": "Found HydrationSource SourceRequest",
        "target": "Pass Target",
    },
    internal={
        "caps": "cap_text",
        "caps.cutting": "NOTICE_TOKENS boundary notice",
        "caps.kinds": "Kind kind_of",
        "caps.results": "Tools texts_of",
        "counting": "COUNTER fence fenced prompt_tokens room text_tokens upper_bound",
        "originals": "About",
        "passes.cap": "cap_tool_results",
        "passes.deduplicate": "deduplicate",
        "passes.echo": "remove_echoes",
        "passes.layout": "by_edges order place_breakpoints",
        "passes.repeats": "Anchors Seen Source own_strings",
        "render_cache": "digest_of",
        "sources.given": "history system tools",
        "sources.knowledge": "FOLDER_SUFFIXES",
        "sources.memory": "MIN_RELEVANCE hot relevant semantic temporal",
        "sources.running": "MOST_LEFT_BEHIND",
        "sources.source": "TIMEOUT",
        "splicing": "heading_tokens splice",
    },
)
