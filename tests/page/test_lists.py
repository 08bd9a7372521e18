"""The page of two lists: on the left what was, on the right what is sent, and nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from rehydrate import Budget, Context, formats
from rehydrate.errors import InvalidArgumentError
from rehydrate.integrations.host_thread import HostThread
from rehydrate.messages import Piece, PieceKind
from rehydrate.page import lists_side_by_side
from rehydrate.page.comparison import _texts
from tests.page.reading import Page

LINES = st.lists(st.sampled_from(["a", "b", "c\r", "", "d e"]), max_size=8)


def piece(text: str, kind: PieceKind = PieceKind.TEXT) -> Piece:
    return Piece(text, kind)


@given(LINES, st.sets(st.integers(0, 7)))
def test_runs_are_the_whole_text_and_those_that_stay_are_what_is_sent(
    lines: list[str], kept: set[int]
) -> None:
    whole = "\n".join(lines)
    sent = "\n".join(
        line if number in kept else "[... 1 line omitted ...]" for number, line in enumerate(lines)
    )
    (text,) = _texts([piece(whole)], [piece(sent)])
    assert "".join(run.before for run in text.runs) == whole
    right = "".join(run.after for run in text.runs)
    assert right.replace("\r", "").split() == sent.replace("\r", "").split()
    assert all(run.before == run.after for run in text.runs if run.kept)


def test_a_piece_that_is_gone_does_not_move_the_others() -> None:
    before = [piece("why", PieceKind.THINKING), piece("one"), piece("two\nlines")]
    after = [piece("one"), piece("[...]\nlines")]
    gone, one, two = _texts(before, after)
    assert [run.kept for run in gone.runs] == [False]
    assert [run.kept for run in one.runs] == [True]
    assert [(run.before, run.after, run.kept) for run in two.runs] == [
        ("two\n", "[...]\n", False),
        ("lines", "lines", True),
    ]


def test_a_real_compaction_shows_every_message_once() -> None:
    said: list[Any] = []
    for number in range(40):
        call = {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": "f", "arguments": "{}"},
        }
        result = "\n".join(f"<line {n} of {number}>" for n in range(60 if number % 2 else 2))
        said += [
            {"role": "user", "content": f"Question {number}"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": result},
        ]
    thread = HostThread(lambda: Context(provider="openai_chat", budget=Budget(soft_tokens=6_000)))
    after = [(each.index, each.message) for each in thread.shown(said)]
    assert len(after) < len(said)
    page = Page(
        lists_side_by_side(
            said, after, format="openai_chat", reasons={0: "it is old"}, target_tokens=3_600
        )
    )
    texts = [box for box in page.boxes if "text" in box.classes]
    was = [box.text for box in texts if box.side == "was"]
    now = [box.text for box in texts if box.side == "now"]
    assert was.count("Question 7") == 1
    assert len(formats.parse(said, "openai_chat").messages) == len(said)
    for index, message in after:
        if message["role"] == "user":
            assert message["content"] in now, index
    gone = {*range(len(said))} - {index for index, _ in after}
    lost = next(at for at in sorted(gone) if said[at]["role"] == "user")
    assert said[lost]["content"] not in now


def test_a_message_that_was_written_again_is_on_the_right_alone() -> None:
    said = [{"role": "user", "content": "old"}]
    after = [(None, {"role": "user", "content": "It goes on."})]
    page = Page(lists_side_by_side(said, after, format="openai_chat", reasons={}, target_tokens=1))
    assert "It goes on." in page.text


def test_an_index_that_is_not_there_is_refused() -> None:
    said = [{"role": "user", "content": "old"}]
    with pytest.raises(InvalidArgumentError, match="after has index 3; pass indices from 0 to 0"):
        lists_side_by_side(said, [(3, said[0])], format="openai_chat", reasons={}, target_tokens=1)
