"""The benchmark of answers with a scripted model: reading, asking, grading, resuming, reporting."""

from __future__ import annotations

import json
from functools import partial

import anyio
import pytest

from benches.python.answering.data import read_cases
from benches.python.answering.grading import f1, judge_prompt
from benches.python.answering.report import report
from benches.python.answering.running import MOST_FAILURES, Journal, Run
from benches.python.answering.strategies import STRATEGIES, Answering
from benches.python.answers import main
from rehydrate.agent import Retry
from rehydrate.errors import RateLimitError, UnreadableSessionError
from rehydrate.testing import ScriptedModel, call

UNKNOWN = "No information available."
KNOWN = {
    "What is the name of Ann's dog?": ("dog is called Biscuit", "Biscuit"),
    "Which town did Ann's sister move to?": ("sister moved to Lisbon", "Lisbon"),
    "Which pets and towns has Ann named?": ("sister moved to Lisbon", "Lisbon, Biscuit"),
    "What is the name of Bob's horse?": ("\0", ""),
}
SMALL = {"budget_tokens": 1_500, "retry": Retry(attempts=1)}


def locomo(name):
    """Write a conversation of three days; the dog is early in it, the sister late."""
    said = [f"We talked about item {n} of {name}'s list, and it rained again." for n in range(150)]
    said[10] = "By the way, my dog is called Biscuit."
    said[-3] = "And my sister moved to Lisbon."
    turns = [{"speaker": ("Ann", "Bob")[n % 2], "text": text} for n, text in enumerate(said)]
    turns[0]["blip_caption"] = "a photo of rain"
    record = {"speaker_a": "Ann", "speaker_b": "Bob"}
    for day in (1, 2, 3):
        record[f"session_{day}_date_time"] = f"1:56 pm on {day + 7} May, 2023"
        record[f"session_{day}"] = turns[50 * (day - 1) : 50 * day]
    qa = [
        {"question": question, "answer": answer, "category": category, "evidence": []}
        for category, (question, (_, answer)) in zip((4, 2, 1), KNOWN.items(), strict=False)
    ]
    qa.append({"question": list(KNOWN)[3], "adversarial_answer": "Biscuit", "category": 5})
    return {"sample_id": name, "conversation": record, "qa": qa}


def longmemeval(id_="q1", kind="knowledge-update", **changed):
    chats = [
        [{"role": "user", "content": "I moved to Rome."}, {"role": "assistant", "content": "Oh."}],
        [{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "I'm in Oslo."}],
    ]
    entry = {
        "question_id": id_, "question_type": kind, "question": "Where do I live?", "answer": 42,
        "question_date": "2023/06/01 (Thu) 10:00", "haystack_sessions": chats,
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/02 (Tue) 09:00"],
    }  # fmt: skip
    return {name: value for name, value in {**entry, **changed}.items() if value is not None}


def write(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


@pytest.fixture
def cases(tmp_path):
    return read_cases([write(tmp_path / "locomo.json", [locomo("one"), locomo("two")])])


def reader(prompt):
    """A model that answers right if its prompt holds the answer, and asks back where it can."""
    shown = str(prompt.messages)
    question = next(question for question in KNOWN if question in shown)
    if prompt.request.get("tools") and not ("tool_result" in shown or "tool_call_id" in shown):
        return call("request_context", query=question)
    evidence, answer = KNOWN[question]
    return answer if evidence in shown else UNKNOWN


def asked(cases, strategies, model, *, judge=None, journal=None, sizes=SMALL, **more):
    run = Run(cases, strategies, Answering(model, **sizes), judge, Journal(journal))
    return anyio.run(partial(run.rows, **more))


@pytest.mark.parametrize(
    ("number", "given", "score"),
    [
        (0, "The Biscuit!", 1.0),
        (0, "It is Biscuit", 0.5),
        (0, "", 0.0),
        (2, "biscuit, Rex", 0.5),  # one of two parts of a multi-hop answer
        (2, "Biscuit, Lisbon", 1.0),
        (1, "Biscuit, Lisbon", 2 / 3),  # any other answer is one text
        (3, "It is not mentioned.", 1.0),
        (3, "Biscuit", 0.0),
    ],
)
def test_f1_is_that_of_locomos_grader_without_stems(cases, number, given, score):
    assert f1(cases[number], given) == pytest.approx(score)


def test_both_files_are_read_with_days_in_order_types_and_what_has_no_answer(tmp_path, cases):
    assert [case.type for case in cases[:4]] == [
        *("single-hop", "temporal", "multi-hop", "adversarial")
    ]
    assert [case.is_unanswerable for case in cases] == 2 * [False, False, False, True]
    first = cases[0].history.messages[0]["content"]
    assert first.startswith("[Mon 8 May 2023] Ann: We") and "[shares a photo of rain]" in first

    entries = [longmemeval(), longmemeval("q2_abs"), longmemeval("q3", "single-session-preference")]
    cases = read_cases([write(tmp_path / "long.json", entries)])
    assert cases[0].question == "[Thu 1 June 2023] Where do I live?" and cases[0].answer == "42"
    assert [message["content"] for message in cases[0].history.messages] == [
        *("(The conversation begins.)", "[Tue 2 May 2023] Hello.", "[Tue 2 May 2023] I'm in Oslo."),
        *("[Sat 20 May 2023] I moved to Rome.", "[Sat 20 May 2023] Oh."),
    ]
    assert [case.is_unanswerable for case in cases] == [False, True, False]
    assert f1(cases[2], "42") is None, "what a user would like isn't an answer to compare with"
    limited = read_cases([tmp_path], limit=3)
    assert len({case.history.name for case in limited}) == 3, "evenly over the conversations"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "it is not JSON"),
        ("[]", "there is no question in it"),
        ([longmemeval(answer=None)], "entry 1 has no 'answer'"),
        ([longmemeval(), longmemeval(question_date="today")], "entry 2 is malformed: time data"),
        ([{**locomo("x"), "qa": [{"question": "?", "category": 9}]}], "entry 1 has no 9"),
    ],
)
def test_a_bad_file_is_a_typed_error_that_names_the_place(tmp_path, text, problem):
    with pytest.raises(UnreadableSessionError, match=problem) as raised:
        read_cases([write(tmp_path / "bad.json", text)])
    assert "bad.json" in str(raised.value) and "locomo10.json" in str(raised.value)


@pytest.mark.parametrize("provider", ["anthropic", "openai_chat"])
def test_right_and_wrong_answers_are_counted_for_each_strategy(cases, provider):
    rows = asked(cases, STRATEGIES, model := ScriptedModel(reader, provider=provider))
    assert [row.answer.problem for row in rows] == [""] * len(rows)
    for row in rows:
        assert row.f1 == float(row.answer.text == (KNOWN[row.case.question][1] or UNKNOWN))
        assert row.strategy == "whole" or 1_000 < row.answer.prompt_tokens <= 1_500
        assert row.answer.requests == (2 if row.strategy == "jit" else 1)
    lines = [line.split() for line in report(rows, "scripted", None).splitlines()]
    assert lines[2][:8] == ["whole", "8", "of", "8", "1.00", "1.00-1.00", "0.25", "0.25-0.25"]
    assert lines[3][4:8] == ["0.75", "0.75-0.75", "0.00", "0.00-0.00"], "the dog is early"
    assert lines[5][4] in ("0.88", "1.00") and len(model.prompts) == 5 * 8
    assert lines[7] == ["adversarial", "multi-hop", "single-hop", "temporal"]
    assert lines[9] == ["keep_last", *("1.00", "(2)", "1.00", "(2)", "0.00", "(2)", "1.00", "(2)")]


def test_the_judge_gets_the_criteria_and_its_verdicts_are_counted(cases, tmp_path):
    entries = [longmemeval(), longmemeval("q_abs"), longmemeval("q3", "single-session-preference")]
    others = read_cases([write(tmp_path / "long.json", entries)])
    reported = [judge_prompt(case, "Rome") for case in (cases[0], *others)]
    for words, count in (("Right answer: ", 2), ("cannot be answered", 1), ("Description: 42", 1)):
        assert sum(words in each for each in reported) == count
    verdicts = ["Yes.", "**no**", "I cannot say", RateLimitError("judge", 429, "too many")]
    judge = ScriptedModel(verdicts, name="judge")
    rows = asked(cases[:4], ["whole"], ScriptedModel(reader), judge=judge, at_once=1)
    assert [row.right for row in rows] == [True, False, None, None]
    text = report(rows, "scripted", "judge")
    assert "judged by judge, 1 conversations" in text and "whole  2 of 4   0.50" in text
    assert "whole: 1 of 4: the verdict is neither yes nor no" in text
    assert "whole: 1 of 4: RateLimitError" in text


def test_a_run_that_was_interrupted_asks_only_what_is_missing(cases, tmp_path):
    journal, names, done = tmp_path / "journal.jsonl", ["keep_last", "jit"], []

    def stop_at_three(steps):
        done.append(steps)
        if len(done) == 3:
            raise KeyError("the lid was closed")

    def run(model, verdicts, journal=journal, **more):
        judge = ScriptedModel(["Yes"] * verdicts)
        return asked(cases, names, model, judge=judge, journal=journal, **more)

    full = run(ScriptedModel(reader), 16, journal=None)
    with pytest.raises(ExceptionGroup):
        run(ScriptedModel(reader), 3, at_once=1, advance=stop_at_three)
    with journal.open("a") as file:
        file.write('{"key": "0123", "val')  # as a killed process leaves it
    rest = ScriptedModel(reader)
    rows = run(rest, 13)
    assert [(r.f1, r.right) for r in rows] == [(r.f1, r.right) for r in full]
    assert len(rest.prompts) == 6 + 2 * 7, "three of the sixteen were answered: two, one"
    assert run(ScriptedModel([]), 0) == rows
    other = asked(cases, names, ScriptedModel(reader), journal=journal, sizes={})
    assert other[0].answer.prompt_tokens > rows[0].answer.prompt_tokens, "of another budget"


def test_another_file_is_no_journal_and_stays_as_it_is(tmp_path):
    file = write(tmp_path / "locomo.json", [locomo("one")])
    before = file.read_bytes()
    with pytest.raises(UnreadableSessionError, match="no answer of an earlier run"):
        Journal(file)
    assert file.read_bytes() == before


def test_a_model_that_fails_costs_its_question_alone_and_is_asked_again(cases, tmp_path):
    def fails(prompt):
        is_late = "sister move to" in str(prompt.messages)
        return RateLimitError("scripted", 429, "too many") if is_late else reader(prompt)

    journal = tmp_path / "journal.jsonl"
    rows = asked(cases, ["whole"], ScriptedModel(fails), journal=journal)
    assert [row.f1 for row in rows] == 2 * [1, None, 1, 1]
    text = report(rows, "scripted", None)
    assert "whole  6 of 8" in text and "whole: 2 of 8: RateLimitError" in text
    again = ScriptedModel(reader)
    assert [r.f1 for r in asked(cases, ["whole"], again, journal=journal)] == [1] * 8
    assert len(again.prompts) == 2


@pytest.mark.parametrize("who", ["model", "judge"])
def test_after_so_many_failures_in_a_row_nothing_more_is_asked(cases, who):
    failing = ScriptedModel(lambda _: RateLimitError("scripted", 429, "too many"))
    model, judge = (failing, None) if who == "model" else (ScriptedModel(reader), failing)
    rows = asked(cases, ["keep_last", "whole"], model, judge=judge, at_once=1)
    assert len(failing.prompts) == len(rows) == MOST_FAILURES < 16


def test_what_does_not_fit_the_window_is_said_and_not_asked(cases):
    sizes = {**SMALL, "window_tokens": 3_000}
    rows = asked(cases, ["whole", "keep_last"], model := ScriptedModel(reader), sizes=sizes)
    assert len(model.prompts) == 8
    text = report(rows, "scripted", None)
    assert "whole: 8 of 8: does not fit 3,000 tokens (--window)" in text
    plan = Run(cases, ["whole", "keep_last"], Answering(model, **sizes)).plan()
    assert [each.unfit for each in plan] == [8, 0]


def test_the_plan_is_what_is_asked_then(cases):
    names = ["whole", "keep_last", "jit"]
    model, judge = ScriptedModel(reader, provider="openai_chat"), ScriptedModel([])
    whole, last, jit, judged = Run(cases, names, Answering(model, **SMALL), judge).plan()
    assert model.prompts == []
    rows = asked(cases, names, model)
    billed = {name: sum(r.answer.tokens_in for r in rows if r.strategy == name) for name in names}
    assert whole.requests == last.requests == (8, 8) and judged.requests == (24, 24)
    assert whole.tokens[1] == pytest.approx(billed["whole"], rel=0.02)
    assert last.tokens[1] == pytest.approx(billed["keep_last"], rel=0.1)
    assert jit.requests == (8, 48) and jit.tokens[0] < billed["jit"] < jit.tokens[1]


def test_the_command_plans_without_a_key_asks_and_goes_on(tmp_path, monkeypatch, capsys):
    write(tmp_path / "locomo.json", [locomo("one"), locomo("two")])
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    asks = ["locomo.json", "--model", "anthropic:claude-haiku-4-5", "--judge", "openai:gpt-5"]
    asks += ["--strategy", "keep_last", "--strategy", "jit", "--questions", "6", "--budget", "1500"]
    assert main([*asks, "--dry-run"]) == 0
    planned = [line.split() for line in capsys.readouterr().out.splitlines()[2:5]]
    assert [line[:3] for line in planned[:2]] == [["keep_last", "0", "0"], ["jit", "0", "0"]]
    assert planned[2][:5] == ["the", "judge", "0", "0", "12"]
    assert [path.name for path in tmp_path.iterdir()] == ["locomo.json"]

    models = {asks[2]: reader, asks[4]: lambda _: "yes"}
    named = lambda name: ScriptedModel(models[name], name=name)  # noqa: E731
    assert main(asks, named) == 0
    first = capsys.readouterr()
    assert "2 conversations" in first.out and "jit        6 of 6   1.00" in first.out
    assert main(asks, named) == 0
    again = capsys.readouterr()
    assert again.out == first.out and again.err.splitlines()[2].split()[:2] == ["keep_last", "6"]


def test_a_mistake_is_one_line_that_names_it(tmp_path, monkeypatch, capsys):
    write(tmp_path / "locomo.json", [locomo("one")])
    monkeypatch.chdir(tmp_path)
    assert main(["locomo.json", "--model", "nobody"]) == 2
    assert capsys.readouterr().err.startswith("answers: model is 'nobody'; choose one of")
