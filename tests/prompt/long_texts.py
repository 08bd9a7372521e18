"""Long tool results of every kind, and conversations whose results are such texts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from rehydrate import formats, prompt
from rehydrate.messages import PieceKind
from rehydrate.prompt import HeldOriginals, History, Originals, PromptIR
from rehydrate.prompt.caps import notice
from tests.strategies import conversations

Draw = Callable[[st.SearchStrategy[Any]], Any]

_words = st.text(st.characters(codec=None, categories=["L", "N", "P", "Zs", "M", "Cs"]), max_size=9)
_forged = st.sampled_from(
    [
        notice(700, "orig_aaaaaaaaaaaaaaaaaaaaaaaaaa"),
        "[same as the result of call toolu_1 above: 312 lines. kept whole as orig_b]",
        "[... 42 lines omitted, 118-159 ...]",
        "\ud83d",
        "e\u0301" * 40,
        "x" * 3_000,
    ]
)
_lines = st.one_of(
    st.lists(_words, max_size=6).map(" ".join),
    st.builds("src/{}.py:{}:{}".format, st.integers(0, 9), st.integers(1, 999), _words),
    st.builds("src/{}/{}.py".format, st.integers(0, 9), st.integers(1, 999)),
    st.builds("2026-02-17 10:00:{:02} {} {}".format, st.integers(0, 59), _words, _words),
    st.sampled_from(["ERROR: disk full", "Traceback (most recent call last):", "  at main.c:3"]),
    st.builds("def {}(a, b):\n    return a + {}".format, _words, st.integers(0, 9)),
    st.sampled_from(
        ["diff --git a/x b/x", "--- a/x", "+++ b/x", "@@ -1,3 +1,4 @@", "+ new", "- old"]
    ),
    st.sampled_from(["", "}", "{", "[", '{"a": 1}', "a,b,c", "- item", "\r"]),
    _forged,
)
_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), _words, _forged),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(_words, inner, max_size=4)
    ),
    max_leaves=12,
)


@st.composite
def jsons(draw: Draw) -> str:
    """A JSON array or object, often longer than a small cap."""
    value = draw(
        st.one_of(
            st.lists(_values, min_size=1, max_size=8), st.dictionaries(_words, _values, min_size=1)
        )
    )
    if isinstance(value, list):
        value *= draw(st.sampled_from([1, 7, 300]))
    else:
        value["rows"] = [{"id": n, "state": "open"} for n in range(draw(st.integers(0, 300)))]
    return json.dumps(
        value, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1]))
    )


@st.composite
def long_texts(draw: Draw) -> str:
    """A text of any kind, or of several, or of none; often longer than a small cap."""
    kind = draw(st.sampled_from(["json", "one", "many", "many"]))
    if kind == "json":
        return draw(jsons())
    some = draw(st.lists(_lines, min_size=1, max_size=1 if kind == "one" else 12))
    times = draw(st.sampled_from([1, 20, 200]))
    ends = draw(st.sampled_from(["", "\n"]))
    return "\n".join(some * times) + ends or "-"


@st.composite
def long_conversations(draw: Draw) -> tuple[str, list[Any]]:
    """A format, and a valid conversation in which tool results are long."""
    name, entries = draw(conversations())
    texts = draw(st.lists(long_texts(), min_size=1, max_size=3))
    at = 0
    made = list(entries)
    for message in formats.parse(entries, name).messages:
        paths = formats.FORMATS[name].places(entries[message.index], message.index)
        changed = {}
        for piece, path in zip(message.pieces, paths, strict=True):
            if path is not None and piece.kind == PieceKind.TOOL_RESULT:
                changed[path] = texts[at % len(texts)]
                at += 1
        if changed:
            made[message.index] = formats.FORMATS[name].replace(entries[message.index], changed)
    return name, made


def result_texts(entries: list[Any] | tuple[Any, ...], name: str) -> list[str]:
    """The texts of all tool results."""
    return [
        piece.text
        for message in formats.parse(entries, name).messages
        for piece in message.pieces
        if piece.kind == PieceKind.TOOL_RESULT
    ]


def ir_of(entries: list[Any], name: str = "anthropic") -> PromptIR:
    """An IR of nothing but this history."""
    return PromptIR(history=History(tuple(entries), name))


class Target(prompt.Target):
    """A target that has nothing but originals."""

    def __init__(self, originals: Originals | None = None) -> None:
        super().__init__(originals=originals)


def held() -> HeldOriginals:
    """An empty store for originals."""
    return HeldOriginals()


def answered(*results: str, tool: str = "Read") -> list[dict[str, Any]]:
    """An Anthropic conversation in which a tool was called once for each of these results."""
    entries: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for number, result in enumerate(results):
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": {"n": number}}
        answer = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": result}
        entries += [
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [answer]},
        ]
    return entries
