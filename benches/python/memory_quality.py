"""Share of a question's evidence that a memory finds: `python -m benches.python.memory_quality`.

Needs LoCoMo and BEAM (`REHYDRATE_DATA`); MiniLM's rows need its folder
(`benches/python/minilm.py`). LoCoMo is worn: the fusion was chosen on it. BEAM is not.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benches.python.memory_peers import Fts5
from benches.python.minilm import find_minilm
from benches.python.sources import read_beam
from benches.report.rows import Part, Row, number
from benches.report.size import SIZE
from rehydrate import Memory
from rehydrate.embedding import OnnxModel, load_model
from rehydrate.memory import Fusion, MemoryItem
from rehydrate.memory.items import FUSIONS
from rehydrate.retention import Conversation, read_locomo

FIRST = (5, 10)
SOURCE = "conversation"

Ask = Callable[[str, int], Sequence[int]]
"""Takes a question and a limit; returns the indices of turns, best first."""


class Want(NamedTuple):
    """Targets among the first 5 and the first 10."""

    want: tuple[float, float]
    beyond: tuple[float, float] | None = None


WANTS = {
    "built-in, as it comes": Want((0.707, 0.805)),
    "MiniLM in the store, as it comes": Want((0.62, 0.72), (0.70, 0.80)),
}


@dataclass(slots=True)
class Tally:
    """Shares of evidence found, summed over questions."""

    questions: int = 0
    shares: list[float] = field(default_factory=lambda: [0.0] * len(FIRST))

    def count(self, evidence: frozenset[int], found: Sequence[int]) -> None:
        """Add one question."""
        self.questions += 1
        for place, most in enumerate(FIRST):
            self.shares[place] += len(evidence.intersection(found[:most])) / len(evidence)

    def means(self) -> list[float]:
        """Return the mean for each of `FIRST`."""
        return [share / max(self.questions, 1) for share in self.shares]


def measure(
    worn: Sequence[Conversation], fresh: Sequence[Conversation], model: OnnxModel | None
) -> Part:
    """Measure every method on every conversation, each a namespace of its own."""
    seconds = time.perf_counter()
    tallies, others = _tallies(worn, model), _tallies(fresh, model)
    seconds = time.perf_counter() - seconds
    about = (
        f"Chats as a memory: LoCoMo, {_size(worn)}; rows with BEAM, {_size(fresh)}, which nothing "
        "was fitted to. Each conversation is a namespace, its turns are items "
        "of one source in their order, the questions are the queries. Shown is the share of a "
        f"question's evidence among the first {FIRST[0]} and {FIRST[1]} found, the mean over "
        "questions. Alone: nearest by the cosine of the store's vectors (`recall`), or by words "
        f"(SQLite FTS5, Porter's stems, any word). All in one run, {seconds:.0f} s."
    )
    rows = [*_rows(tallies, WANTS), *_rows({f"BEAM, {name}": others[name] for name in others}, {})]
    return Part("Memory: what a search finds", about, rows, _chosen(tallies))


def _size(conversations: Sequence[Conversation]) -> str:
    turns = sum(len(conversation.messages) for conversation in conversations)
    asked = sum(len(conversation.questions) for conversation in conversations)
    return (
        f"{len(conversations)} conversations, {turns:,} turns, {asked} questions whose evidence "
        "is known"
    )


def _tallies(conversations: Sequence[Conversation], model: OnnxModel | None) -> dict[str, Tally]:
    tallies: dict[str, Tally] = {}
    with tempfile.TemporaryDirectory() as folder:
        stores = {"built-in": Memory.open(f"{folder}/builtin.db", redact=False)}
        if model is not None:
            stores["MiniLM in the store"] = Memory.open(
                f"{folder}/minilm.db", embedder=model, redact=False
            )
        for conversation in conversations:
            ways = _peers(conversation, model)
            for name, memory in stores.items():
                ways |= _ours(name, memory, conversation)
            for name, ask in ways.items():
                tally = tallies.setdefault(name, Tally())
                for question in conversation.questions:
                    if question.evidence:
                        tally.count(frozenset(question.evidence), ask(question.text, FIRST[-1]))
            print(f"  {conversation.name}", file=sys.stderr, flush=True)
        for memory in stores.values():
            memory.close()
    return tallies


def _ours(name: str, memory: Memory, conversation: Conversation) -> dict[str, Ask]:
    """Return the store's ways: default, with and without neighbours, each fusion, vectors alone."""
    where, apart = conversation.name, f"{conversation.name}, apart"
    texts = [message["content"] for message in conversation.messages]
    place_of: dict[str, int] = {}
    in_order = memory.add(texts, source=SOURCE, namespace=where)
    scattered = memory.add(
        [MemoryItem(text, source=f"turn {place}") for place, text in enumerate(texts)],
        namespace=apart,
    )
    for added in (in_order, scattered):
        for place, one in enumerate(added):
            place_of.setdefault(one.handle, place)  # an equal earlier text is one item with it

    def searching(fusion: Fusion | None, within: str = where) -> Ask:
        def ask(question: str, most: int) -> list[int]:
            hits = memory.search(question, most, namespace=within, fusion=fusion)
            return [place_of[hit.handle] for hit in hits]

        return ask

    def nearest(question: str, most: int) -> list[int]:
        (row,) = memory.recall([question], most, namespace=where)
        return [place_of[handle] for handle, _ in row]

    ways = {
        f"{name}, as it comes": searching(None),
        f"{name}, as it comes, each turn a source of its own": searching(None, apart),
    }
    ways |= {f"{name}, {fusion}": searching(fusion) for fusion in FUSIONS}
    return ways | {f"{name}, vectors alone": nearest}


def _peers(conversation: Conversation, model: OnnxModel | None) -> dict[str, Ask]:
    """Return words alone and MiniLM alone, without a store."""
    texts = [message["content"] for message in conversation.messages]
    words = Fts5()
    words.add(texts)
    ways: dict[str, Ask] = {"BM25 alone": words.search}
    if model is not None:
        vectors, embed = model.embed(texts), model.embed

        def nearest(question: str, most: int) -> list[int]:
            (asked,) = embed([question])
            return [int(place) for place in np.argsort(-(vectors @ asked))[:most]]

        ways["MiniLM alone"] = nearest
    return ways


def _rows(tallies: dict[str, Tally], wants: Mapping[str, Want]) -> list[Row]:
    means = {name: tally.means() for name, tally in tallies.items()}
    for name in wants:
        means.setdefault(name, [])
    alone = [name for name in means if name.endswith(" alone") and "vectors" not in name]
    rows = []
    for name, found in means.items():
        if (
            found
            and found == means.get(f"{name.rpartition(', ')[0]}, as it comes")
            and not name.endswith("as it comes")
        ):
            continue  # a fusion that is the default has its row already
        wanted = wants.get(name)
        for place, most in enumerate(FIRST):
            beside = [f"{other} {number(means[other][place])}" for other in alone if other != name]
            rows.append(
                Row(
                    f"{name}: among the first {most}",
                    found[place] if found else None,
                    "",
                    wanted.want[place] if wanted else None,
                    wanted.beyond[place] if wanted and wanted.beyond else None,
                    more_is_better=True,
                    beside="; ".join(beside) if wanted else "",
                    limit="Evidence that shares no word with its question, and what follows from "
                    "several turns only"
                    if wanted
                    else "",
                )
            )
    return sorted(rows, key=lambda row: row.want is None)


def _chosen(tallies: dict[str, Tally]) -> str:
    """Return which fusion the default is, and whether it is the best of this run."""
    found = {name: tally.means() for name, tally in tallies.items()}
    default = found["built-in, as it comes"]
    named = {fusion: found[f"built-in, {fusion}"] for fusion in FUSIONS}
    same = [fusion for fusion, means in named.items() if means == default]
    best = max(named, key=lambda fusion: sum(named[fusion]))
    apart = found["built-in, as it comes, each turn a source of its own"]
    said = ", ".join(
        f"`{fusion}` {' / '.join(map(number, means))}" for fusion, means in named.items()
    )
    return (
        f"The default is `{'`, `'.join(same) or 'none of these'}`; the best of this run is "
        f"`{best}` ({said}). `calibrated` spreads each leg over 0 to 1 within a search before it "
        "adds them, each by how far its best stands out, and lets a turn borrow from those beside "
        "it, for answers are next to what names them: without neighbours it finds "
        f"{' / '.join(map(number, apart))}. `weighted` "
        "adds legs of different scales, and `reciprocal_rank` forgets by how much a leg was sure."
    )


def main() -> None:
    """Print the results as JSON."""
    folder = Path(os.environ.get("REHYDRATE_DATA", ""))
    locomo = folder / "locomo_dev.json"
    if not locomo.is_file():
        sys.exit("memory_quality: REHYDRATE_DATA names no folder with locomo_dev.json")
    worn = read_locomo(locomo)[: SIZE.locomo_conversations]
    fresh = read_beam(folder / "fresh" / "beam.json")
    minilm = find_minilm()
    print(measure(worn, fresh, None if minilm is None else load_model(minilm)).to_json())


if __name__ == "__main__":
    main()
