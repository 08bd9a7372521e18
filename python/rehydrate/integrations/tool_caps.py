"""passes_with: the passes of a context whose tool results have caps of the host's choice."""

from __future__ import annotations

from rehydrate._check import check_type
from rehydrate.context.prompt_builder import own_passes
from rehydrate.prompt.caps import Caps
from rehydrate.prompt.passes.cap import CapToolResults
from rehydrate.prompt.target import Pass


def passes_with(caps: Caps) -> tuple[Pass, ...]:
    """Return the default passes with these caps, for one `Context`.

    A longer result is shown in part. With `ContextJIT` the model reads the whole by its handle.
    """
    check_type("caps", caps, Caps, "pass Caps(default_tokens=2_000)")
    capped = CapToolResults(caps)
    return tuple([capped if isinstance(step, CapToolResults) else step for step in own_passes()])
