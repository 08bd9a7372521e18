"""The page of an evaluation: its content, and that no text of a session can run there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from markupsafe import Markup

from rehydrate.page import evaluation_page
from rehydrate.page.evaluation import MAX_SESSIONS
from rehydrate.retention import (
    Conversation,
    Evaluation,
    Question,
    Strategy,
    evaluate,
    exact_cost,
    keep_last,
    read_session,
    sample_cases,
    standard_strategies,
)
from rehydrate.retention.judging import Judged, Judgement
from tests.page.browser import CHROMIUM, measured
from tests.page.reading import Page
from tests.page.test_page import HOSTILE
from tests.retention.sessions_made import transcript, work

ATTACK = "<script>top.ran = 1</script><img src=x onerror='top.ran = 2'></style></title>"
WORD = "averylongwordwithoutanyblankinit" * 20


@cache
def found() -> Evaluation:
    sessions = [read_session(work(40, seed), f"s{seed}") for seed in range(3)]
    return evaluate([*sessions, read_session(transcript(work(40), summary_at=61), "summed")])


def hostile(*texts: str) -> Evaluation:
    """Return an evaluation with foreign text in every field that can hold it."""
    said = " ".join(texts)
    name = f"conf/{said.replace(' ', '')[:60]}a.toml"
    turns = work(40)
    for turn in turns[1:]:
        for block in turn["content"]:
            if block["type"] == "tool_use":
                block["input"] = {"path": f"{said} {name} src/a_{block['id'][1:]}.py"}
    sessions = [read_session(turns, f"{said} {n}") for n in range(2)]
    strategies = [Strategy("keep last", keep_last(), ()), Strategy(said, lambda *_: [])]
    result = evaluate(sample_cases(sessions, min_needed=1), strategies, (0.1, 0.3))
    asked = Judged(said, said, said, said, said, True, False)
    object.__setattr__(result, "judged", Judgement(said, 0.1, (asked,)))
    object.__setattr__(result, "notes", (said,))
    object.__setattr__(result, "degraded", (said,))
    return result


def test_the_page_says_what_is_recommended_and_shows_every_part():
    page = Page(evaluation_page(found(), title="harbour"))
    advice = found().recommendation
    assert advice is not None
    assert advice.code in page.text and f"Keep {advice.ratio:.0%} of the tokens" in page.text
    for sentence in advice.sentences():
        assert sentence in page.text
    for heading in (
        "Kept, by how much is left",
        "Session by session",
        "Beside the agent's own summaries",
        "The figures",
        "All measures",
        "What was lost, and why",
        "How this was measured",
    ):
        assert heading in page.text


def test_the_figures_on_the_page_are_those_of_the_evaluation():
    text = evaluation_page(found())
    for row in found().rows:
        assert row.used_later is not None
        assert f">{row.used_later:.2f}<" in text and str(row.used_later_interval) in text
    for loss in found().losses:
        assert f"<b>{loss.name}</b>" in text and loss.why in text


def test_lines_typed_again_and_sizes_are_on_the_page():
    code = "\n".join(f"    total_{n} = count_of(rows[{n}])" for n in range(5))
    sessions = []
    for seed in range(2):
        turns = work(30, seed)
        turns[4]["content"][0]["content"] = code
        edit = {"type": "tool_use", "id": "e", "name": "edit", "input": {"old": code}}
        done = {"type": "tool_result", "tool_use_id": "e", "content": "ok"}
        turns[20:20] = [{"role": "user", "content": "Mend what you have read, please. " * 150}]
        turns += [{"role": "assistant", "content": [edit]}, {"role": "user", "content": [done]}]
        sessions.append(read_session(turns, f"s{seed}"))
    everything = Strategy("mine:all", lambda messages, *_: messages)
    strategies = [*standard_strategies(exact_cost()), everything]
    measured = evaluate(sessions, strategies, (0.05, 0.4))
    page = Page(evaluation_page(measured))
    assert "of the lines typed again later, the share still there, at 2 cuts" in page.text
    assert "typed again" in page.text and "Names flatter a list of names" in page.text
    given = measured.row("keep last", 0.05).asked
    assert f"All were given as much: {given:.1%} at 5%" in page.text
    assert f"mine:all keeps 100.0% where it was asked for {given:.1%}" in page.text


def test_every_point_of_the_chart_is_within_it():
    text = evaluation_page(found())
    places = re.findall(r'<circle[^>]* cx="([\d.-]+)" cy="([\d.-]+)"', text)
    assert len(places) == len(found().rows) + 2  # and the ring, and the agent's own summary
    assert all(0 <= float(x) <= 520 and 0 <= float(y) <= 330 for x, y in places)
    for points in re.findall(r' points="([^"]+)"', text):
        for place in points.split():
            x, y = map(float, place.split(","))
            assert 0 <= x <= 520 and 0 <= y <= 330


def test_one_session_has_a_page_without_intervals_and_without_a_row_of_sessions():
    page = Page(evaluation_page(evaluate([read_session(work(40))], ratios=(0.2,))))
    assert "Session by session" not in page.text
    assert "it comes from one session and says nothing about others" in page.text


def test_questions_alone_have_a_page():
    turns = [{"role": "user", "content": f"Word {n} is w{n}x{n}."} for n in range(40)]
    asked = tuple(Question(f"Which is word {n}?", (n,)) for n in range(0, 30, 5))
    chats = [Conversation(name, turns, questions=asked) for name in ("a", "b")]
    page = Page(evaluation_page(evaluate(chats, ratios=(0.2, 0.4))))
    assert "of what answers the questions" in page.text
    assert "What was lost" not in page.text


def test_nothing_measured_is_a_page_that_says_so():
    chat = read_session([{"role": "user", "content": "Hello there."}] * 30)
    page = Page(evaluation_page(evaluate([chat])))
    assert "1 session not measured" in page.text


def test_of_many_sessions_the_worst_are_shown_and_the_rest_counted():
    sessions = [read_session(work(30, seed), f"s{seed}") for seed in range(MAX_SESSIONS + 3)]
    text = evaluation_page(evaluate(sessions, ratios=(0.3,)))
    assert text.count('<p class="who-is">') == MAX_SESSIONS
    assert "and 3 more that keep at least" in text


def test_the_same_evaluation_gives_the_same_page():
    assert evaluation_page(found(), title="a") == evaluation_page(found(), title="a")


@pytest.mark.parametrize("text", [HOSTILE, ATTACK, "\u202eabc\x1b[31m\x00", WORD, Markup(ATTACK)])
def test_foreign_text_stays_text(text: str):
    page = Page(evaluation_page(hostile(text), title=text))
    assert "top.ran = 1" in page.text or text is not ATTACK


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")
@pytest.mark.parametrize("dark", [False, True])
def test_no_text_makes_the_page_wider_than_a_phone(tmp_path: Path, dark: bool):
    page = evaluation_page(hostile(WORD, "日本" * 100), title=WORD)
    seen = measured(page, tmp_path, dark=dark, unfold=True)
    assert seen["width"] <= 390
    assert seen["background"] == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")
def test_nothing_a_session_holds_runs_or_becomes_an_element(tmp_path: Path):
    seen = measured(evaluation_page(hostile(HOSTILE, ATTACK)), tmp_path, unfold=True)
    assert seen["ran"] == "undefined" and seen["handlers"] == 0
    assert not {"script", "img", "iframe", "object"} & set(seen["tags"])
