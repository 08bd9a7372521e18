"""One request_context call after a hard compaction: `python -m benches.python.needles`.

Each conversation of LoCoMo is compacted to a share of its tokens before any question is known. Then
each question is asked: what is in the window of the turns that answer it, and what of them is
there after the model's one call of request_context with the question as its query. Beside it: all
of the conversation, the last messages alone, and an extractive summary of the size that our window
has after the call (the sentences nearest to the conversation's centroid; a turn counts as there if
one of its sentences is).

At the automatic compactions of real coding sessions: the names that the agent's tool calls used
next. In its own summary, in what a compaction to that size keeps, and after one call with the
agent's next words as the query. `REHYDRATE_DATA` names the folder.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from benches.python.sources import data_folder
from benches.report.rows import Part, Row
from rehydrate import Budget, Context, count_tokens
from rehydrate._native import text_of, tool_inputs
from rehydrate.context import ContextJIT
from rehydrate.retention import Conversation, names_in, read_locomo

SHARES = (0.1, 0.05)
"""Shares of a conversation's tokens that the compaction keeps."""
BUDGETS = (1_000, 2_000, 4_000)
"""Maximum tokens of one call's result."""
AHEAD = 60
"""Number of the agent's messages after a compaction that count."""
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_WORD = re.compile(r"[a-z']{3,}")


@dataclass(slots=True)
class Tally:
    """Shares of evidence in the window, and the tokens it takes."""

    found: list[float] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)

    def add(self, found: float, tokens: float) -> None:
        """Add one question."""
        self.found.append(found)
        self.tokens.append(tokens)

    def __str__(self) -> str:
        """Return both means."""
        return f"{fmean(self.found):.3f} for {fmean(self.tokens):,.0f} tokens"


def compacted(messages: Sequence[Any], format_: str, tokens: int) -> Context:
    """Return a conversation whose prompt shows this many tokens."""
    context = Context(
        provider="openai_chat",
        format=format_,
        budget=Budget(soft_tokens=10**6, hard_tokens=10**9),
        timeout=None,
    )
    context.add(*messages)
    context.compact(tokens)
    return context


def in_window(context: Context) -> set[int]:
    """Return indices of the messages that the prompt shows."""
    assert context.ir is not None
    history = context.ir.history
    return {history.entry_index(position) for position in range(len(history.entries))}


def asked(context: Context, query: str, budget_tokens: int) -> tuple[set[int], int, str]:
    """Return the indices that one call adds, its tokens with the call, and the text."""
    jit = ContextJIT(context, budget_tokens=budget_tokens, timeout=None)
    call = {
        "id": "call_1",
        "function": {"name": "request_context", "arguments": json.dumps({"query": query})},
    }
    answered = jit.answer(call)
    places = {
        int(item[8:-1])
        for section in answered.sections
        for item in section.provenance.items
        if item.startswith("history[")
    }
    return places, count_tokens(answered.content) + count_tokens(json.dumps(call)), answered.content


def share(places: set[int], evidence: Sequence[int]) -> float:
    """Return the share of the evidence that is there."""
    return sum(place in places for place in evidence) / len(evidence)


def questions(conversations: Sequence[Conversation]) -> dict[str, Tally]:
    """Measure every window at every size."""
    tallies: dict[str, Tally] = {}

    def add(name: str, found: float, tokens: float) -> None:
        tallies.setdefault(name, Tally()).add(found, tokens)

    for conversation in conversations:
        messages = conversation.messages
        sizes = [count_tokens([message], format="plain") for message in messages]
        total = sum(sizes)
        summary = _summary(messages)
        for part in SHARES:
            target = int(total * part)
            last = _last(sizes, target)
            for question in conversation.questions:
                evidence = question.evidence
                for budget in BUDGETS:
                    # A context each: the result of one question must not help the next.
                    context = compacted(messages, "openai_chat", target)
                    shown = in_window(context)
                    tokens = sum(sizes[place] for place in shown)
                    came, cost, _ = asked(context, question.text, budget)
                    add(f"{part} + {budget}", share(shown | came, evidence), tokens + cost)
                    if budget == BUDGETS[-1]:
                        size = tokens + cost
                        add(f"{part} summary", share(summary(size), evidence), size)
                        add(f"{part} last after", share(_last(sizes, size), evidence), size)
                add(f"{part} before", share(shown, evidence), tokens)
                add(f"{part} last", share(last, evidence), target)
        for _ in conversation.questions:
            add("everything", 1.0, total)
    return tallies


def _last(sizes: Sequence[int], tokens: float) -> set[int]:
    """Return the indices of the last messages that fit."""
    kept: set[int] = set()
    for place in range(len(sizes) - 1, -1, -1):
        tokens -= sizes[place]
        if tokens < 0:
            break
        kept.add(place)
    return kept


def _summary(messages: Sequence[Any]) -> Any:
    """Return a function from a size in tokens to the indices with a sentence in the summary."""
    sentences = [
        (place, sentence.strip())
        for place, message in enumerate(messages)
        for sentence in _SENTENCE.findall(str(message["content"]))
        if len(sentence.strip()) > 1
    ]
    bags = [set(_WORD.findall(sentence.lower())) for _, sentence in sentences]
    counts: dict[str, int] = {}
    for bag in bags:
        for word in bag:
            counts[word] = counts.get(word, 0) + 1
    weight = {word: count * log(len(bags) / count) for word, count in counts.items()}
    worth = [sum(weight[word] for word in bag) / (len(bag) + 3) if bag else 0.0 for bag in bags]
    best = sorted(range(len(sentences)), key=lambda number: -worth[number])
    costs = [count_tokens(sentence) for _, sentence in sentences]

    def places(tokens: float) -> set[int]:
        kept = set()
        for number in best:
            if costs[number] > tokens:
                break
            tokens -= costs[number]
            kept.add(sentences[number][0])
        return kept

    return places


class Moment(NamedTuple):
    """A real compaction: the history, the agent's summary, its next words and names."""

    name: str
    before: list[Any]
    summary: str
    words: str
    needed: frozenset[str]


def moments(folder: Path) -> Iterator[Moment]:
    """Yield the compactions in the folder's sessions."""
    for path in sorted((folder / "claude_code").glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
        said = [line for line in lines if line.get("type") in ("user", "assistant")]
        for place, line in enumerate(said):
            if not line.get("isCompactSummary"):
                continue
            before = [each for each in said[:place] if not each.get("isCompactSummary")]
            after = [each for each in said[place + 1 :] if each.get("type") == "assistant"]
            if not before or not after:
                continue
            text = "\n".join(map(text_of, before))
            used = names_in("\n".join(map(tool_inputs, after[:AHEAD])))
            needed = frozenset(name for name in used if name in text)
            words = "\n".join(filter(None, (_words(each) for each in after[:6])))[:1_500]
            if needed:
                yield Moment(path.stem[:8], before, text_of(line), words, needed)


def _words(line: Any) -> str:
    content = line["message"]["content"]
    if isinstance(content, str):
        return content
    texts = [block.get("text", "") for block in content if block.get("type") == "text"]
    return "\n".join(texts)


def mentioned(needed: frozenset[str], text: str) -> float:
    """Return the share of the names that occur in a text."""
    return sum(name in text for name in needed) / len(needed)


def at_compactions(folder: Path) -> list[Row]:
    """Measure the names used next, at each compaction."""
    rows = []
    for number, moment in enumerate(moments(folder)):
        tokens = count_tokens(moment.summary)
        context = Context(format="claude_code", budget=Budget(soft_tokens=10**6, hard_tokens=10**9))
        context.add(*moment.before)
        context.compact(tokens)
        shown = in_window(context)
        window = "\n".join(text_of(moment.before[place]) for place in sorted(shown))
        _, cost, content = asked(context, moment.words, BUDGETS[-1])
        rows.append(
            Row(
                f"coding session {moment.name}, compaction {number + 1}: names used next, "
                "compacted to the summary's size, one call more",
                mentioned(moment.needed, f"{window}\n{content}"),
                "",
                more_is_better=True,
                beside=f"the agent's own summary {mentioned(moment.needed, moment.summary):.2f} "
                f"({tokens:,} tokens); ours before the call {mentioned(moment.needed, window):.2f} "
                f"({sum(count_tokens([moment.before[p]]) for p in shown):,}); the call {cost:,}",
            )
        )
    return rows


def measure(folder: Path) -> Part:
    """Measure everything."""
    tallies = questions(read_locomo(folder / "locomo_dev.json"))
    rows = [
        Row(
            f"LoCoMo compacted to {part}, then one call of {budget:,} tokens at most",
            fmean(tallies[f"{part} + {budget}"].found),
            "of the evidence",
            more_is_better=True,
            beside=(
                f"{fmean(tallies[f'{part} + {budget}'].tokens):,.0f} tokens in all; before the "
                f"call {tallies[f'{part} before']}"
                + (
                    f"; an extractive summary of that size "
                    f"{fmean(tallies[f'{part} summary'].found):.3f}, the last messages of that "
                    f"size {fmean(tallies[f'{part} last after'].found):.3f}; everything "
                    f"{tallies['everything']}"
                    if budget == BUDGETS[-1]
                    else ""
                )
            ),
        )
        for part in SHARES
        for budget in BUDGETS
    ]
    return Part(
        "Needles: what one request_context call brings back",
        "LoCoMo, 5 conversations, every question with evidence: the share of its evidence turns in "
        "the window before and after one call, and what the window costs. The compaction does not "
        "know the question. Coding sessions: names that the agent's tool calls used next.",
        [*rows, *at_compactions(folder)],
        "`python -m benches.python.needles`",
    )


if __name__ == "__main__":
    data = data_folder()
    if data is None:
        sys.exit("needles: REHYDRATE_DATA names no folder with locomo_dev.json")
    print(measure(data).to_json())
