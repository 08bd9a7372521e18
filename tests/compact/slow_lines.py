"""A slow, obvious check of the engine's `lines`, for texts whose names are plain."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from rehydrate.messages import PieceKind

NAMES = [f"{word}_{number}" for word in ("ab", "cd", "ef") for number in range(4)]
"""A name has an underscore between a letter and a digit."""
WORDS = ["so", "on", "it", "is"]
"""Too short to be spoken of."""
MAX_CHARS = 80
_FRAME_TOKENS, _CHARS_PER_TOKEN = 3, 3.5


def check(
    texts: Sequence[str],
    kinds: Sequence[int],
    units: Sequence[int],
    shown: Sequence[bool],
    limit: int,
    found: Sequence[tuple[str, int]],
) -> None:
    """Fail unless each line that was found was the best to be had beside those before it."""
    uses: dict[str, list[int]] = {}
    in_sight: set[str] = set()
    candidates: list[tuple[str, int]] = []
    for index, text in enumerate(texts):
        if kinds[index] == PieceKind.THINKING:
            continue
        for line in map(str.strip, text.split("\n")):
            for mention in mentions(line):
                uses.setdefault(mention, []).append(index)
                if shown[index]:
                    in_sight.add(mention)
            if not shown[index]:
                candidates.append((line, index))

    def rate(line: str) -> float:
        tokens = _FRAME_TOKENS + math.ceil(len(line) / _CHARS_PER_TOKEN)
        return sum(map(worth, sorted(mentions(line) - in_sight))) / tokens

    def worth(mention: str) -> float:
        by = uses[mention]
        often = math.log(1 + len({units[index] for index in by}))
        acted = 2 if any(kinds[index] == PieceKind.TOOL_INPUT for index in by) else 1
        age = units[-1] - max(units[index] for index in by)
        return often * acted / (1 + age / 10)

    for line, index in found:
        assert (line, index) in candidates
        best = max(rate(each) for each, _ in candidates)
        assert rate(line) > 0 and math.isclose(rate(line), best, rel_tol=1e-9)
        newest = max(at for each, at in candidates if each == line)
        assert index == newest
        in_sight |= mentions(line)
    assert len(found) <= limit
    if len(found) < limit:
        assert not any(rate(line) for line, _ in candidates)


def mentions(line: str) -> set[str]:
    """The names in a line."""
    return {word for word in line.split() if word in NAMES}


def stands_in(text: str, line: str) -> bool:
    """Whether a line is to be seen in a text."""
    return bool(re.search(rf"(?<!\w){re.escape(line)}(?!\w)", text))
