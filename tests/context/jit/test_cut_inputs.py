"""What was cut of a call's input comes back whole by its handle."""

from __future__ import annotations

from pathlib import Path

import pytest

from rehydrate import Context, Memory, compact_context
from rehydrate.context import ContextJIT
from tests.compact.test_excerpt_inputs import CODE, session
from tests.context.jit.test_jit import fetch


@pytest.mark.parametrize("name", ["anthropic", "openai_chat"])
def test_the_model_gets_back_what_was_cut_of_an_input(tmp_path: Path, name: str):
    with Memory.open(tmp_path / "m.db", namespace="alice") as memory:
        kept = compact_context(
            session(name),
            target_ratio=0.5,
            granularity="excerpt",
            memory=memory,
            archive=True,
        )
        (block,) = {block.handle for row in kept.explain() for block in row.blocks}
        assert block is not None
        context = Context([memory], format=name, timeout=None)
        context.add(*kept.messages)
        context.prompt()
        jit = ContextJIT(context, timeout=None)
        assert jit.answer(fetch(block)).content.count(CODE) == 1
