"""Sessions of other shapes than coding, airline and LoCoMo: made, for want of real ones.

Each is written from grammars and word lists, the same for the same number, and knows which of its
values later tool calls or a question at the end need. What is in them says nothing of how often
such sessions occur: they are there so that no constant fits one shape alone.
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
"""How a session of each shape is made, and how many there are."""


def sessions(shape: str, most: int | None = None, *, first: int = 0) -> list[Log]:
    """The sessions of a shape, or so many of them.

    From `first` on they are others than the usual ones: what was chosen on these is tried on those.
    """
    make, count = SHAPES[shape]
    return [make(number) for number in range(first, first + (count if most is None else most))]


__all__ = ["SHAPES", "sessions"]
