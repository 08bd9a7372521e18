"""What a prompt shows of a host's entries, to be picked from its own messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rehydrate.integrations.host_thread import Shown


def shown_of(entries: Sequence[Any], *indices: int | str, **changed: Any) -> list[Shown]:
    """Return the entries at these indices, and a section of context for each text; ``e2={...}`` is
    what is changed in the chat dict of entry 2."""
    return [
        Shown(None, {"role": "user", "content": index})
        if isinstance(index, str)
        else Shown(index, {**entries[index].chat, **changed.get(f"e{index}", {})})
        for index in indices
    ]
