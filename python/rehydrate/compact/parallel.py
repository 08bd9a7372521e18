"""Parallel calls: each call with its result is kept or dropped by itself, where the API allows it.

`Parted` turns an assistant message with several calls into several messages with one call each,
every one before its own result. That is a valid conversation, so the whole compaction works on it
as on any other. At the end the kept parts are put together again: a message of which every part is
kept unchanged is the caller's own object, any other has only the blocks that are kept.

    assistant [text, call a, call b]   user [result a, result b]
    assistant [text, call a]   user [result a]   assistant [call b]   user [result b]

What must stay together is never parted: a message with thinking (also where it is stripped) or a
signature, calls without results, calls of which some were made after the results of others, results
with the user's own text, server tools, and what the model has not answered yet.
LangChain's messages are not parted: they hold each call up to three times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import _engine, formats
from rehydrate.compact.report import lazy_property
from rehydrate.formats import anthropic, claude_code, openai_chat
from rehydrate.formats._reading import type_of
from rehydrate.formats.openai_responses import program_of

if TYPE_CHECKING:
    from rehydrate.compact.outline import Outline
    from rehydrate.compact.result import Compaction, Dropped, Explanation, Reasons
    from rehydrate.formats.calls import Inputs
    from rehydrate.messages import Conversation, Message


class _Part(NamedTuple):
    """An entry of the parted list."""

    origin: int
    """The index of its message in the caller's list."""
    entry: Any
    blocks: tuple[int, ...] = ()
    """The positions, in the whole message, of the blocks or calls that it has; () for all."""


class _Group(NamedTuple):
    """The parts that are put in the place of the entries from `start` up to `end`."""

    start: int
    end: int
    parts: list[_Part]


class Parted(NamedTuple):
    """A conversation's entries with parallel calls parted. A place is an index of this list, an
    origin one of the caller's."""

    format: str
    originals: Sequence[Any]
    entries: tuple[Any, ...]
    origins: tuple[int, ...]
    """Place -> origin."""
    blocks: Mapping[int, tuple[int, ...]]
    """Place of a message's part -> the positions of its blocks in the whole."""
    spans: tuple[tuple[int, int], ...]
    """The origins that were parted: of a message and its results."""
    pinned: frozenset[int]
    """The origins that the caller pinned: they are whole."""

    @classmethod
    def of(
        cls, conversation: Conversation, entries: Sequence[Any], pinned: Collection[int]
    ) -> Parted | None:
        """Part the parallel calls of a conversation; None if it has none that may be parted."""
        find = _FINDERS.get(conversation.format)
        groups = [] if find is None else [*find(entries, conversation.indices)]
        whole = frozenset(pinned)
        groups = [each for each in groups if whole.isdisjoint(range(each.start, each.end))]
        if not groups:
            return None
        parts: list[_Part] = []
        end = 0
        for group in groups:
            parts += [_Part(index, entries[index]) for index in range(end, group.start)]
            parts += group.parts
            end = group.end
        parts += [_Part(index, entries[index]) for index in range(end, len(entries))]
        blocks = {place: part.blocks for place, part in enumerate(parts) if part.blocks}
        origins = tuple([part.origin for part in parts])
        shown = tuple([part.entry for part in parts])
        spans = tuple([(group.start, group.end) for group in groups])
        return cls(conversation.format, entries, shown, origins, blocks, spans, whole)

    def again(self, conversation: Conversation, entries: Sequence[Any]) -> Parted | None:
        """Part the same messages once more, read anew."""
        return Parted.of(conversation, entries, self.pinned)

    def read(self) -> Conversation:
        """Return the parted conversation."""
        return formats.FORMATS[self.format].parse(self.entries)

    def places(self, origins: Collection[int]) -> list[int]:
        """Return the places of these messages."""
        return [place for place, origin in enumerate(self.origins) if origin in origins]

    def whole_entries(self) -> list[Any]:
        """Return for each place the whole message as it came in."""
        return [self.originals[origin] for origin in self.origins]

    def rounding(self, messages: Iterable[Message], counter: str | _engine.CustomCounter) -> int:
        """Return what these messages cost more in parts than whole: some counters round up."""
        by_origin: dict[int, list[Message]] = {}
        for message in messages:
            if message.index in self.blocks:
                by_origin.setdefault(self.origins[message.index], []).append(message)
        parts = [message for group in by_origin.values() for message in group]
        whole = [
            group[0]._replace(
                pieces=tuple([piece for message in group for piece in message.pieces]),
                images=sum(message.images for message in group),
            )
            for group in by_origin.values()
        ]
        both = _engine.message_tokens([*parts, *whole], counter) if parts else []
        return sum(both[: len(parts)]) - sum(both[len(parts) :])

    def counts(
        self, conversation: Conversation, kept: Sequence[bool], excerpted: Collection[int]
    ) -> tuple[int, int]:
        """Return how many messages are gone, and how many are kept in part."""
        all_parts = Counter(self.origins[place] for place in conversation.indices)
        kept_parts = Counter(
            self.origins[place]
            for place, is_kept in zip(conversation.indices, kept, strict=True)
            if is_kept
        )
        partial = {origin for origin, count in kept_parts.items() if count < all_parts[origin]}
        partial |= {self.origins[place] for place in excerpted}
        return len(all_parts) - len(kept_parts), len(partial)

    def merged(
        self, places: Sequence[int], entries: Sequence[Any], outline: Outline | None
    ) -> tuple[list[int], list[Any], Outline | None]:
        """Return the origins, the entries and the outline, with the kept parts put together.

        An outline between two parts of a message goes after its results.
        """
        row = [*zip(places, entries, strict=True)]
        written = row.pop(outline.position)[1] if outline else None
        part_counts = Counter(self.origins)
        kept: dict[int, list[tuple[int, Any]]] = {}
        for place, entry in row:
            kept.setdefault(self.origins[place], []).append((place, entry))
        origins = sorted(kept)
        found = [self._whole(each, kept[each], part_counts[each]) for each in origins]
        if outline is None:
            return origins, found, None
        before = {self.origins[place] for place, _ in row[: outline.position]}
        position = 1 + max((at for at, each in enumerate(origins) if each in before), default=-1)
        for start, end in self.spans:
            if 0 < position < len(origins) and start <= origins[position - 1] < end:
                position = sum(origin < end for origin in origins)
        outline = outline._replace(position=position, index=self.origins[outline.index])
        origins.insert(position, outline.index)
        found.insert(position, written)
        return origins, found, outline

    def _whole(self, origin: int, parts: Sequence[tuple[int, Any]], part_count: int) -> Any:
        """Return the message of these kept parts, of so many."""
        original = self.originals[origin]
        if len(parts) == part_count and all(entry is self.entries[at] for at, entry in parts):
            return original
        place, first = parts[0]
        if place in self.blocks:
            key = "tool_calls" if "tool_calls" in first else "content"
            blocks = {
                position: block
                for at, entry in parts
                for position, block in zip(self.blocks[at], entry[key], strict=True)
            }
            return {**first, key: [blocks[position] for position in sorted(blocks)]}
        if self.format == claude_code.NAME and self.entries[place] is not original:
            return {**first, "message": {**first["message"], "id": original["message"]["id"]}}
        return first


class PartedReasons:
    """The reasons of a compaction of parted calls, by the messages that came in."""

    def __init__(self, reasons: Reasons, parted: Parted) -> None:
        """Keep the arguments; nothing is computed yet."""
        self._reasons = reasons
        self.parted = parted

    @lazy_property
    def explanation(self) -> Explanation:
        """One row for each unit; the parts of a message are in several."""
        origins = self.parted.origins
        rows = [
            row._replace(
                messages=tuple([origins[place] for place in row.messages]),
                blocks=tuple([each._replace(message=origins[each.message]) for each in row.blocks]),
            )
            for row in self._reasons.explanation
        ]
        return type(self._reasons.explanation)(tuple(rows))

    @lazy_property
    def dropped(self) -> tuple[Dropped, ...]:
        """One record for each message that is gone with all its parts."""
        part_counts = Counter(self.parted.origins)
        parts: dict[int, list[Dropped]] = {}
        for each in self._reasons.dropped:
            parts.setdefault(self.parted.origins[each.index], []).append(each)
        return tuple(
            best._replace(index=origin, tokens=sum(each.tokens for each in parts[origin]))
            for origin in sorted(parts)
            if len(parts[origin]) == part_counts[origin]
            for best in [max(parts[origin], key=lambda each: each.score)]
        )


def parted_of(compaction: Compaction[Any]) -> Parted | None:
    """Return how the calls of a compaction's messages were parted; None if they were not."""
    reasons = compaction._reasons
    return reasons.parted if isinstance(reasons, PartedReasons) else None


def _by_call(has_call: Iterable[bool]) -> list[list[int]]:
    """Return the positions that go with each call: what is said before it, and after the last.

    >>> _by_call([False, True, True, False])
    [[0, 1], [2, 3]]
    """
    runs: list[list[int]] = [[]]
    for position, is_call in enumerate(has_call):
        runs[-1].append(position)
        if is_call:
            runs.append([])
    rest = runs.pop()
    if runs:
        runs[-1] += rest
    return runs


def _anthropic(entries: Sequence[Any], indices: Sequence[int]) -> Iterator[_Group]:
    """The results are cut too: all results of a message are in the user's next one."""
    last = _last_index(entries, indices, lambda entry: entry.get("role") == "assistant")
    for index, entry in enumerate(entries[: max(last - 1, 0)]):
        blocks = entry.get("content")
        if entry.get("role") != "assistant" or not isinstance(blocks, (list, tuple)):
            continue
        runs = _by_call(_is_block(block, "tool_use") for block in blocks)
        if len(runs) < 2 or (index and entries[index - 1].get("role") == "assistant"):
            continue
        answer = entries[index + 1]
        results = answer.get("content")
        calls = _own_calls(anthropic.inputs(entry))
        if (
            calls is None
            or not all(_is_block(block, "tool_use", "text") for block in blocks)
            or anthropic.signed(entry)
            or answer.get("role") != "user"
            or not isinstance(results, (list, tuple))
            or not all(_is_block(block, "tool_result") for block in results)
        ):
            continue
        by_call = _by_id((block.get("tool_use_id"), at) for at, block in enumerate(results))
        if len(results) != len(calls) or set(by_call) != set(calls):
            continue
        parts = []
        for run, call in zip(runs, calls, strict=True):
            said = {**entry, "content": [blocks[at] for at in run]}
            result = {**answer, "content": [results[by_call[call]]]}
            parts.append(_Part(index, said, tuple(run)))
            parts.append(_Part(index + 1, result, (by_call[call],)))
        yield _Group(index, index + 2, parts)


def _openai_chat(entries: Sequence[Any], indices: Sequence[int]) -> Iterator[_Group]:
    """The text goes with the first call; each tool message is an entry already."""
    last = _last_index(entries, indices, lambda entry: entry.get("role") == "assistant")
    for index, entry in enumerate(entries[: max(last, 0)]):
        made = entry.get("tool_calls")
        if entry.get("role") != "assistant" or not isinstance(made, (list, tuple)):
            continue
        if len(made) < 2 or any(value for key, value in entry.items() if key not in _CHAT_KEYS):
            continue
        calls = _own_calls(openai_chat.inputs(entry))
        end = index + 1 + len(made)
        if calls is None or end > last or openai_chat.signed(entry):
            continue
        by_call = _by_id(
            (entries[at].get("tool_call_id"), at)
            for at in range(index + 1, end)
            if entries[at].get("role") == "tool"
        )
        if set(by_call) != set(calls) or entries[end].get("role") == "tool":
            continue
        parts = []
        for number, call in enumerate(calls):
            said = entry if number == 0 else {**entry, "content": None}
            parts.append(_Part(index, {**said, "tool_calls": [made[number]]}, (number,)))
            parts.append(_Part(by_call[call], entries[by_call[call]]))
        yield _Group(index, end, parts)


def _claude_code(entries: Sequence[Any], indices: Sequence[int]) -> Iterator[_Group]:
    """Each call is a line already; the lines of all calls but the first get an id of their own."""
    lines_of: dict[str, list[int]] = {}
    for index in indices:
        if entries[index]["type"] == "assistant":
            name = entries[index]["message"].get("id")
            if isinstance(name, str):
                lines_of.setdefault(name, []).append(index)
    last = _last_index(entries, indices, lambda entry: entry["type"] == "assistant")
    found = []
    turns: dict[int, int] = {}
    answered: dict[str, int] = {}
    for name, lines in lines_of.items():
        runs = _by_call(
            any(_is_block(block, "tool_use") for block in _line_blocks(entries[index]))
            for index in lines
        )
        if len(runs) < 2 or last in lines:
            continue
        turns = turns or _turns(entries, indices)
        answered = answered or _answered(entries, turns)
        calls = [_own_calls(claude_code.inputs(entries[index])) for index in lines]
        if not all(
            own is not None
            and all(answered.get(call) == turns[index] for call in own)
            and not claude_code.signed(entries[index])
            and all(_is_block(block, "tool_use", "text") for block in _line_blocks(entries[index]))
            for index, own in zip(lines, calls, strict=True)
        ):
            continue
        found += [
            (lines[at], f"{name}#{number}")
            for number, run in enumerate(runs)
            for at in run
            if number
        ]
    for index, name in sorted(found):
        entry = {**entries[index], "message": {**entries[index]["message"], "id": name}}
        yield _Group(index, index + 1, [_Part(index, entry)])


def _openai_responses(entries: Sequence[Any], indices: Sequence[int]) -> Iterator[_Group]:
    """Calls and outputs are items already; each output is moved to its call.

    The API wants a reasoning item before the items that it led to, which it knows by their ids, and
    after it the item that it led to (https://community.openai.com/t/1236046, /1355347). So a call
    after reasoning is only parted where no item has an id, and the first call stays with the
    reasoning. Without reasoning there is no such rule.
    """
    kinds = [_item_kind(entry) for entry in entries]
    last = _last_index(kinds, indices, lambda kind: kind in _BY_MODEL)
    start = 0
    while start < last:
        end = start
        while end < last and kinds[end] in _BY_MODEL:
            end += 1
        until = end
        while until < last and kinds[until] == "output":
            until += 1
        row, start = range(start, end), max(until, start + 1)
        calls = [entries[at].get("call_id") for at in row if kinds[at] == "call"]
        if len(calls) < 2 or (row.start and kinds[row.start - 1] not in ("client", "output")):
            continue
        by_call = _by_id((entries[at].get("call_id"), at) for at in range(end, until))
        thinks = any(kinds[at] == "reasoning" for at in row)
        if (
            not all(isinstance(call, str) for call in calls)
            or not len(calls) == len(set(calls)) == until - end
            or set(by_call) != set(calls)
            or (thinks and any(_has_id(entries[at]) for at in row))
        ):
            continue
        parts = []
        runs = _by_call(kinds[at] == "call" for at in row)
        for run, call in zip(runs, calls, strict=True):
            order = [*(row[at] for at in run), by_call[call]]
            parts += [_Part(index, entries[index]) for index in order]
        yield _Group(row.start, until, parts)


_FINDERS: dict[str, Callable[[Sequence[Any], Sequence[int]], Iterator[_Group]]] = {
    "anthropic": _anthropic,
    "openai_chat": _openai_chat,
    "claude_code": _claude_code,
    "openai_responses": _openai_responses,
}
_CHAT_KEYS = frozenset({"role", "content", "name", "tool_calls"})
"""The keys of a chat message that is parted; any other must be empty."""
_CALL_ITEMS = frozenset({"function_call", "custom_tool_call"})
_BY_MODEL = frozenset({"call", "said", "reasoning"})


def _last_index(
    entries: Sequence[Any], indices: Sequence[int], is_by_model: Callable[[Any], bool]
) -> int:
    """Return the index of what the model said last; -1 for nothing.

    The model has not seen what is after it, and results before it are answered.
    """
    return next((index for index in reversed(indices) if is_by_model(entries[index])), -1)


def _is_block(block: object, *kinds: str) -> bool:
    return isinstance(block, Mapping) and type_of(block) in kinds


def _by_id(found: Iterable[tuple[object, int]]) -> dict[str, int]:
    """Return the position of each id; what is not a string is not an id."""
    return {name: at for name, at in found if isinstance(name, str)}


def _own_calls(inputs: Inputs) -> list[str] | None:
    """Return the ids of calls that the client runs; None if one is not, or has no id of its own."""
    calls = [each.call for each in inputs if each is not None and each.call is not None]
    return calls if len(set(calls)) == len(inputs) else None


def _line_blocks(line: Mapping[str, Any]) -> Sequence[Any]:
    content = line["message"].get("content")
    return content if isinstance(content, (list, tuple)) else ()


def _turns(entries: Sequence[Any], indices: Sequence[int]) -> dict[int, int]:
    """Return the number of each line's turn: the model's lines, and the client's after them."""
    turns: dict[int, int] = {}
    number, was_client = 0, False
    for index in indices:
        is_client = entries[index]["type"] != "assistant"
        number += was_client and not is_client
        turns[index], was_client = number, is_client
    return turns


def _answered(entries: Sequence[Any], turns: Mapping[int, int]) -> dict[str, int]:
    """Return the turn of each call's result, if its line holds nothing but results."""
    found: dict[str, int] = {}
    for index, turn in turns.items():
        blocks = _line_blocks(entries[index])
        if all(_is_block(block, "tool_result") for block in blocks):
            found.update((str(block.get("tool_use_id")), turn) for block in blocks)
    return found


def _item_kind(item: Mapping[str, Any]) -> str:
    """Return call, output, said or reasoning; client for a message of the client's; else other."""
    kind = type_of(item)
    if kind in _CALL_ITEMS:
        return "call" if program_of(item) is None else "other"
    if kind.removesuffix("_output") in _CALL_ITEMS:
        return "output"
    if kind == "reasoning":
        return kind
    if kind in ("", "message") and "role" in item:
        return "said" if item["role"] == "assistant" else "client"
    return "other"


def _has_id(item: Mapping[str, Any]) -> bool:
    return type_of(item) != "reasoning" and bool(item.get("id"))
