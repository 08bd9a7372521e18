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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean
from typing import Any, NamedTuple

import rehydrate
from benches.python.sources import Source, data_folder, read_sources
from benches.python.turns import VAGUE, as_last_turn, with_query
from rehydrate.retention import (
    CUT_RATIOS,
    Compact,
    Conversation,
    Cut,
    Kept,
    Measure,
    Message,
    Question,
    Retention,
    Score,
    best_cover,
    by_session,
    compacted as ours,
    cover,
    exact_cost,
    is_system,
    keep_last,
    mean_by_session,
    names_in,
    oracle,
    score_cut,
    steps,
    text_of,
    trim_messages,
    without_marks,
)

SIZE_RATIOS = (0.02, 0.05, 0.1, 0.2, 0.4)
ASKED_RATIOS = {"locomo": (0.05, 0.1), "beam": (0.05, 0.1, 0.2)}
ANCHOR = "whole"
"""The method that sets the size of the others."""
PAIRS = (
    ("whole", "coverage"),
    ("whole", "last"),
    ("excerpts", "last"),
    ("excerpts", "whole"),
    ("vague query", "whole"),
    ("vague turn", "whole"),
)
CUT_METHODS = (
    "whole", "excerpts", "inputs", "last", "trim", "coverage", "coverage, measured names",
    "vague query", "vague turn",
    "oracle names", "oracle lines", "oracle names, blocks", "oracle lines, blocks",
)  # fmt: skip
QUESTION_METHODS = ("whole", "excerpts", "whole, last turn", "excerpts, last turn", "last")
CUT_MEASURES = {"retained": "names used later", "lines": "lines typed again"}
ASKED_MEASURES = {"retained": "evidence present", "text": "share of the evidence's text"}
INPUTS_ARE_OPTIONAL = "excerpt_inputs" in inspect.signature(rehydrate.compact_context).parameters

Run = Callable[[float], Score]
"""Measures one method on one cut at a share of its tokens."""
NamesOf = Callable[[str], frozenset[str]]


def methods(cut: Cut, cost: Callable[[Message], int]) -> dict[str, Run]:
    """Return every method for this cut, by name."""
    kind = cut.format
    whole, excerpts = ours(format=kind), ours(format=kind, granularity="excerpt")
    compactors = {
        "whole": whole,
        "excerpts": excerpts,
        "last": keep_last(cost),
        "trim": trim_messages(cost),
        "coverage": plain_coverage(cut, cost, other_names_in),
        "coverage, measured names": plain_coverage(cut, cost, names_in),
        "oracle names": oracle(cut, cost),
        "oracle lines": oracle(cut, cost, "lines"),
    }
    if INPUTS_ARE_OPTIONAL:
        compactors["inputs"] = ours(format=kind, granularity="excerpt", excerpt_inputs=True)
    vague = {
        "vague query": [with_query(whole, said) for said in VAGUE],
        "vague turn": [as_last_turn(whole, kind, said) for said in VAGUE],
    }

    def run(*each: Compact) -> Run:
        return lambda ratio: _mean([score_cut(cut, compact, ratio, cost) for compact in each])

    return {
        **{name: run(compact) for name, compact in compactors.items()},
        **{name: run(*each) for name, each in vague.items()},
        "oracle names, blocks": lambda ratio: oracle_of_blocks(cut, cost, "names", ratio),
        "oracle lines, blocks": lambda ratio: oracle_of_blocks(cut, cost, "lines", ratio),
    }


def measure_cut(
    cut: Cut, ratios: Sequence[float], only: Sequence[str], cost: Callable[[Message], int]
) -> dict[str, list[Score]]:
    """Measure these methods at these ratios, each at the size that `compact_context` needed."""
    runs = methods(cut, cost)
    found: dict[str, list[Score]] = {name: [] for name in only if name in runs}
    for ratio in ratios:
        anchor = runs[ANCHOR](ratio)
        size = max(ratio, anchor.cost_ratio)
        for name, scores in found.items():
            is_ours_asked = name.startswith("vague")  # it is compared with the anchor itself
            score = anchor if name == ANCHOR else runs[name](ratio if is_ours_asked else size)
            scores.append(replace(score, ratio=ratio))
    return found


def plain_coverage(cut: Cut, cost: Callable[[Message], int], names_of: NamesOf) -> Compact:
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


def oracle_of_blocks(
    cut: Cut, cost: Callable[[Message], int], measure: Measure, ratio: float
) -> Score:
    """Keep nearly the most that blocks of 300 characters can; their marks cost nothing."""
    total = sum(map(cost, cut.messages))
    system = [message for message in cut.messages if is_system(message)]
    blocks = [block for m in cut.messages if not is_system(m) for block in _blocks(text_of(m))]
    found = cut.mentioned if measure == "names" else cut.quoted
    needs = [found([{"content": text}]) for text, _ in blocks]
    budget = max(0, int(total * ratio + 1e-9) - sum(map(cost, system)))
    costs = [tokens for _, tokens in blocks]
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


def ask(
    chat: Conversation,
    question: Question,
    case: str,
    compact: Compact,
    ratio: float,
    cost: Callable[[Message], int],
) -> Asked:
    """Compact with a question; measure the messages that answer it, and how much of their text."""
    kept = compact(list(chat.messages), question.text, ratio)
    held = kept if isinstance(kept, Kept) else _kept_by_id(kept, chat.messages)
    by_index = dict(zip(held.indices, held, strict=True))
    texts = [
        len(without_marks(text_of(by_index[i]))) / max(1, len(text_of(chat.messages[i])))
        if i in by_index
        else 0.0
        for i in question.evidence
    ]
    return Asked(
        case,
        ratio,
        fmean(i in by_index for i in question.evidence),
        sum(map(cost, kept)) / sum(map(cost, chat.messages)),
        session=chat.name,
        asked=ratio,
        text=fmean(min(1.0, share) for share in texts),
    )


@dataclass(frozen=True, slots=True)
class Asked(Score):
    """A score of a question: `text` is the share of the evidence's text that is still there."""

    text: float | None = None


def measure_question(
    chat: Conversation,
    number: int,
    ratios: Sequence[float],
    only: Sequence[str],
    cost: Callable[[Message], int],
) -> dict[str, list[Score]]:
    """Ask one question by these methods at these ratios, each at the size of the anchor."""
    whole, parts = ours(format=chat.format), ours(format=chat.format, granularity="excerpt")
    compactors = {
        "whole": whole,
        "excerpts": parts,
        "whole, last turn": as_last_turn(whole, chat.format),
        "excerpts, last turn": as_last_turn(parts, chat.format),
        "last": keep_last(cost),
    }
    question, case = chat.questions[number], f"{chat.name} question {number}"
    found: dict[str, list[Score]] = {name: [] for name in only if name in compactors}
    for ratio in ratios:
        anchor = ask(chat, question, case, whole, ratio, cost)
        size = max(ratio, anchor.cost_ratio)
        for name, scores in found.items():
            is_anchor = name == ANCHOR
            score = anchor if is_anchor else ask(chat, question, case, compactors[name], size, cost)
            scores.append(replace(score, ratio=ratio))
    return found


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
    cases = [measure_cut(cut, ratios or CUT_RATIOS, only, cost) for cut in source.cuts]
    for chat in source.chats:
        at = ratios or ASKED_RATIOS[source.name]
        cases += [
            measure_question(chat, number, at, only, cost)
            for number in range(0, len(chat.questions), every)
        ]
    scores: dict[str, Retention] = {
        name: Retention(tuple(score for case in cases for score in case[name]))
        for name in (cases[0] if cases else ())
    }
    any_scores = next(iter(scores.values()), Retention(()))
    first = next(iter(any_scores.by_ratio().values()), [])
    with_lines = [score.session for score in first if score.lines is not None]
    return {
        "title": source.title,
        "measures": ASKED_MEASURES if source.chats else CUT_MEASURES,
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
        "sizes": _sizes(list(measure_sizes(source.cuts))) if ANCHOR in only else {},
    }


def _figures(of: Retention) -> dict[str, Any]:
    found: dict[str, Any] = {"asked": _keyed(of.means("asked")), "got": _keyed(of.cost_ratios())}
    for measure in {**CUT_MEASURES, **ASKED_MEASURES}:
        if hasattr(of.scores[0], measure):
            found[measure] = {
                "mean": _keyed(of.means(measure)), "interval": _keyed(of.intervals(measure)),
            }  # fmt: skip
    return found


def _paired(more: Retention, less: Retention) -> dict[str, Any]:
    """Return the mean differences of two methods on the same cases, with their intervals."""
    found: dict[str, Any] = {}
    for measure in {**CUT_MEASURES, **ASKED_MEASURES}:
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
    found: dict[str, Any] = {}
    for each in sized:
        found.setdefault(each.granularity, {}).setdefault(str(each.ratio), []).append(each)
    return {
        granularity: {
            ratio: {
                "got": mean_by_session((s.session, s.got / s.asked) for s in group),
                "got_where_pins_fit": mean_by_session(fitting) if fitting else None,
                "most_where_pins_fit": max((value for _, value in fitting), default=None),
                "pins_over": sum(not s.pins_fit for s in group),
                "cases": len(group),
            }
            for ratio, group in by_ratio.items()
            for fitting in [[(s.session, s.got / s.asked) for s in group if s.pins_fit]]
        }
        for granularity, by_ratio in found.items()
    }


def report(found: dict[str, Any]) -> Iterator[str]:
    """Yield the figures of all sources as tables."""
    for source in found.values():
        yield f"## {source['title']}"
        methods, n = source["methods"], source["sessions"]
        for measure, title in source["measures"].items():
            of = {name: each[measure] for name, each in methods.items() if measure in each}
            pairs = {name: each[measure] for name, each in source["pairs"].items()}
            with_lines = source["sessions_with_lines"], source["cases_with_lines"]
            sessions, cases = with_lines if measure == "lines" else (n, source["cases"])
            yield f"\n{title}: {sessions} sessions, {cases} cases"
            ratios = list(next(iter(of.values()), {"mean": ()})["mean"])
            rows = [[name, *(_cell(each, ratio) for ratio in ratios)] for name, each in of.items()]
            rows += [
                [name, *(_cell(pair, ratio, "+.3f") for ratio in ratios)]
                for name, pair in pairs.items()
                if pair["mean"]
            ]
            yield from _plain(["", *ratios], rows)
        yield "\nshare of the tokens, asked / got"
        ratios = list(next(iter(methods.values()), {"got": ()})["got"])
        rows = [
            [name, *(f"{each['asked'][r]:.3f} / {each['got'][r]:.3f}" for r in ratios)]
            for name, each in methods.items()
        ]
        yield from _plain(["", *ratios], rows)
        for granularity, sizes in source["sizes"].items():
            yield f"\ntokens got / asked for, {granularity}"
            rows = [
                ["mean", *(f"{s['got']:.3f}" for s in sizes.values())],
                [
                    "mean where the pins fit",
                    *(_number(s["got_where_pins_fit"]) for s in sizes.values()),
                ],
                ["most there", *(_number(s["most_where_pins_fit"]) for s in sizes.values())],
                ["pins are over", *(f"{s['pins_over']} of {s['cases']}" for s in sizes.values())],
            ]
            yield from _plain(["", *sizes], rows)
        yield ""


def overall(found: dict[str, Any]) -> Iterator[str]:
    """Yield the mean over all sources of the tokens kept for those asked for."""
    with_sizes = [source["sizes"] for source in found.values() if source["sizes"]]
    if not with_sizes:
        return
    yield f"## all {len(with_sizes)} sources: tokens kept, as a share (mean of the sources)"
    for granularity in with_sizes[0]:
        means = {
            ratio: float(ratio) * fmean(sizes[granularity][ratio]["got"] for sizes in with_sizes)
            for ratio in with_sizes[0][granularity]
        }
        yield from _plain(["", *means], [[granularity, *(f"{v:.4f}" for v in means.values())]])


def _plain(header: list[str], rows: list[list[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        yield "  ".join(cells).rstrip()


def _cell(each: dict[str, Any], ratio: str, form: str = ".3f") -> str:
    interval = each["interval"].get(ratio)
    sign = "+" if form.startswith("+") else ""
    span = f" ({interval[0]:{sign}.2f} {interval[1]:{sign}.2f})" if interval else ""
    return f"{each['mean'][ratio]:{form}}{span}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _keyed(values: dict[float, Any]) -> dict[str, Any]:
    return {str(ratio): value for ratio, value in values.items()}


def _mean(scores: Sequence[Score]) -> Score:
    """Return one score with the means of several of the same case."""
    first = scores[0]
    if len(scores) == 1:
        return first
    return replace(
        first,
        retained=fmean(s.retained for s in scores),
        cost_ratio=fmean(s.cost_ratio for s in scores),
        lines=None if first.lines is None else fmean(s.lines or 0.0 for s in scores),
    )


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


def _kept_by_id(kept: Sequence[Message], messages: Sequence[Message]) -> Kept:
    by_id = {id(message): index for index, message in enumerate(messages)}
    return Kept(kept, [by_id[id(message)] for message in kept])


def main() -> None:
    """Print the figures as tables, or as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", help="folder of the conversations")
    parser.add_argument("--sources", nargs="+", default=(), help="coding aider swe-agent ...")
    parser.add_argument(
        "--methods", nargs="+", default=(*CUT_METHODS, *QUESTION_METHODS), help=str(CUT_METHODS)
    )
    parser.add_argument("--ratios", nargs="+", type=float, help="shares of the tokens to keep")
    parser.add_argument("--every", type=int, default=1, help="ask one in so many questions")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    folder = data_folder(given.folder)
    if folder is None:
        sys.exit("retention: no conversations; name their folder, or set REHYDRATE_DATA")
    only = tuple(dict.fromkeys(given.methods))
    found: dict[str, Any] = {}
    for source in read_sources(folder, given.sources):
        found[source.name] = measure_source(source, given.ratios, only, given.every)
        if not given.json:
            print("\n".join(report({source.name: found[source.name]})), flush=True)
    if given.json:
        json.dump(found, sys.stdout)
    else:
        print("\n".join(overall(found)))


if __name__ == "__main__":
    main()
