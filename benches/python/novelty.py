"""Compaction with half of a conversation in memory: `python -m benches.python.novelty`.

The conversations are not part of this repository: `REHYDRATE_DATA` names their folder. Of each,
half of the steps (every other one, so that age says nothing) is put into a memory: a message an
item, or in parts where excerpts are asked for. Then it is compacted at the same budget with the
memory and without.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import rehydrate
from benches.python.inputs import Message
from benches.python.sources import data_folder, read_sources
from benches.report.rows import Part, Row
from rehydrate._native import text_of
from rehydrate.retention import Cut, steps

RATIOS = (0.1, 0.2, 0.4)
KEPT_ANYWAY = {
    "last user turn",
    "reply that the user answers",
    "open tool loop",
    "system",
    "a user turn must come first",
}
PART_CHARACTERS = 800
"""About 200 tokens, like the chunks of a synced note."""
WAYS = ("without memory", "with memory")


class Case(NamedTuple):
    """A conversation, the messages that memory holds, and what is needed later."""

    messages: list[Message]
    held: frozenset[int]
    format: str
    needed: Cut | None
    """None if the later needs are unknown."""


class Found(NamedTuple):
    """One compaction: shares from 0 to 1."""

    new: float
    """Of the kept tokens that may be dropped, the share of messages not in memory."""
    reachable: float
    """Of the needed names, the share mentioned in the output or in memory."""
    kept: float
    """Of the needed names, the share mentioned in the output."""
    covered: float
    """Of the dropped tokens, the share of units that memory covers, by the stats."""


def halved(messages: list[Message], kind: str, needed: Cut | None) -> Case:
    """Return a case in which memory holds every other step."""
    groups = steps(messages)
    held = frozenset(index for group in groups[::2] for index in group)
    return Case(messages, held, kind, needed)


def measured(case: Case, ratio: float, memory: rehydrate.Memory | None, granularity: str) -> Found:
    """Compact a case, and measure the output."""
    compaction = rehydrate.compact_context(
        case.messages,
        target_ratio=ratio,
        format=case.format,
        memory=memory,
        granularity=granularity,
    )
    pinned = {
        index for row in compaction.explain() if row.reason in KEPT_ANYWAY for index in row.messages
    }
    tokens = {True: 0, False: 0}
    for index, message in zip(compaction.indices, compaction.messages, strict=True):
        if index not in pinned:
            tokens[index in case.held] += rehydrate.count_tokens([message])
    new = tokens[False] / max(1, sum(tokens.values()))
    reachable = kept = 1.0
    if case.needed is not None:
        names = max(1, len(case.needed.needed))
        there = case.needed.mentioned(compaction.messages)
        in_memory = case.needed.mentioned([case.messages[index] for index in case.held])
        reachable, kept = len(there | in_memory) / names, len(there) / names
    return Found(new, reachable, kept, compaction.stats.covered_pct / 100)


def parts_of(text: str, granularity: str) -> list[str]:
    """Return a message as memory holds it: whole, or in parts of lines, as long as notes are."""
    parts, size = [""], PART_CHARACTERS if granularity == "excerpt" else len(text)
    for line in text.splitlines(keepends=True):
        if len(parts[-1]) + len(line) > size and parts[-1]:
            parts.append("")
        parts[-1] += line
    return [part for part in parts if part.strip()]


def compare(cases: Sequence[Case], granularity: str) -> dict[tuple[str, float], Found]:
    """Return the mean of all cases, by way and ratio."""
    found: dict[tuple[str, float], list[Found]] = {}
    with tempfile.TemporaryDirectory() as folder:
        memory = rehydrate.Memory.open(Path(folder) / "memory.db", redact=False)
        for number, case in enumerate(cases):
            bound = memory.within(f"case {number}")
            texts = [text_of(case.messages[index]) for index in sorted(case.held)]
            bound.add([part for text in texts for part in parts_of(text, granularity)])
            for ratio in RATIOS:
                for way, given in zip(WAYS, (None, bound), strict=True):
                    one = measured(case, ratio, given, granularity)
                    found.setdefault((way, ratio), []).append(one)
        memory.close()
    return {key: Found(*map(fmean, zip(*each, strict=True))) for key, each in found.items()}


def cases_of(folder: Path) -> dict[str, list[Case]]:
    """Return the conversations by source, cut where their later needs are known."""
    found: dict[str, list[Case]] = {}
    for source in read_sources(folder, ("coding", "long coding", "airline", "locomo")):
        cases = [halved(cut.messages, cut.format, cut) for cut in source.cuts]
        cases += [halved(chat.messages, chat.format, None) for chat in source.chats]
        if cases:
            found[source.title] = cases
    return found


def main() -> None:
    """Print the part."""
    folder = data_folder()
    if folder is None:
        sys.exit("novelty: no conversations; set REHYDRATE_DATA to their folder")
    rows = []
    for kind, cases in cases_of(folder).items():
        for granularity in ("message", "excerpt") if cases[0].needed is not None else ("message",):
            found = compare(cases, granularity)
            rows += _rows(f"{kind}, {granularity}s", len(cases), found, cases[0].needed is not None)
    print(
        Part(
            "Memory-aware compaction",
            "Every other step of a conversation is in memory already, a message an item (for "
            "excerpts in parts of about 200 tokens); then it "
            "is compacted at the same budget with that memory and without. New: of the tokens kept "
            "(pinned ones aside), those of messages that memory does not hold. Reachable: of the "
            "names that tool calls after the cut use, those that what is kept or memory mentions.",
            rows,
        ).to_json()
    )


def _rows(
    name: str, count: int, found: dict[tuple[str, float], Found], has_needs: bool
) -> list[Row]:
    rows = []
    for ratio in RATIOS:
        without, with_memory = (found[way, ratio] for way in WAYS)
        rows.append(
            Row(
                f"{name}, {count}, at {ratio}: new",
                100 * with_memory.new,
                "%",
                want=100 * without.new,
                beyond=100 * without.new + 20,
                more_is_better=True,
                beside=f"without memory {100 * without.new:.1f} %",
                limit="Messages of the half that memory does not hold may resemble those it holds",
            )
        )
        if has_needs:
            rows.append(
                Row(
                    f"{name}, {count}, at {ratio}: reachable",
                    100 * with_memory.reachable,
                    "%",
                    want=100 * without.reachable,
                    more_is_better=True,
                    beside=f"without memory {100 * without.reachable:.1f} %; in what is kept "
                    f"{100 * with_memory.kept:.1f} % against {100 * without.kept:.1f} %",
                    limit="Names that only a dropped message mentions, and no memory",
                )
            )
    return rows


if __name__ == "__main__":
    main()
