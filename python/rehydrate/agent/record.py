"""TurnRecord: the steps, usage, events and notes of a running turn, and the Turn made of them."""

from __future__ import annotations

from collections.abc import Sequence

from rehydrate._text import safe_error_text
from rehydrate.agent.events import Event, Noted, OnEvent, Stopped, TextDelta, Turn, TurnEnded
from rehydrate.context.context import Context
from rehydrate.cost.prices import Price, Usage, cost


class TurnRecord:
    """Collects what happens in a turn and passes each event to the listeners."""

    def __init__(self, listeners: Sequence[OnEvent], price: Price | None) -> None:
        """Take the listeners, and the model's price if it is known."""
        self.listeners = listeners
        self.steps = 0
        self.answer = ""
        self._price = price
        self._usage = Usage()
        self._events: list[Event] = []
        self._notes: list[str] = []
        self._failed_listeners: list[OnEvent] = []

    @property
    def dollars(self) -> float | None:
        """The cost of the turn so far; None without a price."""
        return self._cost(self._usage)

    def count_reply(self, usage: Usage) -> float | None:
        """Add a reply of the model to the totals; return its cost, None without a price."""
        self.steps += 1
        self._usage = Usage.total([self._usage, usage])
        return self._cost(usage)

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

    def _cost(self, usage: Usage) -> float | None:
        return None if self._price is None else cost(usage, self._price)
