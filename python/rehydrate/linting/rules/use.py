"""unused_result: long tool results of which nothing is mentioned afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rehydrate.linting.finding import Finding
from rehydrate.linting.subject import Subject
from rehydrate.messages import PieceKind

RESULT_TOKENS = 1_000
LATER_STEPS = 8
"""So many further requests must have been answered without a word of it."""
NEW_TERMS = 12
"""So many names must be new in a result, or else nobody can tell whether it was used."""

_TERM = re.compile(r"[A-Za-z_][A-Za-z0-9_]{3,}|\d{3,}")


def unused_results(subject: Subject) -> Iterator[Finding]:
    """Results none of whose new names (identifiers, words, numbers) is said again by anyone.

    It errs on the side of silence: any word that is new in a result and said later, in whatever
    sense, counts as a use.
    """
    terms = [frozenset(_TERM.findall(text.text)) for text in subject.texts]
    last_said: dict[str, int] = {}
    for place, text in enumerate(subject.texts):
        if text.kind is not PieceKind.TOOL_RESULT:
            last_said.update(dict.fromkeys(terms[place], place))
    seen: set[str] = set()
    steps = subject.steps
    for place, text in enumerate(subject.texts):
        if (
            text.kind is PieceKind.TOOL_RESULT
            and text.tokens >= RESULT_TOKENS
            and steps - text.step >= LATER_STEPS
        ):
            new = terms[place] - seen
            if len(new) >= NEW_TERMS and all(last_said.get(term, -1) < place for term in new):
                yield Finding(
                    "unused_result",
                    "info",
                    text.place,
                    text.tokens,
                    f"nothing that {text.tool or 'this tool'} found ({text.tokens:,} tokens) is "
                    f"mentioned in the {steps - text.step} requests since",
                    "leave a handle in its place (compact_context, or the pass cap_tool_results)",
                )
        seen |= terms[place]
