"""The pass that removes echoes: what stands in the history already is referred to, not repeated."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

from rehydrate.messages import Message, PieceKind
from rehydrate.prompt.caps.results import Text, ToolNames, texts_of
from rehydrate.prompt.counting import prompt_tokens, upper_bound
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.originals import About
from rehydrate.prompt.passes.cap import Change, Changes
from rehydrate.prompt.passes.repeats import Run, Seen, Source, own_strings
from rehydrate.prompt.target import Target, traced

__all__ = ["RemoveEchoes", "remove_echoes"]


NAME = "remove_echoes"
LEAST_CHARACTERS = 1_000
"""A shorter repetition stays: a reference has its price too."""
_CONVERSATIONS = 8
"""Whose lines are remembered from one compilation to the next."""


class _Echo(NamedTuple):
    """A text of an entry, and the runs of its lines that stand above."""

    text: Text
    runs: tuple[Run, ...]

    def render(self, handle: str) -> str:
        """The text with a reference in the place of each run."""
        lines = self.text.text.split("\n")
        out: list[str] = []
        at = 0
        for run in self.runs:
            out += lines[at : run.start]
            out.append(run.reference(handle))
            at = run.end
        return "\n".join([*out, *lines[at:]])


class _Reading:
    """A conversation, read so far: what each of its entries repeats, decided by those before it."""

    def __init__(self, format: str, least: int) -> None:  # noqa: A002
        self._format = format
        self._seen = Seen(least)
        self._least = least
        self._tools = ToolNames()
        self._read = array("q")  # hashes: what was read is the history's to hold
        self._echoes: list[tuple[_Echo, ...]] = []

    def is_of(self, format: str) -> bool:  # noqa: A002
        """Whether it reads this format."""
        return self._format == format

    def begins(self, hashes: array[int]) -> bool:
        """Whether this conversation and that one begin alike, as far as the shorter one goes."""
        count = min(len(hashes), len(self._read))
        return self._read[:count] == hashes[:count]

    def echoes(
        self, read: Sequence[tuple[Message, bool]], entries: Sequence[Any]
    ) -> Sequence[tuple[_Echo, ...]]:
        """Per message, what it repeats; those that were read before are not read again."""
        for each in read[len(self._read) :]:
            message, was_cut = each
            self._echoes.append((*self._add(message, entries[message.index], was_cut),))
            self._read.append(hash(each))
        return self._echoes[: len(read)]

    def _add(self, message: Message, entry: Any, was_cut: bool) -> Iterator[_Echo]:
        self._tools.add(message)
        long = any(len(piece.text) >= self._least for piece in message.pieces)
        texts = texts_of(message, entry, self._format, self._tools) if long else ()
        by_piece = {text.piece_index: text for text in texts}
        calls = iter(message.calls)
        for number, piece in enumerate(message.pieces):
            if piece.kind == PieceKind.TOOL_INPUT:
                call = next(calls, "")
                source = Source("input", call, self._tools[call])
                for said, held in own_strings(piece.text, entry, self._least):
                    self._seen.add(said, source, held=held)
            elif piece.kind == PieceKind.TEXT:
                self._seen.add(piece.text, Source("text", "", message.role))
            elif piece.kind == PieceKind.TOOL_RESULT and len(piece.text) >= self._least:
                text = by_piece.get(number)
                call, tool = (text.tool_call_id, text.tool) if text else ("", "")
                runs = self._seen.runs(piece.text) if text else ()
                if runs and text:
                    yield _Echo(text, runs)
                # What was cut is no place to refer to, though its lines stand there.
                if not was_cut:
                    self._seen.add(piece.text, Source("result", call, tool), runs)


@dataclass(frozen=True, slots=True)
class RemoveEchoes:
    """Removes from tool results what their own call or an earlier entry says already.

    A run of lines that stands above, in a tool's input, a result or a message, becomes one line
    that says where, and has the handle of the whole result: it can be got back whatever becomes of
    the place that is referred to. Lines are the same if they differ in nothing but the number that
    a tool put before them. Never refers to what a pass before it has cut, nor to a reference.
    Without originals nothing is removed, and never from what the model asked for.

    Stands before `prune` and behind it. A prompt that has to be pruned in any case is pruned as it
    is: names that only a reference leads to would go with the place that it refers to. What is kept
    of it is freed of echoes then.
    """

    least_characters: int = LEAST_CHARACTERS
    name: str = NAME
    _readings: list[_Reading] = field(default_factory=list, repr=False, compare=False)
    _lock: Any = field(default_factory=Lock, repr=False, compare=False)

    def __call__(self, ir: PromptIR, target: Target) -> PromptIR:
        """The IR without echoes, and a trace of it."""
        pruned = [trace for trace in ir.meta.trace if trace.name == "prune"]
        if pruned and not any(trace.changed for trace in pruned):
            return ir  # they were removed before
        after = self._without_echoes(ir, target)
        tokens = upper_bound(prompt_tokens(after), target.provider)
        if pruned or after.history is ir.history or tokens <= ir.budget.soft_tokens:
            return after
        return traced(self.name, ir, ir, (), ["left to what is kept: the prompt is pruned first"])

    def _without_echoes(self, ir: PromptIR, target: Target) -> PromptIR:
        changes = Changes(self.name)
        history, originals = ir.history, target.originals
        messages: Sequence[Message] = ()
        if originals is None:
            note = "nothing is removed: there is no place to keep the originals"
            return changes.apply(ir, messages, [note])
        if history.entries:
            messages = history.messages
            changed = {entry for trace in ir.meta.trace for entry in trace.changed}
            asked_for = {section.carrier for section in ir.late_bound}
            read = [(message, history.entry_id(message.index) in changed) for message in messages]
            reading = self._reading(read, history.format)
            for (message, _), echoes in zip(
                read, reading.echoes(read, history.entries), strict=True
            ):
                made = []
                for echo in echoes:
                    if echo.text.tool_call_id in asked_for:
                        continue
                    about = About(echo.text.tool, echo.text.tool_call_id)
                    handle = changes.keep(originals, echo.text.text, about)
                    if handle is not None:
                        count = sum(run.end - run.start for run in echo.runs)
                        note = f"{count:,} lines stand above, {handle}"
                        made.append(Change(echo.text.path, echo.render(handle), note))
                changes.add(message.index, made)
            with self._lock:
                self._readings.insert(0, reading)
                del self._readings[_CONVERSATIONS:]
        return changes.apply(ir, messages)

    def _reading(self, read: Sequence[tuple[Message, bool]], format: str) -> _Reading:  # noqa: A002
        """The reading of this conversation that is known, or a new one; nobody else has it."""
        hashes = array("q", map(hash, read))
        with self._lock:
            for place, reading in enumerate(self._readings):
                if reading.is_of(format) and reading.begins(hashes):
                    return self._readings.pop(place)
        return _Reading(format, self.least_characters)


remove_echoes = RemoveEchoes()
