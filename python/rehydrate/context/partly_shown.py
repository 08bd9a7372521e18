"""PartlyShownTexts: the texts of entries of which the prompt shows a part, the rest being cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from rehydrate import formats
from rehydrate.compiler.originals import TRUST as TOOL_TRUST
from rehydrate.compiler.sources.cut_parts import PartlyShown
from rehydrate.errors import RehydrateError
from rehydrate.ir import FULL_TRUST, History
from rehydrate.messages import Message, PieceKind


class PartlyShownTexts:
    """Those of one conversation; what is the same object as last time is not read again."""

    __slots__ = ("_by_place", "_last")

    def __init__(self) -> None:
        """None yet."""
        self._by_place: dict[int, tuple[Any, tuple[PartlyShown, ...]]] = {}
        self._last: tuple[History | None, tuple[PartlyShown, ...]] = (None, ())

    def of(
        self, shown: History, entry_at: Callable[[int], Any], said_at: Callable[[int], datetime]
    ) -> tuple[PartlyShown, ...]:
        """Of each entry that is not shown as it came, the texts that differ."""
        if self._last[0] is shown:
            return self._last[1]
        known, self._by_place = self._by_place, {}
        for position, entry in enumerate(shown.entries):
            place = shown.place(position)
            original = entry_at(place)
            if entry is original:
                continue
            found = known.get(place)
            if found is None or found[0] is not entry:
                differing = _differing(original, entry, shown.format, place, said_at(place))
                found = entry, tuple(differing)
            self._by_place[place] = found
        texts = tuple([text for _, each in self._by_place.values() for text in each])
        self._last = shown, texts
        return texts


def _differing(
    original: Any,
    entry: Any,
    format: str,  # noqa: A002  the field's word
    place: int,
    time: datetime,
) -> Iterator[PartlyShown]:
    try:
        was, now = (formats.parse([one], format).messages for one in (original, entry))
    except RehydrateError:  # a line that means something beside others only
        return
    if not was:
        return
    texts, shown = _texts(was), _texts(now)
    pairs: Sequence[tuple[str, str]]
    if len(texts) == len(shown):
        pairs = list(zip(texts, shown, strict=True))
    else:
        pairs = [(text, "\n".join(shown)) for text in texts if text not in shown]
    trust = TOOL_TRUST if any(message.answers for message in was) else FULL_TRUST
    for text, part in pairs:
        if text != part:
            yield PartlyShown(
                str(place),
                text,
                part,
                item=f"history[{place}]",
                time=time,
                trust=trust,
            )


def _texts(messages: Sequence[Message]) -> list[str]:
    pieces = [piece for message in messages for piece in message.pieces]
    return [piece.text for piece in pieces if piece.kind is not PieceKind.THINKING]
