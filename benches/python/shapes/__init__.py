"""Generated sessions of other shapes than coding, airline and LoCoMo, for want of real ones.

Each is written from grammars and word lists, the same for the same number, and knows which of its
values later tool calls or a question at the end need. Their content says nothing about how often
such sessions occur: they prevent constants that fit only one shape.
"""

from collections.abc import Callable

from benches.python.shapes import chats, notebooks, research, support, web
from benches.python.shapes.log import Log

SHAPES: dict[str, tuple[Callable[[int], Log], int]] = {
    "notebooks": (notebooks.make, notebooks.SESSIONS),
    "web agents": (web.make, web.SESSIONS),
    "support": (support.make, support.SESSIONS),
    "research": (research.make, research.SESSIONS),
    "chats": (chats.make, chats.SESSIONS),
}
"""The generator of each shape, and the number of sessions."""


def sessions(shape: str, most: int | None = None, *, first: int = 0) -> list[Log]:
    """Return the sessions of a shape, or the first ones.

    With `first`, other sessions than the usual ones: choices made on the usual ones are tested on
    them.
    """
    make, count = SHAPES[shape]
    return [make(number) for number in range(first, first + (count if most is None else most))]


__all__ = ["SHAPES", "sessions"]
