"""Sessions that each make one mistake."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

Entry = dict[str, Any]


def prose(words: int, seed: int) -> str:
    """Return words that no other text has."""
    dice = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    made = ("".join(dice.choices(letters, k=dice.randint(4, 9))) for _ in range(words))
    lines = iter(lambda: " ".join(itertools.islice(made, 10)), "")
    return "\n".join(lines)


@pytest.fixture
def session() -> Callable[..., list[Entry]]:
    """`session((tool, input, result), ...)`: the user asks, the tools answer, the user thanks."""

    def session(*calls: tuple[str, dict[str, Any], str], after: int = 0) -> list[Entry]:
        entries: list[Entry] = [{"role": "user", "content": "Please look into it."}]
        for number, (tool, value, result) in enumerate(calls):
            call = {"type": "tool_use", "id": f"t{number}", "name": tool, "input": value}
            answer = {"type": "tool_result", "tool_use_id": f"t{number}", "content": result}
            entries.append({"role": "assistant", "content": [call]})
            entries.append({"role": "user", "content": [answer]})
        for number in range(after):
            entries.append({"role": "assistant", "content": f"Step {number} is done."})
            entries.append({"role": "user", "content": "Go on."})
        return entries

    return session
