"""Texts that make a pattern search long, generated from the pattern itself."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, Sequence
from re import (
    _constants as codes,  # type: ignore[attr-defined]
    _parser as parser,  # type: ignore[attr-defined]
)
from typing import Any

import rehydrate

_SAMPLES = "aA1 _-.\n\t:=\"'/<>é漢#`*!,;({["
_PATHS = 6
"""Ways through a pattern that are followed at once."""
_LONG = 8
"""A repeat of so many or more is one that a text can draw out."""


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield every pattern that a module of the package holds, with its name."""
    seen: set[tuple[str, int]] = set()
    for module in pkgutil.walk_packages(rehydrate.__path__, "rehydrate."):
        if module.name.endswith("__main__"):
            continue
        try:
            values = vars(importlib.import_module(module.name))
        except ImportError:  # an optional package that is not here
            continue
        for name, value in list(values.items()):
            for pattern in _within(value, module.name):
                key = (pattern.pattern, pattern.flags)
                if isinstance(pattern.pattern, str) and key not in seen:
                    seen.add(key)
                    yield f"{module.name}.{name}", pattern


def _within(value: Any, module: str, depth: int = 0) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(getattr(value, "pattern", None), re.Pattern):  # made when it is needed
        yield value.pattern
    elif depth < 3 and isinstance(value, (list, tuple)):
        for each in value:
            yield from _within(each, module, depth + 1)
    elif depth < 3 and isinstance(value, dict):
        yield from _within(list(value.values()), module, depth + 1)
    elif hasattr(value, "cache_info") and getattr(value, "__module__", "") == module and not depth:
        try:
            yield from _within(value(), module, depth + 1)
        except TypeError:  # it takes arguments
            return


def attacks(pattern: re.Pattern[str], length: int) -> Iterator[str]:
    """Yield texts of about this length: beginnings of a match again and again, and one beginning
    with a long repeat after it that comes to nothing."""
    pieces = _Pieces()
    pieces.follow(parser.parse(pattern.pattern, pattern.flags), [""])
    units = [(begin, again) for begin, again in pieces.repeats if begin + again]
    texts = [piece for piece in dict.fromkeys(pieces.partial) if piece]
    for begin, again in dict.fromkeys(units):
        yield begin + again * (length // len(again)) + "\0!"
        texts.append(begin + again)
    for text in dict.fromkeys(texts):
        yield text * (length // len(text))
        yield f"{text} " * (length // (len(text) + 1))


class _Pieces:
    """Texts that a pattern matches up to some place, found along a few of its paths."""

    def __init__(self) -> None:
        self.partial: list[str] = []
        self.repeats: list[tuple[str, str]] = []

    def follow(self, tree: Any, before: Sequence[str]) -> list[str]:
        texts = list(before)[:_PATHS]
        for code, value in tree:
            texts = list(dict.fromkeys(self._step(code, value, texts)))[:_PATHS] or texts
            self.partial += texts[:3]
        return texts

    def _step(  # noqa: PLR0911  a table of kinds
        self, code: Any, value: Any, texts: list[str]
    ) -> list[str]:
        if code is codes.LITERAL:
            return [text + chr(value) for text in texts]
        if code in (codes.NOT_LITERAL, codes.ANY, codes.IN):
            return [text + char for text in texts for char in _characters(code, value)[:2]]
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            least, most, inside = value
            bodies = self.follow(inside, [""])
            if most >= _LONG:
                self.repeats += [(t, b) for t in texts[:3] for b in bodies[:3] if b]
            numbers = {least, max(least, 1)}
            return [text + body * n for text in texts for body in bodies[:2] for n in numbers]
        if code is codes.SUBPATTERN:
            return self.follow(value[-1], texts)
        if code is codes.ATOMIC_GROUP:
            return self.follow(value, texts)
        if code is codes.BRANCH:
            found = [each for branch in value[1] for each in self.follow(branch, texts[:2])]
            self.partial += found[:40]
            return found
        if code is codes.ASSERT:
            self.follow(value[1], texts)
        return texts


def _characters(code: Any, value: Any) -> list[str]:
    if code is codes.ANY:
        return ["a", " "]
    if code is codes.NOT_LITERAL:
        return [char for char in _SAMPLES if char != chr(value)]
    found = [char for char in _SAMPLES if _holds(value, char)]
    return found or [_first(value)]


def _holds(items: Any, char: str) -> bool:
    is_negated = any(code is codes.NEGATE for code, _ in items)
    return any(_is_in(code, value, char) for code, value in items) != is_negated


def _is_in(code: Any, value: Any, char: str) -> bool:
    if code is codes.LITERAL:
        return ord(char) == value
    if code is codes.RANGE:
        return bool(value[0] <= ord(char) <= value[1])
    if code is codes.CATEGORY:
        kind = str(value).rpartition("CATEGORY_")[2]
        letter = {"WORD": r"\w", "SPACE": r"\s", "DIGIT": r"\d"}[kind.removeprefix("NOT_")]
        return (re.match(letter, char) is None) == kind.startswith("NOT_")
    return False


def _first(items: Any) -> str:
    for code, value in items:
        if code in (codes.LITERAL, codes.RANGE):
            return chr(value if code is codes.LITERAL else value[0])
    return "a"
