"""Turn: what came of one turn.

What happens in a turn, as frozen values: for a UI, a log, OpenTelemetry.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rehydrate._text import said
from rehydrate.cost.prices import Usage
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.serialize import plain

if TYPE_CHECKING:
    from rehydrate.agent.models.model import Stop


Stopped = Literal[
    "answer",
    "step_limit",
    "time_limit",
    "money_limit",
    "budget_exceeded",
    "refusal",
    "length",
    "failed",
    "cancelled",
]
"""Why a turn ended: the model is done; a limit; the token budget; the model will not say it, or ran
out of output tokens; the provider gave no answer, or something raised; it was cancelled."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The answer, what happened, what it cost, and the state that the next turn goes on from.

    Whatever stopped it, the history is valid and nothing that happened is missing from it.
    """

    answer: str
    """What the model said last."""
    stopped: Stopped
    events: tuple[Event, ...] = field(default=(), repr=False)
    """In order; the pieces of text, which the history has, and the last event are left out."""
    steps: int = 0
    """How often the model answered."""
    usage: Usage = Usage()  # noqa: RUF009  it is a tuple
    dollars: float | None = None
    """None where the model's price is not known."""
    history: tuple[Any, ...] = field(default=(), repr=False, hash=False)
    """All of the conversation."""
    ir: PromptIR | None = field(default=None, repr=False)
    """What the last prompt was rendered from; None where there was none."""
    error: BaseException | None = None
    """What stopped it, where something was raised."""
    notes: tuple[str, ...] = ()
    """What somebody should know, and what stopped nothing."""

    @property
    def is_answered(self) -> bool:
        """Whether the model came to an end by itself."""
        return self.stopped == "answer"

    def outcome(self, *, with_content: bool = True) -> dict[str, Any]:
        """How it went, as values that JSON has, without events, history and IR."""
        about: dict[str, Any] = {
            "stopped": self.stopped,
            "steps": self.steps,
            "usage": self.usage._asdict(),
            "dollars": self.dollars,
            "entries": len(self.history),
            "error": None if self.error is None else type(self.error).__name__,
        }
        if with_content:
            error = None if self.error is None else said(self.error)
            about |= {"answer": self.answer, "error": error, "notes": list(self.notes)}
        return about

    def to_dict(self) -> dict[str, Any]:
        """All of it, as values that JSON has.

        Raises UnreadableIRError for an entry of the history that JSON has no words for.

        >>> Turn("Berth 4.", "answer", steps=1).to_dict()["answer"]
        'Berth 4.'
        """
        return {
            **self.outcome(),
            "events": [event.to_dict() for event in self.events],
            "history": plain(self.history, "history"),
            "ir": None if self.ir is None else self.ir.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class Event:
    """Anything that happens in a turn. Texts in it may be private: a log should leave them out."""

    name: ClassVar[str] = "event"
    content: ClassVar[tuple[str, ...]] = ()
    """The fields that hold what was said, rather than how it went."""

    def to_dict(self, *, with_content: bool = True) -> dict[str, Any]:
        """Its name and fields, as values that JSON has."""
        fields = [
            one.name
            for one in dataclasses.fields(self)
            if with_content or one.name not in self.content
        ]
        said = {each: _plain(getattr(self, each), with_content=with_content) for each in fields}
        return {"event": self.name, **said}


OnEvent = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class TurnStarted(Event):
    """The user spoke; `query` is None where the turn goes on from what was added."""

    name: ClassVar[str] = "turn_started"
    content: ClassVar[tuple[str, ...]] = ("query",)
    query: str | None
    provider: str
    model: str
    thread: str = ""


@dataclass(frozen=True, slots=True)
class PromptBuilt(Event):
    """The next prompt is there, and how much of it the provider's cache should have."""

    name: ClassVar[str] = "prompt_built"
    step: int
    tokens: int
    upper_bound_tokens: int
    """What the provider may count at most."""
    shared_tokens: int
    """Of the beginning that the prompt before has too."""
    is_prefix_kept: bool
    """Whether it begins with all that the cache was told to keep."""
    sections: int
    elapsed_ms: float


@dataclass(frozen=True, slots=True)
class SectionAdded(Event):
    """Something from memory or knowledge came into the prompt."""

    name: ClassVar[str] = "section_added"
    id: str
    source: str
    tokens: int
    late_bound: bool
    """Whether the model asked for it in the middle of the turn."""


@dataclass(frozen=True, slots=True)
class TextDelta(Event):
    """A piece of what the model says, as it comes.

    After a `Retrying` the text begins again: what was shown of this step is to be taken back.
    """

    name: ClassVar[str] = "text_delta"
    content: ClassVar[tuple[str, ...]] = ("text",)
    step: int
    text: str


@dataclass(frozen=True, slots=True)
class ModelReplied(Event):
    """The model answered, or calls tools."""

    name: ClassVar[str] = "model_replied"
    content: ClassVar[tuple[str, ...]] = ("text",)
    step: int
    stop: Stop
    calls: int
    usage: Usage
    dollars: float | None
    """None where the model's price is not known."""
    elapsed_ms: float
    model: str = ""
    response_id: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class InputTransformed(Event):
    """The provider changed the prompt before the model saw it, as by dropping a thinking block
    whose prefix is not what it was."""

    name: ClassVar[str] = "input_transformed"
    step: int
    transformations: tuple[Mapping[str, Any], ...] = field(hash=False)
    """As the provider says them: type, path and reason."""


@dataclass(frozen=True, slots=True)
class ToolStarted(Event):
    """A tool is called."""

    name: ClassVar[str] = "tool_started"
    content: ClassVar[tuple[str, ...]] = ("arguments",)
    step: int
    call_id: str
    tool: str
    arguments: Any = field(default=None, hash=False)
    """As the model sent them: an object, or a text that should have been one."""


@dataclass(frozen=True, slots=True)
class ToolEnded(Event):
    """A tool answered, failed, or was cut short."""

    name: ClassVar[str] = "tool_ended"
    content: ClassVar[tuple[str, ...]] = ("result",)
    step: int
    call_id: str
    tool: str
    is_error: bool
    chars: int
    elapsed_ms: float
    result: str = ""


@dataclass(frozen=True, slots=True)
class ContextRequested(Event):
    """The model asked for context by itself, and got it."""

    name: ClassVar[str] = "context_requested"
    content: ClassVar[tuple[str, ...]] = ("query",)
    step: int
    call_id: str
    tool: str
    query: str
    scope: str | None
    found: int
    """Sections."""
    tokens: int
    remaining: int
    """What was found and had no room."""
    is_error: bool
    elapsed_ms: float
    degraded: tuple[str, ...] = ()
    """What did not work, and was done otherwise."""


@dataclass(frozen=True, slots=True)
class Compacted(Event):
    """The history was made shorter: a UI may draw its divider here."""

    name: ClassVar[str] = "compacted"
    before_tokens: int
    after_tokens: int
    why: Literal["budget", "overflow"]
    """The soft budget was crossed, or the provider refused the prompt as too long."""


@dataclass(frozen=True, slots=True)
class Retrying(Event):
    """The provider gave no answer, and is asked again after a while."""

    name: ClassVar[str] = "retrying"
    step: int
    error: Exception
    attempt: int
    """The one that comes."""
    delay_seconds: float


@dataclass(frozen=True, slots=True)
class BudgetSpent(Event):
    """How far the turn and its job have come, against their limits."""

    name: ClassVar[str] = "budget_spent"
    steps: int
    max_steps: int
    window_tokens: int
    """Of the last prompt, as an upper bound."""
    soft_tokens: int
    hard_tokens: int
    job_tokens: int
    max_job_tokens: int | None
    dollars: float | None
    max_dollars: float | None


@dataclass(frozen=True, slots=True)
class Noted(Event):
    """Something that somebody should know, and that stopped nothing."""

    name: ClassVar[str] = "noted"
    content: ClassVar[tuple[str, ...]] = ("note",)
    note: str


@dataclass(frozen=True, slots=True)
class TurnEnded(Event):
    """The last event of every turn."""

    name: ClassVar[str] = "turn_ended"
    turn: Turn = field(hash=False)

    def to_dict(self, *, with_content: bool = True) -> dict[str, Any]:
        """The turn's outcome; what it made is in `turn.to_dict()`."""
        return {"event": self.name, **self.turn.outcome(with_content=with_content)}


def _plain(value: Any, *, with_content: bool) -> Any:
    if isinstance(value, BaseException):
        return said(value) if with_content else type(value).__name__
    try:
        return plain(value)
    except (ValueError, RecursionError):  # what a model of somebody's own makes
        return repr(value)
