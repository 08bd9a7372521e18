"""Linting of a prompt or a session: wasted tokens and broken caching.

lint(target)       every finding, the most severe first
Finding            rule, severity, place, tokens, message and remedy
RULES              the rules by name, each a function from a `Subject` to findings
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate._native import Subject as Subject, Text as Text
    from rehydrate.linting.linter import (
        RULES as RULES,
        SEVERITIES as SEVERITIES,
        Finding as Finding,
        Severity as Severity,
        lint as lint,
    )

__all__, __dir__, __getattr__ = front(__name__)
