"""Claude Code transcripts: JSONL lines around Anthropic messages, one content block a line.

The model saw only the `user` and `assistant` lines, and what was queued while it worked
(`queued_command` attachments). All others (progress, file history, queue operations, system notes
such as compact_boundary) are ignored, and so are

- subagents' lines (isSidechain), unless the whole transcript is a subagent's;
- lines whose uuid came before, which a resumed session repeats;
- API errors, which Claude Code shows but never sends;
- branches that the user took back by a rewind.

A transcript is a tree: each line names its parent, and the conversation is the way from the newest
leaf to the root, with the other lines of its messages and the results of its calls
(`transcript_branch`). A line may be written before its parent: `Conversation` has the order of the
file, and what is sent and validated the order of the tree.

One assistant message is several lines with one `message.id`, and results of its first calls may
come before the lines of its last calls. So all lines of one id, and all results of their calls, are
one unit. Lines that Claude Code writes as the user (isMeta, isCompactSummary, a task's
notification) are user messages that the model sees, but no turns of the user.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from rehydrate.errors import Violation
from rehydrate.formats._reading import (
    NONE,
    PROOF,
    Places,
    line_content,
    line_is_seen,
    line_is_users,
    read_transcript,
    replace_texts,
    spoken_lines,
    transcript_branch,
    type_of,
)
from rehydrate.formats.anthropic import inputs_in, iter_blocks, places_in
from rehydrate.formats.anthropic_rules import Spoken, broken_rules
from rehydrate.formats.calls import Inputs, is_signed
from rehydrate.formats.thinking import Nothing, content_without_thinking
from rehydrate.messages import Conversation

NAME = "claude_code"
replace = replace_texts

_SPEAKERS = frozenset({"user", "assistant"})
_TRANSCRIPT_KEYS = frozenset({"uuid", "sessionId", "session_id", "messageId", "leafUuid"})


class _Line(NamedTuple):
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    role: str
    content: object
    message_id: str | None
    entry: Mapping[str, Any]


def detect(entry: Mapping[str, Any]) -> int:
    """PROOF: a `type` instead of a role, around a message or beside a transcript's ids."""
    if "role" in entry or not isinstance(entry.get("type"), str):
        return NONE
    if entry["type"] in _SPEAKERS and isinstance(entry.get("message"), Mapping):
        return PROOF
    return NONE if _TRANSCRIPT_KEYS.isdisjoint(entry) else PROOF


def parse(entries: Sequence[Any]) -> Conversation:
    """Read transcript lines; raises InvalidMessageError for an entry that is no line."""
    return read_transcript(entries)


def validate(entries: Sequence[Any]) -> list[Violation]:
    """Return every rule of the Messages API that the merged lines break, by index of the line.

    Lines are merged as Claude Code merges them when it sends: blocks of one message id together,
    consecutive user lines together with their results first, whitespace-only texts left out.
    """
    lines = _lines_of(entries)
    spoken: list[Spoken] = []
    by_id: dict[str, Spoken] = {}
    for line in lines:
        merged: Spoken | None = None
        if line.role == "user":
            merged = spoken[-1] if spoken and spoken[-1].role == "user" else None
        elif line.message_id is not None:
            merged = by_id.get(line.message_id)
        if merged is None:
            merged = Spoken(line.index, line.role, [])
            spoken.append(merged)
            if line.message_id is not None:
                by_id[line.message_id] = merged
        merged.blocks.extend(
            (line.index, block)
            for block in iter_blocks(line.content, line.index)
            if not _is_whitespace(block)
        )
    for message in spoken:
        if message.role == "user":
            message.blocks.sort(key=_is_no_result)
    return broken_rules([message for message in spoken if message.blocks])


def places(entry: Mapping[str, Any], index: int) -> Places:
    """Return the paths of the texts in a line's message. `toolUseResult` beside it is Claude Code's
    own record, which no model sees."""
    return places_in(content_of(entry), index, _path_of(entry))


def inputs(entry: Mapping[str, Any]) -> Inputs:
    """Return the inputs of the calls in a line's message."""
    return inputs_in(content_of(entry), _path_of(entry))


def signed(entry: Mapping[str, Any]) -> bool:
    """Return whether the line's message holds a thought or its signature."""
    return is_signed(content_of(entry))


def without_thinking(entries: Sequence[Any]) -> list[Any]:
    """Return each line without thinking blocks: itself, a copy, or None where nothing is left."""
    return [_without_thinking(entry) for entry in entries]


def _without_thinking(entry: Mapping[str, Any]) -> Mapping[str, Any] | None:
    message = entry.get("message")
    if entry.get("type") != "assistant" or not isinstance(message, Mapping):
        return entry
    content = message.get("content")
    rest = content_without_thinking(content)
    if rest is content:
        return entry
    return None if rest is Nothing else {**entry, "message": {**message, "content": rest}}


def _lines_of(entries: Sequence[Any]) -> list[_Line]:
    """Return the lines of the conversation in its order."""
    found, is_ordered = spoken_lines(entries)
    lines = list(map(_Line._make, found))
    return lines if is_ordered else _calls_first(lines)


def _calls_first(lines: Sequence[_Line]) -> list[_Line]:
    """Return the lines in their order, but none with a result before the message of its call, and
    no other message of the assistant's between a call and its result.

    The first line stays the first: units begin in the order of the file.
    """
    blocks = [list(iter_blocks(line.content, line.index)) for line in lines]
    answers = [
        [call for each in found if (call := _id_of(each, "tool_result", "tool_use_id"))]
        for found in blocks
    ]
    calls: dict[object, list[str]] = {}  # of each message that is not placed yet
    for line, found in zip(lines, blocks, strict=True):
        if line.role == "assistant":
            ids = [_id_of(block, "tool_use", "id") for block in found]
            calls.setdefault(_message_of(line), []).extend([each for each in ids if each])
    later = {call for made in calls.values() for call in made}
    to_come = Counter(chain(*answers))  # results that are not placed yet
    waiting: set[str] = set()  # calls that are placed, with a result to come
    held: dict[str, list[int]] = {}
    put_off: deque[int] = deque()  # lines of messages that wait until no call does
    placed: list[_Line] = []

    def place(number: int) -> None:
        """Place a line, or hold it until its next call is there."""
        own, is_user = answers[number], lines[number].role == "user"
        waits = next((each for each in own if each in later), None)
        if waits is not None and placed and is_user:
            held.setdefault(waits, []).append(number)
            return
        placed.append(lines[number])
        to_come.subtract(own)
        waiting.difference_update([call for call in own if to_come[call] <= 0])

    def come_to(number: int) -> None:
        """Place a line, and what was held for it."""
        place(number)
        if lines[number].role == "assistant":
            made = calls.pop(_message_of(lines[number]), [])
            later.difference_update(made)
            waiting.update([call for call in made if to_come[call] > 0])
            for late in [late for call in made for late in held.pop(call, ())]:
                place(late)

    for number, line in enumerate(lines):
        if waiting and line.role == "assistant" and _message_of(line) in calls:
            put_off.append(number)
            continue
        come_to(number)
        while put_off and not waiting:
            come_to(put_off.popleft())
    for number in put_off:
        come_to(number)
    return placed


def _message_of(line: _Line) -> object:
    """Return what the lines of one message have in common."""
    return line.index if line.message_id is None else line.message_id


def _id_of(block: Any, kind: str, key: str) -> str | None:
    found = block.get(key) if isinstance(block, Mapping) and type_of(block) == kind else None
    return found if isinstance(found, str) else None


def taken_back(entries: Sequence[Any]) -> frozenset[int]:
    """Return the indices of lines that the model may have seen, and that the conversation did not
    go on from: the user took them back.

    >>> said = {"role": "user", "content": "Use tabs."}
    >>> lines = [{"type": "user", "uuid": "1", "parentUuid": "0", "message": said}]
    >>> lines += [{"type": "user", "uuid": "2", "parentUuid": "0", "message": said}]
    >>> taken_back(lines)
    frozenset({0})
    """
    lines = {n: entry for n, entry in enumerate(entries) if isinstance(entry, Mapping)}
    branch = transcript_branch(list(lines.values()))
    if branch is None:
        return frozenset()
    numbers = list(lines)
    kept = {numbers[place] for place in branch}
    return frozenset([n for n, entry in lines.items() if is_seen(entry) and n not in kept])


def repeated(entries: Sequence[Any]) -> frozenset[int]:
    """Return the indices of lines that have the uuid of a line before them.

    >>> said = {"role": "user", "content": "Use tabs."}
    >>> repeated([{"type": "user", "uuid": "1", "message": said}] * 2)
    frozenset({1})
    """
    seen: set[str] = set()
    found: list[int] = []
    for index, entry in enumerate(entries):
        uuid = entry.get("uuid") if isinstance(entry, Mapping) and is_seen(entry) else None
        if isinstance(uuid, str):
            if uuid in seen:
                found.append(index)
            seen.add(uuid)
    return frozenset(found)


is_seen = line_is_seen
content_of = line_content
is_of_the_user = line_is_users


def _path_of(entry: Mapping[str, Any]) -> tuple[str, str]:
    is_queued = entry.get("type") == "attachment"
    return ("attachment", "prompt") if is_queued else ("message", "content")


def _is_whitespace(block: Mapping[str, Any]) -> bool:
    text = block.get("text")
    return block.get("type") == "text" and isinstance(text, str) and text.isspace()


def _is_no_result(numbered: tuple[int, Mapping[str, Any]]) -> bool:
    return numbered[1].get("type") != "tool_result"


class Merged(NamedTuple):
    """A message, and the indices of its lines."""

    message: dict[str, Any]
    sources: tuple[int, ...]


def merged_lines(entries: Sequence[Any]) -> list[Merged]:
    """Merge the lines into messages; their blocks are the same objects as in the transcript.

    The lines of one message id become one assistant message. Of neighbouring user lines all results
    come first, in one message; other user content follows line by line, so that a line added later
    changes no message before it.
    """
    lines = _lines_of(entries)
    turns: list[_Turn] = []
    by_id: dict[str, _Turn] = {}
    for line in lines:
        turn = by_id.get(line.message_id) if line.message_id is not None else None
        if turn is None and line.role == "user" and turns and turns[-1].role == "user":
            turn = turns[-1]
        if turn is None:
            turn = _Turn(line.role, [])
            turns.append(turn)
            if line.message_id is not None:
                by_id[line.message_id] = turn
        turn.lines.append((line.index, line.content))
    return [message for turn in turns for message in turn.messages()]


class _Turn(NamedTuple):
    """Consecutive lines of one role: indices and contents."""

    role: str
    lines: list[tuple[int, object]]

    def messages(self) -> list[Merged]:
        """Return one assistant message; for the user the results, then the rest line by line."""
        if self.role == "assistant":
            return _merged("assistant", [(n, list(_blocks(said, n))) for n, said in self.lines])
        answers: list[tuple[int, list[Any]]] = []
        spoken: list[Merged] = []
        for index, content in self.lines:
            if isinstance(content, str):
                spoken.append(Merged({"role": "user", "content": content}, (index,)))
                continue
            blocks = list(_blocks(content, index))
            results = [block for block in blocks if _is_result(block)]
            if results:
                answers.append((index, results))
            rest = [block for block in blocks if not _is_result(block)]
            spoken += _merged("user", [(index, rest)])
        return _merged("user", answers) + spoken


def _merged(role: str, parts: Sequence[tuple[int, list[Any]]]) -> list[Merged]:
    content = [block for _, blocks in parts for block in blocks]
    sources = tuple([index for index, _ in parts])
    return [Merged({"role": role, "content": content}, sources)] if content else []


def _blocks(content: object, index: int) -> Iterator[Mapping[str, Any]]:
    """Return the blocks of a content without blank ones, which are not sent."""
    return (block for block in iter_blocks(content, index) if not _is_blank(block))


def _is_result(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "tool_result"


def _is_blank(block: Mapping[str, Any]) -> bool:
    text = block.get("text")
    return block.get("type") == "text" and isinstance(text, str) and not text.strip()
