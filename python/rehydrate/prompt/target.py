"""Target and Pass: the settings of a compilation, and the type of its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from rehydrate.compact.outline import OutlineSize
from rehydrate.embedding.choice import BUILTIN, Choice
from rehydrate.messages import Provider
from rehydrate.prompt.compiled import USUAL_MINIMUM_PREFIX
from rehydrate.prompt.content import Trace
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.originals import Originals
from rehydrate.prompt.render_cache import RenderCache


@dataclass(frozen=True, slots=True)
class Target:
    """The provider and the settings of a compilation: what a pass reads besides the IR."""

    provider: Provider = "anthropic"
    model: str = ""
    originals: Originals | None = None
    """Where a pass stores the whole of a text that it shortens. None: nowhere."""
    minimum_prefix: int = USUAL_MINIMUM_PREFIX
    """Tokens. The provider does not cache a shorter prefix."""
    thinking: str = "auto"
    """How to treat the model's thinking after a change: "auto" leaves it out where the model
    refuses it there, "keep" keeps it."""
    granularity: str = "message"
    """How prune treats an entry: "message" keeps or drops it whole, "excerpt" may keep some of its
    blocks."""
    outline: OutlineSize = False
    """Whether prune lists the names in what it leaves out, and in how many tokens."""
    embedder: Choice = BUILTIN
    """The model that compares entries and sections with the turn's query."""
    render_cache: RenderCache = field(default_factory=RenderCache, repr=False, compare=False)
    """Facts about the messages of the last prompt."""

    def keep(self, text: str) -> str | None:
        """Store a text that is left out, and return its handle; None where it is not stored.

        The text is left out in either case, since a prompt over its budget cannot be sent. Then the
        record of it has no handle.
        """
        if self.originals is None:
            return None
        try:
            return str(self.originals.put(text))
        except Exception:
            return None


Pass = Callable[[PromptIR, Target], PromptIR]
"""A pure function from one IR to the next. It adds one entry to ``meta.trace``."""


def pass_name(step: Pass) -> str:
    """Return the name of a pass in the trace: its `name`, or else the function's."""
    return str(getattr(step, "name", None) or getattr(step, "__name__", type(step).__name__))


def traced(
    name: str,
    before: PromptIR,
    after: PromptIR,
    changed: Iterable[str] = (),
    notes: Iterable[str] = (),
) -> PromptIR:
    """Return `after` with a trace entry for the pass.

    >>> traced("nothing", PromptIR(), PromptIR()).meta.trace[-1].name
    'nothing'
    """
    entry = Trace(name, before.tokens, after.tokens, tuple(changed), tuple(notes))
    return after.replace(meta=replace(after.meta, trace=(*after.meta.trace, entry)))
