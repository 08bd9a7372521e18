"""Turn: what came of one turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from rehydrate.cache.cost import Usage
from rehydrate.ir import PromptIR
from rehydrate.ir.wire import plain
from rehydrate.runtime.events import Event
from rehydrate.runtime.results import said

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
