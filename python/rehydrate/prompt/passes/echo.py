"""remove_echoes: replaces text that an earlier entry has by a reference to it.

The engine finds the runs of lines (`_engine.SeenLines`). It holds the texts of the history, not
copies of them; a string in a tool's JSON input, which only the parsed message has as a text, it
decodes again when it needs it.
"""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, count
from operator import ne
from threading import Lock
from typing import Any, Literal, NamedTuple

from rehydrate import _engine
from rehydrate.formats._reading import is_langchain_message
from rehydrate.messages import Message, PieceKind
from rehydrate.prompt.caps import Text, TextChange, TextChanges, add_tool_names, texts_of
from rehydrate.prompt.counting import prompt_tokens, upper_bound
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import PromptIR, Target, traced
from rehydrate.prompt.originals import About

__all__ = ["RemoveEchoes", "remove_echoes"]


NAME = "remove_echoes"
LEAST_CHARACTERS = 1_000
"""A shorter repetition stays, since a reference costs tokens too."""
_MAX_CONVERSATIONS = 8
"""The number of conversations that are remembered between compilations."""


class TextSource(NamedTuple):
    """Where a text of the history is from."""

    kind: Literal["result", "input", "text"]
    call: str = ""
    name: str = ""
    """The tool; of a message's own text the role that wrote it."""

    def __str__(self) -> str:
        """Return it in words: "the result of call toolu_1 (Read)"."""
        if self.kind == "text":
            return f"what the {self.name[:40]} said"
        tool = f" ({self.name[:80]})" if self.name else ""
        call = f"call {self.call[:80]}" if self.call else "a call"
        return f"the {self.kind} of {call}{tool}"


class Repeat(NamedTuple):
    """The lines of a text from `start` up to `end` (exclusive), which an earlier text has too."""

    start: int
    end: int
    source: TextSource
    first: int
    """The number of the first of these lines in the source, counted from 1."""
    is_whole: bool
    """Whether they are all lines of the source."""
    is_numbered: bool
    """Whether the numbers before the lines may differ."""

    def reference(self, handle: str) -> str:
        """Return the line that replaces them.

        >>> repeat = Repeat(0, 312, TextSource("result", "toolu_1", "Read"), 1, True, False)
        >>> repeat.reference("orig_a")
        '[same as the result of call toolu_1 (Read) above: 312 lines. kept whole as orig_a]'
        """
        count = self.end - self.start
        lines = "1 line" if count == 1 else f"{count:,} lines"
        where = "" if self.is_whole else f"lines {self.first}-{self.first + count - 1} of "
        aside = ", line numbers aside" if self.is_numbered else ""
        return f"[same as {where}{self.source} above: {lines}{aside}. kept whole as {handle}]"


_Echo = tuple[Text, list[Repeat]]
"""A tool result's text, and the runs of its lines that an earlier text has."""


def _with_references(text: str, repeats: Sequence[Repeat], handle: str) -> str:
    """Return the text with a reference instead of each run."""
    lines = text.split("\n")
    out: list[str] = []
    done = 0
    for repeat in repeats:
        out += [*lines[done : repeat.start], repeat.reference(handle)]
        done = repeat.end
    return "\n".join([*out, *lines[done:]])


_Flagged = tuple[Message, bool]
"""A message, and whether a pass has changed its entry."""


class _ConversationEchoes:
    """The echoes of one conversation, message by message. Each depends on earlier messages only."""

    def __init__(self, format: str, least_characters: int) -> None:  # noqa: A002
        self._format = format
        self._least_characters = least_characters
        self._seen = _engine.SeenLines(least_characters)
        self._tools: dict[str, str] = {}  # the names of the called tools
        self._hashes = array("q")  # of the messages so far, which the history holds
        self._echoes: list[tuple[_Echo, ...]] = []
        self._lines = array("I")  # the number of lines that were seen before each message

    def shared(self, format: str, hashes: array[int]) -> int:  # noqa: A002
        """Return how many messages this conversation and that one begin with alike; -1 in another
        format."""
        if self._format != format:
            return -1
        least = min(len(hashes), len(self._hashes))
        if hashes[:least] == self._hashes[:least]:
            return least
        return next(compress(count(), map(ne, hashes, self._hashes)), least)

    def beginning(self, messages: Sequence[Message]) -> _ConversationEchoes:
        """Return the echoes of a conversation of these messages, with which this one begins."""
        end = len(messages)
        begun = _ConversationEchoes(self._format, self._least_characters)
        begun._hashes, begun._echoes = self._hashes[:end], self._echoes[:end]
        begun._lines = self._lines[:end]
        begun._seen = self._seen.beginning(self._lines[end])
        for message in messages:
            add_tool_names(begun._tools, message)
        return begun

    @property
    def message_count(self) -> int:
        """How many messages were read."""
        return len(self._hashes)

    def of(
        self, flagged: Sequence[_Flagged], start: int, entries: Sequence[Any]
    ) -> Sequence[tuple[_Echo, ...]]:
        """Return the echoes of each of these messages, the first of which is number ``start``.

        All messages before it were read; of these, only new ones are read.
        """
        for each in flagged[len(self._hashes) - start :]:
            message, was_changed = each
            self._lines.append(len(self._seen))
            echoes = self._echoes_of(message, entries[message.index], was_changed)
            self._echoes.append(tuple(echoes))
            self._hashes.append(hash(each))
        return self._echoes[start : start + len(flagged)]

    def _echoes_of(self, message: Message, entry: Any, was_changed: bool) -> Iterator[_Echo]:
        """Yield the echoes in a message, and add its lines to those seen."""
        least = self._least_characters
        add_tool_names(self._tools, message)
        is_long = any(len(piece.text) >= least for piece in message.pieces)
        texts = texts_of(message, entry, self._format, self._tools) if is_long else ()
        by_piece = {text.piece_index: text for text in texts}
        calls = iter(message.calls)
        for number, piece in enumerate(message.pieces):
            if piece.kind == PieceKind.TOOL_INPUT:
                call = next(calls, "")
                if len(piece.text) >= least:
                    own = [text for text in _strings_in(entry) if len(text) >= least]
                    source = TextSource("input", call, self._tools.get(call, ""))
                    self._seen.add_input(piece.text.partition(" ")[2], own, source)
            elif piece.kind == PieceKind.TEXT:
                self._seen.add(piece.text, TextSource("text", "", message.role))
            elif piece.kind == PieceKind.TOOL_RESULT and len(piece.text) >= least:
                text = by_piece.get(number)
                call, tool = (text.tool_call_id, text.tool) if text else ("", "")
                repeats = list(map(Repeat._make, self._seen.repeats(piece.text) if text else ()))
                if repeats and text:
                    yield text, repeats
                # A reference must not lead to a text that was cut.
                if not was_changed:
                    without = [(repeat.start, repeat.end) for repeat in repeats]
                    self._seen.add(piece.text, TextSource("result", call, tool), without)


def _strings_in(entry: Any) -> Iterator[str]:
    """Yield every string that an entry holds; each object is visited once."""
    stack, visited = [entry], set()
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            yield value
        elif id(value) not in visited:
            visited.add(id(value))
            if is_langchain_message(value):
                value = getattr(value, "__dict__", {})
            if isinstance(value, (Mapping, list, tuple)):
                stack += value.values() if isinstance(value, Mapping) else value


@dataclass(frozen=True, slots=True)
class RemoveEchoes:
    """The pass that removes from tool results what their call or an earlier entry has already.

    One line replaces a run of lines that is above, in a tool's input, a result or a message. It
    says where the run is, and has the handle of the whole result, so the text can be read back
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
            return changes.apply(ir, [note])
        if not history.entries:
            return changes.apply(ir)
        changed_ids = {name for trace in ir.meta.trace for name in trace.changed}
        late_bound_calls = {section.tool_call_id for section in ir.late_bound}
        settled, known = (0, None) if changed_ids else target.settled_rows(self, ir)
        messages = history.messages_from(settled)
        start = history.rows.message_count - len(messages)
        flagged = _flagged(history, messages, changed_ids)
        hashes = array("q", known[:start] if known else ())
        hashes.extend(map(hash, flagged))
        conversation = self._take(hashes, history)
        if conversation.message_count < start:
            start, flagged = 0, _flagged(history, history.messages, changed_ids)
        found = conversation.of(flagged, start, history.entries)
        for (message, _), echoes in zip(flagged, found, strict=True):
            made = []
            for text, repeats in echoes:
                if text.tool_call_id in late_bound_calls:
                    continue
                handle = changes.keep(originals, text.text, About(text.tool, text.tool_call_id))
                if handle is not None:
                    count = sum(repeat.end - repeat.start for repeat in repeats)
                    note = f"{count:,} lines stand above, {handle}"
                    shortened = _with_references(text.text, repeats, handle)
                    made.append(TextChange(text.path, shortened, note))
            changes.add(message.index, made)
        with self._lock:
            self._conversations.insert(0, conversation)
            del self._conversations[_MAX_CONVERSATIONS:]
        same = min(changes.first_position(ir), _first_changed(flagged, len(history.entries)))
        target.note_settled(self, ir, same, hashes)
        return changes.apply(ir)

    def _take(self, hashes: array[int], history: History) -> _ConversationEchoes:
        """Take this conversation out of the list, so that no other thread has it; or make one."""
        best, most = None, 0
        with self._lock:
            for index, conversation in enumerate(self._conversations):
                shared = conversation.shared(history.format, hashes)
                if shared == min(len(hashes), conversation.message_count):
                    return self._conversations.pop(index)
                if shared > most:
                    best, most = conversation, shared
            # Its messages are the same up to one that a pass changed since.
            if best is not None and history.is_by_row:
                return best.beginning(history.messages[:most])
        return _ConversationEchoes(history.format, self.least_characters)


def _flagged(
    history: History, messages: Sequence[Message], changed_ids: Container[str]
) -> list[_Flagged]:
    return [(message, history.entry_id(message.index) in changed_ids) for message in messages]


def _first_changed(flagged: Sequence[_Flagged], default: int) -> int:
    """Return the position of the first entry that a pass has changed."""
    return next((message.index for message, was_changed in flagged if was_changed), default)


remove_echoes = RemoveEchoes()
