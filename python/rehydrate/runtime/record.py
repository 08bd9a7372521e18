"""Record: what is known of a turn while it runs, and whom it is told."""

from __future__ import annotations

from collections.abc import Sequence

from rehydrate.cache.cost import Usage, cost
from rehydrate.cache.prices import Price
from rehydrate.context import Context
from rehydrate.failing import words_of
from rehydrate.runtime.events import Event, Noted, OnEvent, TextDelta, TurnEnded
from rehydrate.runtime.turn import Stopped, Turn


class Record:
    """Steps, usage, events and notes, and in the end the Turn that is made of them."""

    def __init__(self, listeners: Sequence[OnEvent], price: Price | None) -> None:
        """Take whom it is told, and what the model costs."""
        self.listeners = listeners
        self.steps = 0
        self.answer = ""
        self._price = price
        self._usage = Usage()
        self._events: list[Event] = []
        self._notes: list[str] = []
        self._failed: list[OnEvent] = []

    @property
    def dollars(self) -> float | None:
        """What the turn has cost; None without a price."""
        return self._cost(self._usage)

    def step(self, usage: Usage) -> float | None:
        """The model has replied for so many tokens: what that cost."""
        self.steps += 1
        self._usage = Usage.total([self._usage, usage])
        return self._cost(usage)

    def tell(self, event: Event) -> None:
        """Tell everybody; whoever fails at it is named once, and told what comes nevertheless."""
        if not isinstance(event, (TextDelta, TurnEnded)):
            self._events.append(event)
        for listener in self.listeners:
            try:
                listener(event)
            except Exception as error:
                if listener not in self._failed:
                    self._failed.append(listener)
                    self._notes.append(
                        f"on_event failed at {event.name}: {words_of(error, 'on_event')}"
                    )

    def note(self, note: str) -> None:
        """Keep it for whoever reads the turn, and tell it."""
        self._notes.append(note)
        self.tell(Noted(note))

    def end(self, stopped: Stopped, error: BaseException | None, context: Context) -> Turn:
        """The turn, told as the last event."""
        turn = self._turn(stopped, error, context)
        self.tell(TurnEnded(turn))
        return self._turn(stopped, error, context)  # with what failed at the last event

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
