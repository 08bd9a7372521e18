"""Sessions of any format are read from files and folders, and other files are listed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from rehydrate.agent.model import Reply
from rehydrate.errors import RateLimitError, UnreadableSessionError
from rehydrate.retention import (
    Conversation,
    Question,
    ajudge,
    judge,
    keep_last,
    read_session,
    read_session_file,
    read_sessions,
    sample_cases,
)
from rehydrate.retention.judging import planned_requests
from rehydrate.retention.sampling import too_short
from rehydrate.testing import ScriptedModel
from tests.retention.sessions_made import EXAMPLE, transcript, work, write_lines

CHAT = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
ITEMS = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Which?"}]},
    {"type": "function_call", "id": "f", "call_id": "c", "name": "g", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "8443"},
]
SAMPLE = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ann",
        "session_1": [{"speaker": "Ann", "dia_id": "D1:1", "text": "Hi"}],
    },
    "qa": [{"question": "Who?", "answer": "Ann", "evidence": ["D1:1"]}],
}


@pytest.mark.parametrize(
    ("value", "messages", "format"),
    [
        (CHAT, CHAT, "plain"),
        ([{"role": "system", "content": "Be brief."}, *CHAT], CHAT, "plain"),
        ({"model": "m", "system": "s", "messages": CHAT}, CHAT, "plain"),
        ({"model": "m", "input": ITEMS}, ITEMS, "openai_responses"),
        ({"history": CHAT, "trajectory": [{"action": "ls"}]}, CHAT, "plain"),
        (work(2), work(2), "anthropic"),
    ],
    ids=["array", "without its system prompt", "request", "responses", ".traj", "anthropic"],
)
def test_a_file_of_one_session_is_read(
    tmp_path: Path, value: Any, messages: list[Any], format: str
) -> None:
    path = tmp_path / "one.json"
    path.write_text(json.dumps(value))
    (session,) = read_session_file(path)
    assert (session.name, session.messages, session.format) == ("one", messages, format)


def test_a_transcript_is_what_the_model_saw() -> None:
    (session,) = read_session_file(EXAMPLE)
    assert session.format == "claude_code"
    assert {entry["type"] for entry in session.messages} == {"user", "assistant"}


def test_an_array_of_conversations_and_one_a_line_are_several_sessions(tmp_path: Path) -> None:
    array = tmp_path / "array.json"
    array.write_text(json.dumps([CHAT, {"messages": work(2)}]))
    lines = write_lines(tmp_path / "lines.jsonl", [{"messages": CHAT}, {"messages": work(2)}])
    for path in (array, lines):
        first, second = read_session_file(path)
        assert (first.messages, second.messages) == (CHAT, work(2))
        assert (first.name, second.name) == (f"{path.stem} #1", f"{path.stem} #2")


def test_of_the_requests_of_one_session_only_the_last_counts(tmp_path: Path) -> None:
    requests = [{"model": "m", "messages": work(9)[:end]} for end in (1, 3, 9)]
    path = write_lines(tmp_path / "requests.jsonl", [*requests, {"messages": CHAT}])
    assert [session.messages for session in read_session_file(path)] == [work(9)[:9], CHAT]


def test_the_datasets_keep_their_questions_and_lose_their_prompts(tmp_path: Path) -> None:
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([SAMPLE]))
    (chat,) = read_session_file(path)
    assert (chat.name, chat.questions) == ("conv-1", (Question("Who?", (0,), "Ann"),))
    traj = [{"role": "system", "content": "Policy"}, *CHAT]
    path.write_text(json.dumps([{"task_id": 3, "trial": 0, "traj": traj}] * 2))
    assert [session.messages for session in read_sessions([path]).conversations] == [CHAT, CHAT]
    names = [session.name for session in read_sessions([path]).conversations]
    assert names == ["task 3 trial 0", "task 3 trial 0 (2)"]


def test_a_summary_is_next_to_the_messages_it_was_written_for() -> None:
    session = read_session(transcript(work(4), summary_at=5))
    (summary,) = session.summaries
    assert (summary.start, summary.end, len(session.messages)) == (0, 5, 9)
    assert summary.message["isCompactSummary"] and summary.message not in session.messages


def test_a_summary_of_what_is_not_in_the_file_is_a_message() -> None:
    session = read_session(transcript(work(4), summary_at=0))
    assert session.summaries == () and session.messages[0]["isCompactSummary"]


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("empty.json", b" \n", "it is empty"),
        ("other.json", b'{"a": 1}', r"no messages in it \(it holds a\)"),
        ("object.json", b"{}", r"no messages in it \(it holds nothing\)"),
        ("digits.json", b"[" + b"9" * 5_000 + b"]", "thousands of digits"),
        ("number.json", b"17", r"no messages in it \(it holds 17\)"),
        ("nothing.json", b"[]", r"no messages in it"),
        ("words.json", b"hello", "it is not JSON"),
        ("lines.jsonl", b'{"role": "user", "content": "a"}\n{"role"\n{}\n', "line 2 is not JSON"),
        ("latin.json", b'["\xe9"]', "it is not UTF-8"),
        ("roles.json", b'[{"role": 3}]', "no session: message 0: role is an int"),
        ("deep.json", b"[" * 100_000, "it is nested too deeply"),
        ("field.json", b'{"qa": [], "conversation": {}}', "a field that is missing"),
    ],
)
def test_a_file_without_a_session_is_named_with_the_reason(
    tmp_path: Path, name: str, data: bytes, problem: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(UnreadableSessionError, match=f"{name}: .*{problem}.*; "):
        read_session_file(path)
    good = write_lines(tmp_path / "good.jsonl", CHAT)
    sessions = read_sessions([path, good])
    assert [session.name for session in sessions.conversations] == ["good"]
    (skipped,) = sessions.skipped
    assert skipped.name == str(path)


def test_a_bad_session_among_good_ones_is_skipped_alone(tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    path.write_text(json.dumps([{"messages": CHAT}, {"messages": [{"role": 3}]}, work(2)]))
    sessions = read_sessions([path])
    assert [len(session.messages) for session in sessions.conversations] == [2, 5]
    assert [skipped.name for skipped in sessions.skipped] == [f"{path}, some #2"]


def test_the_last_line_of_a_session_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "live.jsonl"
    path.write_text("\n".join(map(json.dumps, CHAT)) + '\n{"role": "us')
    (session,) = read_session_file(path)
    assert session.messages == CHAT


def test_a_folder_is_searched_and_short_sessions_are_named(tmp_path: Path) -> None:
    (tmp_path / "deep" / ".git").mkdir(parents=True)
    write_lines(tmp_path / "deep" / "long.jsonl", work(12))
    write_lines(tmp_path / "short.jsonl", CHAT)
    write_lines(tmp_path / "deep" / ".git" / "no.jsonl", CHAT)
    (tmp_path / "notes.txt").write_text("none")
    sessions = read_sessions([tmp_path, tmp_path / "short.jsonl"], is_wanted=too_short(20))
    assert [session.name for session in sessions.conversations] == ["long"]
    assert [tuple(each) for each in sessions.skipped] == [("short", "fewer than 20 messages")]
    assert (sessions.files, sessions.files_read) == (2, 2)


def test_of_many_files_so_many_are_read_as_are_wanted(tmp_path: Path) -> None:
    for number in range(12):
        write_lines(tmp_path / f"{number:02}.jsonl", CHAT)
    seen: list[int] = []
    found = [read_sessions([tmp_path], limit=5, advance=seen.append) for _ in range(2)]
    assert found[0] == found[1] and len(seen) == 10
    names = [session.name for session in found[0].conversations]
    assert len(names) == 5 and names == sorted(names) != ["00", "01", "02", "03", "04"]
    assert (found[0].files, found[0].files_read) == (12, 5)


def test_a_file_of_many_sessions_hides_no_other_file(tmp_path: Path) -> None:
    many = [{"messages": work(2, seed)} for seed in range(30)]
    write_lines(tmp_path / "a.jsonl", many)
    write_lines(tmp_path / "b.jsonl", CHAT)
    sessions = read_sessions([tmp_path], limit=5)
    assert [session.name for session in sessions.conversations][-1] == "b"
    assert (len(sessions.conversations), sessions.more, sessions.files_read) == (5, 26, 2)


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSessionError, match="no such file or folder; check the path"):
        read_sessions([tmp_path / "none.jsonl"])


# A judge before and after compaction: its questions, what counts, and the cost of a failure.


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


@pytest.mark.parametrize("stop", ["refusal", "length"])
def test_a_reply_that_is_refused_or_cut_off_is_no_wrong_answer(stop: Any) -> None:
    entry = {"role": "assistant", "content": [{"type": "text", "text": "w"}]}
    model = ScriptedModel([Reply((entry,), "w", stop=stop)])
    found = judge(model, questions(), keep_last(), 0.2, max_questions=1)
    assert found.questions == ()
    assert found.degraded == (
        "a question about chat was not asked: UnfinishedReplyError: the model did not finish: "
        f"{stop}",
    )
