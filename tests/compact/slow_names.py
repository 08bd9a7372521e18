"""A slow, obvious search for the names of an outline, to compare with the engine's `names`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate

from rehydrate.messages import PieceKind

_RUN = re.compile(r"[\w./@-]+")
_JOINED = re.compile(r"\w[./@_-]\w")
_HUMP = re.compile(r"[a-z][A-Z]")
_LONGEST_BYTES = 200
_MOST_SEGMENTS = 8
_STOP_WORDS = frozenset({"these", "those", "which", "where", "there", "could", "would", "should"})
"""More than what the tests use of the engine's."""


def names(
    texts: Sequence[str],
    kinds: Sequence[int],
    units: Sequence[int],
    shown: Sequence[bool],
    limit: int,
) -> list[tuple[str, int, int | None, bool]]:
    """The same arguments and the same answer."""
    uses: dict[str, list[tuple[int, bool]]] = {}
    in_sight: set[str] = set()
    for index, text in enumerate(texts):
        if kinds[index] == PieceKind.THINKING:
            continue
        if shown[index]:
            in_sight.update(part for _, name in _runs(text) for part in _parts_of(name))
            continue
        for name, is_spoken in _names_in(text, kinds[index] == PieceKind.TEXT):
            uses.setdefault(name, []).append((index, is_spoken))
    ranked = []
    for number, (name, found) in enumerate(uses.items()):
        spoken = all(is_spoken for _, is_spoken in found)
        acted = [index for index, _ in found if kinds[index] == PieceKind.TOOL_INPUT]
        last = found[-1][0]
        worth = 0.0 if spoken else (4.0 if acted else 1.0)
        worth /= 1.0 + (units[-1] - units[last]) / 10.0
        answer = (name, last, acted[-1] if acted else None, spoken)
        if name not in in_sight and not (spoken and len(found) < 2):
            ranked.append(((spoken, -worth, -len(found), number), answer))
    listed = []
    for _, answer in sorted(ranked):
        if len(listed) < limit and answer[0] not in in_sight:
            listed.append(answer)
            in_sight.update(_parts_of(answer[0]))
    return listed


def stands_in(text: str, name: str) -> bool:
    """Whether a name is to be seen in a text, by itself or between the joiners of a longer one."""
    return bool(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text))


def _runs(text: str) -> list[tuple[re.Match[str], str]]:
    """Each run, and what it names."""
    runs = []
    for run in _RUN.finditer(text):
        start = run.start() - text[: run.start()].endswith("~")
        if len(run[0].encode()) <= _LONGEST_BYTES and re.search(r"\w", run[0]):
            runs.append((run, text[start : run.end()].rstrip(".-").lstrip("-")))
    return runs


def _parts_of(name: str) -> list[str]:
    pieces = re.split(r"([./@-])", name)  # every other one is a joiner
    ends = list(accumulate(map(len, pieces)))
    segments = [(end - len(piece), end) for piece, end in zip(pieces, ends, strict=True)][::2]
    parts = [
        name[start:end]
        for first, (start, _) in enumerate(segments)
        for _, end in segments[first : first + _MOST_SEGMENTS]
    ]
    return [name, *parts]


def _names_in(text: str, is_said: bool) -> list[tuple[str, bool]]:
    found = []
    for run, name in _runs(text):
        if len(name) >= 4 and (
            name[0] == "/" or re.search(r"\d", name) or _JOINED.search(name) or _HUMP.search(name)
        ):
            found.append((name, is_said and bool(re.fullmatch(r"[a-z-]+", name))))
            continue
        before = text[: run.start()]
        is_topic = re.fullmatch(r"[a-z]{5,20}", run[0]) and run[0] not in _STOP_WORDS
        is_capitalised = re.fullmatch(r"[A-Z][a-z]{2,}", run[0]) and re.search(r"[a-z,] $", before)
        if is_said and (is_topic or is_capitalised):
            found.append((run[0], True))
    return found
