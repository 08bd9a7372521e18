"""The order in which a transcript's lines are sent, slowly: the whole rule in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


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
        """Return the line with which the conversation goes on after a message and its results."""
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


def _is_whitespace(block: Mapping[str, Any]) -> bool:
    text = block.get("text")
    return block.get("type") == "text" and isinstance(text, str) and text.isspace()


def is_empty(content: object) -> bool:
    if not content:
        return content is None or isinstance(content, (str, list))
    if isinstance(content, str):
        return content.isspace()
    return isinstance(content, list) and all(
        isinstance(block, Mapping) and _is_whitespace(block) for block in content
    )


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
    return _is_seen(entry) and not is_empty(_content(entry))


def _is_seen(entry: dict[str, Any]) -> bool:
    if entry.get("isApiErrorMessage"):
        return False
    is_queued = _around(entry).get("type") == "queued_command"
    return is_queued if entry["type"] == "attachment" else entry["type"] in ("user", "assistant")


def _content(entry: dict[str, Any]) -> object:
    return _around(entry).get("prompt" if entry["type"] == "attachment" else "content")


def _around(entry: dict[str, Any]) -> Mapping[str, Any]:
    around = entry.get("attachment" if entry["type"] == "attachment" else "message")
    return around if isinstance(around, Mapping) else {}


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
    content = _content(entry)
    blocks = content if isinstance(content, list) else []
    return [block[key] for block in blocks if isinstance(block, dict) and block.get("type") == kind]
