"""Conversations read and grouped slowly and plainly: the twin of the native readers and columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from rehydrate._native import line_content, line_is_seen, line_is_users, transcript_branch
from rehydrate.errors import InvalidMessageError
from rehydrate.formats._reading import state_blocks
from rehydrate.messages import Conversation, Message, Piece, PieceKind, Unit
from tests.formats import bedrock_twin
from tests.formats.blocks_twin import (
    Draft,
    Notes,
    as_content,
    check_no_chat_calls,
    has_only_results,
    readable_texts,
    tool_input_text,
)
from tests.formats.checks_twin import as_entry, as_list, as_role, type_of

_TEXT, _TOOL_INPUT = PieceKind.TEXT, PieceKind.TOOL_INPUT
_TOOL_RESULT, _THINKING = PieceKind.TOOL_RESULT, PieceKind.THINKING
THINKING_BLOCKS = frozenset({"thinking", "redacted_thinking"})


def is_thinking(block: object) -> bool:
    """Return whether a block of a content is a thought of Claude's, or Converse's reasoning."""
    return isinstance(block, Mapping) and (
        type_of(block) in THINKING_BLOCKS or "reasoningContent" in block
    )


def read_slowly(name: str, entries: Sequence[Any]) -> Conversation:
    """Read a list entry by entry, without columns."""
    notes = Notes()
    if name == "claude_code":
        messages, links, ignored = _read_lines(entries, notes)
        units = group(messages, links)
        made = Conversation(name, tuple(messages), units, tuple(ignored), user_first=True)
        return notes.added_to(made)
    messages, links = [], []
    before: int | None = None  # the thought or the calls that the next message may belong to
    roles: list[str] = []
    for index, entry in enumerate(entries):
        message, is_linked = _READERS[name](entry, index, notes)
        messages.append(message)
        if name in ("anthropic", "bedrock") and {*roles} - {"system"}:
            is_amid = message.role == "system"
            is_behind_one = roles[-1] == "system" and message.role == "assistant"
            links += [(index - 1, index)] if is_amid or is_behind_one else []
        roles.append(message.role)
        if name == "bedrock" and roles[-2:-1] == ["assistant"]:
            links.append((index - 1, index))
        if name == "anthropic" and message.role == "assistant":
            links += [] if before is None else [(before, index)]
            before = index if is_linked else None
        elif name == "anthropic" and message.role != "system":
            before = None
        elif name == "openai_chat" and message.role == "tool":
            links += [] if before is None or message.answers else [(before, index)]
        elif name == "openai_chat":
            before = index if is_linked else None
    others = [message.role for message in messages if message.role != "system"]
    user_first = name in ("anthropic", "bedrock") or (name == "plain" and others[:1] == ["user"])
    is_claudes = name in ("anthropic", "bedrock")
    bound = _opening_thought(entries, messages) if is_claudes else ()
    units = group(messages, links)
    made = Conversation(name, tuple(messages), units, (), user_first)
    return notes.added_to(made, bound=bound, opening=bound)


class _Call(NamedTuple):
    id: str | None
    text: str


def _read_content(content: object, index: int, notes: Notes) -> Draft:
    draft = Draft(index)
    draft.add_content(content, _TEXT, ())
    notes.take(draft)
    return draft


def _message(draft: Draft, role: str, is_turn: bool) -> Message:
    ids = tuple(draft.calls), tuple(draft.answers)
    return Message(draft.index, role, tuple(draft.pieces), draft.images, *ids, is_turn)


def _read_anthropic(raw: object, index: int, notes: Notes) -> tuple[Message, bool]:
    """Read a message of any shape; return also whether it ends in a thought.

    A thought at the end of a message belongs to the assistant's next message: the API joins the
    two, and refuses a message that ends in a thought.
    """
    entry = as_entry(raw, index)
    role = as_role(entry, index)
    content = as_content(entry, index)
    check_no_chat_calls(entry, index)
    draft = _read_content(content, index, notes)
    if role == "user" and has_only_results(content):
        role = "tool"
    message = _message(draft, role, role == "user")
    return message, role == "assistant" and _ends_in_thought(content)


def _ends_in_thought(content: object) -> bool:
    if not content or not isinstance(content, (list, tuple)):
        return False
    last = content[-1]
    if type(last) is not dict and not isinstance(last, Mapping):
        return False
    kind = last.get("type")
    return isinstance(kind, str) and kind in THINKING_BLOCKS


def _read_chat(raw: object, index: int, notes: Notes) -> tuple[Message, bool]:
    """Read a message of any shape; return also whether it makes calls, to which tool messages
    without an id belong."""
    entry = as_entry(raw, index)
    role = as_role(entry, index)
    thoughts = _thoughts(entry, role)
    draft = _chat_content(entry, index, _TOOL_RESULT if role == "tool" else _TEXT)
    made: list[_Call] = []
    answers: tuple[str, ...] = ()
    if role == "tool":
        answer = _answer_id(entry)
        answers = () if answer is None else (answer,)
    elif len(entry) > 2 or "content" not in entry:  # more than role and content
        _read_extras(entry, draft)
        made = _calls(entry, index)
        for call in made:
            draft.add(call.text, _TOOL_INPUT)
    notes.take(draft)
    if role == "user" and has_only_results(entry.get("content")):
        role = "tool"
    calls = (*draft.calls, *[call.id for call in made if call.id is not None])
    pieces = (*thoughts, *draft.pieces)
    answers = (*answers, *draft.answers)
    message = Message(index, role, pieces, draft.images, calls, answers, role == "user")
    return message, bool(made)


def _thoughts(entry: Mapping[str, Any], role: str) -> list[Piece]:
    for key in ("reasoning_content", "reasoning", "thinking") if role == "assistant" else ():
        reasoning = entry.get(key)
        if reasoning and isinstance(reasoning, str):
            return [Piece(reasoning, _THINKING)]
    return []


def _chat_content(entry: Mapping[str, Any], index: int, kind: PieceKind) -> Draft:
    """Read a content as pieces of `kind`; raises InvalidMessageError."""
    draft = Draft(index)
    draft.add_content(as_content(entry, index), kind, ("content",))
    draft.add_pictures(entry)
    return draft


def _read_extras(entry: Mapping[str, Any], draft: Draft) -> None:
    """Read the assistant's fields beside its content; speech without words is a medium."""
    draft.add(entry.get("refusal"), _TEXT)
    audio = entry.get("audio")
    if isinstance(audio, Mapping) and audio:
        before = len(draft.pieces)
        draft.add_readable(audio.get("transcript"), _TEXT)
        draft.images += len(draft.pieces) == before
    if blocks := state_blocks(entry):
        draft.has_state = True
        draft.add_readable(blocks, _TEXT)


def _calls(entry: Mapping[str, Any], index: int) -> list[_Call]:
    """Return the tool calls of a message, the deprecated single one included."""
    made = []
    tool_calls = entry.get("tool_calls")
    if tool_calls is not None:
        for part_index, raw in enumerate(as_list(tool_calls, index, "tool_calls")):
            call = as_entry(raw, index, f"tool_calls[{part_index}]")
            call_id = call.get("id")
            made.append(_Call(call_id if isinstance(call_id, str) else None, _call_text(call)))
    function_call = entry.get("function_call")
    if function_call is not None:
        function = as_entry(function_call, index, "function_call")
        name = function.get("name")
        call_id = f"function_call:{name}" if isinstance(name, str) else None
        made.append(_Call(call_id, tool_input_text(name, function.get("arguments"))))
    return made


def _call_text(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    if isinstance(function, Mapping):
        return tool_input_text(function.get("name"), function.get("arguments"))
    custom = call.get("custom")
    if isinstance(custom, Mapping):
        return tool_input_text(custom.get("name"), custom.get("input"))
    return " ".join(readable_texts(call))


def _answer_id(entry: Mapping[str, Any]) -> str | None:
    answer = entry.get("tool_call_id")
    if isinstance(answer, str):
        return answer
    answers = entry.get("tool_call_ids")
    if isinstance(answers, (list, tuple)) and answers and isinstance(answers[0], str):
        return answers[0]
    name = entry.get("name")
    if entry["role"] == "function" and isinstance(name, str):
        return f"function_call:{name}"
    return None


def _read_plain(raw: object, index: int, notes: Notes) -> tuple[Message, bool]:
    """Read a message of any shape; it belongs to no other."""
    entry = as_entry(raw, index)
    role = as_role(entry, index)
    kind = _TOOL_RESULT if role == "tool" else _TEXT
    draft = _plain_content(entry, index, kind)
    notes.take(draft)
    if role == "user" and has_only_results(entry.get("content")):
        role = "tool"
    ids = tuple(draft.calls), tuple(draft.answers)
    return Message(index, role, tuple(draft.pieces), draft.images, *ids, role == "user"), False


def _plain_content(entry: Mapping[str, Any], index: int, kind: PieceKind) -> Draft:
    """Read a message's texts, and the pictures that Ollama keeps beside them."""
    draft = Draft(index)
    draft.add_content(as_content(entry, index), kind, ("content",))
    draft.add_pictures(entry)
    return draft


class Line(NamedTuple):
    index: int  # type: ignore[assignment]
    role: str
    content: object
    message_id: str | None
    entry: Mapping[str, Any]


def _is_whitespace(block: Mapping[str, Any]) -> bool:
    text = block.get("text")
    return block.get("type") == "text" and isinstance(text, str) and text.isspace()


def slow_spoken_lines(entries: Sequence[Any]) -> tuple[list[Line], list[int]]:
    """Return the lines of the conversation in its order, and the indices of all others."""
    lines: list[Line] = []
    sidechain: list[Line] = []
    ignored: list[int] = []
    seen: set[object] = set()
    for index, raw in enumerate(entries):
        entry = raw if type(raw) is dict else as_entry(raw, index)
        kind = entry.get("type")
        if not line_is_seen(entry) and not isinstance(kind, str):
            remedy = "pass only the lines of one transcript"
            raise InvalidMessageError(index, "type", kind, "a transcript line's type", remedy)
        uuid = entry.get("uuid")
        if isinstance(uuid, str):
            if uuid in seen:
                ignored.append(index)
                continue
            seen.add(uuid)
        if not line_is_seen(entry):
            ignored.append(index)
            continue
        message = entry.get("message")
        if kind != "attachment" and not isinstance(message, Mapping):
            remedy = f"a '{kind}' line needs its message; leave the line out"
            raise InvalidMessageError(index, "message", message, "a mapping", remedy)
        content = line_content(entry)
        if is_empty(content):  # Claude Code leaves it out when it sends
            ignored.append(index)
            continue
        role = "assistant" if kind == "assistant" else "user"
        message_id = message.get("id") if role == "assistant" and message is not None else None
        if not isinstance(message_id, str):
            message_id = None
        line = Line(index, role, content, message_id, entry)
        # The SDK's stream names the subagent's call where the file has isSidechain.
        is_sidechain = entry.get("isSidechain") or entry.get("parent_tool_use_id")
        (sidechain if is_sidechain else lines).append(line)
    if not lines:
        lines, sidechain = sidechain, []
    ignored += [line.index for line in sidechain]
    branch = transcript_branch(list(entries))
    if branch is not None:
        by_index = {line.index: line for line in lines}
        lines = [by_index.pop(index) for index in branch if index in by_index]
        ignored += by_index
    return lines, sorted(ignored)


def is_empty(content: object) -> bool:
    if not content:
        return content is None or isinstance(content, (str, list))
    if isinstance(content, str):
        return content.isspace()
    return isinstance(content, list) and all(
        isinstance(block, Mapping) and _is_whitespace(block) for block in content
    )


def _read_lines(
    entries: Sequence[Any], notes: Notes
) -> tuple[list[Message], list[tuple[int, int]], list[int]]:
    """Read lines of any shape; return also the positions of messages that belong together, and the
    indices of what is no message."""
    lines, ignored = slow_spoken_lines(entries)
    lines.sort(key=lambda line: line.index)
    messages: list[Message] = []
    links: list[tuple[int, int]] = []
    first_lines: dict[str, int] = {}  # message id -> number of its first line
    callers: dict[str, int] = {}  # call id -> number of its line
    for number, line in enumerate(lines):
        index, role, content, message_id, entry = line
        draft = _read_content(content, index, notes)
        if role == "assistant":
            if message_id is not None:
                first_line = first_lines.setdefault(message_id, number)
                if first_line != number:
                    links.append((first_line, number))
            for call in draft.calls:
                callers[call] = number
        elif has_only_results(content):
            role = "tool"
        # Text that a tool adds to its result (as a skill) means nothing without the call.
        source = entry.get("sourceToolUseID")
        if isinstance(source, str) and source in callers:
            links.append((callers[source], number))
        is_user_turn = role == "user" and line_is_users(entry)
        messages.append(_message(draft, role, is_user_turn))
    return messages, links, ignored


def _read_bedrock(raw: object, index: int, notes: Notes) -> tuple[Message, bool]:
    draft, role = bedrock_twin.read_message(raw, index)
    notes.take(draft)
    return _message(draft, role, role == "user"), False


_READERS = {
    "anthropic": _read_anthropic,
    "bedrock": _read_bedrock,
    "openai_chat": _read_chat,
    "plain": _read_plain,
}


def _opening_thought(entries: Sequence[Any], messages: Sequence[Message]) -> tuple[int, ...]:
    first: Message | None = None
    for message in reversed(messages):
        if message.role == "assistant":
            first = message
        elif not message.answers and message.role != "system":
            break
    if first is None or first is messages[-1]:
        return ()
    content = entries[first.index].get("content")
    begins = isinstance(content, (list, tuple)) and bool(content) and is_thinking(content[0])
    has_piece = any(piece.kind == _THINKING for piece in first.pieces)
    before = [first.index - 1] if first.index else []
    return (*before, first.index) if begins and not has_piece else ()


def group(messages: Sequence[Message], links: Iterable[tuple[int, int]] = ()) -> tuple[Unit, ...]:
    """Partition messages into units, ordered by first member.

    It reads only `Message.calls` and `Message.answers`. A result belongs to the latest unanswered
    call of its id; else to the answered call, so that a second result leaves together with the
    first; else to a later call. On valid input this is plain pairing. On broken input it keeps
    every pair that exists together. Pairing never depends on other units, so dropping whole units
    breaks nothing more.

    `links` are pairs of indices in `messages` that the format joins for its own reasons.
    """
    parent = list(range(len(messages)))

    def root(position: int) -> int:
        while parent[position] != position:
            parent[position] = position = parent[parent[position]]
        return position

    def join(one: int, other: int) -> None:
        # The smaller index is the root, so that units come out ordered by first member.
        one, other = root(one), root(other)
        if one < other:
            parent[other] = one
        else:
            parent[one] = other

    for one, other in chain(_pairs(messages), links):
        # Nearly always two that are joined with nothing yet.
        if parent[one] == one < other == parent[other]:
            parent[other] = one
        else:
            join(one, other)

    members: dict[int, list[Message]] = {}
    for position, message in enumerate(messages):
        above = parent[position]
        if above == position:
            members[position] = [message]
        else:
            # Nearly always the root itself.
            members[above if parent[above] == above else root(above)].append(message)
    return tuple([_unit(unit) for unit in members.values()])


def _pairs(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """Return the indices of each result and of its call."""
    pairs: list[tuple[int, int]] = []
    unanswered: dict[str, list[int]] = {}
    answered: dict[str, int] = {}
    early: list[tuple[str, int]] = []
    paired = [(index, each) for index, each in enumerate(messages) if each.calls or each.answers]
    for position, message in paired:
        for call in message.calls:
            unanswered.setdefault(call, []).append(position)
        for answer in message.answers:
            waiting = unanswered.get(answer)
            if waiting:
                answered[answer] = waiting.pop()
            if answer in answered:
                pairs.append((answered[answer], position))
            else:
                early.append((answer, position))
    pairs += [
        (unanswered[answer][0], position) for answer, position in early if unanswered.get(answer)
    ]
    return pairs


def _unit(messages: list[Message]) -> Unit:
    if len(messages) == 1:
        return Unit((messages[0].index,), (messages[0],))
    return Unit(tuple([message.index for message in messages]), tuple(messages))


def branch(  # noqa: PLR0912, PLR0915  the whole rule in one place
    entries: Sequence[dict[str, Any]],
) -> list[int] | None:
    """Find the lines of a transcript that the conversation went on from; see `branch.rs`.

    Every question is asked of all lines again, so that each rule can be read by itself.
    """
    lines = _main_lines(entries)
    by_uuid = {entry["uuid"]: number for number, entry in enumerate(lines) if _name(entry, "uuid")}
    spoken = [number for number, entry in enumerate(lines) if _is_spoken(entry)]
    if not any(_parent_name(entry) for entry in lines):
        return None
    if not spoken:
        return None

    def above(number: int) -> tuple[str, Any]:
        """Return what a line hangs on, past lines that the model did not see."""
        passed = [number]
        while True:
            entry = lines[passed[-1]]
            name = _parent_name(entry)
            if name is None:
                return ("root", None) if _is_root(entry) else ("gap", passed[-1])
            if name not in by_uuid:
                return "missing", name
            parent = by_uuid[name]
            if parent in passed:
                return "gap", passed[-1]
            if parent in spoken:
                return "line", parent
            passed.append(parent)

    def first_child(name: str) -> int:
        return min(n for n, entry in enumerate(lines) if _parent_name(entry) == name)

    def before(number: int) -> int | None:
        rest = [each for each in spoken if each < number and each not in way]
        return max(rest, default=None)

    hangs = {number: above(number) for number in spoken}
    leaves = [each for each in spoken if ("line", each) not in hangs.values()] or spoken[-1:]
    times = [lines[each].get("timestamp") for each in leaves]
    is_timed = all(isinstance(time, str) and len(time) == len(times[0]) for time in times)
    newest_first = (
        [leaf for _, leaf in sorted(zip(times, leaves, strict=True), reverse=True)]
        if (is_timed)
        else sorted(leaves, reverse=True)
    )

    def unfinished(number: int) -> str | None:
        """Return the message that a line belongs to, if nothing of another turn is between."""
        passed = []
        while number not in passed:
            passed.append(number)
            entry = lines[number]
            if entry["type"] == "assistant":
                return _message_id(entry)
            kind, parent = hangs[number]
            if kind != "line" or _is_turn(entry):
                return None
            number = parent
        return None

    def goes_on_from(message: str, number: int) -> bool:
        passed = []
        while number not in passed:
            passed.append(number)
            if _message_id(lines[number]) == message:
                return False
            kind, parent = hangs[number]
            if kind != "line":
                return False
            if _is_turn(lines[number]) and unfinished(parent) == message:
                return True
            number = parent
        return False

    tip = newest_first[0]
    message = unfinished(tip)
    if message is not None:
        tip = next((leaf for leaf in newest_first if goes_on_from(message, leaf)), tip)

    way: list[int] = []
    gone_past: set[str] = set()
    at: int | None = tip
    while at is not None:
        way.append(at)
        kind, what = hangs[at]
        if kind == "line" and what not in way:
            at = what
        elif kind == "root" and _is_prompt(lines[at]):
            at = None
        elif kind == "missing":
            if _is_turn(lines[at]):
                gone_past.add(what)
            at = before(first_child(what))
        else:
            at = before(what if kind == "gap" else at)

    found = set(way)
    messages = {_message_id(lines[each]) for each in way} - {None}
    for each in spoken:
        entry = lines[each]
        kind, parent = hangs[each]
        follows = kind == "line" and parent in found and lines[parent]["type"] == "assistant"
        own = _message_id(entry)
        if entry["type"] == "assistant" and (follows if own is None else own in messages):
            found.add(each)
    calls = {call for each in found for call in _ids(lines[each], "tool_use", "id")}
    answered = {
        each for number in way for each in _ids(lines[number], "tool_result", "tool_use_id")
    }
    for each in spoken:
        answers = _ids(lines[each], "tool_result", "tool_use_id")
        if calls.intersection(answers) - answered or lines[each].get("sourceToolUseID") in calls:
            found.add(each)
    for each in spoken:
        kind, parent = hangs[each]
        if _is_attached(lines[each]) and kind == "line" and parent in found:
            found.add(each)

    def may_stay(number: int) -> bool:
        """Return whether nobody can tell that a line was taken back."""
        passed = [number]
        while hangs[passed[-1]][0] == "line":
            parent = hangs[passed[-1]][1]
            if parent in found_before:
                return False
            if parent in passed:
                return True
            passed.append(parent)
        kind, what = hangs[passed[-1]]
        is_result = not _is_turn(lines[passed[-1]])
        return kind == "gap" or (kind == "missing" and (what not in gone_past or is_result))

    found_before = set(found)
    found |= {each for each in spoken if each not in found_before and may_stay(each)}

    def place_on_way(number: int) -> int | None:
        passed = []
        while number not in way:
            kind, parent = hangs[number]
            passed.append(number)
            if kind != "line" or parent not in found or parent in passed:
                return None
            number = parent
        return way.index(number)

    def next_turn(place: int) -> int | None:
        """Return the line with which the conversation goes on behind a message and its results."""
        while place:
            above_it = [lines[each] for each in way[place:] if lines[each]["type"] == "assistant"]
            own = _message_id(above_it[0]) if above_it else None
            entry = lines[way[place - 1]]
            is_same = (
                _message_id(entry) == own
                if entry["type"] == "assistant"
                else _is_attached(entry) or bool(_ids(entry, "tool_result", "tool_use_id"))
            )
            if not is_same:
                return way[place - 1]
            place -= 1
        return None

    order: list[int] = []
    begun: set[int] = set()
    late: dict[int, list[int]] = {}
    for each in sorted(found - set(way)):
        place = place_on_way(each)
        turn = None if place is None else next_turn(place)
        if turn is not None:
            late.setdefault(turn, []).append(each)

    def put(number: int) -> None:
        if number in begun:
            return
        begun.add(number)
        kind, parent = hangs[number]
        if kind == "line" and parent in found:
            put(parent)
        for each in late.get(number, ()):
            put(each)
        order.append(number)

    for each in sorted(found):
        put(each)
    indices = [index for index, _ in _numbered_main_lines(entries)]
    return [indices[each] for each in order]


def _main_lines(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for _, entry in _numbered_main_lines(entries)]


def _numbered_main_lines(entries: Sequence[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    first: dict[str, int] = {}
    kept = []
    for index, entry in enumerate(entries):
        uuid = _name(entry, "uuid")
        if uuid is None or first.setdefault(uuid, index) == index:
            kept.append((index, entry))
    is_side = [bool(entry.get("isSidechain")) for _, entry in kept]
    has_main = any(
        _is_spoken(entry) and not side for (_, entry), side in zip(kept, is_side, strict=True)
    )
    return [each for each, side in zip(kept, is_side, strict=True) if not (side and has_main)]


def _name(entry: dict[str, Any], key: str) -> str | None:
    value = entry.get(key)
    return value if isinstance(value, str) else None


def _parent_name(entry: dict[str, Any]) -> str | None:
    return _name(entry, "parentUuid") or _name(entry, "logicalParentUuid")


def _is_root(entry: dict[str, Any]) -> bool:
    is_null = "parentUuid" in entry and entry["parentUuid"] is None
    return is_null and entry.get("subtype") != "compact_boundary"


def _is_spoken(entry: dict[str, Any]) -> bool:
    if not line_is_seen(entry):
        return False
    return not is_empty(line_content(entry))


def _is_attached(entry: dict[str, Any]) -> bool:
    return entry["type"] == "attachment" or bool(entry.get("isMeta"))


def _is_turn(entry: dict[str, Any]) -> bool:
    if entry["type"] == "assistant":
        return True
    return not _is_attached(entry) and not _ids(entry, "tool_result", "tool_use_id")


def _is_prompt(entry: dict[str, Any]) -> bool:
    has_results = any(
        isinstance(block, dict) and block.get("type") == "tool_result"
        for block in entry.get("message", {}).get("content") or ()
    )
    return entry["type"] == "user" and not has_results and not entry.get("isCompactSummary")


def _message_id(entry: dict[str, Any]) -> str | None:
    return _name(entry["message"], "id") if entry["type"] == "assistant" else None


def _ids(entry: dict[str, Any], kind: str, key: str) -> list[str]:
    content = line_content(entry)
    blocks = content if isinstance(content, list) else []
    return [block[key] for block in blocks if isinstance(block, dict) and block.get("type") == kind]
