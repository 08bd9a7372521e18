"""Target: for whom a prompt is compiled; and Pass: one step on the way there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from rehydrate.compact.outline import OutlineSize
from rehydrate.embedding.choice import BUILTIN, Choice
from rehydrate.messages import Provider
from rehydrate.prompt.compiled import USUAL_MINIMUM_PREFIX
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.meta import Trace
from rehydrate.prompt.originals import Originals
from rehydrate.prompt.render_cache import Known


@dataclass(frozen=True, slots=True)
class Target:
    """For whom a prompt is compiled: what a pass may know beside the IR."""

    provider: Provider = "anthropic"
    model: str = ""
    originals: Originals | None = None
    """Where a pass keeps the whole of what it shortens. None: nowhere."""
    minimum_prefix: int = USUAL_MINIMUM_PREFIX
    """A cache breakpoint is worth nothing on a shorter prefix."""
    thinking: str = "auto"
    """What becomes of the model's thinking behind something that is not as it was sent."""
    granularity: str = "message"
    """Whether prune keeps entries of the history whole, or also some blocks of one: "excerpt"."""
    outline: OutlineSize = False
    """Whether prune lists the names of what it leaves out, and in how many tokens."""
    embedder: Choice = BUILTIN
    """By what entries and sections are compared with what the turn asks for."""
    known: Known = field(default_factory=Known, repr=False, compare=False)
    """What the prompt before found out."""

    def keep(self, text: str) -> str | None:
        """The handle under which the whole is kept; None where nobody keeps it.

        What cannot be kept is left out all the same: a prompt over its budget helps nobody. The
        record of it then has no handle.
        """
        if self.originals is None:
            return None
        try:
            return str(self.originals.put(text))
        except Exception:
            return None


Pass = Callable[[PromptIR, Target], PromptIR]
"""A pure function from one IR to the next, which leaves one entry in ``meta.trace``."""


def pass_name(step: Pass) -> str:
    """What a pass is called in the trace: its `name`, or else that of the function."""
    return str(getattr(step, "name", None) or getattr(step, "__name__", type(step).__name__))


def traced(
    name: str,
    before: PromptIR,
    after: PromptIR,
    changed: Iterable[str] = (),
    notes: Iterable[str] = (),
) -> PromptIR:
    """The IR with an entry that says what a pass did.

    >>> traced("nothing", PromptIR(), PromptIR()).meta.trace[-1].name
    'nothing'
    """
    entry = Trace(name, before.tokens, after.tokens, tuple(changed), tuple(notes))
    return after.replace(meta=replace(after.meta, trace=(*after.meta.trace, entry)))
