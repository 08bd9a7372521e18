"""Names used next in as many tokens: the context store, and what else may take its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import rehydrate
from benches.python.extractive import bundle
from benches.report.rows import Row
from rehydrate import formats
from rehydrate.context import ContextStore
from rehydrate.retention import Cut, exact_cost, keep_last
from rehydrate.retention.measure import by_session, mean_by_session

OURS = "the context store"
LIMIT = "no model; which of the many names will be used"


class Held(NamedTuple):
    """What one text or list of messages holds of the names that a cut needs."""

    session: str
    share: float
    size: float
    """Its tokens, by those that it was given."""
    lines: float | None = None
    """The share of the lines typed again; None if there were none, or of another's text."""


def held(cut: Cut, tokens: int, last: int = 0) -> dict[str, Held]:
    """Return what each holds in so many tokens, with what the ``last`` messages have anyway."""
    conversation = formats.parse(cut.messages, cut.format)
    shown = frozenset(
        [each.index for each in conversation.messages[len(conversation.messages) - last :]]
    )
    store = ContextStore()
    store.update(conversation.messages)
    text = store.render(tokens, conversation=conversation, visible=shown)
    extract = bundle(cut.messages, tokens)
    compacted = rehydrate.compact_context(
        cut.messages, "", budget_tokens=tokens, format=cut.format
    ).messages
    cost = exact_cost()
    ratio = tokens / sum(map(cost, cut.messages))
    tail = keep_last(cost)(cut.messages, None, ratio)
    anyway = cut.mentioned(cut.messages[index] for index in shown)

    def of(names: frozenset[str], used: int) -> Held:
        return Held(cut.session, len(names | anyway) / len(cut.needed), used / tokens)

    quoted = cut.quoted([{"role": "user", "content": text}, *(cut.messages[i] for i in shown)])
    ours = of(_named(cut, text), rehydrate.count_tokens(text))
    return {
        OURS: ours._replace(lines=len(quoted) / len(cut.lines) if cut.lines else None),
        "an extractive bundle": of(_named(cut, extract), rehydrate.count_tokens(extract)),
        "`compact_context`": of(cut.mentioned(compacted), sum(map(cost, compacted))),
        "the last messages": of(cut.mentioned(tail), sum(map(cost, tail))),
    }


def _named(cut: Cut, text: str) -> frozenset[str]:
    return frozenset([name for name in cut.needed if name in text])


def row(
    case: str, cases: Sequence[Mapping[str, Held]], want: float | None = None, limit: str = LIMIT
) -> Row:
    """Return the row of the context store, the others next to it with their intervals."""
    means = {
        name: mean_by_session((each[name].session, each[name].share) for each in cases)
        for name in cases[0]
    }
    others = [
        f"{name} {means[name]:.2f} ({_interval(cases, name)}{_size(cases, name)})"
        for name in means
        if name != OURS
    ]
    lines = [(each[OURS].session, each[OURS].lines) for each in cases]
    typed = [(session, share) for session, share in lines if share is not None]
    if typed:
        others.insert(0, f"lines typed again {mean_by_session(typed):.2f}")
    return Row(
        case,
        means[OURS],
        "",
        want,
        more_is_better=True,
        beside=f"{_interval(cases, OURS)}; {'; '.join(others)}",
        limit=limit,
    )


def _interval(cases: Sequence[Mapping[str, Held]], name: str) -> str:
    pairs = [(each[name].session, each[name].share) for each in cases]
    return str(by_session(pairs) or "one session")


def _size(cases: Sequence[Mapping[str, Held]], name: str) -> str:
    """Return its size where that is another one: what must stay, or a step that does not fit."""
    size = fmean(each[name].size for each in cases)
    return "" if 0.95 <= size <= 1.05 else f"; {size:.2f} of the tokens"
