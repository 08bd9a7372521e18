"""For tests of codecs: odd values of fields, and what a prompt shows of a host's entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rehydrate.integrations.host_thread import Shown


def _cyclic() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


class NoText:
    def __repr__(self) -> str:
        raise ValueError("not shown")


ODD = [7, object(), NoText(), [[["a"]]], b"\xff", {1: {(2,): 3}}, float("nan"), _cyclic()]


def shown_of(entries: Sequence[Any], *indices: int | str, **changed: Any) -> list[Shown]:
    """Return the entries at these indices, and a section of context for each text; ``e2={...}`` is
    what is changed in the chat dict of entry 2."""
    return [
        Shown(None, {"role": "user", "content": index})
        if isinstance(index, str)
        else Shown(index, {**entries[index].chat, **changed.get(f"e{index}", {})})
        for index in indices
    ]
