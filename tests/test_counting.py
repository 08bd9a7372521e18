"""count_tokens and estimate_tokens: exact figures, the rules of thumb, and what is counted."""

from __future__ import annotations

import json
import math
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from benches.python import token_table, token_texts
from benches.python.wordpiece import WordPiece
from rehydrate import _native, compact_context, count_tokens, estimate_tokens
from rehydrate.errors import InvalidArgumentError, InvalidMessageError
from tests.sizes import sized
from tests.strategies import BY_FORMAT, conversations, texts


# Figures of OpenAI's cookbook, "How to count tokens with tiktoken".
@pytest.mark.parametrize(
    ("text", "o200k_base", "cl100k_base"),
    [
        ("", 0, 0),
        ("tiktoken is great!", 6, 6),
        ("antidisestablishmentarianism", 6, 6),
        ("2 + 2 = 4", 7, 7),
        ("お誕生日おめでとう", 8, 9),
    ],
)
def test_counts_are_those_of_the_encoding(text: str, o200k_base: int, cl100k_base: int):
    assert count_tokens(text) == count_tokens(text, "o200k_base") == o200k_base
    assert count_tokens(text, "cl100k_base") == cl100k_base


@pytest.mark.parametrize("special", ["<|endoftext|>", "<|fim_prefix|>", "<|endofprompt|>"])
def test_a_special_token_in_a_text_is_text(special: str):
    assert count_tokens(special) > 1
    assert count_tokens(special, "cl100k_base") > 1


@given(texts)
def test_words_are_one_point_three_tokens_rounded_up(text: str):
    assert estimate_tokens(text, "words") == math.ceil(13 * len(text.split()) / 10)


@given(st.text())
def test_chars_are_one_token_in_three_and_a_half_rounded_up(text: str):
    assert estimate_tokens(text) == estimate_tokens(text, "chars") == -(-2 * len(text) // 7)


@given(st.text(max_size=60))
def test_an_exact_count_is_at_least_one_and_at_most_one_a_byte(text: str):
    size = len(text.encode("utf-8", "replace"))
    for encoding in ("o200k_base", "cl100k_base"):
        assert bool(text) <= count_tokens(text, encoding) <= size


@given(st.text(max_size=60))
def test_a_cold_cache_counts_alike(text: str):
    warm = [count_tokens(text), estimate_tokens(text), estimate_tokens(text, "words")]
    _native.clear_cache()
    assert warm == [count_tokens(text), estimate_tokens(text), estimate_tokens(text, "words")]


@given(conversations())
def test_messages_cost_what_compaction_says_they_cost(named: tuple):
    name, entries = named
    before = compact_context(entries, format=name).stats.before_tokens
    assert count_tokens(entries, format=name) == before
    before = compact_context(entries, format=name, counter="cl100k_base").stats.before_tokens
    assert count_tokens(entries, "cl100k_base", format=name) == before
    before = compact_context(entries, format=name, scoring="chitta").stats.before_tokens
    assert estimate_tokens(entries, "words", format=name) == before
    before = compact_context(entries, format=name, counter="chars").stats.before_tokens
    assert estimate_tokens(entries, format=name) == before


@pytest.mark.parametrize("name", sorted(BY_FORMAT.keys() - {"claude_code", "codex"}))
@settings(max_examples=sized(8, 12))
@given(data=st.data())
def test_a_conversation_costs_the_sum_of_its_messages(name: str, data: st.DataObject):
    entries = data.draw(BY_FORMAT[name]())
    apart = sum(count_tokens([entry], format=name) for entry in entries)
    assert count_tokens(entries, format=name) == apart


def user(*blocks: dict) -> list[dict]:
    return [{"role": "user", "content": list(blocks)}]


def image(data: str) -> dict:
    source = {"type": "base64", "media_type": "image/png", "data": data}
    return {"type": "image", "source": source}


def test_an_image_costs_a_constant_and_its_payload_is_no_text():
    small, large = image("iVBORw0KGgo="), image("QUJD" * 50_000)
    assert count_tokens(user(small)) == count_tokens(user(large)) == 1_600
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "QUJD" * 50_000}}
    assert count_tokens(user(url)) == 1_600
    assert estimate_tokens(user(small, small), "words") == 3_200
    assert count_tokens(user(large, {"type": "text", "text": "Hello, world!"})) == 1_604


def test_tool_inputs_and_results_count_in_every_format():
    value = {"path": "src/app.py"}
    shown = count_tokens("Read " + json.dumps(value, separators=(",", ":")))
    use = {"type": "tool_use", "id": "t", "name": "Read", "input": value}
    assert count_tokens([{"role": "assistant", "content": [use]}]) == shown
    call = {"name": "Read", "arguments": json.dumps(value, separators=(",", ":"))}
    calls = [{"id": "t", "type": "function", "function": call}]
    assert count_tokens([{"role": "assistant", "content": None, "tool_calls": calls}]) == shown
    result = {"type": "tool_result", "tool_use_id": "t", "content": "Hello, world!"}
    assert count_tokens(user(result)) == 4
    assert count_tokens([{"role": "tool", "tool_call_id": "t", "content": "Hello, world!"}]) == 4


def test_tool_definitions_count_as_compact_json():
    tool = {"name": "search", "description": "Findet 世界", "input_schema": {"type": "object"}}
    compact = json.dumps(tool, ensure_ascii=False, separators=(",", ":"))
    assert count_tokens("", tools=[tool]) == count_tokens(compact)
    assert count_tokens("Hello, world!", tools=[tool, tool]) == 4 + 2 * count_tokens(compact)
    words = estimate_tokens(compact, "words")
    assert estimate_tokens([], "words", tools=(tool for _ in range(3))) == 3 * words


def test_lines_that_no_model_sees_cost_nothing():
    said = {"type": "user", "uuid": "1", "message": {"role": "user", "content": "Hello, world!"}}
    noise = {"type": "progress", "uuid": "2", "data": {"text": "a hook runs"}}
    assert count_tokens([said, noise, dict(said)]) == 4


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\x00", "🙂" * 1000, "a" * 100_000])
def test_odd_texts_are_counted(text: str):
    assert count_tokens(text) > 0
    assert estimate_tokens(text) == math.ceil(2 * len(text) / 7)


def test_an_empty_list_costs_nothing():
    assert count_tokens([]) == estimate_tokens([]) == estimate_tokens([], "words") == 0


@pytest.mark.parametrize("encoding", ["words", "p50k_base", None, ["o200k_base"]])
def test_an_unknown_encoding_is_refused_with_those_that_are_known(encoding: object):
    with pytest.raises(InvalidArgumentError) as caught:
        count_tokens("text", encoding)
    for part in (repr(encoding), "'o200k_base'", "'cl100k_base'", "estimate_tokens"):
        assert part in str(caught.value)


@pytest.mark.parametrize("by", ["o200k_base", "tokens", None])
def test_an_unknown_rule_is_refused_with_those_that_are_known(by: object):
    with pytest.raises(InvalidArgumentError) as caught:
        estimate_tokens("text", by)
    for part in (repr(by), "'chars'", "'words'", "count_tokens"):
        assert part in str(caught.value)


@pytest.mark.parametrize("content", [None, 3, {"role": "user", "content": "x"}, b"text"])
def test_what_is_neither_text_nor_messages_is_refused(content: object):
    with pytest.raises(InvalidMessageError, match="expected a list of messages"):
        count_tokens(content)


@pytest.mark.parametrize("tools", [3, {"name": "search"}, "search", None])
def test_tools_that_are_no_list_are_refused(tools: object):
    with pytest.raises(InvalidArgumentError, match=r"tools is .*; pass a list of tool definitions"):
        count_tokens("text", tools=tools)


# docs/tokens.md is up to date, and its tokenizer is the built-in model's.


PAGE = Path(__file__).parents[1] / "docs" / "tokens.md"


def test_the_page_is_what_the_command_writes():
    assert token_table.page(token_table.measure()) == PAGE.read_text(encoding="utf-8")


def test_the_texts_are_the_same_each_time_and_none_is_tiny():
    texts = token_texts.texts()
    assert token_texts.texts() == texts
    assert min(map(len, texts.values())) > 100


def test_no_text_has_more_tokens_than_bytes():
    for kind, text in token_texts.texts().items():
        assert count_tokens(text) <= len(text.encode()), kind


def test_an_estimate_that_counts_too_little_shows_as_negative():
    (line,) = [line for line in token_table.measure() if line.kind == "base64"]
    names = [estimate.name for estimate in token_table.estimates()]
    assert line.errors[names.index("chars/4")] < -0.5
    assert line.worst[names.index("chars/4")] > 2


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("unaffable", 3),  # the example of BERT's own documentation: un ##aff ##able
        ("Hello, WORLD!", 4),
        ("caf\u00e9", 1),
        ("\u4e16\u754c", 2),
        ("x" * 101, 1),
        ("\U0001f980\U0001f980", 1),
        (unicodedata.normalize("NFD", "na\u00efve"), 1),
    ],
)
def test_wordpiece_takes_the_longest_tokens_first(text: str, tokens: int):
    assert WordPiece.of_the_model().count(text) == tokens
