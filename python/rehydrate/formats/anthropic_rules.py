"""The rules of Anthropic's Messages API, for messages and for merged transcript lines alike.

The API joins consecutive messages of one role into a turn, so calls and results are matched by
turn. The results of one turn must still be in one message. A text of only whitespace is refused
only where its message holds nothing else; an empty text always.

Each rule is about one unit or one message, never about the distance of two units. So a valid list
stays valid, and an invalid one gets no worse, when whole units are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, takewhile
from typing import Any, NamedTuple

from rehydrate.errors import Violation
from rehydrate.formats._reading import Ledger, type_of

__all__ = ["Spoken", "broken_rules", "system_rules"]


_MAX_CACHE_CONTROLS = 4
_CLIENT_CALL = "tool_use"
_SERVER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})
_THINKING = frozenset({"thinking", "redacted_thinking"})


class Spoken(NamedTuple):
    """One message as the API gets it; each block with the index of its entry."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    role: str
    blocks: list[tuple[int, Mapping[str, Any]]]
    is_null: bool = False


def broken_rules(spoken: Sequence[Spoken]) -> list[Violation]:
    """Return every violation, ordered by index."""
    found: list[Violation] = []
    if spoken and spoken[0].role != "user" and not _is_summary(spoken[0]):
        what = f"the first message is the {spoken[0].role}'s, it must be the user's"
        found.append(Violation(spoken[0].index, "first_not_user", what))
    cache_controls = 0
    can_begin = _can_begin_an_answer(spoken)
    for message in spoken:
        found += _message_rules(message, can_begin and message is spoken[-1])
        for index, block in message.blocks:
            found += _shape_rules(index, block, message.role)
            for part in (block, *_inner_blocks(block)):
                if part.get("cache_control") is not None:
                    cache_controls += 1
                found += _part_rules(index, part, cache_controls)
    pairing = _Pairing()
    for role, turn in groupby(spoken, key=lambda message: message.role):
        if role == "user":
            pairing.user_turn(turn)
        elif role == "assistant":
            pairing.assistant_turn(turn)
        else:
            pairing.settle()
    found += pairing.found
    return sorted(found, key=lambda violation: violation.index)


def _is_summary(message: Spoken) -> bool:
    """Return whether it is the API's own summary of all before: a compaction block, first."""
    blocks = [block for _, block in message.blocks]
    return message.role == "assistant" and bool(blocks) and type_of(blocks[0]) == "compaction"


def _can_begin_an_answer(spoken: Sequence[Spoken]) -> bool:
    """Return whether the last message may be empty: a prefill for the assistant to continue.

    Not after a tool call in the same turn: its results follow, so it is no longer the last.
    """
    last_turn = takewhile(lambda message: message.role == "assistant", reversed(spoken))
    kinds = [type_of(block) for message in last_turn for _, block in message.blocks]
    return bool(spoken) and spoken[-1].role == "assistant" and _CLIENT_CALL not in kinds


def _message_rules(message: Spoken, is_prefill: bool) -> Iterable[Violation]:
    if message.role not in ("user", "assistant"):
        what = f"role '{message.role}' is unknown, it must be 'user' or 'assistant'"
        yield Violation(message.index, "unknown_role", what)
    if not message.blocks:
        if message.is_null or not is_prefill:
            yield Violation(message.index, "empty_content", "the content is empty")
    elif all(_is_whitespace(block) for _, block in message.blocks):
        what = "the content is nothing but whitespace"
        yield Violation(message.index, "empty_text", what)


def _part_rules(index: int, block: Mapping[str, Any], cache_controls: int) -> Iterable[Violation]:
    is_empty = block.get("type") == "text" and not block.get("text")
    if is_empty:
        yield Violation(index, "empty_text", "a text block is empty")
    if block.get("cache_control") is None:
        return
    if cache_controls > _MAX_CACHE_CONTROLS:
        what = f"cache_control number {cache_controls}, at most 4 are allowed"
        yield Violation(index, "too_many_cache_control", what)
    if is_empty:
        what = "cache_control stands on an empty text block"
        yield Violation(index, "cache_control_on_empty_text", what)
    if type_of(block) in _THINKING:
        what = "cache_control stands on a thinking block"
        yield Violation(index, "cache_control_on_thinking", what)


def _shape_rules(index: int, block: Mapping[str, Any], role: str) -> Iterable[Violation]:
    kind = type_of(block)
    if kind == "thinking" and not isinstance(block.get("signature"), str):
        yield Violation(index, "thinking_without_signature", "a thinking block has no signature")
    belongs_to = None
    if kind == _CLIENT_CALL or kind in _SERVER_CALLS:
        belongs_to, id_key = "assistant", "id"
    elif kind == "tool_result":
        belongs_to, id_key = "user", "tool_use_id"
        if block.get("content", "") is None:
            what = "the content of a tool_result is null; leave it out, or make it a string"
            yield Violation(index, "null_result_content", what)
    elif kind == "document" and role == "assistant":
        what = "a document block stands in a message of the assistant's: send it in the user's"
        yield Violation(index, "misplaced_block", what)
    if belongs_to is not None:
        if role != belongs_to:
            what = f"a {kind} block stands in a message of the {role}'s"
            yield Violation(index, "misplaced_block", what)
        if not isinstance(block.get(id_key), str):
            yield Violation(index, "missing_id", f"a {kind} block has no {id_key}")
    if role == "user" and any(map(_is_cited, (block, *_inner_blocks(block)))):
        what = "a text of the user's has citations, which only the assistant's may have"
        yield Violation(index, "citations_of_user", what)


def _is_cited(block: Mapping[str, Any]) -> bool:
    """Return whether a text says what it cites; a document's `{"enabled": true}` is a setting."""
    return type_of(block) == "text" and bool(block.get("citations"))


def system_rules(messages: Sequence[Spoken]) -> Iterable[Violation]:
    """Yield the system messages that the API refuses: one that does not follow the user's message,
    or a server tool's result, one that neither ends the list nor precedes the assistant's, and one
    without content.

    Those at the beginning are not judged: they are moved into the `system` field.
    """
    first = next((n for n, each in enumerate(messages) if each.role != "system"), len(messages))
    for position in range(first, len(messages)):
        message, after = messages[position], messages[position + 1 : position + 2]
        if message.role != "system":
            continue
        if not message.blocks:
            yield Violation(message.index, "empty_content", "the content is empty")
        before = messages[position - 1]
        if not can_be_followed_by_system(before.role, before.blocks):
            what = "a system message must follow the user's message, or a server tool's result"
            yield Violation(message.index, "misplaced_system", what)
        elif after and after[0].role != "assistant":
            what = "a system message must precede the assistant's message, or end the list"
            yield Violation(message.index, "misplaced_system", what)


def can_be_followed_by_system(role: str, blocks: Sequence[tuple[int, Mapping[str, Any]]]) -> bool:
    """Return whether a system message may come behind a message with these blocks."""
    if role != "assistant":
        return role == "user"
    return bool(blocks) and type_of(blocks[-1][1]).endswith("_tool_result")


class _Pairing:
    """Matching of calls and results, turn by turn."""

    def __init__(self) -> None:
        self.found: list[Violation] = []
        self._ledger = Ledger()
        self._waiting: dict[str, list[int]] = {}  # call id -> index, of the turn before
        self._of_server: dict[str, int] = {}  # id of a server's call -> index, while it runs

    def assistant_turn(self, messages: Iterable[Spoken]) -> None:
        self.settle()
        for message in messages:
            for index, block in message.blocks:
                self._call(index, block)

    def user_turn(self, messages: Iterable[Spoken]) -> None:
        only_results = True
        answering: int | None = None  # the message that holds the results of this turn
        for message in messages:
            for index, block in message.blocks:
                if block.get("type") != "tool_result":
                    only_results = False
                elif self._answer(index, block):
                    answer = block["tool_use_id"]
                    if answering is None:
                        answering = message.index
                    if not only_results:
                        what = f"the result of '{answer}' must come before all other blocks"
                        self._add(index, "results_not_first", what)
                    elif answering != message.index:
                        what = f"the result of '{answer}' must stand in message {answering}"
                        self._add(index, "results_not_together", what)
        # A turn of nothing but results may be the list's end: an open loop so far.
        if not only_results:
            self.settle()
            for call, index in self._of_server.items():
                what = f"no result of the server's tool for '{call}' before the user's next turn"
                self._add(index, "unanswered_tool_call", what)
            self._of_server = {}

    def settle(self) -> None:
        """Report the calls that can no longer be answered."""
        for call, indices in self._waiting.items():
            what = f"tool_use '{call}' has no tool_result in the next message"
            for index in indices:
                self._add(index, "unanswered_tool_call", what)
        self._waiting = {}

    def _call(self, index: int, block: Mapping[str, Any]) -> None:
        kind = type_of(block)
        if kind == _CLIENT_CALL or kind in _SERVER_CALLS:
            call = block.get("id")
            if not isinstance(call, str):
                return  # reported as missing_id
            if self._ledger.call(call):
                self._add(index, "duplicate_id", f"tool_use id '{call}' was used before")
            if kind == _CLIENT_CALL:
                self._waiting.setdefault(call, []).append(index)
            else:
                self._of_server[call] = index
        elif kind.endswith("_tool_result"):
            call = block.get("tool_use_id")
            if not self._ledger.knows(call):
                what = f"no server tool call before this {kind}"
                self._add(index, "server_result_without_call", what)
            elif self._ledger.answer(str(call)):
                self._add(index, "duplicate_result", f"a second {kind} for '{call}'")
            self._of_server.pop(str(call), None)

    def _answer(self, index: int, block: Mapping[str, Any]) -> bool:
        """Return whether this result answers a call of the turn before."""
        answer = block.get("tool_use_id")
        if not isinstance(answer, str):
            return False  # reported as missing_id
        if self._ledger.answer(answer):
            self._add(index, "duplicate_result", f"a second tool_result for '{answer}'")
            return False
        calls = self._waiting.get(answer)
        if not calls:
            what = f"no tool_use '{answer}' in the message before this result"
            self._add(index, "tool_result_without_call", what)
            return False
        # The latest call before it, as in grouping: merged lines may bring in a later one.
        calls.remove(max([call for call in calls if call < index] or calls))
        return True

    def _add(self, index: int, rule: str, message: str) -> None:
        self.found.append(Violation(index, rule, message))


def _is_whitespace(block: Mapping[str, Any]) -> bool:
    text = block.get("text")
    return block.get("type") == "text" and isinstance(text, str) and text.isspace()


def _inner_blocks(block: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    if block.get("type") not in ("tool_result", "search_result"):
        return ()
    content = block.get("content")
    if not isinstance(content, (list, tuple)):
        return ()
    return [inner for inner in content if isinstance(inner, Mapping)]
