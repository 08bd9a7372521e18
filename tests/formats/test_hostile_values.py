"""Values that no API sends, in whatever place: a typed error or a reading, never a panic."""

from __future__ import annotations

from typing import Any

import pytest

from rehydrate.errors import InvalidMessageError, RehydrateError
from rehydrate.formats import detect_format, parse, validate
from rehydrate.formats._reading import arguments

HUGE = 10**5000  # more digits than `str` takes


def codex_line(text: str, payload: type = dict) -> dict[str, Any]:
    payload_fields = {"type": "message", "role": "user", "content": text}
    return {"type": "response_item", "payload": payload(payload_fields)}


@pytest.mark.parametrize("read", [validate, parse])
def test_a_rollout_that_becomes_shorter_while_it_is_read(read: Any):
    lines: list[Any] = []

    class Shrinking(dict):  # type: ignore[type-arg]
        def get(self, *given: Any) -> Any:
            lines.clear()
            return dict.get(self, *given)

    lines += [codex_line("a"), codex_line("b", Shrinking)]
    read(lines, "codex")


def test_a_list_that_says_it_is_longer_than_it_is():
    class Longer(list):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 9

    assert detect_format(Longer([{"role": "user", "content": "hello"}])) == "plain"


@pytest.mark.parametrize("format", ["openai_chat", "openai_responses", "anthropic", "bedrock"])
def test_a_key_that_is_a_huge_number(format: str):
    entries = [{"role": "user", "content": [{HUGE: 1}]}]
    for read in (validate, parse):
        try:
            read(entries, format)  # type: ignore[operator]
        except RehydrateError as error:
            assert isinstance(error, InvalidMessageError)


def test_a_huge_number_in_what_was_sent():
    def talk(value: int) -> list[dict[str, Any]]:
        call = {"type": "tool_use", "id": "c", "name": "f", "input": {"n": value}}
        return [{"role": "user", "content": "q"}, {"role": "assistant", "content": [call]}]

    assert validate(talk(HUGE), "anthropic", sent=talk(HUGE)) == []
    assert validate(talk(HUGE), "anthropic", sent=talk(HUGE)[:1]) == []


@pytest.mark.parametrize("value", [{(1, 2): 3}, {"n": HUGE}])
def test_an_input_that_json_can_not_hold_is_named(value: Any):
    with pytest.raises(RehydrateError, match="can't be written as JSON"):
        arguments(value)
