"""What survives in sessions of other shapes: `python -m benches.python.shapes [SHAPE...]`.

Per shape, strategy and ratio: of the values that later calls use, the share still there after
compacting the earlier messages; and of the values that a question needs, the share still there when
it is the last user turn, and when it is the query. Each figure has its interval by session.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from statistics import fmean
from typing import Any

from benches.python.inputs import Message
from benches.python.shapes import SHAPES, sessions
from benches.python.shapes.log import Log
from benches.report.markdown import table
from benches.report.sections.shapes import HEADER, lines
from rehydrate._native import text_of
from rehydrate.errors import MissingPackageError
from rehydrate.retention import (
    CUT_RATIOS,
    Compact,
    Cut,
    Kept,
    Retention,
    compacted,
    exact_cost,
    keep_last,
    measure_cuts,
    oracle,
)
from rehydrate.retention.baselines import trim_messages

Cost = Callable[[Message], int]
Asked = tuple[Cut, str]


def peers(cost: Cost) -> dict[str, Compact]:
    """Return the strategies that keep the end."""
    found = {"keep last": keep_last(cost)}
    with suppress(MissingPackageError):
        found["trim_messages"] = trim_messages(cost)
    return found


def ours() -> dict[str, Compact]:
    """Return `compact_context`, with whole messages and with excerpts."""
    return {
        "compact_context": compacted(thinking="keep"),
        "excerpts": compacted(thinking="keep", granularity="excerpt"),
    }


def used_later(cuts: Sequence[Cut], cost: Cost) -> dict[str, Retention]:
    """Measure what each keeps of the values that are used after a cut."""
    found = {
        name: measure_cuts(cuts, compact, CUT_RATIOS, cost=cost)
        for name, compact in (peers(cost) | ours()).items()
    }
    return found | {"knows the future": _possible(cuts, cost)}


def asked(questions: Sequence[Asked], cost: Cost) -> dict[str, Retention]:
    """Measure what each keeps of the values that a question needs."""
    as_turns = [cut for cut, _ in questions]
    found = {
        name: measure_cuts(as_turns, compact, CUT_RATIOS, cost=cost)
        for name, compact in (peers(cost) | ours()).items()
    }
    for name, compact in ours().items():
        each = (
            measure_cuts([before(cut)], with_query(compact, text), CUT_RATIOS, cost=cost)
            for cut, text in questions
        )
        found[f"{name}, query"] = _together(each)
    return found | {"knows the future": _possible(as_turns, cost)}


def before(cut: Cut) -> Cut:
    """Return the cut without the question that is its last turn."""
    return replace(cut, messages=cut.messages[:-1])


def with_query(compact: Compact, query: str) -> Compact:
    """Return the compactor with this query."""
    return lambda messages, _, ratio: compact(messages, query, ratio)


def _possible(cuts: Iterable[Cut], cost: Cost) -> Retention:
    return _together(measure_cuts([cut], oracle(cut, cost), CUT_RATIOS, cost=cost) for cut in cuts)


def _together(found: Iterable[Retention]) -> Retention:
    return Retention(tuple(score for each in found for score in each.scores))


def measure(shape: str, logs: Sequence[Log], cost: Cost) -> dict[str, Any]:
    """Return all figures of sessions of a shape, as the report reads them."""
    cuts = [cut for log in logs for cut in log.cuts()]
    questions = [question for log in logs for question in log.questions()]
    found = {"used later": used_later(cuts, cost)} if cuts else {}
    found["asked"] = asked(questions, cost)
    return {
        "shape": shape,
        "sessions": len(logs),
        "messages": fmean(len(log.messages) for log in logs),
        "tokens": fmean(sum(map(cost, log.messages)) for log in logs),
        "cuts": len(cuts),
        "questions": len(questions),
        "measures": {
            name: {strategy: _figures(each) for strategy, each in by_strategy.items()}
            for name, by_strategy in found.items()
        },
    }


def _figures(found: Retention) -> dict[str, Any]:
    intervals = found.intervals()
    return {
        "retained": {str(ratio): mean for ratio, mean in found.means().items()},
        "interval": {str(ratio): str(interval) for ratio, interval in intervals.items()},
        "violations": sum(score.violations > 0 for score in found.scores),
    }


def weaker(logs: Iterable[Log], own: Compact, cost: Cost) -> Iterator[str]:
    """Yield cuts and questions of which a peer keeps more than `own`, and what it loses."""
    others = peers(cost)
    for log in logs:
        for cut in (*log.cuts(), *(cut for cut, _ in log.questions())):
            for ratio in CUT_RATIOS:
                kept = cut.mentioned(own(list(cut.messages), None, ratio))
                for name, compact in others.items():
                    theirs = cut.mentioned(compact(list(cut.messages), None, ratio))
                    if len(theirs) > len(kept):
                        counts = f"{len(kept)} of {len(cut.needed)}, {name} {len(theirs)}"
                        yield f"{cut.name} at {ratio}: {counts}"
                        for lost in sorted(theirs - kept):
                            yield f"    {_why_lost(cut, lost, own, ratio)}"


def _why_lost(cut: Cut, value: str, compact: Compact, ratio: float) -> str:
    """Return where a value was last, and why that message was dropped."""
    kept = compact(list(cut.messages), None, ratio)
    index = max(i for i, message in enumerate(cut.messages) if value in text_of(message))
    why = kept.reasons().get(index, "kept in part") if isinstance(kept, Kept) else ""
    return f"{value!r} in message {index} of {len(cut.messages)}: {why}"


def _count(least: int) -> Callable[[str], int]:
    """Return a parser of a whole number with this minimum."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} isn't a whole number from {least} on")
        return int(text)

    return read


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("shapes", nargs="*", help=f"of {', '.join(SHAPES)}; all of them by default")
    parser.add_argument("--sessions", type=_count(1), help="so many of each shape")
    parser.add_argument("--first", type=_count(0), default=0, help="the first one's number")
    parser.add_argument("--json", action="store_true", help="for the report")
    parser.add_argument("--weaker", action="store_true", help="show where a peer keeps more")
    options = parser.parse_args()
    unknown = [shape for shape in options.shapes if shape not in SHAPES]
    if unknown:
        parser.error(f"{unknown[0]!r} isn't a shape; name some of {', '.join(SHAPES)}")
    cost, shapes = exact_cost(), options.shapes or list(SHAPES)
    made = {shape: sessions(shape, options.sessions, first=options.first) for shape in shapes}
    if options.weaker:
        own = ours()["compact_context"]
        for logs in made.values():
            for line in weaker(logs, own, cost):
                print(line, flush=True)
        return
    found = [measure(shape, logs, cost) for shape, logs in made.items()]
    if options.json:
        json.dump(found, sys.stdout)
    else:
        print("\n".join(table(HEADER, lines(found))))


if __name__ == "__main__":
    main()
