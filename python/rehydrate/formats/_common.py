"""The fast path: contents in the commonest shapes, read by the native module.

Whatever it does not know is left to the format's own reader, which knows every shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rehydrate._native import BlockReader
from rehydrate.messages import Message, Piece, PieceKind

if TYPE_CHECKING:
    Body = tuple[tuple[Piece, ...], int, tuple[str, ...], tuple[str, ...], bool]

__all__ = ["new_message", "read_common"]

_TEXT = PieceKind.TEXT
_read_blocks = BlockReader(
    Piece, (_TEXT, PieceKind.TOOL_INPUT, PieceKind.TOOL_RESULT, PieceKind.THINKING)
).read
# A named tuple's own constructor is written in Python; this one is not.
_new: Callable[..., Any] = tuple.__new__


def read_common(content: object) -> Body | None:
    """Pieces, images, calls, answers, and whether it is results alone; None: read it yourself.

    >>> read_common("hello")[0]
    (Piece(text='hello', kind=<PieceKind.TEXT: 0>),)
    >>> read_common([{"type": "image"}]) is None
    True
    """
    if type(content) is str and content:
        return (_new(Piece, (content, _TEXT)),), 0, (), (), False
    return _read_blocks(content)


def new_message(index: int, role: str, body: Body, is_user_turn: bool) -> Message:
    """The message of a body."""
    pieces, images, calls, answers, _ = body
    message: Message = _new(Message, (index, role, pieces, images, calls, answers, is_user_turn))
    return message
