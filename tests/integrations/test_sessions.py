"""The index of transcripts: broken, huge, growing, rewritten and removed ones, with secrets."""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio
import pytest

from rehydrate import formats
from rehydrate._native import (
    SessionOutline,
    TranscriptReader,
    clean_text,
    known_ancestor,
    said_entries,
    said_in,
    transcripts,
    words_of_user,
)
from rehydrate.errors import InvalidArgumentError
from rehydrate.integrations.mcp_server import session_index
from rehydrate.integrations.mcp_server.jobs import Job, run_job
from rehydrate.integrations.mcp_server.session_index import SessionIndex, transcript_roots
from rehydrate.prompt import TimeRange
from tests.integrations.served import (
    LOGIN,
    RELEASE,
    claude_line,
    machine,
    write_lines,
    write_sessions,
)


@pytest.fixture
def roots(tmp_path: Path):
    return transcript_roots(machine(tmp_path))


@pytest.fixture
def index(tmp_path: Path, roots):
    index = SessionIndex(tmp_path / "cache", roots)
    yield index
    index.close()


def ids(index: SessionIndex, query: str, **more: object) -> list[str]:
    index.update(Job())
    return [found.record.id for found in index.search(query, 5, **more)]


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_session_is_found_by_meaning_by_names_and_by_time(index, tmp_path):
    write_sessions(tmp_path)
    assert ids(index, "the session where we fixed the login")[0] == LOGIN
    assert ids(index, "src/login.py")[0] == LOGIN
    assert ids(index, "v4.2")[0] == RELEASE
    from datetime import UTC, datetime

    march = TimeRange(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))
    assert ids(index, "what was fixed or released?", span=march) == [RELEASE]
    assert ids(index, "", span=march) == [RELEASE]
    assert ids(index, "") == [RELEASE, LOGIN]
    assert ids(index, "login", agent="codex") == []
    assert ids(index, "", project="WORK/APP") == [LOGIN]


def test_better_hits_of_other_projects_hide_no_session(index, tmp_path, monkeypatch):
    write_sessions(tmp_path)
    monkeypatch.setattr(session_index, "HITS", 1)
    query = "the login fails for guests; the release"
    assert ids(index, query) == [LOGIN]
    assert ids(index, query, agent="codex") == ids(index, query, project="engine") == [RELEASE]


def test_what_was_said_in_a_line_is_of_the_user_the_assistant_and_their_tools():
    line = {"type": "user", "message": {"role": "user", "content": "Fix the login."}}
    assert said_in(line) == [("user", "Fix the login.")]
    assert said_in({**line, "isSidechain": True}) == said_in({"type": ["x"]}) == []
    written = "<environment_context>x</environment_context>Go."
    assert words_of_user({"role": "user", "content": written}) == "Go."
    assert words_of_user({"role": "user", "content": "# AGENTS.md instructions for x"}) == ""
    values = {"path": "src/rows.py", "lines": [3, 9.5, [None]], "quiet": True}
    used = {"type": "tool_use", "name": "Edit", "input": values}
    text = {"type": "text", "text": " Half \ud83d of it. "}
    message = {"role": "assistant", "content": [text, used, "odd", None]}
    half = "Half \ufffd of it."
    calls = ("call", "Edit src/rows.py 3 9.5")
    assert said_in({"type": "assistant", "message": message}) == [("assistant", half), calls]
    for item, said in (
        ({"type": "function_call", "name": "shell", "arguments": '{"a": ["ls", 1]}'}, "shell ls 1"),
        ({"type": "function_call", "name": "shell", "arguments": "ls  -l"}, "shell ls -l"),
        ({"type": "custom_tool_call", "name": "patch", "input": "+ a"}, "patch + a"),
        ({"type": "local_shell_call", "action": {"command": ["ls", 1]}}, "shell ls 1"),
    ):
        assert said_in({"type": "response_item", "payload": item}) == [("call", said)]
    assert clean_text("password=hunter2-hunter2 is it", 40) == "password=[redacted:password] is it"


def test_a_line_of_no_shape_that_the_format_has_is_left_out():
    def result(number: int, content: object) -> dict[str, object]:
        block = {"type": "tool_result", "tool_use_id": "t1", "content": content}
        message = {"role": "user", "content": [block]}
        return {
            "type": "user",
            "uuid": f"u{number}",
            "parentUuid": f"u{number - 1}" if number else None,
            "message": message,
        }

    odd: list[object] = [True, 5, {"type": "text", "text": "x"}, ["x"], None, "x"]
    found = said_entries(list(map(result, range(6), odd)), "claude_code", str)
    assert [entry["message"]["content"][0].get("content") for entry in found] == [[], None, "x"]
    formats.parse(found, "claude_code")
    deep: object = "x"
    for _ in range(2_000):
        deep = [{"type": "tool_result", "tool_use_id": "t1", "content": deep}]
    assert said_entries([result(0, deep)], "claude_code", str) == []


def test_the_file_is_looked_through_only_for_a_parent_that_is_not_among_the_lines():
    asked: list[str] = []

    def ancestor(name: str) -> str:
        asked.append(name)
        return "u0"

    found = said_entries(REWOUND[1:], "claude_code", ancestor)
    assert [entry["parentUuid"] for entry in found] == ["u0", "a1", "u3"]
    assert asked == ["u1"]


@pytest.mark.parametrize("padding", [0, 70_000])
def test_the_file_is_read_back_to_the_last_line_that_is_known(tmp_path, padding):
    filler = {"type": "system", "uuid": "n2", "parentUuid": "n1", "about": "n3" * padding}
    lines = [*REWOUND[:3], filler, 'no JSON, but "n3"', {"uuid": "n3", "parentUuid": "n2"}, "n"]
    path = write_lines(tmp_path / "a.jsonl", lines)
    size = path.stat().st_size
    known = {"u1", "a1"}
    assert known_ancestor("n3", path, size, known) == "a1"
    assert known_ancestor("n2", path, size, known) == "a1"
    assert known_ancestor("u1", path, size, known) == "u1"
    assert known_ancestor("n3", path, size, set()) == "n3"
    assert known_ancestor("n3", path, size - 30, known) == "n3"  # it is after that
    assert known_ancestor("n3", tmp_path / "gone.jsonl", size, known) == "n3"


def test_titles_and_folders_of_a_session_are_reported(index, tmp_path):
    write_sessions(tmp_path)
    index.update(Job())
    login, release = (index.search(query, 1)[0].record for query in ("login", "release"))
    assert login.title == "The login fails for guests, fix it. password=[redacted:password]"
    assert (login.project, login.first) == ("/work/app", "2026-02-17T09:30:00+00:00")
    assert (release.title, release.project) == ("Cut the release 4.2.", "/work/engine")
    assert login.broken == 2


def test_no_secret_is_in_the_cache(index, tmp_path):
    secret = "hunter2-hunter2"
    filler = "word " * 198  # so that the cut would go through the middle of the secret
    path = tmp_path / "claude" / "projects" / "p" / f"{LOGIN}.jsonl"
    said = [f"The password={secret} opens it.", f"{filler} password={secret}"]
    write_lines(path, [claude_line("user", text, "2026-02-17T09:30:00Z") for text in said])
    assert ids(index, "password") == [LOGIN]
    index.close()
    held = everything_in(tmp_path / "cache")
    assert held and b"hunter2" not in held


def test_what_is_new_is_read_and_nothing_twice(index, tmp_path):
    claude, _ = write_sessions(tmp_path)
    index.update(Job())
    read: list[float] = []

    def tell(done: float, _total: float, _name: str) -> None:
        read.append(done)

    index.update(Job(tell))
    assert read == []
    size = claude.stat().st_size
    with claude.open("a", encoding="utf-8") as file:
        file.write('nt"}}\n')  # the line that was cut is whole now, and broken all the same
        file.write(json.dumps(claude_line("user", "Now the logout.", "2026-02-18T09:00:00Z")))
    index.update(Job(tell))
    assert ids(index, "logout")[0] == LOGIN
    assert len(read) == 1 and 0 < read[0] < size
    index.close()
    again = SessionIndex(tmp_path / "cache", transcript_roots(machine(tmp_path)))
    read.clear()
    again.update(Job(tell))
    assert ids(again, "logout")[0] == LOGIN
    assert read == []
    again.close()


def test_the_last_line_counts_with_and_without_its_end(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n{"b": ')
    reader = TranscriptReader(path)
    assert [*reader.objects(1_000)] == [{"a": 1}]
    assert (reader.offset, reader.is_at_end) == (9, True)
    path.write_bytes(b'{"a": 1}\n{"b": 2}')
    assert [*reader.objects(1_000)] == [{"b": 2}]
    assert [*reader.objects(1_000)] == []


def test_a_call_reads_no_more_than_its_limit_and_the_next_goes_on(tmp_path, roots):
    path = tmp_path / "claude" / "projects" / "p" / f"{LOGIN}.jsonl"
    lines = [
        claude_line("user", f"Task {number} of the harbour.", "2026-02-17T09:30:00Z")
        for number in range(400)
    ]
    write_lines(path, lines)
    index = SessionIndex(tmp_path / "cache", roots, max_bytes=20_000)
    left = [index.update(Job())]
    assert left[0].files == 1 and 0 < left[0].bytes < path.stat().st_size
    while left[-1].files:
        left.append(index.update(Job()))
        assert left[-1].bytes < left[-2].bytes
    assert "Task 399 of" in index.search("Task 399", 1)[0].excerpts[0][1]
    index.close()


def test_a_cancelled_update_stops_and_the_next_one_ends_it(index, tmp_path):
    write_sessions(tmp_path)
    job = Job()
    job.cancel()
    assert index.update(job).files == 2
    assert index.update(Job()).files == 0


def test_a_line_too_long_to_hold_is_passed_over(index, tmp_path):
    path = tmp_path / "claude" / "projects" / "p" / f"{LOGIN}.jsonl"
    before = claude_line("user", "Before the picture.", "2026-02-17T09:30:00Z")
    after = claude_line("user", "After the picture.", "2026-02-17T09:31:00Z")
    picture = claude_line(
        "user", "p" * (2 * TranscriptReader.MAX_LINE_BYTES), "2026-02-17T09:30:30Z"
    )
    write_lines(path, [before, picture, "", after])
    assert ids(index, "after the picture") == [LOGIN]
    record = index.search("picture", 1)[0].record
    assert (record.broken, record.is_at_end) == (1, True)


def test_a_file_that_is_another_one_now_is_read_again(index, tmp_path):
    path = tmp_path / "claude" / "projects" / "p" / f"{LOGIN}.jsonl"
    long = "The quay of the old harbour is closed. " * 20
    write_lines(path, [claude_line("user", long, "2026-02-17T09:30:00Z")])
    assert ids(index, "old harbour quay") == [LOGIN]
    new = [claude_line("user", f"Pump station {n} is new. " * 20, "2026-02-17") for n in range(9)]
    write_lines(path, new)
    assert ids(index, "pump station") == [LOGIN]
    texts = [text for found in index.search("harbour", 5) for _, text in found.excerpts]
    assert not any("harbour" in text for text in texts)
    write_lines(path, [claude_line("user", "Short.", "2026-02-17T09:30:00Z")])
    assert ids(index, "Short.") == [LOGIN]


def test_a_removed_session_is_forgotten(index, tmp_path):
    claude, _ = write_sessions(tmp_path)
    assert LOGIN in ids(index, "login")
    claude.unlink()
    assert LOGIN not in ids(index, "login")
    with pytest.raises(InvalidArgumentError, match="there is no session"):
        index.find(LOGIN)


def test_a_lost_or_broken_list_only_costs_another_reading(index, tmp_path, roots):
    write_sessions(tmp_path)
    index.update(Job())
    index.close()
    (tmp_path / "cache" / "sessions.jsonl").write_text("{nonsense", encoding="utf-8")
    again = SessionIndex(tmp_path / "cache", roots)
    assert ids(again, "login")[0] == LOGIN
    assert again.update(Job()) == (0, 0)
    again.close()


def test_links_pipes_and_subagents_are_no_sessions(tmp_path, roots):
    claude, _ = write_sessions(tmp_path)
    secret = tmp_path / "secret.jsonl"
    secret.write_text("{}\n", encoding="utf-8")
    (claude.parent / "link.jsonl").symlink_to(secret)
    if hasattr(os, "mkfifo"):  # Windows has none
        os.mkfifo(claude.parent / "pipe.jsonl")
    (claude.parent / "agent-1.jsonl").write_text("{}\n", encoding="utf-8")
    (claude.parent / "empty.jsonl").touch()
    assert sorted(file.id for file in transcripts([*roots.items()])) == [RELEASE, LOGIN]


def test_a_machine_without_transcripts_has_no_sessions(index):
    assert ids(index, "login") == []
    assert ids(index, "") == []


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.anyio
async def test_a_job_reports_its_steps_and_hears_of_a_cancellation() -> None:
    steps: list[tuple[float, float | None, str | None]] = []

    async def report(done: float, total: float | None, message: str | None) -> None:
        steps.append((done, total, message))

    def work(job: Job) -> str:
        job.report(1, 2, "one")
        job.report(2, 2, "two")
        return "done"

    assert await run_job(work, report) == "done"
    assert steps == [(1, 2, "one"), (2, 2, "two")]

    seen = anyio.Event()
    jobs: list[Job] = []

    async def begun(*_: object) -> None:
        seen.set()

    def endless(job: Job) -> None:
        jobs.append(job)
        job.report(1, 2, "begun")
        job._cancelled.wait(60)

    async with anyio.create_task_group() as group:
        group.start_soon(run_job, endless, begun)
        await seen.wait()
        group.cancel_scope.cancel()
    assert jobs[0].is_cancelled


def threaded(uuid: str, parent: str | None, text: str, kind: str = "user") -> dict[str, object]:
    line = claude_line(kind, text, "2026-02-17T09:30:00Z")
    return {**line, "uuid": uuid, "parentUuid": parent}


REWOUND = [
    threaded("u1", None, "Build the booking page."),
    threaded("a1", "u1", "Which store shall it use?", "assistant"),
    {"type": "system", "uuid": "n1", "parentUuid": "a1", "subtype": "turn_duration"},
    threaded("u2", "n1", "Always use MongoDB."),
    threaded("a2", "u2", "We use MongoDB.", "assistant"),
    threaded("u3", "n1", "Always use SQLite."),
    threaded("a3", "u3", "We use SQLite.", "assistant"),
]


def said_by(index: SessionIndex, query: str) -> str:
    index.update(Job())
    return str([found.excerpts for found in index.search(query, 5)])


def test_what_the_user_took_back_is_not_found(index, tmp_path):
    path = tmp_path / "claude" / "projects" / "p" / f"{LOGIN}.jsonl"
    write_lines(path, REWOUND)
    assert "SQLite" in said_by(index, "which store is used")
    assert "MongoDB" not in said_by(index, "MongoDB")


@pytest.mark.parametrize("cut", [3, 4, 5, 6])
def test_what_the_user_takes_back_later_is_found_no_more(index, tmp_path, cut):
    path = tmp_path / "claude" / "projects" / "p" / f"{LOGIN}.jsonl"
    write_lines(path, REWOUND[:cut])
    before = said_by(index, "MongoDB")
    assert ("MongoDB" in before) == (3 < cut < 6)
    write_lines(path, REWOUND)
    assert "MongoDB" not in said_by(index, "MongoDB")
    assert "SQLite" in said_by(index, "which store is used")
    more = [*REWOUND, threaded("u4", "a3", "Now the gate."), threaded("u5", "u4", "And the quay.")]
    write_lines(path, more)
    found = said_by(index, "gate and quay")
    assert "gate" in found and "quay" in found and "MongoDB" not in found


def test_the_outline_of_a_session_is_of_what_was_not_taken_back(tmp_path, roots):
    path = write_lines(tmp_path / "claude" / "projects" / "p" / f"{LOGIN}.jsonl", REWOUND)
    (file,) = transcripts([*roots.items()])
    assert file.path == path
    outline = SessionOutline(file, 400, 20)
    assert [text for _, text in outline.turns] == ["Build the booking page.", "Always use SQLite."]
    assert outline.messages == 4
    assert "more]" not in outline.text
    first = SessionOutline(file, 400, 1)
    assert (len(first.turns), first.omitted_turns) == (1, 1)
    assert "booking page.\n- [1 more]" in first.text


@pytest.mark.parametrize("max_turns", [1, 5, 6, 8])
def test_the_outline_of_a_long_session_says_how_many_turns_it_left_out(tmp_path, roots, max_turns):
    said = [threaded(f"u{n}", f"u{n - 1}" if n else None, f"Turn {n}.") for n in range(9)]
    write_lines(tmp_path / "claude" / "projects" / "p" / f"{LOGIN}.jsonl", said)
    (file,) = transcripts([*roots.items()])
    shown = SessionOutline(file, 0, max_turns).text.split("What the user said:\n")[1].splitlines()
    first = min(max_turns, 5)
    assert shown[first] == f"- [{9 - max_turns} more]"
    turns = [line.split()[-1] for line in (*shown[:first], *shown[first + 1 : max_turns + 1])]
    last = range(9 - max_turns + first, 9)
    assert turns == [f"{n}." for n in (*range(first), *last)]


def test_turns_that_codex_takes_back_are_found_no_more(index, tmp_path):
    def said(text: str) -> dict[str, object]:
        item = {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": text}],
        }
        return {"type": "response_item", "payload": item, "timestamp": "2026-03-12T15:10:41Z"}

    path = tmp_path / "codex" / "sessions" / "2026" / f"rollout-2026-03-12T15-10-41-{RELEASE}.jsonl"
    lines = [said("Build the booking page."), said("Always use MongoDB.")]
    write_lines(path, lines)
    assert "MongoDB" in said_by(index, "MongoDB")
    back = {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}}
    write_lines(path, [*lines, back, said("Always use SQLite.")])
    assert "MongoDB" not in said_by(index, "MongoDB")
    assert "SQLite" in said_by(index, "which store is used")
    (file,) = transcripts([*transcript_roots(machine(tmp_path)).items()])
    turns = [text for _, text in SessionOutline(file, 400, 20).turns]
    assert turns == ["Build the booking page.", "Always use SQLite."]
