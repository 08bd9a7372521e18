"""The rules, in the order in which they may claim a text: what is certain goes first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from rehydrate.linting.finding import Finding
from rehydrate.linting.rules import (
    budget,
    caching,
    contents,
    growing,
    repeats,
    searches,
    thinking,
    tools,
    use,
)
from rehydrate.linting.subject import Subject


class Rule(NamedTuple):
    """One rule; `about` says in a few words what it looks for."""

    find: Callable[[Subject], Iterator[Finding]]
    about: str
    is_about_texts: bool = False
    """Whether it judges single texts: one that it names is spent, and no later rule names it."""


RULES: dict[str, Rule] = {
    "base64": Rule(contents.base64_in_text, "binary data as text", True),
    "echo": Rule(repeats.echoes, "content that stands earlier already", True),
    "raw_log": Rule(contents.raw_logs, "logs in full", True),
    "search_dump": Rule(searches.search_dumps, "searches that return whole files", True),
    "unused_result": Rule(use.unused_results, "tool results never used again", True),
    "whole_file": Rule(contents.whole_files, "long files in full", True),
    "heavy_tools": Rule(tools.heavy_tools, "heavy tool schemas"),
    "thinking": Rule(thinking.left_over, "thinking of turns that are over"),
    "growth": Rule(budget.growth, "tokens a turn, and when the budget is crossed"),
    "growing_system": Rule(growing.growing_system, "a system prompt that grows"),
    "unstable_prefix": Rule(caching.unstable_prefix, "dates, times and ids that break the cache"),
    "breakpoints": Rule(caching.breakpoints, "cache marks too many, too early or missing"),
}
"""Every rule by its name."""
