"""Share of what is needed later that is kept, by source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from statistics import fmean
from typing import Any

from benches.report.figures import Figures
from benches.report.markdown import rows_table, section, table
from benches.report.rows import Row

COMMAND = "python -m benches.python.retention"
WANTS: Mapping[tuple[str, str, str], Mapping[str, float]] = {
    ("coding", "whole", "retained"): {"0.1": 0.53, "0.2": 0.67, "0.4": 0.85},
    ("coding", "whole", "lines"): {"0.1": 0.28, "0.2": 0.42, "0.4": 0.66},
    ("coding", "excerpts", "retained"): {"0.1": 0.60, "0.2": 0.75, "0.4": 0.91},
    ("coding", "excerpts", "lines"): {"0.1": 0.30, "0.2": 0.48, "0.4": 0.76},
    ("aider", "excerpts", "retained"): {"0.1": 0.78, "0.2": 0.90, "0.4": 0.99},
    ("swe-agent", "excerpts", "retained"): {"0.1": 0.62, "0.2": 0.70, "0.4": 0.85},
    ("support", "excerpts", "retained"): {"0.1": 0.58, "0.2": 0.72, "0.4": 0.90},
    ("beam", "whole", "retained"): {"0.05": 0.68, "0.1": 0.80, "0.2": 0.90},
    ("work names", "whole", "retained"): {"0.1": 0.85},
    ("work names", "whole, last turn", "retained"): {"0.1": 0.85},
    ("work lines", "whole", "retained"): {"0.1": 0.85},
    ("work lines", "whole, last turn", "retained"): {"0.1": 0.85},
    ("locomo", "whole, last turn", "retained"): {"0.05": 0.85, "0.1": 0.90},
}
"""Minimum shares, by source, method and measure."""
WANTED_DIFFERENCES = {
    "whole less coverage": 0.0,
    "vague query less whole": -0.01,
    "vague turn less whole": -0.01,
}
LARGEST_SIZE = 1.02
"""Tokens kept for each that was asked for, at most; where what must stay alone is not more."""
SIZED = ("whole", "excerpts", "context", "last", "trim", "coverage", "chitta")
"""Methods whose sizes are shown: the others have theirs from one of these, or pin nothing."""
TITLES = {
    "cuts": {"retained": "names used later", "lines": "lines typed again"},
    "questions": {"retained": "evidence present", "text": "share of the evidence's text"},
    "work": {"retained": "what is asked for is there"},
}
ABOUT = {
    "cuts": (
        "Cut sessions: of the names that are used after a cut, and of the lines that are typed "
        "again, the share still there, by share of the o200k_base tokens. Names flatter a list of "
        "names; lines do not. All methods but the vague ones have the same size: the budget, or "
        "what `compact_context` (`whole`) had to keep. `coverage` keeps the same pins and then "
        "steps by their new names per token, by a name rule that is not the measure's; the "
        "oracles know what is needed, and pin nothing"
    ),
    "questions": (
        "Chats with questions: the share of a question's evidence messages still there, whole or "
        "in part, the question as query or as last turn; and of their text"
    ),
    "work": (
        "Questions about the work of coding sessions, each of a name that at most two steps "
        "mention, or of rare words of one line: whether it is still there, the question as query "
        "or as last turn"
    ),
}
WHOLE = "Whole messages are the unit: one needed name in a long result costs all its tokens"
PARTS = "What will be used is not in the past; the marks of the gaps cost tokens"
INTERVALS = (
    "Means over the cuts of a session, then over sessions; in brackets 95% intervals by session"
)

Table = tuple[str, list[str], list[list[str]]]
"""Its title, its header and its rows."""


def retention(of: Figures) -> Iterable[str]:
    """Share of what is needed later that is kept, by source."""
    if of.retention is None:
        yield from section(
            "Retention",
            "Not measured: the conversations in `../shared/data` are not here, or the command "
            "failed.",
            COMMAND,
        )
        return
    yield from section("Retention", f"{INTERVALS}.", COMMAND)
    yield from (f"- **{kind.capitalize()}.** {about}." for kind, about in ABOUT.items())
    yield ""
    for name, source in of.retention.items():
        quoted = f"'{name}'" if " " in name else name
        about = f"{source['kind'].capitalize()}, as above."
        yield from section(f"Retention: {source['title']}", about, f"{COMMAND} --sources {quoted}")
        for title, header, lines in tables(source):
            yield from (f"{title}:", "")
            yield from table(header, lines)
    for title, header, lines in overall(of.retention):
        yield from section("Retention: sizes", f"{title}.", COMMAND)
        yield from table(header, lines)
    yield from section("Retention: targets", INTERVALS + ".", COMMAND)
    yield from rows_table(rows(of))


def tables(source: Mapping[str, Any]) -> Iterator[Table]:
    """Yield every table of a source."""
    methods = source["methods"]
    if not methods:
        return
    ratios = list(next(iter(methods.values()))["got"])
    for measure, title in TITLES[source["kind"]].items():
        is_lines = measure == "lines"
        sessions = source["sessions_with_lines" if is_lines else "sessions"]
        cases = source["cases_with_lines" if is_lines else "cases"]
        if not cases:
            continue
        lines = [
            [name, *(_cell(each[measure], ratio) for ratio in ratios)]
            for name, each in methods.items()
        ]
        lines += [
            [name, *(_cell(pair[measure], ratio, "+") for ratio in ratios)]
            for name, pair in source["pairs"].items()
        ]
        yield f"{title}, {sessions} sessions, {cases} cases", [title, *ratios], lines
    sizes = [
        [
            name,
            *(f"{methods[name]['asked'][r]:.3f} / {methods[name]['got'][r]:.3f}" for r in ratios),
        ]
        for name in SIZED
        if name in methods
    ]
    yield "share of the tokens, asked / got", ["asked / got", *ratios], sizes
    for granularity, by_ratio in source["sizes"].items():
        figures = by_ratio.values()
        yield (
            f"tokens got for each asked, {granularity}s, {source['cases']} cases",
            ["asked", *by_ratio],
            [
                ["got, mean", *(f"{s['got']:.3f}" for s in figures)],
                ["where the pins fit", *(_number(s["got_where_pins_fit"]) for s in figures)],
                ["most there", *(_number(s["most_where_pins_fit"]) for s in figures)],
                ["pins are over", *(f"{s['pins_over']} of {s['cases']}" for s in figures)],
            ],
        )


def overall(found: Mapping[str, Any]) -> Iterator[Table]:
    """Yield the table of the sizes over all sources."""
    sizes = [source["sizes"] for source in found.values() if source["sizes"]]
    if sizes:
        ratios = list(next(iter(sizes[0].values())))
        yield (
            f"share of the tokens kept, by that asked for: the mean of {len(sizes)} sources",
            ["asked", *ratios],
            [
                [f"got, {granularity}s", *(f"{_got(sizes, granularity, r):.4f}" for r in ratios)]
                for granularity in sizes[0]
            ],
        )


def rows(of: Figures) -> list[Row]:
    """Return a row for each target whose source and method were measured."""
    found = of.retention or {}
    made = []
    for (name, method, measure), wants in WANTS.items():
        source = found.get(name, {"methods": {}})
        values = source["methods"].get(method, {}).get(measure)
        for ratio, want in wants.items() if values else ():
            if ratio not in values["mean"]:
                continue
            beside = [_interval(values, ratio)] + [
                f"{other} {source['methods'][other][measure]['mean'][ratio]:.3f}"
                for other in ("last", "trim", "coverage")
                if other in source["methods"]
            ]
            sessions = source["sessions_with_lines" if measure == "lines" else "sessions"]
            made.append(
                Row(
                    f"{source['title']}, {sessions} sessions: "
                    f"{TITLES[source['kind']][measure]}, {method}, at {ratio}",
                    values["mean"][ratio],
                    "",
                    want,
                    more_is_better=True,
                    beside="; ".join(filter(None, beside)),
                    limit=WHOLE if method.startswith("whole") else PARTS,
                )
            )
    for source in found.values():
        for pair, want in WANTED_DIFFERENCES.items():
            values = source["pairs"].get(pair, {}).get("retained", {"mean": {}})
            made += [
                Row(
                    f"{source['title']}, {source['sessions']} sessions: names, {pair}, at {ratio}",
                    mean,
                    "",
                    want,
                    more_is_better=True,
                    beside=_interval(values, ratio, "+"),
                    limit=WHOLE,
                )
                for ratio, mean in values["mean"].items()
            ]
    sizes = [source["sizes"] for source in found.values() if source["sizes"]]
    for granularity in sizes[0] if sizes else ():
        made.append(
            Row(
                f"tokens kept where a tenth is asked for, {granularity}s, {len(sizes)} sources",
                _got(sizes, granularity, "0.1"),
                "of all",
                0.1 * LARGEST_SIZE,
                limit="What must stay may be more than a tenth of a short conversation",
            )
        )
    return made


def _got(sizes: Iterable[Mapping[str, Any]], granularity: str, ratio: str) -> float:
    return float(ratio) * fmean(each[granularity][ratio]["got"] for each in sizes)


def _cell(each: Mapping[str, Any], ratio: str, sign: str = "") -> str:
    mean = each["mean"].get(ratio)
    if mean is None:
        return "-"
    interval = _interval(each, ratio, sign)
    return f"{mean:{sign}.3f}" + (f" ({interval})" if interval else "")


def _interval(each: Mapping[str, Any], ratio: str, sign: str = "") -> str:
    interval = each["interval"].get(ratio)
    between = " to " if sign else "-"
    return f"{interval[0]:{sign}.2f}{between}{interval[1]:{sign}.2f}" if interval else ""


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
