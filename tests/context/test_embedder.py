"""Context(embedder=): a caller's model at every entry point, and the outcome of a failing one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import numpy as np
import pytest

from rehydrate import Budget, Context, Embedder
from rehydrate.context import ContextJIT
from rehydrate.errors import InvalidArgumentError

FACT = "Plain and still, with a slice of lemon."
QUESTION = "Which beverage should our visitor be served?"
"""Of which no word is in the fact."""
ASKED = "Which drinks does the visitor like?"
VISITOR = (
    "Visitor {} likes {} drinks at noon. The others who came along took seats by the window, "
    "looked at the water for an hour and were glad of the warm room, since it had been raining "
    "since the early morning and would not stop before the night."
)
MEANT = VISITOR.format(4, 7)
"""One of four that the words fit."""
ROOMY = Budget(soft_tokens=10**6, hard_tokens=10**7)


class Knowing:
    """A model to which the fact and the question mean one thing, and all else another."""

    def __init__(self) -> None:
        self.space = f"knowing {id(self)}"
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str], *, deadline: float | None = None) -> Any:
        self.asked += texts
        same = {FACT, QUESTION, ASKED, MEANT}
        return np.array([[1.0, 0.1] if text in same else [0.1, 1.0] for text in texts], np.float32)


def failing(texts: list[str]) -> Any:
    raise RuntimeError("the embedding service is down")


def talk() -> list[dict[str, str]]:
    """Of which one reply is the fact, and four are about visitors."""
    said = []
    for number in range(24):
        visitor = VISITOR.format(number, number + 3)
        asked = f"What is written of berth {number} and of quay {number * 3}?"
        answer = f"Berth {number} is {number + 7} metres wide and lies at quay {number * 3}."
        replies = {12: FACT} | dict.fromkeys(range(2, 6), visitor)
        said += [
            {"role": "user", "content": asked},
            {"role": "assistant", "content": replies.get(number, answer)},
        ]
    return said


def of(embedder: Any, budget: Budget = ROOMY) -> Context:
    context = Context(provider="openai_chat", budget=budget, embedder=embedder, timeout=None)
    context.add(*talk())
    return context


def call(query: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": "t1", "name": "request_context", "input": {"query": query}}


TIGHT = Budget(soft_tokens=170, hard_tokens=10**7, compact_to=0.6)


def test_a_prompt_that_is_compacted_keeps_what_the_embedder_knows_to_be_meant():
    assert MEANT not in str(of("auto", TIGHT).prompt(ASKED).messages)
    model = Knowing()
    prompt = of(model, TIGHT).prompt(ASKED)
    assert MEANT in str(prompt.messages)
    assert {MEANT, ASKED} <= set(model.asked)
    assert not prompt.ir.meta.degraded


def test_so_does_a_compaction_that_was_asked_for():
    kept = {}
    for name, embedder in (("auto", "auto"), ("own", Knowing())):
        context = of(embedder)
        context.add({"role": "user", "content": ASKED})
        kept[name] = MEANT in str(context.compact(100).history.entries)
    assert kept == {"auto": False, "own": True}


def test_the_jit_finds_what_shares_no_word_with_the_query():
    for embedder, is_found in (("auto", False), (Knowing(), True)):
        context = of(embedder)
        context.compact(60)
        answered = ContextJIT(context).answer(call(QUESTION))
        assert (FACT in answered.content, answered.degraded) == (is_found, ())


def test_an_async_embedder_is_awaited():
    model = Knowing()

    async def embed(texts: list[str]) -> Any:
        await anyio.sleep(0)
        return model.embed(texts)

    async def run() -> str:
        return str((await of(Embedder(embed), TIGHT).aprompt(ASKED)).messages)

    assert MEANT in anyio.run(run)


def test_by_words_alone_nothing_is_embedded():
    by_words, builtin = (of(embedder, TIGHT).prompt("quay berths") for embedder in (None, "auto"))
    assert by_words.ir.meta.degraded == builtin.ir.meta.degraded == ()
    context = of(None)
    context.compact(60)
    assert "quay 12" in ContextJIT(context).answer(call("quay 12")).content


@pytest.mark.parametrize("door", ["prompt", "compact"])
def test_a_failing_embedder_changes_nothing_else_and_is_said(door: str):
    made = []
    for embedder in ("auto", failing):
        context = of(embedder, TIGHT if door == "prompt" else ROOMY)
        if door == "prompt":
            ir = context.prompt(QUESTION).ir
        else:
            context.add({"role": "user", "content": QUESTION})
            ir = context.compact(300)
        made.append((ir.history.entries, ir.meta.degraded))
    (plain, nothing), (kept, degraded) = made
    assert (kept, nothing) == (plain, ())
    (said,) = degraded
    assert said.startswith("embedder: ")
    assert "built-in model" in said


def test_an_answer_of_the_jit_says_that_the_embedder_failed():
    context = of(failing)
    context.compact(60)
    answered = ContextJIT(context).answer(call("quay of berth 7"))
    assert "Berth 7 is 14 metres wide" in answered.content
    (said,) = answered.degraded
    assert said.startswith("embedder: ")
    assert not answered.is_error


def test_what_is_no_embedder_is_refused_where_it_is_given():
    with pytest.raises(InvalidArgumentError, match="embedder is 7"):
        Context(embedder=7)
