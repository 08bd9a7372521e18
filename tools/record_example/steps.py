"""The steps of a script: user turns, agent texts, and tool calls.

A call declares its expected outcome (an exit code, a pattern in the output), since the agent's
words were written for it. A recording with another outcome stops and names the step.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field

# A line break inside a paragraph; lists, quotes, tables and code keep theirs.
_SOFT_BREAK = re.compile(r"(?<![\n:])\n(?![\n\-*>|\d ])")


def prose(text: str) -> str:
    """Return a text without indentation, a line a paragraph, code blocks untouched.

    >>> prose('''
    ...     One thing,
    ...     and more of it.
    ...
    ...     - a
    ...     - b
    ... ''')
    'One thing, and more of it.\\n\\n- a\\n- b'
    """
    parts = textwrap.dedent(text).strip().split("```")
    parts[::2] = [_SOFT_BREAK.sub(" ", part) for part in parts[::2]]
    return "```".join(parts)


@dataclass(frozen=True, slots=True)
class User:
    """A user turn, and the pause before it, in seconds."""

    text: str
    pause: int = 90


@dataclass(frozen=True, slots=True)
class Say:
    """A text of the agent, alone or before the call that follows. `{name}` is a captured value."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Any tool call. `expect` must be found in its output; `capture` keeps groups by name.

    `fails` marks a call that is meant to fail.
    """

    expect: str = ""
    capture: dict[str, str] = field(default_factory=dict)
    fails: bool = False


@dataclass(frozen=True, slots=True)
class Bash(Call):
    """A shell command in the clone."""

    command: str
    description: str


@dataclass(frozen=True, slots=True)
class Read(Call):
    """Lines of a file, all of them or `limit` from the first line that matches `start`."""

    path: str
    start: str = ""
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Grep(Call):
    """The lines that match in the tracked files under `path`, or only the files' names."""

    pattern: str
    path: str = ""
    names_only: bool = False


@dataclass(frozen=True, slots=True)
class Glob(Call):
    """The tracked files that a pattern matches."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Edit(Call):
    """One exact replacement; `old` must occur in the file once."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Write(Call):
    """A new file."""

    path: str
    content: str


@dataclass(frozen=True, slots=True, init=False)
class Together:
    """Calls that the agent makes in one message."""

    calls: tuple[Call, ...]

    def __init__(self, *calls: Call) -> None:
        object.__setattr__(self, "calls", calls)


Step = User | Say | Call | Together
