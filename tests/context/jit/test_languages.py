"""request_context in eleven languages: a natural question finds what was said early."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rehydrate import Budget, Context
from rehydrate.context import ContextJIT
from tests.languages import LANGUAGES, Language

WORDS = {
    "hebrew": "חשבוניות",
    "arabic": "فواتير",
    "chinese": "宽限期",
    "traditional chinese": "寬限期",
    "japanese": "猶予期間",
    "korean": "청구서",
    "thai": "ใบแจ้งหนี้",
    "russian": "счета",
    "hindi": "छूट",
    "german": "Kulanzfrist",
}
"""One word of the fact, without the prefixes and endings that it has there."""


def asked(language: Language, query: str) -> str:
    """Return the model's answer to a query when the prompt shows only the conversation's end."""
    context = Context(system="You help.", budget=Budget(soft_tokens=3_000, hard_tokens=10**7))
    jit = ContextJIT(context)
    context.add({"role": "user", "content": language.fact}, {"role": "assistant", "content": "ok"})
    for turn in language.noise_turns():
        context.add({"role": "user", "content": turn}, {"role": "assistant", "content": turn})
    context.prompt("?")
    context.compact(budget_tokens=400)
    shown = json.dumps(context.prompt().request, ensure_ascii=False)
    assert language.fact not in shown
    call: dict[str, Any] = {"query": query}
    result = jit.handle(
        {"type": "tool_use", "id": "toolu_1", "name": "request_context", "input": call}
    )
    return str(result["content"])


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_question_finds_what_was_said(name: str):
    language = LANGUAGES[name]
    assert language.fact in asked(language, language.question)


@pytest.mark.parametrize("name", WORDS)
def test_a_word_finds_what_was_said(name: str):
    language = LANGUAGES[name]
    assert language.fact in asked(language, WORDS[name])


@pytest.mark.parametrize("name", [name for name in LANGUAGES if name != "german"])
def test_what_was_never_said_is_not_found(name: str):
    language = LANGUAGES[name]
    assert language.fact not in asked(language, language.unrelated[0])
