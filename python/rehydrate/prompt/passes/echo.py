"""remove_echoes: replaces text that an earlier entry has by a reference to it."""

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
from rehydrate.prompt.passes.repeats import Repeat, SeenLines, TextSource
from rehydrate.prompt.passes.text_changes import TextChange, TextChanges
from rehydrate.prompt.passes.tool_inputs import input_strings
from rehydrate.prompt.target import Target, traced

__all__ = ["RemoveEchoes", "remove_echoes"]


NAME = "remove_echoes"
LEAST_CHARACTERS = 1_000
"""A shorter repetition stays, since a reference costs tokens too."""
_MAX_CONVERSATIONS = 8
"""The number of conversations that are remembered between compilations."""


class _Echo(NamedTuple):
    """A tool result's text, and the runs of its lines that stand above."""

    text: Text
    repeats: tuple[Repeat, ...]

    def render(self, handle: str) -> str:
        """Return the text with a reference instead of each run."""
        lines = self.text.text.split("\n")
        out: list[str] = []
        done = 0
        for repeat in self.repeats:
            out += lines[done : repeat.start]
            out.append(repeat.reference(handle))
            done = repeat.end
        return "\n".join([*out, *lines[done:]])


_Flagged = tuple[Message, bool]
"""A message, and whether a pass has changed its entry."""


class _ConversationEchoes:
    """The echoes of one conversation, message by message. Each depends on earlier messages only."""

    def __init__(self, format: str, least_characters: int) -> None:  # noqa: A002
        self._format = format
        self._least_characters = least_characters
        self._seen = SeenLines(least_characters)
        self._tools = ToolNames()
        self._hashes = array("q")  # of the messages so far, which the history holds
        self._echoes: list[tuple[_Echo, ...]] = []

    def fits(self, format: str, hashes: array[int]) -> bool:  # noqa: A002
        """Whether this conversation and that one begin alike, up to the end of the shorter one."""
        count = min(len(hashes), len(self._hashes))
        return self._format == format and self._hashes[:count] == hashes[:count]

    def of(
        self, flagged: Sequence[_Flagged], entries: Sequence[Any]
    ) -> Sequence[tuple[_Echo, ...]]:
        """Return the echoes of each message; only new messages are read."""
        for each in flagged[len(self._hashes) :]:
            message, was_changed = each
            echoes = self._echoes_of(message, entries[message.index], was_changed)
            self._echoes.append(tuple(echoes))
            self._hashes.append(hash(each))
        return self._echoes[: len(flagged)]

    def _echoes_of(self, message: Message, entry: Any, was_changed: bool) -> Iterator[_Echo]:
        """Yield the echoes in a message, and add its lines to those seen."""
        least = self._least_characters
        self._tools.add(message)
        is_long = any(len(piece.text) >= least for piece in message.pieces)
        texts = texts_of(message, entry, self._format, self._tools) if is_long else ()
        by_piece = {text.piece_index: text for text in texts}
        calls = iter(message.calls)
        for number, piece in enumerate(message.pieces):
            if piece.kind == PieceKind.TOOL_INPUT:
                call = next(calls, "")
                source = TextSource("input", call, self._tools[call])
                for string, held in input_strings(piece.text, entry, least):
                    self._seen.add(string, source, held=held)
            elif piece.kind == PieceKind.TEXT:
                self._seen.add(piece.text, TextSource("text", "", message.role))
            elif piece.kind == PieceKind.TOOL_RESULT and len(piece.text) >= least:
                text = by_piece.get(number)
                call, tool = (text.tool_call_id, text.tool) if text else ("", "")
                repeats = self._seen.repeats(piece.text) if text else ()
                if repeats and text:
                    yield _Echo(text, repeats)
                # A reference must not lead to a text that was cut.
                if not was_changed:
                    self._seen.add(piece.text, TextSource("result", call, tool), repeats)


@dataclass(frozen=True, slots=True)
class RemoveEchoes:
    """The pass that removes from tool results what their call or an earlier entry has already.

    One line replaces a run of lines that stands above, in a tool's input, a result or a message. It
    says where the run stands, and has the handle of the whole result, so the text can be read back
    even if that entry is left out later. Two lines are equal if they differ only in the number that
    a tool put before them. A reference never leads to a text that an earlier pass has cut, nor to
    another reference. Without originals nothing is removed. Nothing is removed from results that
    the model asked for by `request_context`.

    The pass runs before `prune` and after it. If a prompt must be pruned even without its echoes,
    it is pruned with them: otherwise a name could be lost together with the entry that a reference
    leads to. The second run then removes the echoes from what is kept.
    """

    least_characters: int = LEAST_CHARACTERS
    name: str = NAME
    _conversations: list[_ConversationEchoes] = field(
        default_factory=list, repr=False, compare=False
    )
    _lock: Any = field(default_factory=Lock, repr=False, compare=False)

    def __call__(self, ir: PromptIR, target: Target) -> PromptIR:
        """Return the IR without echoes, and a trace of it."""
        prune_traces = [trace for trace in ir.meta.trace if trace.name == "prune"]
        if prune_traces and not any(trace.changed for trace in prune_traces):
            return ir  # the first run has removed them
        after = self._without_echoes(ir, target)
        tokens = upper_bound(prompt_tokens(after), target.provider)
        if prune_traces or after.history is ir.history or tokens <= ir.budget.soft_tokens:
            return after
        return traced(self.name, ir, ir, (), ["left to what is kept: the prompt is pruned first"])

    def _without_echoes(self, ir: PromptIR, target: Target) -> PromptIR:
        changes = TextChanges(self.name)
        history, originals = ir.history, target.originals
        if originals is None:
            note = "nothing is removed: there is no place to keep the originals"
            return changes.apply(ir, (), [note])
        if not history.entries:
            return changes.apply(ir, ())
        changed_ids = {name for trace in ir.meta.trace for name in trace.changed}
        late_bound_calls = {section.tool_call_id for section in ir.late_bound}
        messages = history.messages
        flagged = [
            (message, history.entry_id(message.index) in changed_ids) for message in messages
        ]
        conversation = self._take(flagged, history.format)
        found = conversation.of(flagged, history.entries)
        for message, echoes in zip(messages, found, strict=True):
            made = []
            for echo in echoes:
                if echo.text.tool_call_id in late_bound_calls:
                    continue
                about = About(echo.text.tool, echo.text.tool_call_id)
                handle = changes.keep(originals, echo.text.text, about)
                if handle is not None:
                    count = sum(repeat.end - repeat.start for repeat in echo.repeats)
                    note = f"{count:,} lines stand above, {handle}"
                    made.append(TextChange(echo.text.path, echo.render(handle), note))
            changes.add(message.index, made)
        with self._lock:
            self._conversations.insert(0, conversation)
            del self._conversations[_MAX_CONVERSATIONS:]
        return changes.apply(ir, messages)

    def _take(self, flagged: Sequence[_Flagged], format: str) -> _ConversationEchoes:  # noqa: A002
        """Take this conversation out of the list, so that no other thread has it; or make one."""
        hashes = array("q", map(hash, flagged))
        with self._lock:
            for index, conversation in enumerate(self._conversations):
                if conversation.fits(format, hashes):
                    return self._conversations.pop(index)
        return _ConversationEchoes(format, self.least_characters)


remove_echoes = RemoveEchoes()
