"""The events of a turn, its result (`Turn`), and what collects them (`TurnRecord`)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rehydrate._text import error_text, safe_error_text
from rehydrate.context.context import Context
from rehydrate.cost.prices import Price, Usage, cost
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.serialize import plain

if TYPE_CHECKING:
    from rehydrate.agent.model import Stop


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
"""Why a turn ended: the model is done; one of three limits; the token budget; the model refused, or
ran out of output tokens; the provider failed or something raised; the turn was cancelled."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The result of a turn: the answer, the events, the cost, and the state for the next turn.

    Whatever stopped the turn, the history is valid and complete.
    """

    answer: str
    """The model's last text."""
    stopped: Stopped
    events: tuple[Event, ...] = field(default=(), repr=False)
    """In order, without `TextDelta` (the history has the text) and `TurnEnded`."""
    steps: int = 0
    """The number of the model's replies."""
    usage: Usage = Usage()  # noqa: RUF009  it is a tuple
    dollars: float | None = None
    """None if the model's price is not known."""
    history: tuple[Any, ...] = field(default=(), repr=False, hash=False)
    """The whole conversation."""
    ir: PromptIR | None = field(default=None, repr=False)
    """The PromptIR of the last prompt; None if there was no prompt."""
    error: BaseException | None = None
    """The exception that stopped the turn, if there was one."""
    notes: tuple[str, ...] = ()
    """Problems that did not stop the turn, such as a repaired reply."""

    @property
    def is_answered(self) -> bool:
        """Whether the model finished its answer."""
        return self.stopped == "answer"

    def outcome(self, *, with_content: bool = True) -> dict[str, Any]:
        """Return the result as JSON values, without events, history and IR."""
        outcome: dict[str, Any] = {
            "stopped": self.stopped,
            "steps": self.steps,
            "usage": self.usage._asdict(),
            "dollars": self.dollars,
            "entries": len(self.history),
            "error": None if self.error is None else type(self.error).__name__,
        }
        if with_content:
            error = None if self.error is None else error_text(self.error)
            outcome |= {"answer": self.answer, "error": error, "notes": list(self.notes)}
        return outcome

    def to_dict(self) -> dict[str, Any]:
        """Return the whole Turn as JSON values.

        Raises UnreadableIRError for an entry of the history that has no form in JSON.

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
    """Base of all events of a turn. Their texts may be private: a log should leave them out."""

    name: ClassVar[str] = "event"
    """Made of the class's name: `TextDelta` is "text_delta"."""
    content: ClassVar[tuple[str, ...]] = ()
    """The fields that hold texts of the user, the model or a tool."""

    def __init_subclass__(cls, content: tuple[str, ...] = ()) -> None:
        """Take the content fields. With slots a class is made twice, at last without them."""
        cls.name = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        cls.content = content or cls.content

    def to_dict(self, *, with_content: bool = True) -> dict[str, Any]:
        """Return its name and fields as JSON values; without the content fields if asked."""
        names = [each.name for each in dataclasses.fields(self)]
        shown = [name for name in names if with_content or name not in self.content]
        values = {name: _json_value(getattr(self, name), with_content) for name in shown}
        return {"event": self.name, **values}


OnEvent = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class TurnStarted(Event, content=("query",)):
    """The turn began. `query` is None if it goes on from what was added to the context."""

    query: str | None
    provider: str
    model: str
    thread: str = ""


@dataclass(frozen=True, slots=True)
class PromptBuilt(Event, content=("summaries", "provider_summaries")):
    """A prompt is ready to send; and how much of it the provider's cache should have."""

    step: int
    tokens: int
    upper_bound_tokens: int
    """The most that the provider may count."""
    shared_tokens: int
    """Tokens of the prefix that it shares with the prompt before."""
    is_prefix_kept: bool
    """Whether it begins with everything that the provider was asked to cache."""
    sections: int
    elapsed_ms: float
    is_compacted: bool = False
    """Whether it has a part of the conversation, or a summary of a part."""
    summaries: tuple[str, ...] = ()
    """The texts that tell the model what it does not see: the summary, and the outline of a cut."""
    provider_summaries: tuple[str, ...] = ()
    """The provider's own summaries in it; "" for one that is encrypted."""


@dataclass(frozen=True, slots=True)
class SectionAdded(Event):
    """A section from a source, such as a memory, is now in the prompt."""

    id: str
    source: str
    tokens: int
    late_bound: bool
    """Whether the model asked for it during the turn."""


@dataclass(frozen=True, slots=True)
class TextDelta(Event, content=("text",)):
    """A piece of the model's text, as it arrives.

    After a `Retrying` the text of the step begins again: discard what was shown of this step.
    """

    step: int
    text: str


@dataclass(frozen=True, slots=True)
class ModelReplied(Event, content=("text", "provider_summaries")):
    """The model replied, with an answer or tool calls."""

    step: int
    stop: Stop
    calls: int
    usage: Usage
    dollars: float | None
    """None if the model's price is not known."""
    elapsed_ms: float
    model: str = ""
    response_id: str = ""
    text: str = ""
    provider_summaries: tuple[str, ...] = ()
    """The provider's own summaries in the reply; "" for one that is encrypted."""


@dataclass(frozen=True, slots=True)
class InputTransformed(Event):
    """The provider changed the prompt before the model read it: for example, it dropped a thinking
    block whose prefix has changed."""

    step: int
    transformations: tuple[Mapping[str, Any], ...] = field(hash=False)
    """As the provider reports them, with type, path and reason."""


@dataclass(frozen=True, slots=True)
class ToolStarted(Event, content=("arguments",)):
    """A tool call began."""

    step: int
    call_id: str
    tool: str
    arguments: Any = field(default=None, hash=False)
    """As the model sent them: an object, or its JSON, which may be invalid."""


@dataclass(frozen=True, slots=True)
class ToolEnded(Event, content=("result",)):
    """A tool call returned, failed, or was cancelled."""

    step: int
    call_id: str
    tool: str
    is_error: bool
    chars: int
    elapsed_ms: float
    result: str = ""


@dataclass(frozen=True, slots=True)
class ContextRequested(Event, content=("query",)):
    """A call of a `ContextJIT` tool was answered."""

    step: int
    call_id: str
    tool: str
    query: str
    scope: str | None
    found: int
    """Number of sections in the answer."""
    tokens: int
    remaining: int
    """Number of sections that were found and had no room."""
    is_error: bool
    elapsed_ms: float
    degraded: tuple[str, ...] = ()
    """Failures, each with what was done instead."""


@dataclass(frozen=True, slots=True)
class Compacted(Event):
    """The history was compacted. A UI may draw a divider here."""

    before_tokens: int
    after_tokens: int
    why: Literal["budget", "overflow"]
    """The soft budget was exceeded, or the provider refused the prompt as too long."""


@dataclass(frozen=True, slots=True)
class Retrying(Event):
    """The provider failed; the prompt is sent again after a wait."""

    step: int
    error: Exception
    attempt: int
    """The number of the next attempt."""
    delay_seconds: float


@dataclass(frozen=True, slots=True)
class BudgetSpent(Event):
    """Steps, tokens and dollars of the turn and its job so far, and their limits."""

    steps: int
    max_steps: int
    window_tokens: int
    """Upper bound for the last prompt."""
    soft_tokens: int
    hard_tokens: int
    job_tokens: int
    max_job_tokens: int | None
    dollars: float | None
    max_dollars: float | None


@dataclass(frozen=True, slots=True)
class Noted(Event, content=("note",)):
    """A problem that did not stop the turn."""

    note: str


@dataclass(frozen=True, slots=True)
class TurnEnded(Event):
    """The last event of every turn."""

    turn: Turn = field(hash=False)

    def to_dict(self, *, with_content: bool = True) -> dict[str, Any]:
        """Return the turn's outcome; `turn.to_dict()` has the rest."""
        return {"event": self.name, **self.turn.outcome(with_content=with_content)}


def _json_value(value: Any, with_content: bool) -> Any:
    if isinstance(value, BaseException):
        return error_text(value) if with_content else type(value).__name__
    try:
        return plain(value)
    except (ValueError, RecursionError):  # a user's own model may put any object here
        return repr(value)


class TurnRecord:
    """Collects the events of a turn and passes each to the listeners."""

    def __init__(self, listeners: Sequence[OnEvent], price: Price | None) -> None:
        """Take the listeners, and the model's price if it is known."""
        self.listeners = listeners
        self.steps = 0
        self.answer = ""
        self._price = price
        self._usage = Usage()
        self._dollars = 0.0
        self._events: list[Event] = []
        self._notes: list[str] = []
        self._failed_listeners: list[OnEvent] = []

    @property
    def dollars(self) -> float | None:
        """The cost of the turn so far; None without a price."""
        return None if self._price is None else self._dollars

    def count_reply(self, usage: Usage) -> float | None:
        """Add a reply of the model to the totals; return its cost, None without a price."""
        self.steps += 1
        self._usage = Usage.total([self._usage, usage])
        if self._price is None:
            return None
        dollars = cost(usage, self._price)
        self._dollars += dollars
        return dollars

    def emit(self, event: Event) -> None:
        """Pass an event to every listener.

        If a listener raises, a note names it once; it still gets the events that follow.
        """
        if not isinstance(event, (TextDelta, TurnEnded)):
            self._events.append(event)
        for listener in self.listeners:
            try:
                listener(event)
            except Exception as error:
                if listener not in self._failed_listeners:
                    self._failed_listeners.append(listener)
                    self._notes.append(
                        f"on_event failed at {event.name}: {safe_error_text(error, 'on_event')}"
                    )

    def note(self, note: str) -> None:
        """Keep a note for the Turn, and emit it."""
        self._notes.append(note)
        self.emit(Noted(note))

    def end(self, stopped: Stopped, error: BaseException | None, context: Context) -> Turn:
        """Emit the last event and return the Turn."""
        self.emit(TurnEnded(self._turn(stopped, error, context)))
        return self._turn(stopped, error, context)  # again: a listener may have failed just now

    def _turn(self, stopped: Stopped, error: BaseException | None, context: Context) -> Turn:
        return Turn(
            answer=self.answer,
            stopped=stopped,
            events=tuple(self._events),
            steps=self.steps,
            usage=self._usage,
            dollars=self.dollars,
            history=tuple(context.history),
            ir=context.ir,
            error=error,
            notes=tuple(self._notes),
        )
