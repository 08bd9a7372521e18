"""Helpers that make segments for the tests of the cache's arithmetic."""

from __future__ import annotations

from rehydrate.prompt import Segment


def seg(
    digest: str, tokens: int = 1_000, *, mark: bool = False, kind: str = "message", blocks: int = 1
) -> Segment:
    """Return a segment whose digest is its content."""
    return Segment(digest, kind, tokens, digest, "static", blocks, mark)


def row(digests: str, *, marks: str = "", tokens: int = 1_000) -> list[Segment]:
    """Return one segment for each letter; those in `marks` end at a breakpoint."""
    return [seg(letter, tokens, mark=letter in marks) for letter in digests]
