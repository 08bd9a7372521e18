"""LateBinding: what the model asked for since the last prompt, until its results are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rehydrate.compiler.splice import late_tokens
from rehydrate.ir import Section
from rehydrate.messages import Message, PieceKind

RESULT_TOKENS = 200
"""What a result says beside the sections costs at most."""


class LateBinding:
    """Sections by the call that asked for them.

    They are waited for until the next prompt is sent: who sends it has put all results in. A
    result that never comes into the history (the turn was cancelled, the loop put something else
    in its place) binds nothing: its sections can be asked for again.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        """Nothing was asked for yet."""
        self._waiting: dict[str, tuple[Section, ...]] = {}

    def copy(self) -> LateBinding:
        """What is waited for now."""
        copy = LateBinding()
        copy._waiting = dict(self._waiting)
        return copy

    def wait(self, carrier: str, sections: Iterable[Section]) -> None:
        """Note what the result of this call will show; a second result shows more."""
        self._waiting[carrier] = (*self._waiting.get(carrier, ()), *sections)

    def __bool__(self) -> bool:
        """Whether anything is waited for."""
        return bool(self._waiting)

    @property
    def sections(self) -> list[Section]:
        """All that is waited for."""
        return [section for sections in self._waiting.values() for section in sections]

    @property
    def tokens(self) -> int:
        """Of all that is waited for, with what each result says beside."""
        return sum(map(late_tokens, self.sections)) + RESULT_TOKENS * len(self._waiting)

    def bound(self, messages: Sequence[Message]) -> Iterator[Section]:
        """What these messages show of it."""
        for message in messages:
            for carrier in self._waiting.keys() & set(message.answers):
                results = [p.text for p in message.pieces if p.kind == PieceKind.TOOL_RESULT]
                for section in self._waiting[carrier]:
                    if any(str(section.content) in text for text in results):
                        yield section

    def settle(self, messages: Sequence[Message]) -> None:
        """These messages are taken in: nobody waits for their results any more."""
        for answer in [answer for message in messages for answer in message.answers]:
            self._waiting.pop(answer, None)

    def give_up(self, carrier: str, sections: Sequence[Section] | None = None) -> None:
        """Wait no more for these sections of a call, or for all of them."""
        waiting = self._waiting.pop(carrier, ())
        left = [one for one in waiting if sections is not None and one not in sections]
        if left:
            self._waiting[carrier] = tuple(left)

    def give_all_up(self) -> None:
        """Wait no more for anything."""
        self._waiting.clear()
