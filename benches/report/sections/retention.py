"""Share of the later needed content that is kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from benches.report.figures import Figures
from benches.report.markdown import section, table
from benches.report.rows import Row

QUESTION_TARGETS = {
    "want": {0.1: 0.87, 0.05: 0.81},
    "want, with MiniLM": {0.1: 0.89, 0.05: 0.82},
    "beyond": {0.1: 0.92},
}
CUT_TARGETS = {
    "coding": {0.1: 0.72, 0.2: 0.82, 0.4: 0.95},
    "airline": {0.1: 0.37, 0.2: 0.68, 0.4: 0.89},
}
EXCERPT_TARGETS = {
    "coding": {0.1: 0.76, 0.2: 0.89, 0.4: 0.975},
    "airline": {0.1: 0.43, 0.2: 0.70, 0.4: 0.92},
}
"""Targets for held-out sessions; these are the ones at hand."""
EXCERPT_BEYOND = {0.1: 0.85, 0.2: 0.95, 0.4: 0.99}
WHOLE_MESSAGES = (
    "Whole messages are the unit, so one needed name in a long tool result costs all its tokens: "
    "the line of the one that knows the future is what that allows. The distance to it is the "
    "future itself: which of the many names mentioned will be used is not in the past"
)
EXCERPTS = (
    "Excerpts choose among blocks of lines, so what is left is the future itself, and the marks of "
    "the gaps, which cost tokens; their wants were set for the sessions held back"
)


PEERS = ("LangChain trim_messages", "keep the last")
INTERVALS = "In brackets 95% intervals by bootstrap over whole sessions."
LAST_TURN = "balanced, the question as last turn, no query"
WORK = {
    "names": "one name that at most two steps of the work mention",
    "lines": "rare words of one line that at most three steps hold, 30% of them not as they stand",
}

Methods = dict[str, dict[str, Any]]


def retention(of: Figures) -> Iterable[str]:
    """Share of the later needed content that is kept."""
    found = of.retention
    command = "python -m benches.python.retention"
    if found is None:
        yield from section(
            "Retention",
            "Not measured: the conversations in `../shared/data` are not here, or the command "
            "failed.",
            command,
        )
        return
    asked = found["questions"]
    yield from section(
        "Retention with a question",
        f"LoCoMo, {asked['conversations']} conversations, {asked['questions']} questions: the "
        "share of a question's evidence turns still there, by share of the o200k_base tokens "
        "kept. Whole messages but for "
        "the line of excerpts, where a turn kept in part counts; the built-in embedder but for "
        f"the lines that name another. {INTERVALS}",
        command,
    )
    ratios = (0.4, 0.2, 0.1, 0.05)
    lines = _retained(asked["methods"], ratios)
    lines += [
        [f"*{name}*", *(_share(targets.get(ratio)) for ratio in ratios)]
        for name, targets in QUESTION_TARGETS.items()
    ]
    yield from table(["method", *map(str, ratios)], lines)
    yield _verdict("balanced", asked["methods"], QUESTION_TARGETS["want"])
    for precision in ("int8", "fp32"):
        name, bounds = f"balanced, MiniLM {precision}", QUESTION_TARGETS["want, with MiniLM"]
        yield _verdict(name, asked["methods"], bounds)
    yield (
        "What limits it, as far as can be told without reading each miss: evidence that shares "
        "neither words nor near synonyms with its question."
    )
    yield ""
    for kind, title in (("coding", "coding sessions"), ("airline", "airline support")):
        part = found[kind]
        yield from section(
            f"Retention without a question: {title}",
            f"{part['cuts']} cuts: of the names that tool calls after the cut use and that were "
            "mentioned before it, the "
            "share still mentioned, by share of the o200k_base tokens kept. trim_messages counts "
            "by the same measure. A vague query or last turn, and `Context.compact`, should "
            f"leave what no query does. {INTERVALS}",
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
        cut_to = EXCERPT_TARGETS[kind]
        lines.append(["*want, excerpts*", *(_share(cut_to[ratio]) for ratio in shares)])
        if kind == "coding":
            lines.append(
                ["*beyond, excerpts*", *(_share(EXCERPT_BEYOND[ratio]) for ratio in shares)]
            )
        yield from table(["method", *map(str, shares)], lines)
        yield _verdict("balanced", part["methods"], want)
        yield _verdict("balanced, excerpts", part["methods"], cut_to)
        yield f"What limits it: {WHOLE_MESSAGES}. {EXCERPTS}."
        yield ""
    for kind, subject in WORK.items():
        part = found[kind]
        yield from section(
            f"Retention with a question about the work: {kind}",
            f"{part['questions']} questions to the coding sessions, each about {subject}: whether "
            f"the {kind[:-1]} is still there. {INTERVALS}",
            command,
        )
        shares = (0.05, 0.1, 0.2)
        yield from table(["method", *map(str, shares)], _retained(part["methods"], shares))
        for name in ("balanced", LAST_TURN):
            yield _verdict(name, part["methods"], {0.1: 0.85})


def rows(of: Figures) -> list[Row]:
    """Return a row for each target of `balanced`; none where nothing was measured."""
    if of.retention is None:
        return []
    found = []
    for kind, of_what, want in (
        ("questions", "LoCoMo: evidence", QUESTION_TARGETS["want"]),
        ("coding", "coding sessions: names used later", CUT_TARGETS["coding"]),
        ("airline", "airline support: names used later", CUT_TARGETS["airline"]),
    ):
        methods = of.retention[kind]["methods"]
        for ratio, bound in want.items():
            kept = {name: means["retained"][str(ratio)] for name, means in methods.items()}
            beside = [f"{name} {_share(kept[name])}" for name in PEERS if name in kept]
            found.append(
                Row(
                    f"{of_what}, still there at {ratio} of the tokens",
                    kept["balanced"],
                    "",
                    bound,
                    more_is_better=True,
                    beside="; ".join(beside),
                    limit=WHOLE_MESSAGES,
                )
            )
    return found


def _retained(methods: Methods, ratios: Sequence[float]) -> list[list[str]]:
    lines = []
    for name, means in methods.items():
        over = max(means["cost"][str(ratio)] - ratio for ratio in ratios)
        mark = f" (keeps up to {over:.3f} more than asked)" if over > 5e-4 else ""
        lines.append([name + mark, *(_cell(means, str(ratio)) for ratio in ratios)])
    return lines


def _cell(means: dict[str, Any], ratio: str) -> str:
    interval = means["interval"].get(ratio)
    span = f" ({interval[0]:.2f}-{interval[1]:.2f})" if interval else ""
    return _share(means["retained"][ratio]) + span


def _verdict(name: str, methods: Methods, want: dict[float, float]) -> str:
    if name not in methods:
        return f"Want, {name}: not measured, its model is not here.\n"
    short = {ratio: bound - methods[name]["retained"][str(ratio)] for ratio, bound in want.items()}
    missed = [f"{gap:.3f} short at {ratio}" for ratio, gap in short.items() if gap > 0]
    return f"Want, {name}: {'NOT MET, ' + ', '.join(missed) if missed else 'met'}.\n"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
