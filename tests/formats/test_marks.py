"""Cache marks in nested lists: a list is searched once for a level, however often it is held."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

import rehydrate
from rehydrate._native import marks_in, unmarked

MARK = {"type": "ephemeral"}


class Counted(list[Any]):
    """A list that notes each time it is read."""

    reads: ClassVar[list[int]] = []

    def __iter__(self) -> Iterator[Any]:
        self.reads.append(id(self))
        return super().__iter__()


@pytest.fixture(autouse=True)
def _from_zero() -> None:
    Counted.reads.clear()


def held_many_times(block: dict[str, Any], levels: int) -> list[Any]:
    """Return messages that hold the same messages eight times over, and so on."""
    content = Counted([block])
    for _ in range(levels):
        content = Counted([{"role": "user", "content": content}] * 8)
    return content


@pytest.mark.parametrize("search", [marks_in, unmarked])
def test_an_object_that_is_held_many_times_is_searched_once_a_level(
    search: Callable[[Any], Any],
) -> None:
    text = {"type": "text", "text": "Hello."}
    messages = held_many_times(text, 30)
    messages.append({"role": "user", "content": Counted([messages[0], text])})
    search(messages)
    assert len(Counted.reads) <= 32 * 16


def test_no_more_marks_are_looked_for_than_a_provider_takes() -> None:
    messages = held_many_times({"type": "text", "text": "Hello.", "cache_control": MARK}, 7)
    assert marks_in(messages) == [MARK] * 4
    assert len(Counted.reads) <= 7 + 4


def test_marks_are_left_out_wherever_a_list_is_held() -> None:
    block = {"type": "text", "text": "Hello.", "cache_control": MARK}
    messages = held_many_times(block, 2)
    plain = {"type": "text", "text": "Hello."}
    inner = [{"role": "user", "content": [plain]}] * 8
    assert unmarked(messages) == [{"role": "user", "content": inner}] * 8


def test_lint_counts_the_marks_of_a_list_that_is_held_many_times() -> None:
    content: Any = Counted([{"type": "text", "text": "Hello.", "cache_control": MARK}])
    for _ in range(60):
        content = Counted([content, content])
    system = [{"type": "text", "text": "Be brief.", "content": content}]
    rehydrate.lint({"system": system, "messages": [{"role": "user", "content": "Hello."}]})
    assert len(Counted.reads) <= 61 * 16
