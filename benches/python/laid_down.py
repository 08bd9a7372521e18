"""Survival of users' binding instructions: `python -m benches.python.laid_down`.

Rules of laid_down.tsv are inserted into sessions: as user turns of their own, next to tool results,
and as one sentence of a long pasted message. Then each session is compacted without a query. Where
`compaction-conformance-kit` is installed, its sessions are run as well. The conversations are those
of retention.py; without them the shipped session and generated ones are used.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import rehydrate
from benches.python.inputs import Message, generated_chat, generated_session, recorded_session
from benches.python.sources import data_folder
from rehydrate._native import payload, text_of
from rehydrate.retention import (
    Compact,
    Conversation,
    compacted,
    exact_cost,
    keep_last,
    read_claude_code,
    read_locomo,
    read_tau_bench,
    steps,
)
from rehydrate.retention.baselines import trim_messages
from rehydrate.retention.measure import by_session, mean_by_session

RULES = Path(__file__).with_name("laid_down.tsv")
RATIOS = (0.1, 0.2, 0.4)
PLANTED = 8
"""Rules inserted into a session at a time."""
ROUNDS = 4
"""Rounds, each with other rules at other places."""
LAST_PART = 0.8
"""No rule is inserted after this share of a session's steps: the last ones are kept anyway."""
LONG_MESSAGES = 200
SUPPORT_SESSIONS = 20
KIT_RATIO = 0.3
KIT_ROUNDS = 5
KIT_SEEDS = range(1, 21)
NOTES = (
    "The meeting began at nine and the room was full.",
    "Robin showed the numbers of the last quarter, which look much like those of the one before.",
    "Somebody opened a window because of the heat.",
    "The second item was the move of the office to the other side of the river.",
    "Kim told how the workshop went and passed round the pictures.",
    "There was cake, and the coffee machine was repaired at last.",
    "The third item was put off, since half of the group had another appointment.",
    "Sascha described the new building, its stairs and its garden.",
    "Two people from the other department listened in and said little.",
    "The discussion of the name took most of the hour.",
    "Then the projector failed and the rest was told without slides.",
    "The next meeting is in the small room on the second floor.",
)
"""The other sentences of a pasted message."""


class Rule(NamedTuple):
    """One line of laid_down.tsv."""

    split: str
    language: str
    kind: str
    text: str


class Planted(NamedTuple):
    """A session with rules in it."""

    session: str
    form: str
    format: str
    messages: list[Message]
    rules: tuple[Rule, ...]


class Row(NamedTuple):
    """One rule at one ratio: whether it survived."""

    session: str
    form: str
    language: str
    kind: str
    ratio: float
    survived: bool


def read_rules(split: str) -> list[Rule]:
    """Return the rules of one set."""
    lines = RULES.read_text(encoding="utf-8").splitlines()
    rules = [Rule(*line.split("\t")) for line in lines if not line.startswith("#")]
    return [rule for rule in rules if rule.split == split]


def sessions(folder: Path | None) -> list[Conversation]:
    """Return real conversations where there are some, else shipped and generated ones."""
    if folder is not None:
        coding = [read_claude_code(path) for path in sorted((folder / "claude_code").glob("*"))]
        support = read_tau_bench(folder / "airline_dev.json")
        support.sort(key=lambda session: -len(session.messages))
        return [
            *(session for session in coding if len(session.messages) > LONG_MESSAGES),
            *support[:SUPPORT_SESSIONS],
            *read_locomo(folder / "locomo_dev.json"),
        ]
    made = [
        Conversation("generated session", generated_session(), "anthropic"),
        Conversation("generated chat", generated_chat(400), "plain"),
    ]
    shipped = recorded_session()
    return [*made, Conversation("example", shipped, "claude_code")] if shipped else made


def plant(session: Conversation, rules: Sequence[Rule], seed: int) -> Iterator[Planted]:
    """Yield the session with other rules, in each possible form."""
    has_results = session.format in ("claude_code", "anthropic")
    forms = ["alone"] + (["pasted", "beside results"] if has_results else [])
    for form in forms:
        for number in range(ROUNDS):
            dice = random.Random(f"{session.name} {form} {number} {seed}")
            chosen = tuple(dice.sample(rules, PLANTED))
            put = _beside if form == "beside results" else _between
            messages = put(session, chosen, form, dice)
            yield Planted(session.name, form, session.format, messages, chosen)


def _between(
    session: Conversation, rules: Sequence[Rule], form: str, dice: random.Random
) -> list[Message]:
    """Put each rule into a user turn of its own, before a step."""
    starts = [step.start for step in steps(session.messages)]
    starts = starts[1 : max(2, int(len(starts) * LAST_PART))]
    at = sorted(dice.choices(starts, k=len(rules)))
    messages = list(session.messages)
    for place, rule in reversed(list(zip(at, rules, strict=True))):
        text = rule.text
        if form == "pasted":
            notes = [dice.choice(NOTES) for _ in range(2 * len(NOTES))]
            notes.insert(dice.randrange(len(notes)), text)
            text = " ".join(notes)
        said = {"role": "user", "content": text}
        if session.format == "claude_code":
            said = {"type": "user", "uuid": f"planted-{place}-{len(messages)}", "message": said}
        messages.insert(place, said)
    return messages


def _beside(
    session: Conversation, rules: Sequence[Rule], _form: str, dice: random.Random
) -> list[Message]:
    """Put each rule after the tool results of a message."""
    messages = list(session.messages)
    last = int(len(messages) * LAST_PART)
    results = [i for i, message in enumerate(messages[:last]) if _holds_results(message)]
    for place, rule in zip(dice.sample(results, len(rules)), rules, strict=True):
        message = messages[place]
        body = dict(payload(message))
        body["content"] = [*body["content"], {"type": "text", "text": rule.text}]
        messages[place] = {**message, "message": body} if "message" in message else body
    return messages


def _holds_results(message: Message) -> bool:
    content = payload(message).get("content")
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") == "tool_result" for block in content
    )


def measure(planted: Sequence[Planted], method: Callable[[str], Compact]) -> list[Row]:
    """Compact each session without a query, and look for its rules."""
    rows = []
    for case in planted:
        compact = method(case.format)
        for ratio in RATIOS:
            kept = "\n".join(text_of(m) for m in compact(list(case.messages), None, ratio))
            rows += [
                Row(case.session, case.form, rule.language, rule.kind, ratio, rule.text in kept)
                for rule in case.rules
            ]
    return rows


def tables(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the shares that survived at each ratio; at 0.2 by form, language and kind."""

    def share(some: Sequence[Row]) -> str:
        scores = [(row.session, float(row.survived)) for row in some]
        return f"{mean_by_session(scores):.3f} ({by_session(scores)})"

    found: dict[str, Any] = {
        str(ratio): share([row for row in rows if row.ratio == ratio]) for ratio in RATIOS
    }
    at_fifth = [row for row in rows if row.ratio == 0.2]
    for field in ("form", "language", "kind"):
        groups: dict[str, list[float]] = {}
        for row in at_fifth:
            groups.setdefault(getattr(row, field), []).append(float(row.survived))
        found[field] = {name: round(fmean(group), 3) for name, group in sorted(groups.items())}
    return found


def methods() -> dict[str, Callable[[str], Compact]]:
    """Return the measured methods; each takes the conversation's format."""
    count = exact_cost()
    return {
        "rehydrate": lambda kind: compacted(format=kind),
        "rehydrate, excerpts": lambda kind: compacted(format=kind, granularity="excerpt"),
        "keep the last": lambda _: keep_last(count),
        "LangChain trim_messages": lambda _: trim_messages(count),
    }


def kit() -> dict[str, Any] | None:
    """Return figures of the conformance kit: rules that survive, and replaced ones that do too."""
    if find_spec("compaction_kit") is None:
        return None
    from compaction_kit.canaries import seeded_canaries
    from compaction_kit.compacted import CompactedContext
    from compaction_kit.corpus import build_random_session
    from compaction_kit.generated import build_generated_session
    from compaction_kit.runner import run_conformance
    from compaction_kit.session import build_seeded_session

    class Compactor:
        """compact_context, as the kit calls a compactor."""

        name = "rehydrate"

        def compact(self, turns: Any, round_num: int = 1, **_: Any) -> CompactedContext:
            messages = [{"role": turn.role, "content": turn.text} for turn in turns]
            kept = rehydrate.compact_context(messages, target_ratio=KIT_RATIO).messages
            text = "\n".join(f"[{m['role']}] {m['content']}" for m in kept)
            return CompactedContext(text=text, compactor_name=self.name, round_num=round_num)

    def survivors(session: Any, canaries: Any) -> tuple[float, float]:
        run = run_conformance(session, Compactor(), rounds=KIT_ROUNDS, canaries=canaries)
        last = run.rounds[-1]
        text = last.context.text.lower()
        replaced = [token for canary in canaries for token in canary.superseded_tokens]
        stale = sum(token.lower() in text for token in replaced)
        return fmean(map(float, last.survived.values())), stale / max(1, len(replaced))

    def corpus(build: Any) -> dict[str, float]:
        found = [survivors(*build(seed)) for seed in KIT_SEEDS]
        return {"kept": fmean(kept for kept, _ in found), "stale": fmean(s for _, s in found)}

    return {
        "seeded": survivors(build_seeded_session(), seeded_canaries())[0],
        "random": corpus(build_random_session),
        "generated": corpus(build_generated_session),
    }


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", help="folder of the conversations")
    parser.add_argument("--rules", choices=("build", "held-out"), default="held-out")
    options = parser.parse_args()
    rules = read_rules(options.rules)
    among = sessions(data_folder(options.folder))
    planted = [case for session in among for case in plant(session, rules, 7)]
    report: dict[str, Any] = {"rules": len(rules), "sessions": len(among)}
    for name, method in methods().items():
        report[name] = tables(measure(planted, method))
        print(f"  {name}: {report[name]['0.2']}", file=sys.stderr, flush=True)
    report["kit"] = kit()
    json.dump(report, sys.stdout, indent=2, ensure_ascii=False)


if __name__ == "__main__":
    main()
