"""Memories that a prompt gets by itself: `python -m benches.python.relevance`.

Each LoCoMo conversation is a memory. It is asked its own questions, which it can answer, and
questions of other conversations and general ones, which it cannot: any hit for these is noise. The
threshold is chosen by leaving out one conversation after the other. Needs LoCoMo
(`REHYDRATE_DATA`).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NamedTuple

from benches.python.sources import data_folder
from rehydrate import Memory
from rehydrate._native import relevant_hits
from rehydrate.memory import Hit, MemoryItem
from rehydrate.prompt.sources.memory import MIN_RELEVANCE
from rehydrate.retention import Conversation, read_locomo

LIMIT = 5
OTHERS = 60
"""Number of questions of each other conversation."""
THRESHOLDS = (0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8)
NOISE_WEIGHT = 0.5
"""A prompt with noise is half as bad as one without its evidence, which the model can request."""
GENERAL = (
    "What is the capital of France?",
    "Who wrote Pride and Prejudice?",
    "Compute 17*23",
    "How do I reverse a list in Python?",
    "What is the boiling point of water at sea level?",
    "Write a regular expression that matches an IPv4 address.",
    "Why did the deploy fail?",
    "Translate 'good morning' into Italian.",
    "Which port does staging listen on?",
    "Explain the difference between TCP and UDP.",
    "What is the square root of 144?",
    "Summarise the third chapter of the report.",
    "Please fix the failing test in test_context.py",
    "How many planets are there in the solar system?",
    "Who won the world cup in 1998?",
)
SMALL_TALK = ("hi", "thanks!", "ok", "yes, do it", "go on", "Good morning!")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, its hits, and the turns that answer it: none for questions without an answer."""

    text: str
    hits: tuple[Hit, ...]
    evidence: frozenset[int] = frozenset()


class Figures(NamedTuple):
    """Figures of one memory, or the mean of several."""

    recall: float
    """Share of the evidence that is found."""
    items: float
    """Items found for a question that the memory can answer."""
    others: float
    """Share of other conversations' questions with any hit."""
    other_items: float
    general: float
    general_items: float
    small_talk: float


Choose = Callable[[Asked], Sequence[Hit]]


def ask(chats: Sequence[Conversation]) -> dict[str, list[list[Asked]]]:
    """Ask by conversation: its own questions, others', general ones, small talk."""
    asked = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory.open(f"{folder}/m.db", redact=False) as memory,
    ):
        for chat in chats:
            of = memory.within(chat.name)
            of.add(
                [
                    MemoryItem(turn["content"], source="conversation", metadata={"turn": number})
                    for number, turn in enumerate(chat.messages)
                ]
            )
            own = [
                Asked(each.text, tuple(of.search(each.text, LIMIT)), frozenset(each.evidence))
                for each in chat.questions
            ]
            others = [
                q.text for other in chats if other is not chat for q in other.questions[:OTHERS]
            ]
            asked[chat.name] = [
                own,
                *[
                    [Asked(text, tuple(of.search(text, LIMIT))) for text in texts]
                    for texts in (others, GENERAL, SMALL_TALK)
                ],
            ]
    return asked


def figures(asked: Sequence[list[Asked]], choose: Choose) -> Figures:
    """Return the figures of the hits that `choose` selects."""
    own, others, general, small = asked
    chosen = [choose(each) for each in own]
    recall = [
        len({hit.item.metadata["turn"] for hit in hits} & each.evidence) / len(each.evidence)
        for each, hits in zip(own, chosen, strict=True)
    ]
    noise = [[len(choose(each)) for each in group] for group in (others, general, small)]
    return Figures(
        fmean(recall),
        fmean(map(len, chosen)),
        fmean(map(bool, noise[0])),
        fmean(noise[0]),
        fmean(map(bool, noise[1])),
        fmean(noise[1]),
        fmean(map(bool, noise[2])),
    )


def mean(each: Sequence[Figures]) -> Figures:
    """Return the mean column by column."""
    return Figures(*map(fmean, zip(*each, strict=True)))


def by_threshold(least: float, *, with_meaning: bool = True) -> Choose:
    """Return the product's own choice; without meaning as if no hit had a vector."""

    def choose(asked: Asked) -> Sequence[Hit]:
        hits = asked.hits if with_meaning else [replace(hit, cosine=None) for hit in asked.hits]
        return relevant_hits(hits, asked.text, least)

    return choose


def main() -> int:
    """Print the tables."""
    folder = data_folder()
    if folder is None:
        print("there is no data; set REHYDRATE_DATA", file=sys.stderr)
        return 1
    asked = ask(read_locomo(folder / "locomo_dev.json"))
    names = ("evidence", "items", "others", "items", "general", "items", "small")
    print(f"{'':24} " + " ".join(f"{name:>8}" for name in names))
    for least in (0.0, *THRESHOLDS):
        _row(f"at least {least}", [figures(one, by_threshold(least)) for one in asked.values()])
    chosen = []
    for name in asked:
        rest = [one for other, one in asked.items() if other != name]

        def worth(least: float, rest: list[list[list[Asked]]] = rest) -> float:
            found = mean([figures(one, by_threshold(least)) for one in rest])
            return found.recall - NOISE_WEIGHT * fmean((found.others, found.general))

        best = max(THRESHOLDS, key=worth)
        chosen.append(figures(asked[name], by_threshold(best)))
        _row(f"without {name}: {best}", chosen[-1:])
    _row("one left out", chosen)
    _row(
        f"as it is, {MIN_RELEVANCE}",
        [figures(one, by_threshold(MIN_RELEVANCE)) for one in asked.values()],
    )
    words = by_threshold(MIN_RELEVANCE, with_meaning=False)
    _row("words alone", [figures(one, words) for one in asked.values()])
    return 0


def _row(name: str, each: Sequence[Figures]) -> None:
    f = mean(each)
    print(
        f"{name:24} {f.recall:8.3f} {f.items:8.2f} {f.others:8.2f} {f.other_items:8.2f} "
        f"{f.general:8.2f} {f.general_items:8.2f} {f.small_talk:8.2f}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
