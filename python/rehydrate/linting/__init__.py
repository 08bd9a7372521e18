"""Linting a prompt or a session: what it spends tokens on to no use, and what breaks its cache.

lint(target)       every finding, gravest first
Finding            rule, severity, place, tokens, what it is, what to do about it
RULES              the rules by name, each a function from a `Subject` to findings
"""

from rehydrate.linting.finding import SEVERITIES, Finding, Severity
from rehydrate.linting.lint import lint
from rehydrate.linting.rules import RULES
from rehydrate.linting.subject import Subject, Text

__all__ = ["RULES", "SEVERITIES", "Finding", "Severity", "Subject", "Text", "lint"]
