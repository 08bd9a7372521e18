"""lint applies every rule to a prompt or a session; the engine has the rules.

A text that a rule about single texts reports is not reported by a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from rehydrate import _native
from rehydrate.cost.prices import minimum_prefix
from rehydrate.errors import InvalidArgumentError
from rehydrate.linting.about import ABOUT
from rehydrate.linting.subject import COUNTER, Finding, Subject, definition
from rehydrate.prompt.request import Budget


class Rule(NamedTuple):
    """One rule; `about` says in a few words what it looks for."""

    find: Callable[[Subject], list[Finding]]
    about: str


def _found(names: Iterable[str], subject: Subject) -> list[Finding]:
    definitions = [definition(tool) for tool in subject.tools]
    shortest = minimum_prefix(subject.model)
    found = _native.lint(subject, definitions, shortest, COUNTER, list(names))
    return list(map(Finding._make, found))


RULES: dict[str, Rule] = {
    name: Rule(partial(_found, [name]), about) for name, about in ABOUT.items()
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
    """Find wasted tokens and broken caching in a prompt or a session, gravest first.

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
