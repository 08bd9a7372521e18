"""Conversations of every format, hostile ones too, are read as `tests/golden/readings.jsonl` says.

    python -m tests.formats.test_readings

writes it again after a change that is meant; its diff shows what is read otherwise.
"""

from __future__ import annotations

import ast
import json
import random
from collections import UserDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rehydrate._native import format_of
from rehydrate.errors import RehydrateError
from rehydrate.formats import FORMATS, detect_format
from rehydrate.messages import Conversation

FILE = Path(__file__).parents[1] / "golden" / "readings.jsonl"
RECORDED = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


class Entry(dict):
    """A dict that is not exactly one."""


def reading(name: str, entries: Any) -> dict[str, Any]:
    """Return all that a format's reader makes of a list, in JSON."""
    try:
        found = FORMATS[name].parse(entries)
    except RehydrateError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    made = {
        "messages": [
            [
                message.index,
                message.role,
                [[piece.kind.name, piece.text] for piece in message.pieces],
                *(message.images, message.calls, message.answers, message.is_user_turn),
            ]
            for message in found.messages
        ],
        "units": [unit.members for unit in found.units],
        **facts(found),
    }
    read: dict[str, Any] = json.loads(json.dumps(made))
    return read


def facts(found: Conversation) -> dict[str, Any]:
    """Return what a conversation says of its messages."""
    said = found.last_user_message()
    flags = [unit % 3 == 0 for unit in range(found.unit_count)]
    every = {
        "ignored": found.ignored,
        "user_first": found.user_first,
        "bound": found.bound,
        "opening": found.opening,
        "unknown": found.unknown,
        "uncommon": found.uncommon_indices(),
        "thoughtful": found.thoughtful_indices(),
        "roles": found.roles,
        "last_user_message": None if said is None else said.index,
        "answered_reply": found.answered_reply(),
        "pins": [*found.pins().items()],
        "pins_without_thoughts": [*found.pins(thoughts=False).items()],
        "kept_for_words": sorted(found.kept_for_words()),
        "kept": found.kept_messages(flags),
        "lone_texts": found.lone_texts(""),
        "answers": found.answers(),
        "repeats_calls": found.repeats_calls(),
    }
    # Most are empty in most conversations.
    return {name: value for name, value in every.items() if value not in (None, (), [], {}, False)}


@pytest.mark.parametrize("wrap", [dict, Entry, UserDict])
def test_every_list_is_read_as_it_was(wrap: Callable[[Any], Any]) -> None:
    for number, case in enumerate(RECORDED, 1):
        entries = ast.literal_eval(case["entries"])
        given = [wrap(each) if isinstance(each, dict) else each for each in entries]
        assert reading(case["format"], given) == case["read"], f"line {number} of {FILE.name}"


class EveryOne(list):
    """A list of a class of its own, of which the reader looks at every entry."""


def test_the_format_is_found_as_if_every_entry_were_looked_at() -> None:
    lists = [ast.literal_eval(case["entries"]) for case in RECORDED]
    every = [entry for entries in lists for entry in entries]
    chance = random.Random(7)
    for entries in (*lists, *(chance.sample(every, 3) for _ in range(300))):
        try:
            found = detect_format(entries)
        except RehydrateError:  # a plain list with a role that nobody knows
            found = "plain"
        assert found == format_of(EveryOne(entries))[0], entries


def test_a_tool_input_is_written_as_json_writes_it() -> None:
    value = {"every": "".join(map(chr, range(0x20))) + '"\\/\x7f\u2028é🎈', "float": 1e-7}
    block = {"type": "tool_use", "id": "a", "name": "Run", "input": value}
    (message,) = FORMATS["anthropic"].parse([{"role": "assistant", "content": [block]}]).messages
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert message.pieces[0].text == f"Run {written}"


def test_a_list_that_changes_while_it_is_read_is_read_as_far_as_it_goes() -> None:
    entries: list[Any] = []

    class Shrinking(UserDict):  # type: ignore[type-arg]
        def get(self, key: str, default: Any = None) -> Any:
            del entries[1:]
            return super().get(key, default)

    entries += [Shrinking(role="user", content="a"), {"role": "user", "content": "b"}]
    for name in ("anthropic", "openai_chat", "plain"):
        assert len(FORMATS[name].parse(entries).messages) == 1
        entries.append({"role": "user", "content": "b"})
    assert FORMATS["claude_code"].parse([]).messages == ()


def test_every_format_and_every_kind_of_error_is_among_them() -> None:
    names = {case["format"] for case in RECORDED}
    assert names == set(FORMATS) - {"langchain"}  # whose messages aren't text
    errors = {case["read"].get("error", ":").partition(":")[0] for case in RECORDED}
    assert errors >= {"", "InvalidMessageError", "UnknownBlockError"}


if __name__ == "__main__":
    for case in RECORDED:
        case["read"] = reading(case["format"], ast.literal_eval(case["entries"]))
    FILE.write_text("".join(f"{json.dumps(case)}\n" for case in RECORDED), "utf-8")
