"""Tiers: the tier of a file in a memory folder, and the hot memory of every turn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from rehydrate.memory.items import MemoryItem, Tier

HOT_FILE = "core.md"
ARCHIVE = "archive"
HOT_LINES = 100
"""The maximum number of lines of hot memory in a turn."""


@dataclass(frozen=True, slots=True)
class HotMemory:
    """The memory that goes into every turn."""

    text: str
    """At most 100 lines; "" where nothing is hot."""
    lines: int
    handles: tuple[str, ...]
    """The items in the text."""
    warning: str = ""
    """A note on the lines that were left out, with the remedy; "" where all fit."""
    trust: float = 1.0
    """Trust of the least trusted item in it."""


def tier_of(path: str) -> Tier:
    """Return the tier of a file, from its path in the folder.

    >>> tier_of("core.md"), tier_of("daily/2026-02-17.md"), tier_of("archive/2025/old.md")
    ('hot', 'warm', 'cold')
    """
    if path == HOT_FILE:
        return "hot"
    return "cold" if PurePosixPath(path).parts[0] == ARCHIVE else "warm"


def split_hot(text: str) -> tuple[str, str]:
    """Split a text into the lines that may be hot and those beyond the limit."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[:HOT_LINES]), "".join(lines[HOT_LINES:])


def too_many_lines(name: str, lines: int) -> str:
    """Return the warning for hot memory that is too long.

    >>> print(too_many_lines("core.md", 140))
    core.md has 140 lines, hot memory holds 100: lines 101-140 are found by searching only; move \
some to decisions.md
    """
    return (
        f"{name} has {lines} lines, hot memory holds {HOT_LINES}: lines {HOT_LINES + 1}-{lines} "
        "are found by searching only; move some to decisions.md"
    )


def hot_memory(items: Iterable[MemoryItem]) -> HotMemory:
    """Return the lines of the hot items, in their order, up to the limit."""
    lines: list[str] = []
    handles = []
    total, trust = 0, 1.0
    for item in items:
        its_lines = item.text.rstrip().splitlines()
        total += len(its_lines)
        if len(lines) < HOT_LINES:
            handles.append(item.handle)
            trust = min(trust, item.trust)
            lines += its_lines[: HOT_LINES - len(lines)]
    warning = too_many_lines("hot memory", total) if total > HOT_LINES else ""
    return HotMemory("\n".join(lines), len(lines), tuple(handles), warning, trust)
