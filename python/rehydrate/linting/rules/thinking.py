"""thinking: what the model thought in turns that are over."""

from __future__ import annotations

from collections.abc import Iterator

from rehydrate.linting.finding import Finding
from rehydrate.linting.subject import Subject
from rehydrate.messages import PieceKind

LEFT_TOKENS = 1_000


def left_over(subject: Subject) -> Iterator[Finding]:
    """Thinking before the user's last words, where it is worth leaving out."""
    spoken = [
        place
        for place, text in enumerate(subject.texts)
        if text.role == "user" and text.kind is PieceKind.TEXT
    ]
    over = subject.texts[: spoken[-1]] if spoken else ()
    thoughts = [text for text in over if text.kind is PieceKind.THINKING]
    tokens = sum(text.tokens for text in thoughts)
    if tokens >= LEFT_TOKENS:
        yield Finding(
            "thinking",
            "info",
            thoughts[0].place,
            tokens,
            f"{len(thoughts)} thinking blocks of earlier turns, {tokens:,} tokens",
            'leave them out when you compact, all of them: compact_context(thinking="strip")',
        )
