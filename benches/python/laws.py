"""Violations that must never happen: `python -m benches.python.laws`.

Every conversation that retention is measured on is compacted at many ratios, whole and in excerpts.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import rehydrate
from benches.python.inputs import QUERY, Message
from benches.python.sources import all_conversations, data_folder
from rehydrate._native import text_of
from rehydrate.retention import Conversation, exact_cost
from rehydrate.retention.baselines import Turns, indices_of, to_langchain, trim

LAW_RATIOS = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
EXCERPT_RATIOS = (0.05, 0.1, 0.2, 0.4, 0.6)
PROFILES = ("chitta", "balanced")
_MARK = re.compile(
    r"\[\.\.\. [\d,]+ (line|element|member|character)s? omitted, \d+(-\d+)? \.\.\.\]"
)


def measure(folder: Path) -> dict[str, Any]:
    """Return the counts of the laws on every conversation."""
    found = all_conversations(folder)
    return {
        "laws": check_laws(found),
        "excerpt_laws": check_excerpts(found),
        "peer_laws": check_trim_messages(found),
    }


def check_laws(conversations: Sequence[Conversation]) -> dict[str, int]:
    """Compact every conversation at every ratio under each profile, and check the laws.

    A violation counts where the output breaks a provider's rule that the input did not break. A
    kept message is the very object that came in, but for those of parallel calls of which some
    went: their blocks are.
    """
    tally = dict.fromkeys(("compactions", "violations", "not_verbatim", "out_of_order"), 0)
    tally |= {"over_target": 0, "pinned_over_target": 0, "parted": 0}
    tally |= {"conversations": len(conversations), "invalid_inputs": 0, "messages": 0}
    for conversation in conversations:
        messages, before = conversation.messages, json.dumps(conversation.messages)
        place = {id(message): index for index, message in enumerate(messages)}
        faults = len(rehydrate.validate(messages, conversation.format))
        tally["invalid_inputs"] += bool(faults)
        tally["messages"] += len(messages)
        for ratio in LAW_RATIOS:
            for profile, query in product(PROFILES, (None, QUERY)):
                kept = rehydrate.compact_context(
                    messages, query, ratio, scoring=profile, format=conversation.format
                )
                tally["compactions"] += 1
                tally["violations"] += max(
                    0, len(rehydrate.validate(kept.messages, conversation.format)) - faults
                )
                made = [message for message in kept.messages if id(message) not in place]
                tally["parted"] += len(made)
                tally["not_verbatim"] += abs(len(made) - kept.stats.excerpted)
                pairs = zip(kept.indices, kept.messages, strict=True)
                tally["not_verbatim"] += sum(not _is_of(new, messages[at]) for at, new in pairs)
                tally["out_of_order"] += list(kept.indices) != sorted(set(kept.indices))
                if kept.stats.after_tokens > kept.stats.target_tokens:
                    pins_fit = kept.stats.pinned_tokens <= kept.stats.target_tokens
                    tally["over_target" if pins_fit else "pinned_over_target"] += 1
        tally["not_verbatim"] += json.dumps(messages) != before
    return tally


def check_excerpts(conversations: Sequence[Conversation]) -> dict[str, int]:
    """Excerpt every conversation at several ratios, and check the laws on the output.

    Every line of a message that is kept in part, but the marks of its gaps, must be in the original
    message, in the same order.
    """
    names = ("compactions", "excerpted", "violations", "not_verbatim", "over_target", "changed")
    tally = dict.fromkeys(names, 0)
    for conversation in conversations:
        messages, before = conversation.messages, json.dumps(conversation.messages)
        faults = len(rehydrate.validate(messages, conversation.format))
        for ratio, query in product(EXCERPT_RATIOS, (None, QUERY)):
            kept = rehydrate.compact_context(
                messages, query, ratio, format=conversation.format, granularity="excerpt"
            )
            stats = kept.stats
            tally["compactions"] += 1
            tally["excerpted"] += stats.excerpted
            found = len(rehydrate.validate(kept.messages, conversation.format))
            tally["violations"] += max(0, found - faults)
            for index, message in zip(kept.indices, kept.messages, strict=True):
                tally["not_verbatim"] += _lines_made_up(message, messages[index])
            pins_fit = stats.pinned_tokens <= stats.target_tokens
            tally["over_target"] += pins_fit and stats.over_budget
            again = rehydrate.compact_context(
                kept.messages,
                query,
                budget_tokens=stats.target_tokens,
                format=conversation.format,
                granularity="excerpt",
            )
            tally["changed"] += again.stats.changed
        tally["not_verbatim"] += json.dumps(messages) != before
    return tally


def check_trim_messages(conversations: Sequence[Conversation]) -> dict[str, int]:
    """Run `trim_messages` on the same conversations, and check the rules for its own messages."""
    tally, cost = dict.fromkeys(("compactions", "violations", "invalid_outputs"), 0), exact_cost()
    for conversation in conversations:
        turns = to_langchain(conversation.messages)
        faults = len(rehydrate.validate(turns, "langchain"))
        costs = [cost(message) for message in conversation.messages]

        def count(counted: Turns, costs: list[int] = costs) -> int:
            return sum(costs[i] for i in {i for turn in counted for i in indices_of(turn)})

        for ratio in LAW_RATIOS:
            kept = trim(turns, int(sum(costs) * ratio + 1e-9), count)
            more = max(0, len(rehydrate.validate(kept, "langchain")) - faults)
            tally["compactions"] += 1
            tally["violations"] += more
            tally["invalid_outputs"] += bool(more)
    return tally


def _is_of(kept: Message, message: Message) -> bool:
    """Return whether a message is the one that came in, or some of its blocks, in order."""
    if kept is message:
        return True
    blocks = [id(block) for block in message["content"]]
    places = [blocks.index(id(each)) if id(each) in blocks else -1 for each in kept["content"]]
    rest = {**kept, "content": message["content"]}
    return rest == message and -1 not in places and places == sorted(set(places))


def _lines_made_up(excerpt: Message, message: Message) -> int:
    """Count lines of the excerpt that do not come next in the message, without the marks."""
    if excerpt is message:
        return 0
    made_up, at = 0, 0
    whole = text_of(message)
    for line in text_of(excerpt).split("\n"):
        found = whole.find(line, at)
        if found >= 0:
            at = found + len(line)
        else:
            made_up += _MARK.fullmatch(line) is None
    return made_up


def main() -> None:
    """Print the counts as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", help="folder of the conversations")
    folder = data_folder(parser.parse_args().folder)
    if folder is None:
        sys.exit("laws: no conversations; name their folder, or set REHYDRATE_DATA")
    json.dump(measure(folder), sys.stdout)


if __name__ == "__main__":
    main()
