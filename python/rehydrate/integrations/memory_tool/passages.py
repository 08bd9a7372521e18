"""Passages of files as items of a memory, so that a search finds what the model wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rehydrate.memory.folder import chunks
from rehydrate.memory.items import MemoryItem

if TYPE_CHECKING:
    from rehydrate.memory.memory import Memory

KIND = "memory_file"
TOOL = "memory"


def update_passages(
    memory: Memory, thread: str, texts: Mapping[str, str], paths: Iterable[str] | None, trust: float
) -> None:
    """Add the passages of these files that are new, then forget those that are gone.

    None as paths: all files, and what the memory has of others goes.
    """
    sources = None if paths is None else sorted(paths)
    stored: dict[tuple[str, str], str] = {
        (item.source, item.text): item.handle
        for item in memory.list(threads=[thread], sources=sources, limit=None)
    }
    wanted = {
        (item.source, item.text): item
        for path in (texts if sources is None else sources)
        if path in texts
        for item in _passages(memory, path, texts[path], thread, trust)
    }
    new = [item for key, item in wanted.items() if key not in stored]
    gone = [handle for key, handle in stored.items() if key not in wanted]
    if new:
        memory.add(new)
    if gone:
        memory.forget(gone)


def _passages(
    memory: Memory, path: str, text: str, thread: str, trust: float
) -> Iterable[MemoryItem]:
    for chunk in chunks(text):
        if chunk.body.strip():
            item = MemoryItem(
                chunk.text, kind=KIND, source=path, thread=thread, tool=TOOL, trust=trust
            )
            yield memory.as_stored(item)
