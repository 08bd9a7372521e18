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

    Those whose result is one of the ``visible`` entries are left out, and secrets.
    """
    from rehydrate.memory.redaction import Redactor  # slow to load

    redactor = Redactor()
    calls: dict[str, str] = {}
    ran: dict[str, Command] = {}
    for message in messages:
        asked = iter(message.calls)
        for text, kind in message.pieces:
            if kind is PieceKind.TOOL_INPUT:
                told = [each.text for each in subjects(text) if each.use == RAN]
                calls[next(asked, "")] = told[0] if told else ""
        for answer, result in _results(message):
            if command := calls.pop(answer, ""):
                ran.pop(command, None)
                ran[command] = Command(command, _outcome(result), message.index)
    return [
        Command(_first_line(redactor(command).text), redactor(outcome).text, answered)
        for command, outcome, answered in ran.values()
        if answered not in visible
    ]


def _results(message: Message) -> Iterable[tuple[str, str]]:
    """Return what a message answers with the results; none where an empty one leaves it open which
    is whose."""
    texts = [text for text, kind in message.pieces if kind is PieceKind.TOOL_RESULT]
    if len(message.answers) == 1:
        return [(message.answers[0], "\n".join(texts))]
    return zip(message.answers, texts, strict=True) if len(message.answers) == len(texts) else ()


def _first_line(command: str) -> str:
    first, *others = command.splitlines()
    return f"{first[: _MAX_COMMAND - 1]}…" if others or len(first) > _MAX_COMMAND else first


def _outcome(result: str) -> str:
    code, error = exit_code(result), first_error(result)
    if code != 0 and error is not None:
        return " ".join(error.text.split())[:_MAX_COMMAND]
    return f"exit {code}" if code else "ok"
