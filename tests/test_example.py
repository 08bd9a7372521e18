"""The shipped session agrees with its README, and the recorder writes what happened."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rehydrate import compact_context, count_tokens, validate
from rehydrate.formats import detect_format, parse

REPOSITORY = Path(__file__).resolve().parents[1]
SESSION = REPOSITORY / "examples" / "session.jsonl"
RECORDER = REPOSITORY / "tools" / "record_example"

sys.path.insert(0, str(RECORDER.parent))
try:
    from record_example.recorder import RecordingError, record
    from record_example.script import SCRIPT
    from record_example.steps import Bash, Edit, Glob, Grep, Read, Say, Together, User, Write, prose
    from record_example.workshop import CWD, ENVIRONMENT, MAX_OUTPUT_CHARS, Workshop
finally:
    sys.path.remove(str(RECORDER.parent))


@pytest.fixture(scope="module")
def session() -> list[dict[str, Any]]:
    return [json.loads(line) for line in SESSION.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """A repository of one file."""
    root = tmp_path / "clone"
    root.mkdir()
    (root / "greet.py").write_text('def greet():\n    return "hello"\n', encoding="utf-8")
    for command in (["init", "-q", "-b", "main"], ["add", "."]):
        subprocess.run(["git", *command], cwd=root, check=True)
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    return Workshop(root, ENVIRONMENT | {"PATH": path}, {str(root): CWD})


def lines_of(transcript: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in transcript.splitlines()]


def blocks_of(entries: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    contents = [entry["message"]["content"] for entry in entries if "message" in entry]
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    return [block for block in blocks if block["type"] == kind]


def test_the_session_is_a_valid_transcript(session):
    assert detect_format(session) == "claude_code"
    assert validate(session) == []


def test_the_session_has_the_size_promised(session):
    conversation = parse(session)
    assert 270 <= len(conversation.messages) <= 340
    assert 85_000 <= count_tokens(session) <= 115_000
    assert sum(message.is_user_turn for message in conversation.messages) >= 8


def test_every_tool_call_of_the_session_is_answered_once(session):
    called = [block["id"] for block in blocks_of(session, "tool_use")]
    answered = [block["tool_use_id"] for block in blocks_of(session, "tool_result")]
    assert len(called) > 100
    assert sorted(called) == sorted(answered)
    assert len(set(called)) == len(called)


def test_the_session_has_failures_and_calls_in_parallel(session):
    assert sum(bool(block.get("is_error")) for block in blocks_of(session, "tool_result")) >= 5
    assert any(len(unit.messages) > 3 for unit in parse(session).units)


def test_the_lines_of_the_session_form_one_chain(session):
    uuids = [entry["uuid"] for entry in session if "uuid" in entry]
    parents = [entry["parentUuid"] for entry in session if "uuid" in entry]
    assert parents == [None, *uuids[:-1]]
    assert len(set(uuids)) == len(uuids)
    times = [entry["timestamp"] for entry in session if "uuid" in entry]
    assert times == sorted(times)


def test_the_session_names_no_path_of_the_machine_that_recorded_it(session):
    assert {entry["cwd"] for entry in session if "cwd" in entry} == {CWD}
    text = SESSION.read_text(encoding="utf-8")
    for root in ("/root/", "/tmp/", "/Users/", "/home/"):
        foreign = text.replace("/home/dev", "").count(root)
        assert foreign == 0, f"{foreign} times {root}"


@pytest.mark.parametrize("ratio", [0.1, 0.2, 0.4])
def test_the_session_stays_valid_when_compacted(session, ratio):
    kept = compact_context(session, target_ratio=ratio)
    assert validate(kept.messages) == []
    assert not kept.stats.over_budget


def test_what_the_user_said_first_is_what_the_agent_needs_last(session):
    first, *_, last = [
        entry["message"]["content"]
        for entry in session
        if entry["type"] == "user" and isinstance(entry["message"]["content"], str)
    ]
    assert "RH-2304" in first
    assert "RH-2304" in last
    commits = [
        block["input"]["command"]
        for block in blocks_of(session, "tool_use")
        if "git commit" in block["input"].get("command", "")
    ]
    assert len(commits) == 4
    assert all("Refs: RH-" in commit for commit in commits)


def test_the_script_alternates_as_a_conversation_must():
    assert isinstance(SCRIPT[0], User)
    for before, step in itertools.pairwise(SCRIPT):
        assert not (isinstance(before, Say) and isinstance(step, Say)), step
        assert not (isinstance(before, User) and isinstance(step, User)), step


SMALL = [
    User("Greet louder. We are in Haifa."),
    Say("I look at what is there."),
    Together(Glob(pattern="*.py"), Grep(pattern="hello"), Read(path="greet.py")),
    Edit(path="greet.py", old='"hello"', new='"HELLO"'),
    Bash("python -c 'import greet; print(greet.greet())'", "Greet", capture={"said": r"(\w+)"}),
    Bash("exit 3", "Fail", fails=True, expect="Exit code 3"),
    Write(path="README", content="It says {said}."),
    Say("It says {said}, and {this} stays."),
]


def test_a_recording_holds_what_really_happened(workshop):
    entries = lines_of(record(SMALL, workshop))
    assert validate(entries) == []
    results = [block["content"] for block in blocks_of(entries, "tool_result")]
    assert results[0] == f"{CWD}/greet.py"
    assert results[1] == 'greet.py:2:    return "hello"'
    assert results[2] == '     1\u2192def greet():\n     2\u2192    return "hello"'
    assert results[4:6] == ["HELLO", "Exit code 3\n"]
    assert (workshop.root / "greet.py").read_text() == 'def greet():\n    return "HELLO"\n'
    assert (workshop.root / "README").read_text() == "It says HELLO."
    assert blocks_of(entries, "text")[-1]["text"] == "It says HELLO, and {this} stays."


def test_calls_of_one_message_share_its_id_and_are_one_unit(workshop):
    conversation = parse(lines_of(record(SMALL, workshop)))
    together = next(unit for unit in conversation.units if len(unit.messages) > 2)
    assert len(together.messages) == 7  # a text, three calls, three results


def test_recording_twice_gives_the_same_ids_and_times(workshop, tmp_path):
    script = [User("Hi"), Say("Hello."), Bash("echo $RANDOM", "Something else each time")]
    first, second = (lines_of(record(script, workshop)) for _ in range(2))
    changing = ("message", "toolUseResult")
    for one, other in zip(first, second, strict=True):
        same = {key: value for key, value in one.items() if key not in changing}
        assert same == {key: value for key, value in other.items() if key not in changing}


@pytest.mark.parametrize(
    ("step", "complaint"),
    [
        (Edit(path="greet.py", old="goodbye", new="hello"), "step 3 of 3.*not found"),
        (Edit(path="greet.py", old="e", new="E"), "step 3 of 3.*Found 5 matches"),
        (Bash("exit 1", "Fail"), "step 3 of 3, Bash: Fail: it should succeed"),
        (Bash("echo fine", "Pass", fails=True), "it should fail"),
        (Bash("echo 1 passed", "Test", expect="2 passed"), "no '2 passed' in its answer"),
        (Bash("echo none", "Count", capture={"n": r"(\d+)"}), "nothing to capture as 'n'"),
        (Read(path="greet.py", start="^class "), "no line of greet.py matches"),
    ],
)
def test_a_step_that_answers_otherwise_than_scripted_stops_the_recording(workshop, step, complaint):
    with pytest.raises(RecordingError, match=f"(?s){complaint}"):
        record([User("Hi"), Read(path="greet.py"), step], workshop)


def test_a_file_must_be_read_before_it_is_changed(workshop):
    script = [User("Hi"), Edit(path="greet.py", old="hello", new="bye", fails=True)]
    (result,) = blocks_of(lines_of(record(script, workshop)), "tool_result")
    assert "has not been read yet" in result["content"]
    assert "hello" in (workshop.root / "greet.py").read_text()


def test_a_long_output_is_cut_and_says_so(workshop):
    script = [User("Hi"), Bash("seq 20000", "Count")]
    (result,) = blocks_of(lines_of(record(script, workshop)), "tool_result")
    assert len(result["content"]) < MAX_OUTPUT_CHARS + 100
    assert result["content"].endswith("lines truncated] ...")


def test_paths_of_the_clone_do_not_get_into_the_recording(workshop):
    text = record([User("Hi"), Bash("pwd; pwd >&2", "Where am I")], workshop)
    assert str(workshop.root) not in text
    assert f"{CWD}\\n{CWD}" in text


def test_prose_is_unwrapped_but_lists_and_code_are_not():
    text = """
        One sentence
        on two lines:

        - a
        - b

        ```
        x = 1
        y = 2
        ```
    """
    assert prose(text) == "One sentence on two lines:\n\n- a\n- b\n\n```\nx = 1\ny = 2\n```"
