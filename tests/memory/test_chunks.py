"""Chunks: together they are the text; each has about 200 tokens and its headings."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from rehydrate._native import chunks, split_front_matter
from rehydrate.memory.folder import CHARS_A_TOKEN, CHUNK_TOKENS, Chunk

LINES = st.sampled_from(
    [
        *("# One\n", "## Two ##\n", "###### Six\n", "#\n", "#no heading\n", "\n", "  \n", "\r\n"),
        *(
            "word word word. ",
            "A sentence. Another one!\n",
            "記憶は一つの。",
            "x" * 120,
            "- item\n",
        ),
        *("```python\n", "```\n", "~~~\n", "# in code\n", "\x0c", "\u2028", "---\n", "\ud800"),
    ]
)
TEXTS = st.lists(LINES, max_size=40).map("".join)


@given(TEXTS | st.text(), st.integers(1, 60))
def test_the_bodies_together_are_the_text(text: str, chunk_tokens: int):
    found = chunks(text, chunk_tokens=chunk_tokens)
    assert "".join(chunk.body for chunk in found) == text
    assert all(chunk.body for chunk in found)


@given(TEXTS)
def test_what_follows_front_matter_is_the_end_of_the_text(text: str):
    front, rest = split_front_matter("---\n" + text)
    assert ("---\n" + text).endswith(rest)
    assert not front or rest != "---\n" + text


@given(TEXTS, st.integers(10, 60))
def test_no_chunk_is_larger_than_asked_but_for_its_headings(text: str, chunk_tokens: int):
    for chunk in chunks(text, chunk_tokens=chunk_tokens):
        plain = "".join(line for line in chunk.body.splitlines(True) if not line.startswith("#"))
        assert len(plain.strip()) <= chunk_tokens * CHARS_A_TOKEN


def test_a_chunk_knows_its_headings():
    text = "# A\n\nintro\n\n## B\n\none\n\n### C\n\ntwo\n\n## D\n\nthree\n"
    assert [(chunk.headings, chunk.body.split("\n")[0]) for chunk in chunks(text)] == [
        ((), "# A"),
        (("A",), "## B"),
        (("A", "B"), "### C"),
        (("A",), "## D"),
    ]


def test_what_continues_a_section_has_the_section_itself_among_its_headings():
    paragraph = "Some words about it, and then more. " * 12 + "\n\n"
    first, second, *_ = chunks("# Ports\n\n" + paragraph * 4)
    assert first == Chunk((), "# Ports\n\n" + paragraph)
    assert second == Chunk(("Ports",), paragraph)
    assert second.text == "Ports\n\n" + paragraph


def test_headings_with_nothing_under_them_stay_with_what_follows():
    assert chunks("# A\n## B\n### C\nhello\n") == [Chunk((), "# A\n## B\n### C\nhello\n")]


def test_a_heading_in_code_does_not_count():
    text = "# A\n\n```sh\n# not a heading\n\nls\n```\n"
    assert chunks(text) == [Chunk((), text)]


def test_a_long_text_is_cut_between_sentences_where_it_can_be():
    text = "This is a sentence of some length, which ends here. " * 60
    found = chunks(text)
    assert len(found) > 3
    assert all(chunk.body.endswith("here. ") for chunk in found)
    assert all(len(chunk.body) > CHUNK_TOKENS * CHARS_A_TOKEN / 2 for chunk in found[:-1])


@pytest.mark.parametrize("line", ["x" * 300_000, "# " + " " * 300_000 + "x", "#" * 300_000])
def test_a_line_without_an_end_is_divided_all_the_same(line: str):
    assert "".join(chunk.body for chunk in chunks(line)) == line


def test_front_matter_gives_its_plain_values():
    text = '---\ntitle: "Ports: all"\ntags: [a, b]\nnested:\n  deep: 1\n---\nbody\n'
    front, rest = split_front_matter(text)
    assert front == {"title": "Ports: all", "tags": "[a, b]"}
    assert rest == "body\n"
    assert split_front_matter("---\nnever closed\n").count("---\nnever closed\n") == 1
