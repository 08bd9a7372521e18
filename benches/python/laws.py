"""Retention and the laws, on real conversations: `python -m benches.python.retention`.

The conversations are not part of this repository. Their folder is the argument, or
`REHYDRATE_DATA`, or `../shared/data`; without it there is nothing to measure.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import rehydrate
from benches.python.inputs import QUERY, ROOT, Message
from benches.python.minilm import find_minilm
from benches.python.turns import (
    VAGUE,
    Ask,
    WorkQuestion,
    about_lines,
    about_names,
    as_last_turn,
    given_as_query,
    in_context,
    not_asked,
    said_last,
    with_query,
)
from rehydrate.embedding import Precision, load_model
from rehydrate.retention import (
    CODING_CUTS,
    CUT_RATIOS,
    QUESTION_RATIOS,
    SUPPORT_CUTS,
    Compact,
    Conversation,
    Cut,
    Retention,
    Turns,
    compacted as ours,
    cut_sessions,
    exact_cost,
    indices_of,
    keep_last,
    keep_random,
    measure_cuts,
    measure_questions,
    oracle,
    read_claude_code,
    read_locomo,
    read_tau_bench,
    text_of,
    to_langchain,
    trim,
    trim_messages,
)

LAW_RATIOS = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
EXCERPT_RATIOS = (0.05, 0.1, 0.2, 0.4, 0.6)
PROFILES = ("chitta", "balanced")
_MARK = re.compile(
    r"\[\.\.\. [\d,]+ (line|element|member|character)s? omitted, \d+(-\d+)? \.\.\.\]"
)
LONG_SESSION_MESSAGES = 200
"""Sessions shorter than this are too short to be cut five times."""

WORK_RATIOS = (0.05, 0.1, 0.2)
LAST_TURN = "balanced, the question as last turn, no query"

Means = dict[str, dict[str, Any]]


def data_folder(named: str | None = None) -> Path | None:
    """Return the folder of the conversations, if it is there."""
    folder = Path(named or os.environ.get("REHYDRATE_DATA") or ROOT.parent / "shared" / "data")
    return folder if folder.is_dir() else None


def measure(folder: Path, only: frozenset[str] = frozenset(), every: int = 1) -> dict[str, Any]:
    """Return every table, and the counts of the laws.

    `only` names methods: then the tables of questions and of cuts have these lines, and nothing
    else is measured. `every` asks one in so many questions of LoCoMo.
    """
    chats = [
        replace(chat, questions=chat.questions[::every])
        for chat in read_locomo(folder / "locomo_dev.json")
    ]
    support = read_tau_bench(folder / "airline_dev.json")
    sessions = [read_claude_code(path) for path in sorted((folder / "claude_code").glob("*.jsonl"))]
    long_sessions = [
        session for session in sessions if len(session.messages) > LONG_SESSION_MESSAGES
    ]
    coding_cuts = cut_sessions(long_sessions, CODING_CUTS)
    support_cuts = cut_sessions(support, SUPPORT_CUTS, min_messages=24, min_needed=3)
    found: dict[str, Any] = {
        "questions": {
            "conversations": len(chats),
            "questions": sum(len(chat.questions) for chat in chats),
            "methods": _questions(chats, only),
        },
        "coding": {"cuts": len(coding_cuts), "methods": _cuts(coding_cuts, only)},
        "airline": {"cuts": len(support_cuts), "methods": _cuts(support_cuts, only)},
    }
    if only:
        return found
    return found | {
        "names": _work_questions(about_names(long_sessions)),
        "lines": _work_questions(about_lines(long_sessions)),
        "laws": check_laws([*chats, *support, *sessions]),
        "excerpt_laws": check_excerpts([*chats, *support, *sessions]),
        "peer_laws": check_trim_messages([*chats, *support, *sessions]),
    }


def check_laws(conversations: Sequence[Conversation]) -> dict[str, int]:
    """Compact every conversation at every ratio under each profile, and check the laws.

    A violation counts where the output breaks a provider's rule that the input did not break.
    """
    tally = dict.fromkeys(("compactions", "violations", "not_verbatim", "out_of_order"), 0)
    tally |= {"over_target": 0, "pinned_over_target": 0}
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
                order = [place.get(id(message), -1) for message in kept.messages]
                tally["compactions"] += 1
                tally["violations"] += max(
                    0, len(rehydrate.validate(kept.messages, conversation.format)) - faults
                )
                tally["not_verbatim"] += order.count(-1)
                tally["out_of_order"] += order != sorted(set(order))
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


def _questions(chats: list[Conversation], only: frozenset[str]) -> Means:
    cost = exact_cost()
    unnamed = [_without_speakers(chat) for chat in chats]
    methods: list[tuple[str, list[Conversation], Compact]] = [
        ("random", chats, keep_random(cost=cost)),
        ("keep the last", chats, keep_last(cost)),
        ("chitta", chats, ours(scoring="chitta")),
        ("balanced", chats, ours()),
        ("balanced, excerpts", chats, ours(granularity="excerpt")),
        (LAST_TURN, chats, as_last_turn(ours(), chats[0].format)),
        (
            f"{LAST_TURN}, excerpts",
            chats,
            as_last_turn(ours(granularity="excerpt"), chats[0].format),
        ),
        ("balanced, no embedder", chats, ours(embedder=None)),
        ("balanced, texts without speakers' names", unnamed, ours()),
    ]
    if not only and (folder := find_minilm()):
        precisions: tuple[Precision, ...] = ("int8", "fp32")
        for precision in precisions:
            model = load_model(folder, precision=precision)
            methods.append((f"balanced, MiniLM {precision}", chats, ours(embedder=model)))
    return {
        name: _means(measure_questions(among, compact, QUESTION_RATIOS, cost=cost), name)
        for name, among, compact in methods
        if not only or name in only
    }


def _cuts(cuts: list[Cut], only: frozenset[str]) -> Means:
    cost = exact_cost()
    kind = cuts[0].format if cuts else "auto"
    methods: list[tuple[str, Compact]] = [
        ("keep the last", keep_last(cost)),
        ("LangChain trim_messages", trim_messages(cost)),
        ("chitta", ours(scoring="chitta", format=kind)),
        ("balanced", ours(format=kind)),
        ("balanced, excerpts", ours(format=kind, granularity="excerpt")),
        ("Context.compact", in_context(kind)),
        ("Context.compact, excerpts", in_context(kind, granularity="excerpt")),
    ]
    for said in VAGUE:
        methods.append((f'query "{said}"', with_query(ours(format=kind), said)))
        methods.append((f'last turn "{said}"', as_last_turn(ours(format=kind), kind, said)))
    found = {
        name: _means(measure_cuts(cuts, compact, CUT_RATIOS, cost=cost), name)
        for name, compact in methods
        if not only or name in only
    }
    if only:
        return found
    limits = [measure_cuts([cut], oracle(cut, cost), CUT_RATIOS, cost=cost) for cut in cuts]
    every = Retention(tuple(score for limit in limits for score in limit.scores))
    return found | {"knows the future": _means(every, "knows the future")}


def _work_questions(questions: Sequence[WorkQuestion]) -> dict[str, Any]:
    """Measure by way of asking whether the answer of each question is still there."""
    cost = exact_cost()
    whole, parts = ours(format="claude_code"), ours(format="claude_code", granularity="excerpt")
    methods: list[tuple[str, Ask]] = [
        ("keep the last", not_asked(keep_last(cost))),
        ("LangChain trim_messages", not_asked(trim_messages(cost))),
        ("balanced, not asked", not_asked(whole)),
        ("balanced", given_as_query(whole)),
        (LAST_TURN, said_last(whole)),
        (f"{LAST_TURN}, excerpts", said_last(parts)),
    ]
    found = {}
    for name, ask in methods:
        measured = [
            measure_cuts([question.cut], ask(question), WORK_RATIOS, cost=cost)
            for question in questions
        ]
        scores = tuple([score for each in measured for score in each.scores])
        found[name] = _means(Retention(scores), name)
    return {"questions": len(questions), "methods": found}


def _means(found: Retention, name: str) -> dict[str, Any]:
    print(f"  {time.strftime('%H:%M:%S')}  {name}: {found.means()}", file=sys.stderr, flush=True)
    return {
        "retained": found.means(),
        "cost": found.cost_ratios(),
        "interval": found.intervals(),
    }


def _without_speakers(chat: Conversation) -> Conversation:
    """Return the chat without each turn's `Name: `, which other conversations do not have."""
    messages = [{**m, "content": str(m["content"]).partition(": ")[2]} for m in chat.messages]
    return Conversation(chat.name, messages, chat.format, chat.questions)


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", help="folder of the conversations")
    parser.add_argument(
        "--only", nargs="+", default=(), help="these methods, without laws and questions on work"
    )
    parser.add_argument("--every", type=int, default=1, help="ask one in so many questions")
    asked = parser.parse_args()
    folder = data_folder(asked.folder)
    if folder is None:
        sys.exit("retention: no conversations; name their folder, or set REHYDRATE_DATA")
    json.dump(measure(folder, frozenset(asked.only), asked.every), sys.stdout)


if __name__ == "__main__":
    main()
