"""Every nasty conversation gives a typed error that names the place, or a result no less valid."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import rehydrate
from rehydrate import formats
from rehydrate.page import side_by_side
from tests.page.reading import Page
from tests.stress.nasty import NASTY, PIXELS, in_each_format, outcome, violations

READABLE = 3 * len(PIXELS) // 4
"""More tokens than this would mean that base64 was read as text."""


def _verdicts(name: str, run: Callable[..., Any]) -> list[object]:
    return in_each_format(name, lambda messages, form: (run(messages, format=form), "read")[1])


@pytest.mark.parametrize("name", NASTY)
def test_each_gives_a_typed_error_or_fewer_of_the_same_objects_where_it_can_be_read(name: str):
    def compact(messages: Any, format: str) -> None:
        for options in ({}, {"query": "part_3.py \ud800", "scoring": "chitta"}):
            compaction = rehydrate.compact_context(messages, format=format, **options)
            places = iter(messages)
            assert all(any(kept is one for one in places) for kept in compaction.messages)
            gone = compaction.stats.dropped + compaction.stats.ignored * compaction.stats.changed
            assert len(compaction.messages) == len(messages) - gone
            assert compaction.stats.after_tokens <= compaction.stats.before_tokens
            assert len(str(compaction.explain()).splitlines()) > compaction.stats.units
            assert len(compaction.dropped) == compaction.stats.dropped
            before = violations(messages, compaction.stats.format)
            assert violations(compaction.messages, compaction.stats.format) <= before, name

    expected = _verdicts(name, formats.parse)
    for run in (compact, rehydrate.count_tokens, rehydrate.estimate_tokens):
        assert _verdicts(name, run) == expected
    validated = _verdicts(name, rehydrate.validate)
    assert all(validated[at] for at, read in enumerate(expected) if read)


@pytest.mark.parametrize("name", NASTY)
def test_the_same_input_twice_gives_the_same_result(name: str):
    def twice(messages: Any) -> None:
        kept = [[id(one) for one in rehydrate.compact_context(messages).messages] for _ in range(2)]
        assert kept[0] == kept[1]

    outcome(name, twice)


@pytest.mark.parametrize("name", NASTY)
def test_every_nasty_conversation_has_a_page_of_good_html(name: str):
    def show(messages: Any, form: str) -> None:
        options = {"format": form, "granularity": "excerpt", "target_ratio": 0.5}
        compaction = rehydrate.compact_context(messages, **options)
        Page(side_by_side(messages, compaction, query=name))

    for form in ("auto", "anthropic", "openai_chat"):
        outcome(name, partial(show, form=form))


def _is_json(messages: Any) -> bool:
    try:
        json.dumps(messages, allow_nan=True)
    except (TypeError, ValueError, RecursionError):
        return False
    return isinstance(messages, (list, tuple))


@pytest.mark.parametrize("name", [name for name, make in NASTY.items() if _is_json(make())])
def test_the_command_line_takes_them_too(name, tmp_path, capfdbinary):
    from rehydrate.cli import main

    path = tmp_path / "nasty.json"
    path.write_text(json.dumps(NASTY[name]()), encoding="utf-8")
    before = path.read_bytes()
    code = main(["compact", str(path), "--ratio", "0.3"])
    out, err = capfdbinary.readouterr()
    assert path.read_bytes() == before
    if code == 0:
        kept = json.loads(out)
        wanted = [json.dumps(message) for message in json.loads(before)]
        assert all(json.dumps(message) in wanted for message in kept)
    else:
        assert code == 2
        assert err.startswith(b"rehydrate: ")
        assert b"Traceback" not in err


@pytest.mark.parametrize("form", ["anthropic", "openai_chat", "plain"])
@pytest.mark.parametrize("name", ["media_in_every_shape", "chat_media_in_every_shape"])
def test_base64_is_never_read_as_text(name: str, form: str):
    def longest(messages: Any) -> int:
        conversation = formats.parse(messages, form)
        return max(len(piece.text) for message in conversation.messages for piece in message.pieces)

    found = outcome(name, longest)
    assert found is not None
    assert found < READABLE
