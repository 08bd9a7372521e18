"""lint: every rule over one prompt or session."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from rehydrate.errors import InvalidArgumentError
from rehydrate.ir import Budget
from rehydrate.linting.finding import SEVERITIES, Finding
from rehydrate.linting.rules import RULES
from rehydrate.linting.subject import Subject


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
    """What a prompt or a session spends tokens on to no use, gravest first.

    ``target`` are messages of any format, the body of a request, a PromptIR or a CompiledPrompt, or
    a list of such requests as a session sent them: then the last is linted, and whether the system
    prompt grew on the way. ``tools`` and ``system`` are what is sent with messages that come alone.
    ``model`` says which prefixes its cache keeps. ``rules`` are the names of those to apply (None:
    all of `RULES`). Nothing is changed. A text that one rule has named is not named again by a
    milder one.

    >>> log = "\\n".join(f"12:00:{n % 60:02} INFO request {n} served" for n in range(500))
    >>> [finding.rule for finding in lint([{"role": "user", "content": log}])]
    ['raw_log']
    """
    subject = Subject.of(
        target, format=format, tools=tools, system=system, model=model, budget=budget
    )
    return lint_subject(subject, rules)


def lint_subject(subject: Subject, rules: Collection[str] | None = None) -> list[Finding]:
    """The same of what was read already."""
    if isinstance(rules, str):
        raise InvalidArgumentError(f"rules is {rules!r}; pass a list of names, as in [{rules!r}]")
    unknown = sorted(set(rules or ()) - RULES.keys())
    if unknown:
        raise InvalidArgumentError(
            f"rules has {unknown[0]!r}; choose from {', '.join(map(repr, RULES))}"
        )
    findings: list[Finding] = []
    spent: set[str] = set()
    for name, rule in RULES.items():
        if rules is None or name in rules:
            found = list(rule.find(subject))
            if rule.is_about_texts:
                found = [finding for finding in found if finding.place not in spent]
                spent.update(finding.place for finding in found)
            findings += found
    return sorted(
        findings, key=lambda found: (-SEVERITIES.index(found.severity), -found.tokens, found.place)
    )
