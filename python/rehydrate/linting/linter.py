"""lint applies every rule to a prompt or a session; the engine reads it and has the rules.

A text that a rule about single texts reports is not reported by a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from rehydrate import _native
from rehydrate._native import Subject
from rehydrate.cost.prices import minimum_prefix
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.request import Budget

Severity = Literal["info", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")
"""Mildest first: good to know; costs tokens or money every turn; stops the job or is refused."""


class Finding(NamedTuple):
    """A problem that a rule found at one place."""

    rule: str
    severity: Severity
    place: str
    """``history[12]``, ``tools[3]``, ``system``, a section's id; "" for the whole."""
    tokens: int
    """Tokens in every request from there on that the remedy would save."""
    message: str
    remedy: str

    def __str__(self) -> str:
        """Return one line: place, message, remedy, rule."""
        place = f"{self.place}: " if self.place else ""
        return f"{place}{self.message}; {self.remedy} ({self.rule})"

    def is_at_least(self, severity: Severity) -> bool:
        """Return whether it is at least this severe."""
        return SEVERITIES.index(self.severity) >= SEVERITIES.index(severity)


class Rule(NamedTuple):
    """One rule; `about` says in a few words what it looks for."""

    find: Callable[[Subject], list[Finding]]
    about: str


def _found(names: Iterable[str], subject: Subject) -> list[Finding]:
    found = _native.lint(subject, minimum_prefix(subject.model), list(names))
    return list(map(Finding._make, found))


RULES: dict[str, Rule] = {
    name: Rule(partial(_found, [name]), about) for name, about in _native.lint_rules()
}
"""Every rule by its name."""


def lint(
    target: Any,
    *,
    format: str = "auto",  # noqa: A002  the field's word
    tools: Sequence[Any] = (),
    system: Any = None,
    model: str = "",
    budget: Budget | None = None,
    rules: Collection[str] | None = None,
) -> list[Finding]:
    """Find wasted tokens and broken caching in a prompt or a session, the most severe first.

    ``target`` is messages of any format, the body of a request, a PromptIR or a CompiledPrompt, or
    a list of such requests as a session sent them. Of a list, the last request is linted, and the
    growth of the system prompt. ``tools`` and ``system`` belong to messages that are passed alone.
    ``model`` decides which prefixes its cache keeps. ``rules`` are the names of those to apply
    (None: all of `RULES`). Nothing is changed. A text that one rule reports is not reported again
    by a milder one.

    >>> log = "\\n".join(f"12:00:{n % 60:02} INFO request {n} served" for n in range(500))
    >>> [finding.rule for finding in lint([{"role": "user", "content": log}])]
    ['raw_log']
    """
    subject = Subject.of(
        target, format=format, tools=tools, system=system, model=model, budget=budget
    )
    return lint_subject(subject, rules)


def lint_subject(subject: Subject, rules: Collection[str] | None = None) -> list[Finding]:
    """Like `lint`, for a subject that is already read."""
    if isinstance(rules, str):
        raise InvalidArgumentError(f"rules is {rules!r}; pass a list of names, as in [{rules!r}]")
    unknown = sorted(set(rules or ()) - RULES.keys())
    if unknown:
        raise InvalidArgumentError(
            f"rules has {unknown[0]!r}; choose from {', '.join(map(repr, RULES))}"
        )
    return _found(RULES if rules is None else rules, subject)
