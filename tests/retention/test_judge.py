"""A judge before and after compaction: its questions, what counts, and the cost of a failure."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from rehydrate.errors import RateLimitError
from rehydrate.retention import (
    Conversation,
    Question,
    ajudge,
    judge,
    keep_last,
    read_session,
    sample_cases,
)
from rehydrate.retention.judging import planned_requests
from rehydrate.testing import ScriptedModel
from tests.retention.sessions_made import work


def prompt_text(prompt: Any) -> str:
    return str(prompt.request)


class Reader:
    """A model that reads: it answers with the file if the conversation holds it."""

    def __init__(self, fails_on: str = "\x00") -> None:
        self.fails_on = fails_on
        self.prompts: list[str] = []

    def __call__(self, prompt: Any) -> Any:
        text = prompt_text(prompt)
        self.prompts.append(text)
        if self.fails_on in text:
            raise RateLimitError("scripted", 429, "too many")
        if "questions that whoever goes on" in text:
            return (
                "Here they are:\nWhich file is first? ||| src/mod_0/file_0.py\n"
                "- Which engine may not be touched? ||| src/engine_0.rs\nNo answer |||\n"
            )
        if "Given answer:" in text:
            return "No." if "unknown" in text.partition("Given answer:")[2] else "Yes, it does."
        return "engine_0" if "engine_0.rs" in text else "unknown"


def questions() -> Any:
    turns = [{"role": "user", "content": f"Word {n} is w{n}."} for n in range(30)]
    questions = tuple(Question(f"Which is word {n}?", (n,), f"w{n}") for n in (2, 28))
    return sample_cases([Conversation("chat", turns, questions=questions)])


@pytest.mark.parametrize("provider", ["anthropic", "openai_chat", "openai_responses"])
def test_written_questions_are_answered_before_and_after(provider: Any) -> None:
    reader = Reader()
    sample = sample_cases([read_session(work(40))])
    advanced: list[int] = []
    found = judge(
        ScriptedModel(reader, provider=provider), sample, keep_last(), 0.2, advance=advanced.append
    )
    assert [each.question for each in found.questions] == [
        "Which file is first?",
        "Which engine may not be touched?",
    ]
    assert (found.right_before, found.right_after) == (2, 0)
    assert found.sentence() == (
        "scripted answers 2 of 2 questions from the whole conversation and 0 at 20% of it."
    )
    assert found.to_dict()["right_after"] == 0 and found.degraded == ()
    assert len(advanced) == len(reader.prompts) == 1 + 4 * 2 <= planned_requests(sample)


def test_a_datasets_own_questions_are_asked_with_their_answers() -> None:
    sample = questions()
    script = ScriptedModel(
        lambda prompt: "yes" if "Right answer: w" in prompt_text(prompt) else "w"
    )
    found = judge(script, sample, keep_last(), 0.2, max_questions=2)
    assert [(each.question, each.expected) for each in found.questions] == [
        ("Which is word 2?", "w2"),
        ("Which is word 28?", "w28"),
    ]
    assert len(script.prompts) == planned_requests(sample, 2) == 8
    assert not any("Write" in prompt_text(prompt) for prompt in script.prompts)


def test_no_more_questions_are_asked_than_wanted() -> None:
    sample = sample_cases([read_session(work(40, seed), f"s{seed}") for seed in range(5)])
    for cases, wanted, got in ((sample, 1, 1), (sample, 6, 4), (questions(), 1, 1)):
        model = ScriptedModel(Reader())
        found = judge(model, cases, keep_last(), 0.2, max_questions=wanted)
        assert len(found.questions) == got
        assert len(model.prompts) <= planned_requests(cases, wanted)


def test_fewer_questions_than_there_are_come_from_all_conversations_alike() -> None:
    turns = [{"role": "user", "content": f"Word {n} is w{n}."} for n in range(30)]
    questions = tuple(Question(f"Which is word {n}?", (n,), f"w{n}") for n in range(9))
    chats = [Conversation(name, turns, questions=questions) for name in ("one", "two")]
    found = judge(ScriptedModel(Reader()), sample_cases(chats), keep_last(), 0.2, max_questions=10)
    assert [each.session for each in found.questions] == ["one"] * 5 + ["two"] * 5
    assert found.questions[4].question == "Which is word 7?", "not the first ones of each"


def test_a_request_that_fails_costs_its_question_and_is_said() -> None:
    sample = sample_cases([read_session(work(40))])
    model = ScriptedModel(Reader(fails_on="Question: Which file is first?"))
    found = judge(model, sample, keep_last(), 0.2)
    assert [each.question for each in found.questions] == ["Which engine may not be touched?"]
    (problem,) = found.degraded
    assert problem.startswith("a question about session was not asked: RateLimitError")


def test_it_runs_on_a_loop_of_the_callers_own() -> None:
    async def ask() -> int:
        found = await ajudge(ScriptedModel(Reader()), questions(), keep_last(), 0.2)
        return len(found.questions)

    assert anyio.run(ask, backend="trio") == 2
