"""Writes benches/RESULTS.md: what was wanted, what was measured, beside whom, what limits it.

`make bench` runs it. Every figure comes from a run; the sentences that say what limits a figure
stand here, next to its row.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import figures
from figures import Figures, Timing

RESULTS = Path(__file__).resolve().parent / "RESULTS.md"
CORE = "cargo bench -p rehydrate-core --bench '*'"
PYTHON = "python benches/report.py"


@dataclass(frozen=True, slots=True)
class Row:
    """One target: `value` against `want` and `beyond`; the smaller the better unless it says so."""

    case: str
    value: float | None
    unit: str
    want: float | None = None
    beyond: float | None = None
    more_is_better: bool = False
    beside: str = ""
    limit: str = ""

    def cells(self) -> list[str]:
        """As a line of a table."""
        sign = ">= " if self.more_is_better else "<= "
        bounds = [
            f"{sign}{_number(bound)} {self.unit}".strip() if bound is not None else ""
            for bound in (self.want, self.beyond)
        ]
        measured = (
            "not measured"
            if self.value is None
            else f"**{f'{_number(self.value)} {self.unit}'.strip()}**"
        )
        return [self.case, *bounds, measured, self._verdict(), self.beside, self.limit]

    def _verdict(self) -> str:
        if self.value is None or self.want is None:
            return ""
        if self.beyond is not None and self._reaches(self.beyond):
            return "beyond"
        return "met" if self._reaches(self.want) else "NOT MET"

    def _reaches(self, bound: float) -> bool:
        assert self.value is not None
        return self.value >= bound if self.more_is_better else self.value <= bound


HEADER = ["case", "want", "beyond", "measured", "", "beside, in the same run", "what limits it"]


def compaction(of: Figures) -> Iterable[str]:
    """One call of compact_context."""
    yield from _section(
        "One compaction, from Python",
        "`compact_context` at a ratio of 0.4; one thread; parsing and grouping included. "
        "Cold: nothing was seen before. Warm: one message is new since the last call, the call "
        "itself is stateless. The targets are for the session of 305 units.",
        PYTHON,
    )
    for session in ("305 units", "recorded"):
        cold = of[f"bench_cold[{session}-balanced-query]"]
        if cold:
            about = cold.extra
            yield (
                f"**{session}**: {about['units']} units, {about['bytes'] / 1e6:.2f} MB of text, "
                f"{about['tokens']:,} tokens (o200k_base)."
            )
            yield ""
            rows = _compactions(of, session, targets=session == "305 units")
            yield from _table(HEADER, [row.cells() for row in rows])


COLD_LIMIT = (
    "Every text is read by the BPE count, WordPiece, the words, the names and the content hash; "
    "sharing one scan would save passes over memory, not the work in each"
)
WARM_LIMIT = (
    "The call is stateless: Python parses every dict again (the row below), every text is hashed "
    "again, and scores and features are worked out anew"
)


def _compactions(of: Figures, session: str, targets: bool) -> list[Row]:
    plain = of[f"bench_plain_python[{session}]"]
    trim = of[f"bench_langchain[{session}-tiktoken]"]
    rough = of[f"bench_langchain[{session}-approximate]"]
    rows = []
    for profile, state, want, beyond, limit in (
        ("balanced", "cold", 60.0, 25.0, COLD_LIMIT),
        ("balanced", "warm", 4.0, 1.0, WARM_LIMIT),
        ("chitta", "cold", None, None, ""),
        ("chitta", "warm", None, None, ""),
    ):
        for query in ("query", "no query"):
            ours = of[f"bench_{state}[{session}-{profile}-{query}]"]
            rows.append(
                Row(
                    f"{state}, {profile}, {query}",
                    _ms(ours),
                    "ms",
                    want if targets else None,
                    beyond if targets else None,
                    beside=_times(ours, [("plain Python", plain), ("trim_messages", trim)]),
                    limit=limit if targets and query == "query" else "",
                )
            )
    if targets:
        rows.append(
            Row(
                "cold against plain Python with MiniLM in ONNX Runtime",
                None,
                "x",
                200,
                500,
                more_is_better=True,
                limit="Comes with the ONNX tier: the baseline needs MiniLM as an ONNX file",
            )
        )
    rows += [
        Row(
            "of which: parsing and grouping in Python",
            _ms(of[f"bench_parse[{session}]"]),
            "ms",
        ),
        Row(
            "peer: plain Python, no model",
            _ms(plain),
            "ms",
            limit="`tokenizers` WordPiece, numpy cosine of counts, `re`, `tiktoken`, a sort",
        ),
        Row(
            "peer: LangChain trim_messages, tiktoken",
            _ms(trim),
            "ms",
            limit="Keeps the last that fit; counts prefixes again while it looks for the cut",
        ),
        Row(
            "peer: LangChain trim_messages, approximate",
            _ms(rough),
            "ms",
            limit="Keeps the last that fit; characters / 4 meet the budget only roughly",
        ),
    ]
    return rows


def core(of: Figures) -> Iterable[str]:
    """The stages, without Python."""
    yield from _section(
        "The same in the core, stage by stage",
        "Criterion, one thread, on a generated session of 305 units and 0.5 MB. `seen`: not even "
        "one message is new.",
        CORE,
    )
    alone = of["pack 10000 units/score and pack, coverage"]
    select = of["select 10000 units/balanced"]
    rows = [
        Row(
            "scoring and packing alone, 10,000 units of 60 features",
            _ms(alone),
            "ms",
            5,
            2,
            beside=_times(
                alone, [("plain greedy by score", of["pack 10000 units/score and pack, greedy"])]
            ),
            limit="Taking a covered feature's weight off every unit that mentions it: scattered "
            "writes, in two passes",
        ),
        Row(
            "the whole of `select`, 10,000 units",
            _ms(select),
            "ms",
            beside=_share_of(alone, select),
            limit="Interning every mention of every unit into feature ids, anew at each call",
        ),
        Row(
            "the same with a query",
            _ms(of["select 10000 units/balanced, query"]),
            "ms",
            limit="BM25 and the soft query look at every bag of words",
        ),
    ]
    rows += [
        Row(f"`select`, 305 units, {name}", _ms(of[f"select 305 units/{name}"]), "ms")
        for name in ("balanced", "balanced, query", "balanced, a tenth kept", "chitta, query")
    ]
    for profile in ("balanced", "balanced, query", "balanced, no model", "chitta, query"):
        for state in ("cold", "warm", "seen"):
            timing = of[f"engine/{profile}/{state}"]
            speed = f"{timing.megabytes_per_second:,.0f} MB/s" if timing and timing.bytes else ""
            rows.append(Row(f"engine, {profile}, {state}", _ms(timing), "ms", beside=speed))
    yield from _table(HEADER, [row.cells() for row in rows])

    names = (
        "embed/bag",
        "embed/pool",
        "embed/bag and pool",
        "features/scan",
        "features/mentions",
        "features/terms",
    )
    lines = [
        [
            f"`{name}`",
            _or_dash(_ms(timing), "ms"),
            f"{timing.megabytes_per_second:,.0f} MB/s" if timing else "-",
        ]
        for name in names
        for timing in [of[name]]
    ]
    soft = of["embed/soft query"]
    rate = f"{soft.elements / soft.seconds / 1e6:,.0f} million pairs of tokens/s" if soft else "-"
    lines.append(["`embed/soft query`", _or_dash(_ms(soft), "ms"), rate])
    yield from _table(["stage, over all texts of the session", "median", "rate"], lines)


def tokens(of: Figures) -> Iterable[str]:
    """Counting and tokenising."""
    yield from _section(
        "Tokens",
        "One thread on both sides, text by text; MB are 10^6 bytes. A fresh thread starts with "
        "an empty cache of words.",
        f"{CORE}; {PYTHON}",
    )
    rows = []
    for encoding, want in (("o200k_base", 8.0), ("cl100k_base", None)):
        peer = of[f"bench_tiktoken[{encoding}]"]
        for name, bench in (
            ("", "bench_rehydrate"),
            (", fresh thread", "bench_rehydrate_fresh_thread"),
        ):
            ours = of[f"{bench}[{encoding}]"]
            equal = ours and peer and ours.extra["tokens"] == peer.extra["tokens"]
            rows.append(
                Row(
                    f"{encoding}{name}, against tiktoken",
                    peer.seconds / ours.seconds if ours and peer else None,
                    "x",
                    want,
                    want and 20.0,
                    more_is_better=True,
                    beside=f"{_speed(ours)}; tiktoken {_speed(peer)}; counts "
                    f"{'equal' if equal else 'NOT EQUAL'}",
                    limit="Words that no cache holds are merged byte pair by byte pair"
                    if not name
                    else "",
                )
            )
        for state in ("warm", "cold"):
            core_ours, crate = of[f"tokens/{encoding}/{state}"], of[f"tokens/{encoding}/bpe-openai"]
            rows.append(
                Row(
                    f"{encoding}, in the core, {state}",
                    core_ours.megabytes_per_second if core_ours else None,
                    "MB/s",
                    more_is_better=True,
                    beside=_times(core_ours, [("bpe-openai", crate)]),
                )
            )
    in_python = of["bench_tokenizers_wordpiece"]
    for corpus in ("sources", "scripts", "coding", "airline", "chat"):
        ours, twin = of[f"wordpiece/{corpus}/rehydrate"], of[f"wordpiece/{corpus}/tokenizers"]
        bounded = corpus != "scripts"
        rows.append(
            Row(
                f"WordPiece, {corpus}",
                ours.megabytes_per_second if ours else None,
                "MB/s",
                30 if bounded else None,
                80 if bounded else None,
                more_is_better=True,
                beside=f"{_times(ours, [('the `tokenizers` crate', twin)])}",
                limit=""
                if bounded
                else "Text that is hardly ASCII: each character is normalised by table",
            )
        )
    rows.append(
        Row(
            "peer: `tokenizers` WordPiece from Python",
            in_python.megabytes_per_second if in_python else None,
            "MB/s",
        )
    )
    yield from _table(HEADER, [row.cells() for row in rows if row.value is not None])


def growth(of: Figures) -> Iterable[str]:
    """Up to a million messages."""
    yield from _section(
        "Growth",
        "The core, cold, balanced, no query, ratio 0.4; short messages (some 70 bytes), each a "
        "unit. Linear in tokens "
        "and n log n in units means that the time a message grows slowly, if at all.",
        CORE,
    )
    lines, first = [], None
    for messages in (1_000, 10_000, 100_000, 1_000_000):
        timing = of[f"growth/{messages} messages"]
        each = timing.seconds / messages * 1e6 if timing else None
        first = first or each
        grown = f"{each / first:.2f} x" if each and first else "-"
        lines.append([f"{messages:,}", _or_dash(_ms(timing), "ms"), _or_dash(each, "us"), grown])
    yield from _table(["messages", "median", "a message", "against 1,000"], lines)
    yield (
        "What limits it: tables by hash (cached texts, features) that outgrow the processor's "
        "caches. From 2,000 units on, packing makes one pass instead of five. At a million "
        "messages the content cache (256 MB) is full: texts seen first are derived anew at the "
        "next call."
    )
    yield ""


QUESTION_TARGETS = {"want": {0.1: 0.87, 0.05: 0.81}, "beyond": {0.1: 0.92}}
CUT_TARGETS = {
    "coding": {0.1: 0.72, 0.2: 0.82, 0.4: 0.95},
    "airline": {0.1: 0.37, 0.2: 0.68, 0.4: 0.89},
}
WHOLE_MESSAGES = (
    "Whole messages are the unit, so one needed name in a long tool result costs all its tokens: "
    "the line of the one that knows the future is what that allows. The distance to it is the "
    "future itself: which of the many names mentioned will be used is not in the past"
)


def retention(of: Figures) -> Iterable[str]:
    """How much of what is needed later is kept."""
    found = of.retention
    command = "python -m benches.python.retention"
    if found is None:
        yield from _section(
            "Retention",
            "Not measured: the conversations in `../shared/data` are not here.",
            command,
        )
        return
    asked = found["questions"]
    yield from _section(
        "Retention with a question",
        f"LoCoMo, {asked['conversations']} conversations, {asked['questions']} questions: the "
        "share of a question's "
        "evidence turns still there, by share of the o200k_base tokens kept. Whole messages, the "
        "built-in embedder.",
        command,
    )
    ratios = (0.4, 0.2, 0.1, 0.05)
    lines = _retained(asked["methods"], ratios)
    lines += [
        [f"*{name}*", *(_share(targets.get(ratio)) for ratio in ratios)]
        for name, targets in QUESTION_TARGETS.items()
    ]
    yield from _table(["method", *map(str, ratios)], lines)
    yield _verdict("balanced", asked["methods"], QUESTION_TARGETS["want"])
    yield (
        "What limits it, as far as can be told without reading each miss: evidence that shares "
        "neither words nor near synonyms with its question."
    )
    yield ""
    for kind, title in (("coding", "coding sessions"), ("airline", "airline support")):
        part = found[kind]
        yield from _section(
            f"Retention without a question: {title}",
            f"{part['cuts']} cuts: of the names that tool calls after the cut use and that were "
            "mentioned before it, the "
            "share still mentioned, by share of the o200k_base tokens kept. trim_messages counts "
            "by the same measure.",
            command,
        )
        shares = (0.1, 0.2, 0.4)
        want, limit = CUT_TARGETS[kind], part["methods"]["knows the future"]["retained"]
        beyond = {ratio: (want[ratio] + limit[str(ratio)]) / 2 for ratio in shares}
        lines = _retained(part["methods"], shares)
        lines.append(["*want*", *(_share(want[ratio]) for ratio in shares)])
        lines.append(
            [
                "*beyond: half way from there to the limit*",
                *(_share(beyond[ratio]) for ratio in shares),
            ]
        )
        yield from _table(["method", *map(str, shares)], lines)
        yield _verdict("balanced", part["methods"], want)
        yield f"What limits it: {WHOLE_MESSAGES}."
        yield ""


def laws(of: Figures) -> Iterable[str]:
    """What must never happen, counted."""
    if of.retention is None:
        return
    told = of.retention["laws"]
    yield from _section(
        "The laws, on every conversation",
        f"{told['conversations']} conversations of {told['messages']:,} messages, ratios 0.05 to "
        "1.0, each profile, with and without a query: "
        f"{told['compactions']:,} compactions. {told['invalid_inputs']} of the inputs break a "
        "provider's rule themselves; "
        "a violation counts where the output breaks more.",
        "python -m benches.python.retention",
    )
    rows = [
        Row("violations of the provider's rules", told["violations"], "", 0),
        Row("messages changed, or not the very object that came in", told["not_verbatim"], "", 0),
        Row("results out of order, or with a message twice", told["out_of_order"], "", 0),
        Row(
            "over the target though the pinned units fit it",
            told["over_target"],
            "",
            0,
            beside=f"over it by pinned units alone: {told['pinned_over_target']:,}",
            limit="Units always kept may cost more than a small budget: `over_budget` says so",
        ),
    ]
    yield from _table(HEADER, [row.cells() for row in rows])


def footprint(of: Figures) -> Iterable[str]:
    """Import, memory, size."""
    if not of.footprint:
        return
    told, memory, wheel = of.footprint["import"], of.footprint["memory"], of.footprint["wheel"]
    yield from _section(
        "Footprint",
        "Processes of their own. Memory is what stays resident after a cold balanced compaction "
        "with a query, its result "
        "thrown away: the content cache.",
        "python -m benches.python.footprint",
    )
    bare = told["bare_ms"]
    rows = [
        Row(
            "`import rehydrate`, over bare Python",
            told["import_ms"] - bare,
            "ms",
            60,
            beside=f"bare Python {bare:.0f} ms",
            limit="By `python -X importtime`: loading the native module and the formats",
        ),
        Row(
            "optional or heavy packages that it loads",
            len(told["loaded"]),
            "",
            0,
            beside=", ".join(told["loaded"]),
        ),
        Row(
            "import and a first, tiny compaction, over bare Python",
            told["first_call_ms"] - bare,
            "ms",
            limit="The model's and the encoding's tables are built at first use",
        ),
    ]
    for kind, label in (("coding", "a coding agent's"), ("chat", "short chat messages")):
        grown = memory[kind]
        mean = grown["text_bytes"] / grown["messages"]
        rows.append(
            Row(
                f"memory for {grown['messages']:,} messages, {label} ({mean:,.0f} bytes each)",
                grown["held_per_text"],
                "x its text",
                3,
                beside=f"{grown['held_bytes'] / 1e6:.1f} MB for {grown['text_bytes'] / 1e6:.1f} MB",
                limit="A bag, words and names for every text: their entries grow with its "
                "distinct words"
                if kind == "coding"
                else "Some hundred bytes for every text whatever its size: counts, three lists, "
                "its place in the cache",
            )
        )
    rows.append(
        Row(
            "wheel",
            wheel["bytes"] / 1e6 if wheel else None,
            "MB",
            15,
            beside=wheel["name"]
            if wheel
            else "none in dist/: `make wheel` first, or `--build-wheel`",
            limit="Two vocabularies and the static model's int8 rows, none of which compress well",
        )
    )
    yield from _table(HEADER, [row.cells() for row in rows])


PARTS: tuple[Callable[[Figures], Iterable[str]], ...] = (
    compaction,
    core,
    tokens,
    growth,
    retention,
    laws,
    footprint,
)


def preamble(of: Figures) -> Iterable[str]:
    """What the figures were made on, and how far to trust them."""
    yield "# Results"
    yield ""
    yield f"Written by `make bench` on {datetime.now().astimezone():%Y-%m-%d %H:%M %Z}."
    yield "Medians. Times depend on the machine and its load; ratios are from one run."
    yield ""
    yield from (f"- {name}: {value}" for name, value in figures.machine().items())
    yield f"- load average: {of.load_before:.1f} before the Python part, {of.load_after:.1f} after"
    if of.criterion_from:
        first, last = of.criterion_from
        yield f"- Criterion's figures: from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}"
        if first < figures.newest_source():
            yield "- **Stale: some of Criterion's figures are older than the newest source.**"
    else:
        yield "- **Criterion's figures are missing: run `make bench`.**"
    if of.load_before > 0.75 * (os.cpu_count() or 1):
        yield "- **Noisy: the machine was busy; absolute times are too long by an unknown factor.**"
    yield ""


def _section(title: str, about: str, command: str) -> Iterable[str]:
    yield from (f"## {title}", "", about, "", f"`{command}`", "")


def _table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterable[str]:
    yield f"| {' | '.join(header)} |"
    yield "|" + "---|" * len(header)
    yield from (f"| {' | '.join(line)} |" for line in lines)
    yield ""


def _retained(
    methods: dict[str, dict[str, dict[str, float]]], ratios: Sequence[float]
) -> list[list[str]]:
    lines = []
    for name, means in methods.items():
        over = max(means["cost"][str(ratio)] - ratio for ratio in ratios)
        mark = f" (keeps up to {over:.3f} more than asked)" if over > 5e-4 else ""
        lines.append([name + mark, *(_share(means["retained"][str(ratio)]) for ratio in ratios)])
    return lines


def _verdict(
    name: str, methods: dict[str, dict[str, dict[str, float]]], want: dict[float, float]
) -> str:
    short = {ratio: bound - methods[name]["retained"][str(ratio)] for ratio, bound in want.items()}
    missed = [f"{gap:.3f} short at {ratio}" for ratio, gap in short.items() if gap > 0]
    return f"Want: {'NOT MET, ' + ', '.join(missed) if missed else 'met'}.\n"


def _times(ours: Timing | None, peers: Sequence[tuple[str, Timing | None]]) -> str:
    """How many times as long the peers take."""
    if ours is None:
        return ""
    return ", ".join(
        f"{name} takes {_number(peer.seconds / ours.seconds)} x" for name, peer in peers if peer
    )


def _share_of(part: Timing | None, whole: Timing | None) -> str:
    """How much of the whole the scoring and packing alone would be."""
    return (
        f"scoring and packing alone: {part.seconds / whole.seconds:.0%} of it"
        if part and whole
        else ""
    )


def _speed(timing: Timing | None) -> str:
    return f"{timing.megabytes_per_second:.1f} MB/s" if timing else "not measured"


def _ms(timing: Timing | None) -> float | None:
    return timing.seconds * 1e3 if timing else None


def _or_dash(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{_number(value)} {unit}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _number(value: float) -> str:
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main() -> None:
    """Measure, unless told not to, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data",
        default=os.environ.get("REHYDRATE_DATA"),
        help="folder of the conversations for retention",
    )
    parser.add_argument(
        "--build-wheel",
        action="store_true",
        help="build a wheel to weigh; else the newest in dist/",
    )
    parser.add_argument(
        "--render-only", action="store_true", help="write the report from the last run's figures"
    )
    parser.add_argument("--output", type=Path, default=RESULTS)
    asked = parser.parse_args()
    data = asked.data or figures.ROOT.parent / "shared" / "data"
    if not asked.render_only:
        if not Path(data).is_dir():
            print(f"report: no conversations in {data}: retention is left out", file=sys.stderr)
        figures.run_python_benches(str(data) if Path(data).is_dir() else None, asked.build_wheel)
    of = figures.read()
    lines = [*preamble(of), *(line for part in PARTS for line in part(of))]
    asked.output.write_text("\n".join(lines), encoding="utf-8")
    print(f"wrote {asked.output}")


if __name__ == "__main__":
    main()
