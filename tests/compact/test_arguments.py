"""Bad arguments: each gets a typed error that names the value and what to pass instead."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest

from rehydrate import RehydrateError, Scoring, acompact_context, compact_context
from rehydrate._engine import COUNTERS, CounterName
from rehydrate.compact.options import (
    GRANULARITIES,
    THINKING,
    Granularity,
    ProfileName,
    ThinkingPolicy,
)
from rehydrate.errors import InvalidArgumentError, InvalidMessageError, UnknownFormatError
from rehydrate.formats import FORMATS, FormatName
from rehydrate.messages import PROVIDERS, Provider
from tests.compact.cases import talk

TALK = talk("user: one two", "assistant: three four", "user: five six")
NAN = float("nan")


def fails(_text: str) -> int:
    raise KeyError("tokenizer gone")


# Options, and what the message must hold: the argument, the value, the remedy.
BAD_OPTIONS: list[tuple[dict[str, Any], list[str]]] = [
    ({"target_ratio": NAN}, ["target_ratio", "nan", "a number above 0 and up to 1", "0.05"]),
    ({"target_ratio": True}, ["target_ratio", "True", "a number above 0"]),
    ({"target_ratio": "0.4"}, ["target_ratio", "'0.4'", "a number above 0"]),
    ({"target_ratio": None}, ["target_ratio", "None", "a number above 0"]),
    ({"target_ratio": 1j}, ["target_ratio", "1j", "a number above 0"]),
    ({"target_ratio": 40}, ["target_ratio", "40", "did you mean 0.4?"]),
    ({"target_ratio": 1.5}, ["target_ratio", "1.5", "above 0 and up to 1"]),
    ({"target_ratio": 8_000}, ["target_ratio", "8000", "budget_tokens"]),
    ({"target_ratio": 10**400}, ["target_ratio", "budget_tokens"]),
    ({"target_ratio": float("inf")}, ["target_ratio", "inf", "budget_tokens"]),
    ({"target_ratio": 0}, ["target_ratio is 0;", "budget_tokens=0 keeps only what is always"]),
    ({"target_ratio": -0.4}, ["target_ratio is -0.4;", "a number above 0"]),
    ({"target_ratio": np.float64(40)}, ["target_ratio", "did you mean 0.4?"]),
    ({"budget_tokens": -1}, ["budget_tokens", "-1", "from 0 up", "target_ratio"]),
    ({"budget_tokens": -(10**5000)}, ["budget_tokens is a whole number of 16,610 bits", "from 0"]),
    ({"target_ratio": 10**5000}, ["target_ratio is a whole number of", "budget_tokens"]),
    ({"outline": -(10**5000)}, ["outline is a whole number of", "from 100 up"]),
    ({"pin": [10**5000]}, ["pin names message a whole number of 16,610 bits"]),
    ({"budget_tokens": 10.0}, ["budget_tokens", "10.0", "whole number"]),
    ({"budget_tokens": True}, ["budget_tokens", "True", "whole number"]),
    ({"budget_tokens": "10"}, ["budget_tokens", "'10'", "whole number"]),
    ({"scoring": "best"}, ["scoring", "'best'", "'balanced'", "'chitta'", "Scoring(...)"]),
    ({"scoring": None}, ["scoring", "None", "'balanced'"]),
    ({"scoring": ["chitta"]}, ["scoring", "['chitta']", "'balanced'"]),
    ({"scoring": Scoring(counter="gpt2")}, ["counter", "'gpt2'", "'o200k_base'"]),
    ({"format": "cohere"}, ["format", "'cohere'", "'auto'", "'anthropic'", "'plain'"]),
    ({"format": None}, ["format", "None", "'auto'"]),
    ({"format": ["plain"]}, ["format", "['plain']", "'auto'"]),
    ({"counter": "gpt2"}, ["counter", "'gpt2'", "'cl100k_base'", "callable"]),
    ({"counter": 4}, ["counter", "4", "'words'", "callable"]),
    ({"counter": ["words"]}, ["counter", "['words']", "'words'", "callable"]),
    ({"counter": fails}, ["counter fails", "KeyError", "tokenizer gone", "whole number"]),
    ({"counter": lambda text: None}, ["counter", "None", "7 characters", "whole number"]),
    ({"counter": lambda text: -3}, ["counter", "-3", "from 0 up"]),
    ({"counter": lambda text: 2.5}, ["counter", "2.5", "whole number"]),
    ({"counter": lambda text: "7"}, ["counter", "'7'", "whole number"]),
    ({"counter": lambda text: NAN}, ["counter", "nan", "whole number"]),
    ({"counter": lambda text: float("inf")}, ["counter", "inf", "whole number"]),
    ({"counter": lambda text: 2**32}, ["counter", str(2**32), "whole number"]),
    ({"counter": str.split}, ["counter split", "['one', 'two']", "whole number"]),
    ({"counter": lambda text: np.ones(2)}, ["counter", "array", "whole number"]),
    ({"granularity": "excerpt?"}, ["granularity", "'excerpt?'", "'message'"]),
    ({"embedder": "minilm"}, ["embedder", "'minilm'", "'auto'", "None", "callable"]),
    ({"embedder": 256}, ["embedder", "256", "'auto'", "callable"]),
    ({"embedder": np.ones(3)}, ["embedder", "array", "'auto'", "callable"]),
    ({"embedder": ["minilm"]}, ["embedder", "['minilm']", "callable"]),
    ({"timeout": -1}, ["timeout", "-1", "seconds", "None"]),
    ({"timeout": NAN}, ["timeout", "nan", "from 0 up"]),
    ({"timeout": "50"}, ["timeout", "'50'", "seconds"]),
    ({"timeout": True}, ["timeout", "True", "seconds"]),
    ({"memory": object()}, ["memory", "object", "recall(vectors, k)", "None"]),
    ({"memory": {"recall": 1}}, ["memory", "dict", "recall(vectors, k)"]),
    ({"query": b"two"}, ["query", "bytes", "string or None"]),
    ({"query": 3}, ["query", "int", "string or None"]),
    ({"query": ["two"]}, ["query", "list", "string or None"]),
    ({"pin": [3]}, ["pin", "message 3 of 3", "from -3 to 2"]),
    ({"pin": [-4]}, ["pin", "message -4 of 3", "from -3 to 2"]),
    ({"pin": [True]}, ["pin", "bool", "an index, or the very object"]),
    ({"pin": [dict(TALK[0])]}, ["pin", "dict", "the very object that is in the list"]),
    ({"pin": ["one two"]}, ["pin", "str", "an index, or the very object"]),
    ({"pin": 1}, ["pin", "int", "a list of indices or message objects"]),
    ({"pin": None}, ["pin", "NoneType", "a list of indices or message objects"]),
    ({"pin": TALK[0]}, ["pin", "dict", "a list of indices or message objects"]),
]


@pytest.mark.parametrize(
    ("words", "type_"),
    [
        (COUNTERS, CounterName),
        (FORMATS, FormatName),
        (GRANULARITIES, Granularity),
        (PROVIDERS, Provider),
        (THINKING, ThinkingPolicy),
    ],
)
def test_the_type_of_a_choice_names_every_word_that_is_taken(words: Any, type_: Any):
    assert get_args(type_) == tuple(words)


def test_the_type_of_a_profile_names_every_profile():
    names = get_args(ProfileName)
    assert all(Scoring.named(name) for name in names)
    with pytest.raises(InvalidArgumentError) as caught:
        Scoring.named("own")  # type: ignore[arg-type]
    assert f"choose one of {', '.join(map(repr, names))}, or pass" in str(caught.value)


@pytest.mark.parametrize(("options", "expected"), BAD_OPTIONS)
def test_the_error_names_the_argument_the_value_and_the_remedy(
    options: dict[str, Any], expected: list[str]
):
    with pytest.raises(InvalidArgumentError) as caught:
        compact_context(TALK, **options)
    message = str(caught.value)
    assert [part for part in expected if part not in message] == []
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, RehydrateError)


@pytest.mark.anyio
@pytest.mark.parametrize("options", [{"target_ratio": NAN}, {"pin": [9]}, {"format": "cohere"}])
async def test_acompact_context_raises_the_same_errors(options: dict[str, Any]):
    with pytest.raises(InvalidArgumentError) as awaited:
        await acompact_context(TALK, **options)
    with pytest.raises(InvalidArgumentError) as called:
        compact_context(TALK, **options)
    assert str(awaited.value) == str(called.value)


def test_an_unknown_format_is_an_error_of_its_own_that_lists_the_known():
    with pytest.raises(UnknownFormatError) as caught:
        compact_context(TALK, format="cohere")
    assert set(caught.value.known) == set(FORMATS)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (None, ["messages", "None", "a list"]),
        (42, ["messages", "an int", "a list"]),
        ("[]", ["messages", "a str", "json.loads"]),
        (b"[]", ["messages", "a bytes", "json.loads"]),
        ({"messages": TALK}, ["messages", "a dict", "pass its 'messages'"]),
        (TALK[0], ["messages", "a dict", "wrap it in a list"]),
        (iter(TALK), ["messages", "a list_iterator", "list(messages)"]),
        (set(), ["messages", "a set", "list(messages)"]),
    ],
)
def test_an_argument_that_is_no_list_is_refused_with_how_to_make_one(
    messages: Any, expected: list[str]
):
    with pytest.raises(InvalidMessageError) as caught:
        compact_context(messages)
    assert [part for part in expected if part not in str(caught.value)] == []
    assert caught.value.index is None


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (None, "None"),
        ("hello", "wrap it as {'role': 'user', 'content': ...}"),
        (7, "an int"),
        (["user", "hello"], "a list"),
        ({}, "role"),
        ({"content": "hello"}, "role"),
        ({"role": None, "content": "hello"}, "role"),
        ({"role": "", "content": "hello"}, "role"),
        ({"role": 3, "content": "hello"}, "role"),
        ({"role": "user", "content": 3}, "content"),
        ({"role": "user", "content": {"type": "text"}}, "wrap the block in a list"),
        ({"role": "user", "content": [3]}, "content[0]"),
    ],
)
@pytest.mark.parametrize("index", [0, 2])
def test_an_entry_that_is_no_message_is_named_by_its_index(entry: Any, expected: str, index: int):
    messages = [*TALK]
    messages.insert(index, entry)
    with pytest.raises(InvalidMessageError) as caught:
        compact_context(messages)
    assert caught.value.index == index
    assert f"message {index}" in str(caught.value)
    assert expected in str(caught.value)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ValueError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    ("ratio", "target"),
    [
        *((0.4, 16), (0.05, 2), (0.99, 39), (0.7, 28), (np.float64(0.3), 12), (1, 40)),
        *((0.01, 2), (1e-9, 2)),
    ],
)
def test_a_ratio_under_the_least_is_taken_as_the_least(ratio: float, target: int):
    messages = talk(*(f"assistant: {n % 10}{n % 10}" for n in range(20)))
    assert compact_context(messages, target_ratio=ratio, counter=len).stats.target_tokens == target


def test_a_budget_replaces_the_ratio():
    assert not compact_context(TALK, budget_tokens=10**5000).stats.changed
    stats = compact_context(TALK, target_ratio=1.0, budget_tokens=4).stats
    assert stats.target_tokens == 4


def test_a_bad_ratio_is_refused_even_where_a_budget_replaces_it():
    with pytest.raises(InvalidArgumentError, match="target_ratio"):
        compact_context(TALK, target_ratio=NAN, budget_tokens=4)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: Scoring(recency=-0.1), ["Scoring.recency", "-0.1", "from 0"]),
        (lambda: Scoring(semantic=NAN), ["Scoring.semantic", "nan", "from 0"]),
        (lambda: Scoring(novelty=float("inf")), ["Scoring.novelty", "inf", "from 0"]),
        (lambda: Scoring(novelty=1e308), ["Scoring.novelty", "1e+308", "to 1e+06"]),
        (lambda: Scoring(recency=True), ["Scoring.recency", "True", "a number"]),
        (lambda: Scoring(recency="0.3"), ["Scoring.recency", "'0.3'", "a number"]),
        (lambda: Scoring(structural={"user": -1}), ["Scoring.structural['user']", "-1"]),
        (lambda: Scoring(structural=2.0), ["Scoring.structural", "2.0", "mapping"]),
        (lambda: Scoring(signals="cosine"), ["Scoring.signals", "'cosine'", "'calibrated', 'raw'"]),
        (lambda: Scoring(packing="best"), ["Scoring.packing", "'best'", "'coverage', 'greedy'"]),
        (lambda: Scoring(packing=["greedy"]), ["Scoring.packing", "['greedy']", "coverage"]),
        (lambda: Scoring.named("best"), ["scoring", "'best'", "'balanced'", "'chitta'"]),
    ],
)
def test_a_scoring_refuses_what_cannot_be_a_part_of_it(
    make: Callable[[], Scoring], expected: list[str]
):
    with pytest.raises(InvalidArgumentError) as caught:
        make()
    assert [part for part in expected if part not in str(caught.value)] == []


def test_errors_leave_the_messages_as_they_were():
    messages = talk("user: one", "assistant: two")
    with pytest.raises(InvalidArgumentError):
        compact_context(messages, counter=fails)
    assert messages == talk("user: one", "assistant: two")


@pytest.mark.parametrize("left", [None, 5])
def test_a_counter_that_changes_the_messages_is_said(left: Any) -> None:
    text = "the port is 8443, never deploy on friday\n" * 60
    said = [{"type": "text", "text": text}]
    messages: list[Any] = [
        {"role": "user", "content": said},
        {"role": "assistant", "content": said},
    ]
    messages = [*messages * 2, {"role": "user", "content": "Which port?"}]
    messages = [dict(each) for each in messages]

    def count(counted: str) -> int:
        for each in messages:
            each["content"] = left
        return len(counted) // 4

    with pytest.raises(InvalidMessageError, match="expected what was read; change no message"):
        compact_context(messages, budget_tokens=400, counter=count, granularity="excerpt")
