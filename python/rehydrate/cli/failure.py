"""Failure: what went wrong, in the one line that the user gets to see."""

from __future__ import annotations

USAGE = 2
"""Exit code of a mistake in the arguments or the input: something the user can put right."""
INTERNAL = 70
"""Exit code of a defect of ours (EX_SOFTWARE of sysexits.h)."""


class Failure(Exception):  # noqa: N818  it is one, and `Error` would suggest ours
    """Ends the command with one line on standard error that names place, problem and remedy."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        """Take the line without the program's name, and the exit code."""
        super().__init__(message)
        self.code = code
