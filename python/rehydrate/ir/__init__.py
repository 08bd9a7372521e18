"""The IR: frozen values that say what goes into a prompt, why and at what cost; and their laws."""

from rehydrate.ir.budget import Budget
from rehydrate.ir.compiled import (
    PROVIDERS,
    USUAL_MINIMUM_PREFIX,
    CompiledPrompt,
    Provider,
    Segment,
)
from rehydrate.ir.diff import Change, IRDiff
from rehydrate.ir.explain import PromptExplanation, PromptRow
from rehydrate.ir.prompt import (
    DroppedSection,
    History,
    Meta,
    PromptIR,
    SourceReport,
    SourceStatus,
    Trace,
)
from rehydrate.ir.request import ContextRequest, ContextStrategy, TimeRange
from rehydrate.ir.section import (
    FULL_TRUST,
    CompositionMode,
    Position,
    Priority,
    Provenance,
    Section,
    Stability,
)
from rehydrate.ir.tool import ToolDef
from rehydrate.ir.verify import BrokenLaw, Law

__all__ = [
    "FULL_TRUST",
    "PROVIDERS",
    "USUAL_MINIMUM_PREFIX",
    "BrokenLaw",
    "Budget",
    "Change",
    "CompiledPrompt",
    "CompositionMode",
    "ContextRequest",
    "ContextStrategy",
    "DroppedSection",
    "History",
    "IRDiff",
    "Law",
    "Meta",
    "Position",
    "Priority",
    "PromptExplanation",
    "PromptIR",
    "PromptRow",
    "Provenance",
    "Provider",
    "Section",
    "Segment",
    "SourceReport",
    "SourceStatus",
    "Stability",
    "TimeRange",
    "ToolDef",
    "Trace",
]
