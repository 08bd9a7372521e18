"""docs/tokens.md is up to date, and its tokenizer is the built-in model's."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from benches.python import token_table, token_texts
from benches.python.wordpiece import WordPiece
from rehydrate import count_tokens

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
