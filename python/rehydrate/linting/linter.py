"""lint applies every rule to a prompt or a session.

Rules about single texts run in order: a text that one of them reports is not reported by a later
one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from rehydrate.errors import InvalidArgumentError
from rehydrate.linting import growth, texts
from rehydrate.linting.about import ABOUT
from rehydrate.linting.subject import SEVERITIES, Finding, Subject
from rehydrate.prompt.request import Budget


class Rule(NamedTuple):
    """One rule; `about` says in a few words what it looks for."""

    find: Callable[[Subject], Iterator[Finding]]
    about: str
    is_about_texts: bool = False
    """Whether it judges single texts: a text that it reports is not reported by a later rule."""


RULES: dict[str, Rule] = {
    "base64": Rule(texts.base64_in_text, ABOUT["base64"], True),
    "echo": Rule(texts.echoes, ABOUT["echo"], True),
    "raw_log": Rule(texts.raw_logs, ABOUT["raw_log"], True),
    "search_dump": Rule(texts.search_dumps, ABOUT["search_dump"], True),
    "unused_result": Rule(texts.unused_results, ABOUT["unused_result"], True),
    "whole_file": Rule(texts.whole_files, ABOUT["whole_file"], True),
    "heavy_tools": Rule(texts.heavy_tools, ABOUT["heavy_tools"]),
    "thinking": Rule(texts.old_thinking, ABOUT["thinking"]),
    "growth": Rule(growth.growth, ABOUT["growth"]),
    "growing_system": Rule(growth.growing_system, ABOUT["growing_system"]),
    "unstable_prefix": Rule(growth.unstable_prefix, ABOUT["unstable_prefix"]),
    "breakpoints": Rule(growth.breakpoints, ABOUT["breakpoints"]),
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
    findings: list[Finding] = []
    reported: set[str] = set()
    for name, rule in RULES.items():
        if rules is None or name in rules:
            found = list(rule.find(subject))
            if rule.is_about_texts:
                found = [finding for finding in found if finding.place not in reported]
                reported.update(finding.place for finding in found)
            findings += found
    return sorted(
        findings, key=lambda found: (-SEVERITIES.index(found.severity), -found.tokens, found.place)
    )
