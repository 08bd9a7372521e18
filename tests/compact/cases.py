"""The data of the tests of compaction: a case (a conversation and how to compact it), doubles.

cases()                a conversation of any format and every option of compact_context
HashEmbedder()         vectors that depend on nothing but the text
MeasuredMemory()       a memory whose coverage depends on nothing but the vector
talk("user: hi", ...)  plain messages, a line each
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

import rehydrate
from rehydrate import Compaction, Scoring, formats
from rehydrate._native import Parted
from rehydrate.messages import Conversation
from tests.strategies import BY_FORMAT, Draw, Entry, conversations, damaged, texts


class HashEmbedder:
    """Eight dimensions from a hash of the text; the empty text has no vector."""

    def __call__(self, batch: list[str]) -> list[list[float]]:
        return [self._row(text) for text in batch]

    def _row(self, text: str) -> list[float]:
        if not text:
            return [0.0] * 8
        digest = hashlib.sha256(text.encode("utf-8", "replace")).digest()
        return [byte - 127.5 for byte in digest[:8]]


class MeasuredMemory:
    """Knows each vector as well as its first component is large."""

    def recall(self, vectors: Any, k: int) -> list[list[float]]:
        return [[-1.0, min(1.0, 4 * abs(float(row[0])))] for row in np.asarray(vectors)]


class FixedMemory:
    """Knows how much of each message it holds, whatever the vectors."""

    def __init__(self, coverage: Sequence[float]) -> None:
        self.coverage = coverage

    def recall(self, vectors: Any, k: int) -> list[list[float]]:
        assert len(vectors) == len(self.coverage)
        return [[covered] for covered in self.coverage]


def words(text: str) -> int:
    """A counter of the caller's own."""
    return len(text.split())


class Case(NamedTuple):
    """A conversation and the arguments of one compaction of it."""

    format: str
    entries: list[Entry]
    options: dict[str, Any]
    pinned: tuple[int, ...]
    """The indices that `options["pin"]` names."""

    def compact(self, **changed: Any) -> Compaction:
        """Compact it, some options changed."""
        return rehydrate.compact_context(self.entries, **(self.options | changed))

    @property
    def scoring(self) -> Scoring:
        """The scoring, also where it was given by name."""
        scoring = self.options["scoring"]
        return Scoring.named(scoring) if isinstance(scoring, str) else scoring

    def parted(self) -> Parted | None:
        """How compaction parts parallel calls."""
        if (self.scoring.signals, self.scoring.packing) != ("calibrated", "coverage"):
            return None
        if self.options.get("granularity") == "excerpt":
            return None
        return Parted.of(*formats.read(self.entries, self.options["format"]), self.pinned)

    def read(self) -> Conversation:
        """The conversation as compaction reads it, with parallel calls parted."""
        parted = self.parted()
        return parted.read() if parted else self.plain()

    def plain(self) -> Conversation:
        """The conversation as its format is read, parallel calls together."""
        return formats.parse(self.entries, self.options["format"])

    def origins(self, indices: Iterable[int]) -> tuple[int, ...]:
        """The indices, in `entries`, of messages that were read."""
        parted = self.parted()
        return tuple(parted.origins[index] if parted else index for index in indices)

    def cut(self) -> set[int]:
        """The indices of the entries that may be kept in part."""
        parted = self.parted()
        return {parted.origins[place] for place in parted.blocks} if parted else set()

    def pins(self) -> set[int]:
        """The units that are kept whatever they cost."""
        return {*self.read().pins(), *self.pinned_units()}

    def pinned_units(self) -> tuple[int, ...]:
        """The units that the caller pinned."""
        parted = self.parted()
        return self.read().units_holding(parted.places(self.pinned) if parted else self.pinned)

    def kept(self, compaction: Compaction) -> list[int]:
        """The indices of the kept entries, which must be the caller's own objects; but for the
        calls that were parted, of which some may be missing."""
        cut = self.cut()
        for index, entry in zip(compaction.indices, compaction.messages, strict=True):
            assert entry is self.entries[index] or index in cut
            assert entry is self.entries[index] or is_part(entry, self.entries[index])
        return [*compaction.indices]


def is_part(part: Entry, whole: Entry) -> bool:
    """Whether it is a message without some of its calls or results, all else as it was."""
    key = "tool_calls" if "tool_calls" in whole else "content"
    place = {id(block): number for number, block in enumerate(whole[key])}
    numbers = [place[id(block)] for block in part[key]]
    rest = {name: value for name, value in part.items() if name != key}
    lost = {name for name, value in rest.items() if value is not whole[name]}
    return (
        part.keys() == whole.keys()
        and numbers == sorted(numbers)
        and 0 < len(numbers) < len(whole[key])
        and lost <= {"content"}
        and (not lost or part["content"] is None)
    )


_weights = st.sampled_from([0.0, 0.1, 0.3, 1.0, 7.5])
scorings = st.one_of(
    st.sampled_from(["balanced", "chitta"]),
    st.builds(
        Scoring,
        recency=_weights,
        semantic=_weights,
        novelty=_weights,
        structural=st.dictionaries(
            st.sampled_from(["system", "user", "assistant", "tool", "critic"]), _weights
        ),
        signals=st.sampled_from(["calibrated", "raw"]),
        packing=st.sampled_from(["coverage", "greedy"]),
        counter=st.sampled_from(["words", "chars", "o200k_base"]),
    ),
)
_targets = st.one_of(
    st.floats(0.05, 1.0).map(lambda ratio: {"target_ratio": ratio}),
    st.one_of(st.integers(0, 300), st.sampled_from([0, 10**9, 2**70])).map(
        lambda budget: {"budget_tokens": budget}
    ),
)


@st.composite
def cases(draw: Draw, *, broken: bool = False, only: str | None = None) -> Case:
    """A conversation of any format or only this one, damaged if so wished, and every option."""
    name, entries = draw(conversations() if only is None else _of(only))
    if broken:
        entries = draw(damaged(entries))
    entries = copy.deepcopy(entries)  # parts that a strategy shares would hide a mix-up
    count = len(entries)
    pinned = draw(st.lists(st.integers(0, count - 1), max_size=2)) if entries else []
    pins = [draw(st.sampled_from([index, index - count, entries[index]])) for index in pinned]
    options = {
        "format": name,
        "query": draw(st.one_of(st.none(), texts, st.just(" "))),
        "scoring": draw(scorings),
        "embedder": draw(st.sampled_from(["auto", "auto", None, HashEmbedder()])),
        "memory": draw(st.sampled_from([None, MeasuredMemory()])),
        "counter": draw(st.sampled_from([None, None, "words", "cl100k_base", words])),
        "pin": pins,
        "thinking": "keep",  # what "auto" does has laws of its own: test_thinking_auto.py
        **draw(_targets),
    }
    return Case(name, entries, options, tuple(pinned))


def _of(name: str) -> st.SearchStrategy[tuple[str, list[Entry]]]:
    return st.tuples(st.just(name), BY_FORMAT[name]())


def talk(*lines: str) -> list[Entry]:
    """`"user: hello"` as a plain message each."""
    split = (line.partition(": ") for line in lines)
    return [{"role": role, "content": content} for role, _, content in split]


def figures(compaction: Compaction) -> dict[str, Any]:
    """The stats without the clock."""
    stats = compaction.stats._asdict()
    del stats["elapsed_ms"]
    return stats
