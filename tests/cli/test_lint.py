"""`rehydrate lint` as a process: the table, the JSON, the exit code."""

from __future__ import annotations

import json
import re

import pytest

from rehydrate import count_tokens
from rehydrate.prompt import CompiledPrompt, PromptIR, Provenance, Section, Segment

LOG = "\n".join(f"12:00:{n % 60:02} INFO request {n} served in {n} ms" for n in range(600))


@pytest.fixture
def noisy(transcript):
    """Return a transcript whose last line but one is a log."""
    line = json.loads(transcript[-2])
    line["message"]["content"] = LOG
    return [*transcript[:-2], json.dumps(line), transcript[-1]]


def test_a_finding_is_named_by_line_with_its_cost_and_its_remedy(run, noisy, write):
    write("session.jsonl", noisy)
    done = run("lint", "session.jsonl")
    text = done.stdout.decode()
    assert done.returncode == 1
    assert re.search(r"raw_log: logs in full \([\d,]+ tokens\)$", text, re.MULTILINE)
    assert f"line {len(noisy) - 1}" in text
    assert "cap it to its last 200 lines" in text


def test_the_exit_code_follows_the_gravity_that_is_asked_for(run, noisy, write):
    write("session.jsonl", noisy)
    codes = {
        gravity: run("lint", "session.jsonl", "--fail-on", gravity).returncode
        for gravity in ("info", "warning", "error", "never")
    }
    assert codes == {"info": 1, "warning": 1, "error": 0, "never": 0}


def test_a_sound_session_says_so_and_exits_0(run, chat, write):
    write("chat.json", chat)
    done = run("lint", "chat.json")
    assert done.returncode == 0
    assert done.stdout.decode().rstrip().endswith("nothing found")


def test_json_has_every_finding_with_its_line(run, noisy, write):
    write("session.jsonl", noisy)
    done = run("lint", "session.jsonl", "--json")
    (finding,) = json.loads(done.stdout)["findings"]
    assert (finding["rule"], finding["severity"]) == ("raw_log", "warning")
    assert finding["line"] == len(noisy) - 1
    assert finding["tokens"] > 1_000


def test_the_body_of_a_request_is_linted_with_its_system_and_tools(run, write):
    body = {
        "model": "claude-sonnet-4-5",
        "system": "It is 2026-03-02 14:05:11. " + "Be brief. " * 900,
        "tools": [
            {"name": "grep", "input_schema": {"type": "object"}, "description": "so " * 3_000}
        ],
        "messages": [{"role": "user", "content": "hi"}],
    }
    write("body.json", body)
    rules = [
        finding["rule"]
        for finding in json.loads(run("lint", "body.json", "--json").stdout)["findings"]
    ]
    assert sorted(rules) == ["breakpoints", "heavy_tools", "unstable_prefix"]


def test_an_ir_and_a_compiled_prompt_are_read_from_json(run, write):
    ir = PromptIR(sections=(Section("knowledge:a", LOG, Provenance("knowledge")),))
    segments = (Segment("rules", "system", 9_000, "a1", "dynamic", 1, True),)
    request = {"system": "x", "messages": [{"role": "user", "content": LOG}]}
    compiled = CompiledPrompt("anthropic", request, ir, segments, "claude-sonnet-4-5")
    write("ir.json", ir.to_dict())
    write("compiled.json", compiled.to_dict())
    (finding,) = json.loads(run("lint", "ir.json", "--json").stdout)["findings"]
    assert finding["place"] == "knowledge:a"
    done = run("lint", "-", "--json", stdin=json.dumps(compiled.to_dict()).encode())
    rules = {finding["rule"] for finding in json.loads(done.stdout)["findings"]}
    assert rules == {"raw_log", "breakpoints"}


def test_budgets_and_single_rules_can_be_given(run, noisy, write):
    write("session.jsonl", noisy)
    done = run("lint", "session.jsonl", "--rule", "growth", "--hard", "1k", "--json")
    (finding,) = json.loads(done.stdout)["findings"]
    assert (finding["rule"], finding["severity"]) == ("growth", "error")


def test_what_is_no_message_is_named_by_its_line(run, write):
    write("bad.jsonl", ['{"role": "user", "content": "hi"}', '{"role": "user", "content": 7}'])
    done = run("lint", "bad.jsonl")
    assert done.returncode == 2
    assert b"line 2 of bad.jsonl" in done.stderr


@pytest.mark.parametrize(
    "content", ["[]", '{"messages": []}', '{"type": "event_msg", "payload": {"type": "x"}}']
)
def test_a_file_without_a_conversation_is_said_to_hold_none(run, write, content):
    write("notes.json", content)
    done = run("lint", "notes.json")
    assert done.returncode == 2
    assert b"notes.json holds no conversation" in done.stderr
    assert b"nothing found" not in done.stdout


def test_a_compacted_transcript_counts_alike_in_lint_and_compact_and_both_say_its_sides(run, write):
    def said(role, text, number, **rest):
        parent = f"u{number - 1}" if number else None
        link = {"uuid": f"u{number}", "parentUuid": parent, "sessionId": "s"}
        return {**link, "type": role, "message": {"role": role, "content": text}, **rest}

    lines = [
        said("user", "Read the log of the harbour. " * 30, 0),
        said("assistant", "It is long. " * 40, 1),
        said("user", "A summary of what was said.", 2, isCompactSummary=True),
        said("assistant", "I go on. " * 9, 3),
        said("user", "And now?", 4),
    ]
    write("session.jsonl", [json.dumps(line) for line in lines])
    before, whole = count_tokens(lines[:2]), count_tokens(lines)
    figures = json.loads(run("lint", "session.jsonl", "--json").stdout)
    assert (figures["tokens"], figures["current_tokens"]) == (whole, whole - before)
    linted = run("lint", "session.jsonl").stdout.decode()
    assert f"{whole:,} tokens" in linted
    assert f"{before:,} of them are before the last compaction" in linted
    done = run("compact", "session.jsonl", "--ratio", "0.5", "--explain", "-o", "small.jsonl")
    shown = (done.stdout + done.stderr).decode()
    assert f"{before:,} of the tokens are before the last compaction (line 3)" in shown
    assert f"{whole:,}" in shown


def test_every_line_fits_a_narrow_terminal(run, noisy, write):
    write("session.jsonl", noisy)
    done = run("lint", "session.jsonl", env={"COLUMNS": "60"})
    assert max(map(len, done.stdout.decode().splitlines())) <= 60


def test_a_file_of_requests_shows_how_the_system_prompt_grew(run, write):
    notes = [f"- Learned in turn {n}: the harbour's gate {n} opens at dawn." for n in range(20)]
    requests = [
        {
            "system": "\n".join(["Be brief.", *notes[:n]]),
            "messages": [{"role": "user", "content": "?"}],
        }
        for n in range(20)
    ]
    write("requests.jsonl", [json.dumps(request) for request in requests])
    done = run("lint", "requests.jsonl")
    assert done.returncode == 1
    assert "growing_system: a system prompt that grows" in done.stdout.decode()
    write("same.jsonl", [json.dumps(requests[0])] * 20)
    assert run("lint", "same.jsonl").returncode == 0


def test_a_line_that_is_no_request_among_requests_is_named(run, write):
    body = {"messages": [{"role": "user", "content": "hi"}]}
    write("mixed.jsonl", [json.dumps(body), "{"])
    done = run("lint", "mixed.jsonl")
    assert done.returncode == 2
    assert b"mixed.jsonl" in done.stderr


def test_a_line_end_of_unicode_in_a_text_does_not_cut_a_request(run, write):
    said = {"role": "user", "content": "one\u2028two"}
    bodies = [{"model": "gpt-5.1", "messages": [said] * count} for count in (1, 2)]
    write("requests.jsonl", [json.dumps(body, ensure_ascii=False) for body in bodies])
    done = run("lint", "requests.jsonl")
    assert done.returncode == 0, done.stderr
