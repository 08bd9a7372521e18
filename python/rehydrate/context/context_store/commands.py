"""Commands: what was run in a conversation, and what it came to; not what was only looked up."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from rehydrate.context.context_store.cues import exit_code, first_error
from rehydrate.context.context_store.tool_table import RAN, subjects
from rehydrate.messages import Message, PieceKind

_MAX_COMMAND = 80
"""Characters of a command that are shown, and of what it came to."""


class Command(NamedTuple):
    """The last run of one command."""

    text: str
    """Its first line."""
    outcome: str
    """The first line of its error, the number that it exited with, or ok."""
    answered: int
    """The entry of its result."""


def commands_of(messages: Iterable[Message], visible: Collection[int]) -> list[Command]:
    """Return the commands that were run, in the order of their last results.

    Those whose result is one of the ``visible`` entries are left out.
    """
    calls: dict[str, str] = {}
    ran: dict[str, Command] = {}
    for message in messages:
        asked, answers = iter(message.calls), iter(message.answers)
        for text, kind in message.pieces:
            if kind is PieceKind.TOOL_INPUT:
                told = [each.text.strip() for each in subjects(text) if each.use == RAN]
                calls[next(asked, "")] = told[0] if told else ""
            elif kind is PieceKind.TOOL_RESULT and (command := calls.pop(next(answers, ""), "")):
                ran.pop(command, None)
                ran[command] = Command(_first_line(command), _outcome(text), message.index)
    return [each for each in ran.values() if each.answered not in visible]


def _first_line(command: str) -> str:
    first, *others = command.splitlines()
    return f"{first[: _MAX_COMMAND - 1]}…" if others or len(first) > _MAX_COMMAND else first


def _outcome(result: str) -> str:
    code, error = exit_code(result), first_error(result)
    if code != 0 and error is not None:
        return " ".join(error.text.split())[:_MAX_COMMAND]
    return f"exit {code}" if code else "ok"
