"""What is kept of what is needed later, by source: `python -m benches.python.retention`.

    python -m benches.python.retention --sources coding --methods whole last --ratios 0.1 0.2
    python -m benches.python.retention --sources beam locomo --every 5
    python -m benches.python.retention --json > retention.json

Two measures of a cut session: names that are used later, and lines that are typed again (see
`rehydrate.retention`). Every method is given the same size: the budget, or what `compact_context`
had to keep, if that is more. Means are over the cuts of a session, then over the sessions.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean
from typing import Any, NamedTuple

import rehydrate
from benches.python.minilm import find_minilm
from benches.python.sources import Source, data_folder, read_sources
from benches.python.turns import (
    VAGUE,
    WorkQuestion,
    as_last_turn,
    in_context,
    with_query,
)
from benches.report.sections.retention import overall, tables
from rehydrate._native import best_cover, cover, text_of, without_marks
from rehydrate.embedding import load_model
from rehydrate.embedding.model_files import Precision
from rehydrate.retention import (
    CUT_RATIOS,
    Compact,
    Conversation,
    Cut,
    Kept,
    Retention,
    Score,
    compacted as ours,
    exact_cost,
    keep_last,
    names_in,
    oracle,
    steps,
)
from rehydrate.retention.baselines import Measure, trim_messages
from rehydrate.retention.measure import by_session, mean_by_session, score_cut
from rehydrate.retention.reading import Message, is_system

ASKED_RATIOS = (0.05, 0.1, 0.2)
SIZE_RATIOS = (0.02, 0.05, 0.1, 0.2, 0.4)
ANCHOR = "whole"
"""The method that sets the size of the others."""
AT_ITS_OWN_SIZE = ("vague query", "vague turn")
"""These are compared with the anchor itself, so they are asked for what it was asked for."""
PAIRS = (
    ("whole", "coverage"),
    ("whole", "last"),
    ("excerpts", "last"),
    ("excerpts", "whole"),
    ("vague query", "whole"),
    ("vague turn", "whole"),
)
MEASURES = ("retained", "lines", "text")

Cost = Callable[[Message], int]
NamesOf = Callable[[str], frozenset[str]]
Run = Callable[[float], Score]
"""Measures one method on one case at a share of its tokens."""


def of_cut(cut: Cut, cost: Cost) -> dict[str, Run]:
    """Return every method for a cut, by name."""
    kind = cut.format
    whole, excerpts = ours(format=kind), ours(format=kind, granularity="excerpt")
    compactors = {
        ANCHOR: [whole],
        "excerpts": [excerpts],
        "last": [keep_last(cost)],
        "trim": [trim_messages(cost)],
        "coverage": [plain_coverage(cut, cost, other_names_in)],
        "coverage, measured names": [plain_coverage(cut, cost, names_in)],
        "chitta": [ours(format=kind, scoring="chitta")],
        "context": [in_context(kind)],
        "vague query": [with_query(whole, said) for said in VAGUE],
        "vague turn": [as_last_turn(whole, kind, said) for said in VAGUE],
        "oracle names": [oracle(cut, cost)],
        "oracle lines": [oracle(cut, cost, "lines")],
    }
    if "excerpt_inputs" in inspect.signature(rehydrate.compact_context).parameters:
        more = ours(format=kind, granularity="excerpt", excerpt_inputs=True)
        compactors["inputs"] = [more]

    def run(each: Sequence[Compact]) -> Run:
        return lambda ratio: _mean([score_cut(cut, compact, ratio, cost) for compact in each])

    return {
        **{name: run(each) for name, each in compactors.items()},
        "oracle names, blocks": lambda ratio: oracle_of_blocks(cut, cost, "names", ratio),
        "oracle lines, blocks": lambda ratio: oracle_of_blocks(cut, cost, "lines", ratio),
    }


def of_question(
    chat: Conversation, number: int, cost: Cost, models: Mapping[str, Compact]
) -> dict[str, Run]:
    """Return every method for a question of a chat, by name; `models` are more of them."""
    kind = chat.format
    whole, excerpts = ours(format=kind), ours(format=kind, granularity="excerpt")
    compactors = {
        ANCHOR: whole,
        "excerpts": excerpts,
        "whole, last turn": as_last_turn(whole, kind),
        "excerpts, last turn": as_last_turn(excerpts, kind),
        "last": keep_last(cost),
        "chitta": ours(format=kind, scoring="chitta"),
        "no embedder": ours(format=kind, embedder=None),
        **models,
    }

    def run(compact: Compact) -> Run:
        return lambda ratio: score_evidence(chat, number, compact, ratio, cost)

    return {name: run(compact) for name, compact in compactors.items()}


def of_work(question: WorkQuestion, cost: Cost) -> dict[str, Run]:
    """Return every method for a question about the work of a session, by name."""
    kind = question.cut.format
    whole, excerpts = ours(format=kind), ours(format=kind, granularity="excerpt")
    compactors = {
        ANCHOR: with_query(whole, question.text),
        "excerpts": with_query(excerpts, question.text),
        "whole, last turn": as_last_turn(whole, kind, question.text),
        "excerpts, last turn": as_last_turn(excerpts, kind, question.text),
        "not asked": whole,
        "last": keep_last(cost),
        "trim": trim_messages(cost),
    }

    def run(compact: Compact) -> Run:
        return lambda ratio: score_cut(question.cut, compact, ratio, cost)

    return {name: run(compact) for name, compact in compactors.items()}


def measure_case(
    runs: Mapping[str, Run], ratios: Sequence[float], only: Sequence[str]
) -> dict[str, list[Score]]:
    """Measure these methods (all, if none is named), each at the size that the anchor needed."""
    found: dict[str, list[Score]] = {name: [] for name in only or runs if name in runs}
    for ratio in ratios:
        anchor = runs[ANCHOR](ratio)
        size = max(ratio, anchor.cost_ratio)
        for name, scores in found.items():
            given = ratio if name in AT_ITS_OWN_SIZE else size
            score = anchor if name == ANCHOR else runs[name](given)
            scores.append(replace(score, ratio=ratio))
    return found


def plain_coverage(cut: Cut, cost: Cost, names_of: NamesOf) -> Compact:
    """Keep what `compact_context` must keep, then steps by their new names per token."""

    def compact(messages: list[Message], _: str | None, ratio: float) -> list[Message]:
        budget = int(sum(map(cost, messages)) * ratio + 1e-9)
        pins = rehydrate.compact_context(messages, budget_tokens=1, format=cut.format).indices
        rest = [step for step in steps(messages) if not set(step) & set(pins)]
        names = [_names_of_step(messages, step, names_of) for step in rest]
        costs = [sum(cost(messages[i]) for i in step) for step in rest]
        had = _names_of_step(messages, pins, names_of)
        room = budget - sum(cost(messages[i]) for i in pins)
        chosen = [i for n in cover(names, costs, room, covered=had) for i in rest[n]]
        return [messages[i] for i in sorted([*pins, *chosen])]

    return compact


_WORD = re.compile(r"[^\W_](?:[\w./@:#$~+-]*[\w$])?")
_INNER = re.compile(r"\w[./_@:#-]+\w|[a-z\d][A-Z]|[A-Z]{2}|\d")


def other_names_in(text: str) -> frozenset[str]:
    """Return names by a rule that is not the measure's: who packs by that is flattered."""
    return frozenset(w for w in _WORD.findall(text) if 3 <= len(w) <= 200 and _INNER.search(w))


def oracle_of_blocks(cut: Cut, cost: Cost, measure: Measure, ratio: float) -> Score:
    """Keep nearly the most that blocks of 300 characters can; their marks cost nothing."""
    total = sum(map(cost, cut.messages))
    system = [message for message in cut.messages if is_system(message)]
    blocks = [block for m in cut.messages if not is_system(m) for block in _blocks(text_of(m))]
    found = cut.mentioned if measure == "names" else cut.quoted
    needs = [found([{"content": text}]) for text, _ in blocks]
    costs = [tokens for _, tokens in blocks]
    budget = max(0, int(total * ratio + 1e-9) - sum(map(cost, system)))
    chosen = best_cover(needs, costs, budget)
    kept = [*system, *({"content": blocks[i][0]} for i in chosen)]
    return Score(
        cut.name,
        ratio,
        len(cut.mentioned(kept)) / max(1, len(cut.needed)),
        (sum(map(cost, system)) + sum(costs[i] for i in chosen)) / max(1, total),
        session=cut.session,
        asked=ratio,
        lines=len(cut.quoted(kept)) / len(cut.lines) if cut.lines else None,
    )


@dataclass(frozen=True, slots=True)
class Asked(Score):
    """A score of a question."""

    text: float | None = None
    """Share of the evidence's text that is still there."""


def score_evidence(
    chat: Conversation, number: int, compact: Compact, ratio: float, cost: Cost
) -> Asked:
    """Compact with a question: which messages that answer it are there, and how much of them."""
    question, messages = chat.questions[number], chat.messages
    kept = compact(list(messages), question.text, ratio)
    if not isinstance(kept, Kept):
        by_id = {id(message): index for index, message in enumerate(messages)}
        kept = Kept(kept, [by_id[id(message)] for message in kept])
    there = dict(zip(kept.indices, kept, strict=True))
    shares = [
        len(without_marks(text_of(there[i]))) / max(1, len(text_of(messages[i])))
        if i in there
        else 0.0
        for i in question.evidence
    ]
    return Asked(
        f"{chat.name} question {number}",
        ratio,
        fmean(i in there for i in question.evidence),
        sum(map(cost, kept)) / sum(map(cost, messages)),
        session=chat.name,
        asked=ratio,
        text=fmean(min(1.0, share) for share in shares),
    )


class Sized(NamedTuple):
    """What `compact_context` was asked for and what it kept, by its own counts."""

    session: str
    granularity: str
    ratio: float
    asked: int
    got: int
    pins_fit: bool


def measure_sizes(cuts: Iterable[Cut]) -> Iterator[Sized]:
    """Compact each cut to small and large sizes."""
    for cut in cuts:
        before = rehydrate.count_tokens(cut.messages, format=cut.format)
        for granularity in ("message", "excerpt"):
            for ratio in SIZE_RATIOS:
                asked = int(before * ratio + 1e-9)
                stats = rehydrate.compact_context(
                    cut.messages, budget_tokens=asked, format=cut.format, granularity=granularity
                ).stats
                fits = stats.pinned_tokens <= asked
                yield Sized(cut.session, granularity, ratio, asked, stats.after_tokens, fits)


def measure_source(
    source: Source, ratios: Sequence[float] | None, only: Sequence[str], every: int
) -> dict[str, Any]:
    """Return every figure of a source as JSON values."""
    cost = exact_cost()
    runs: list[dict[str, Run]] = [of_cut(cut, cost) for cut in source.cuts]
    wants_models = not only or any("MiniLM" in name for name in only)
    models = _with_models() if source.name == "locomo" and wants_models else {}
    for chat in source.chats:
        asked = range(0, len(chat.questions), every)
        runs += [of_question(chat, n, cost, models) for n in asked]
    runs += [of_work(question, cost) for question in source.work[::every]]
    at = ratios or (CUT_RATIOS if source.cuts else ASKED_RATIOS)
    cases = [measure_case(each, at, only) for each in runs]
    scores = {
        name: Retention(tuple(score for case in cases for score in case[name]))
        for name in (cases[0] if cases else ())
    }
    one = next(iter(scores.values()), Retention(()))
    first = next(iter(one.by_ratio().values()), [])
    with_lines = [score.session for score in first if score.lines is not None]
    return {
        "title": source.title,
        "kind": source.kind,
        "sessions": len({score.session for score in first}),
        "cases": len(first),
        "sessions_with_lines": len(set(with_lines)),
        "cases_with_lines": len(with_lines),
        "methods": {name: _figures(of) for name, of in scores.items()},
        "pairs": {
            f"{more} less {less}": _paired(scores[more], scores[less])
            for more, less in PAIRS
            if more in scores and less in scores
        },
        "sizes": _sizes(list(measure_sizes(source.cuts))) if ANCHOR in scores else {},
    }


def _figures(of: Retention) -> dict[str, Any]:
    found: dict[str, Any] = {"asked": _keyed(of.means("asked")), "got": _keyed(of.cost_ratios())}
    for measure in MEASURES:
        if hasattr(of.scores[0], measure):
            means, intervals = _keyed(of.means(measure)), _keyed(of.intervals(measure))
            found[measure] = {"mean": means, "interval": intervals}
    return found


def _paired(more: Retention, less: Retention) -> dict[str, Any]:
    """Return the mean differences of two methods on the same cases, with their intervals."""
    found: dict[str, Any] = {}
    for measure in MEASURES:
        pairs: dict[float, list[tuple[str, float]]] = {}
        for a, b in zip(more.scores, less.scores, strict=True):
            values = [getattr(score, measure, None) for score in (a, b)]
            if None not in values:
                pairs.setdefault(a.ratio, []).append((a.session, values[0] - values[1]))
        found[measure] = {
            "mean": {str(ratio): mean_by_session(each) for ratio, each in pairs.items()},
            "interval": {str(ratio): by_session(each) for ratio, each in pairs.items()},
        }
    return found


def _sizes(sized: Sequence[Sized]) -> dict[str, Any]:
    """Return tokens kept per token asked for, and where what must stay alone is more."""
    groups: dict[str, dict[str, list[Sized]]] = {}
    for each in sized:
        groups.setdefault(each.granularity, {}).setdefault(str(each.ratio), []).append(each)

    def figures(group: Sequence[Sized]) -> dict[str, Any]:
        fitting = [(s.session, s.got / s.asked) for s in group if s.pins_fit]
        return {
            "got": mean_by_session((s.session, s.got / s.asked) for s in group),
            "got_where_pins_fit": mean_by_session(fitting) if fitting else None,
            "most_where_pins_fit": max((value for _, value in fitting), default=None),
            "pins_over": sum(not s.pins_fit for s in group),
            "cases": len(group),
        }

    return {
        granularity: {ratio: figures(group) for ratio, group in by_ratio.items()}
        for granularity, by_ratio in groups.items()
    }


def _keyed(values: dict[float, Any]) -> dict[str, Any]:
    return {str(ratio): value for ratio, value in values.items()}


def _mean(scores: Sequence[Score]) -> Score:
    """Return one score with the means of several of the same case."""
    first = scores[0]
    return replace(
        first,
        retained=fmean(s.retained for s in scores),
        cost_ratio=fmean(s.cost_ratio for s in scores),
        lines=None if first.lines is None else fmean(s.lines or 0.0 for s in scores),
    )


@cache
def _with_models() -> dict[str, Compact]:
    """Return `compact_context` with MiniLM, if its weights are here."""
    folder = find_minilm()
    precisions: tuple[Precision, ...] = ("int8", "fp32") if folder else ()
    return {
        f"MiniLM {precision}": ours(embedder=load_model(folder, precision=precision))
        for precision in precisions
    }


_BLOCK = re.compile(r"[\s\S]{1,300}(?:\n|\Z)|.{1,3000}(?:\n|\Z)|[\s\S]{3000}")


@cache
def _blocks(text: str) -> list[tuple[str, int]]:
    """Return the blocks of a text, of whole lines unless they are long, with their tokens."""
    return [(block, rehydrate.count_tokens(block)) for block in _BLOCK.findall(text)]


@cache
def _names(names_of: NamesOf, text: str) -> frozenset[str]:
    return names_of(text)


def _names_of_step(
    messages: Sequence[Message], step: Iterable[int], names_of: NamesOf
) -> frozenset[str]:
    return frozenset().union(*(_names(names_of, text_of(messages[i])) for i in step))


def _plain(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a table for a terminal."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        yield "  ".join(cells).rstrip()


def main() -> None:
    """Print the figures as tables, or as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", help="folder of the conversations")
    parser.add_argument("--sources", nargs="+", default=(), help="such as coding aider beam")
    parser.add_argument("--methods", nargs="+", default=(), help="such as whole excerpts last")
    parser.add_argument("--ratios", nargs="+", type=float, help="shares of the tokens to keep")
    parser.add_argument("--every", type=int, default=1, help="ask one in so many questions")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    folder = data_folder(given.folder)
    if folder is None:
        sys.exit("retention: no conversations; name their folder, or set REHYDRATE_DATA")
    found: dict[str, Any] = {}
    for source in read_sources(folder, given.sources):
        figures = measure_source(source, given.ratios, given.methods, given.every)
        found[source.name] = figures
        if given.json:
            print(f"  {source.name}: {figures['cases']} cases", file=sys.stderr, flush=True)
            continue
        print(f"## {figures['title']}")
        for title, header, rows in tables(figures):
            print("", title, *_plain(header, rows), sep="\n", flush=True)
        print()
    if given.json:
        json.dump(found, sys.stdout)
    else:
        for title, header, rows in overall(found):
            print(title, *_plain(header, rows), sep="\n")


if __name__ == "__main__":
    main()
