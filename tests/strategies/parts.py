"""The parts that all strategies of conversations draw: words, names of tools, inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Entry = dict[str, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]

_WORDS = st.sampled_from(
    [
        "the",
        "engine",
        "reads",
        "src/app.py",
        "and",
        "fails:",
        "0x7f;",
        "`x = 1`",
        "שלום",
        "世界",
        "🙂",
    ]
)
texts = st.lists(_WORDS, min_size=1, max_size=12).map(" ".join)
names = st.sampled_from(["Read", "Bash", "get_user_details", "search"])
inputs = st.dictionaries(
    st.sampled_from(["path", "command", "limit", "nested"]),
    st.one_of(texts, st.integers(), st.booleans(), st.none(), st.lists(texts, max_size=2)),
    max_size=3,
)


def text_block(text: str) -> Entry:
    return {"type": "text", "text": text}
