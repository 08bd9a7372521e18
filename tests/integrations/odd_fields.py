"""Values that frameworks let into any field of a message."""

from __future__ import annotations

from typing import Any


def _cyclic() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


class NoText:
    def __repr__(self) -> str:
        raise ValueError("not shown")


ODD = [7, object(), NoText(), [[["a"]]], b"\xff", {1: {(2,): 3}}, float("nan"), _cyclic()]
