"""`rehydrate compact` as a process: its output, warnings and refusals."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys

import pytest

import rehydrate
from rehydrate import cli, formats
from rehydrate.cli import compact
from rehydrate.cli.options import tokens as number_of_tokens
from rehydrate.cli.terminal import INTERNAL, Failure
from rehydrate.errors import Violation
from tests.compact.test_excerpt_inputs import session
from tests.sizes import PATIENCE_SECONDS


def test_an_array_stays_an_array_of_fewer_messages(run, chat, write):
    write("chat.json", chat)
    done = run("compact", "chat.json", "--query", "flights to Lisbon")
    kept = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, b"")
    assert 0 < len(kept) < len(chat)
    assert [message for message in chat if message in kept] == kept
    assert kept == rehydrate.compact_context(chat, "flights to Lisbon").messages


def test_transcript_lines_are_written_byte_for_byte(run, transcript, write):
    path = write("session.jsonl", transcript)
    done = run("compact", "session.jsonl", "--ratio", "0.4")
    lines = done.stdout.splitlines(keepends=True)
    source = iter(path.read_bytes().splitlines(keepends=True))
    assert 0 < len(lines) < len(transcript)
    assert all(line in source for line in lines)


def test_what_fits_is_written_as_it_was(run, transcript, write):
    path = write("session.jsonl", transcript)
    assert run("compact", "session.jsonl", "--ratio", "1").stdout == path.read_bytes()


def test_compacting_the_output_again_with_room_changes_nothing(run, transcript, write):
    write("session.jsonl", transcript)
    once = run("compact", "session.jsonl", "--ratio", "40%").stdout
    again = run("compact", "-", "--ratio", "100%", stdin=once)
    assert (again.stdout, again.stderr) == (once, b"")


def test_the_body_of_a_request_keeps_all_but_messages(run, chat, write):
    body = {"model": "m", "system": "Be brief.", "messages": chat[1:], "tools": [{"name": "x"}]}
    write("body.json", body)
    written = json.loads(run("compact", "body.json").stdout)
    assert {**written, "messages": None} == {**body, "messages": None}
    assert 0 < len(written["messages"]) < len(body["messages"])


def test_json_holds_messages_figures_and_what_was_dropped(run, chat, write):
    write("chat.json", chat)
    result = json.loads(run("compact", "chat.json", "--json").stdout)
    assert [*result] == ["messages", "stats", "dropped"]
    assert len(result["dropped"]) == result["stats"]["dropped"] > 0
    explained = json.loads(run("compact", "chat.json", "--json", "--explain").stdout)
    assert len(explained["explanation"]) == explained["stats"]["units"]


def test_json_can_hold_half_a_surrogate_pair(run):
    done = run("compact", "-", "--json", stdin=b'[{"role": "user", "content": "a \\ud800"}]')
    assert json.loads(done.stdout)["messages"][0]["content"] == "a \ud800"


def test_the_output_file_gets_the_messages_and_the_report_goes_to_standard_output(
    run, chat, write, tmp_path
):
    write("chat.json", chat)
    done = run("compact", "chat.json", "--explain", "-o", "small.json")
    plain = run("compact", "chat.json")
    assert (tmp_path / "small.json").read_bytes() == plain.stdout
    assert "tokens" in done.stdout.decode().splitlines()[0]


def test_the_input_is_never_overwritten(run, chat, write):
    path = write("chat.json", chat)
    before = path.read_bytes()
    done = run("compact", "chat.json", "-o", "./chat.json")
    assert (done.returncode, path.read_bytes()) == (2, before)
    assert b"would overwrite the input" in done.stderr


def test_options_reach_the_engine(run, chat, write):
    write("chat.json", chat)
    done = run(
        *("compact", "chat.json", "--json", "--budget", "0.2k", "--counter", "words"),
        *(
            "--no-embedding",
            "--format",
            "plain",
            "--scoring",
            "chitta",
            "--pin",
            "1",
            "--pin",
            "-3",
        ),
    )
    result = json.loads(done.stdout)
    stats = result["stats"]
    assert (stats["target_tokens"], stats["counter"], stats["embedding"]) == (200, "words", False)
    assert chat[1] in result["messages"]
    assert chat[-3] in result["messages"]


def test_input_that_breaks_provider_rules_is_warned_of_and_compacted(run, write):
    block = {"type": "tool_result", "tool_use_id": "none", "content": "x"}
    orphans = [{"role": "user", "content": [block]}, {"role": "assistant", "content": "a"}]
    start = {"role": "user", "content": "start"}
    write("broken.json", [start, *orphans * 5, {"role": "user", "content": "go on"}])
    done = run("compact", "broken.json", "--pin", "0")
    lines = done.stderr.decode().splitlines()
    assert done.returncode == 0
    assert start in json.loads(done.stdout)
    assert lines == [
        "warning: broken.json breaks the provider's rules in 5 places; compacted as it is",
        *[line for line in lines if re.match(r"  line 1, message [135]: .*_without_call\)", line)],
        "  and 2 more",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.json"], "missing.json: no such file"),
        (["."], ". is a directory"),
        ([], "required: FILE"),
        (["chat.json", "--ratio", "40"], "'40' isn't a share of the tokens"),
        (["chat.json", "--ratio", "nan"], "'nan' isn't a share"),
        (["chat.json", "--ratio", "x%"], "'x%' isn't a share"),
        (["chat.json", "--budget", "-1"], "'-1' isn't a number of tokens"),
        (["chat.json", "--budget", "0"], "'0' isn't a number of tokens"),
        (["chat.json", "--budget", "1", "--ratio", "1"], "not allowed with"),
        (["chat.json", "--scoring", "best"], "choose from"),
        (["chat.json", "--format", "cohere"], "choose from"),
        (["chat.json", "--counter", "bytes"], "choose from"),
        (["chat.json", "--pin", "99"], "pin names message 99 of 26"),
        (["chat.json", "-o", "no/where.json"], "cannot be written: No such file"),
        (["number.json"], "line 2 of number.json: message 1: content is an int"),
        (["line.jsonl"], "line 2 of line.jsonl is not JSON"),
    ],
)
def test_a_mistake_of_the_user_is_one_line_and_exit_code_2(run, chat, write, arguments, said):
    write("chat.json", chat)
    write("number.json", '[{"role": "user", "content": "a"},\n{"role": "user", "content": 7}]')
    write("line.jsonl", ['{"role": "user", "content": "a"}', "oops", '{"role": "user"}'])
    done = run("compact", *arguments)
    lines = done.stderr.decode().splitlines()
    assert (done.returncode, done.stdout, len(lines)) == (2, b"", 1)
    assert lines[0].startswith("rehydrate")
    assert said in lines[0]


def test_a_file_name_cannot_send_escapes_to_the_terminal(run):
    assert b"\x1b" not in run("compact", "\x1b[31mx").stderr


def test_a_ratio_below_the_smallest_is_raised_and_said_so(run, chat, write):
    write("chat.json", chat)
    done = run("compact", "chat.json", "--ratio", "0.01")
    assert done.returncode == 0
    assert b"raised to 0.05" in done.stderr


def test_a_result_that_breaks_new_rules_is_an_internal_error(monkeypatch, chat, write, capfdbinary):
    path = write("chat.json", chat)
    answers = iter([[], [Violation(1, "unknown_role", "made up")]])
    monkeypatch.setattr(formats, "validate", lambda *_: next(answers))
    assert cli.main(["compact", str(path)]) == INTERNAL
    written = capfdbinary.readouterr()
    assert written.out == b""
    assert b"made up (unknown_role); nothing was written" in written.err


@pytest.mark.parametrize("rule", ["first_not_user", "unknown_role"])
def test_an_output_no_better_than_its_input_is_written(monkeypatch, chat, write, rule):
    path = write("chat.json", chat)
    answers = iter([[Violation(0, "first_not_user", "x")], [Violation(0, rule, "x")]])
    monkeypatch.setattr(formats, "validate", lambda *_: next(answers))
    assert cli.main(["compact", str(path), "-o", str(path.with_name("out.json"))]) == 0


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("20000", 20_000), ("20k", 20_000), ("1.5K", 1_500), ("1_000", 1_000), ("1", 1)],
)
def test_a_budget_is_read_as_people_write_it(text, tokens):
    assert number_of_tokens(text) == tokens


@pytest.mark.parametrize("text", ["", "k", "1.5", "inf", "1e99k", "ten", "0", "0k"])
def test_what_is_no_budget_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError):
        number_of_tokens(text)


def test_a_reader_that_leaves_early_is_no_error(chat, write):
    path = write("chat.json", [{"role": "user", "content": "x" * 500_000}])
    process = subprocess.Popen(
        [sys.executable, "-m", "rehydrate", "compact", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.read(1)
    process.stdout.close()
    _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, errors) == (cli.BROKEN_PIPE, b"")


def test_an_interrupt_ends_quietly_with_130(monkeypatch, capfd):
    def interrupted(_path):
        raise KeyboardInterrupt

    monkeypatch.setattr(compact, "read", interrupted)
    assert cli.main(["compact", "x"]) == cli.INTERRUPTED
    assert capfd.readouterr() == ("", "")


def test_a_failure_carries_its_exit_code():
    assert (Failure("x").code, Failure("x", INTERNAL).code) == (2, 70)


def test_responses_items_are_compacted_within_their_request(run, write):
    call = {"type": "function_call", "call_id": "a", "name": "get", "arguments": "{}"}
    answer = {"type": "function_call_output", "call_id": "a", "output": "word " * 500}
    said = {"role": "assistant", "content": "Here it is."}
    request = {"model": "m", "input": [call, answer, said, {"role": "user", "content": "thanks"}]}
    write("request.json", request)
    done = run("compact", "request.json", "--budget", "20")
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout) == {**request, "input": request["input"][2:]}


def test_langchains_stored_form_is_refused_with_what_loads_it(run, write):
    write("stored.json", [{"type": "human", "data": {"content": "hi", "type": "human"}}])
    done = run("compact", "stored.json")
    assert done.returncode != 0
    assert b"line 1 of stored.json" in done.stderr and b"messages_from_dict" in done.stderr


@pytest.mark.parametrize("command", ["compact", "inspect", "lint"])
def test_an_unknown_role_is_refused_with_the_one_that_was_meant(run, write, command):
    talk = [{"role": role, "content": f"words of {role}"} for role in ("user", "ai", "user")]
    write("talk.json", talk)
    done = run(command, "talk.json")
    assert done.returncode == 2
    assert b"message 1: role is a str" in done.stderr
    assert b"not 'ai'; did you mean 'assistant'?" in done.stderr


@pytest.mark.parametrize("is_array", [True, False])
def test_an_excerpt_is_written_again_and_all_else_byte_for_byte(run, write, is_array):
    log = "".join(f"2026-02-17 12:00 request_{n} served\n" for n in range(90))
    lines = [
        '{"role": "user",  "content": "Begin."}',
        json.dumps({"role": "user", "content": log}),
        '{"role":"user","content":"Go \\u006fn."}',
    ]
    text = "[" + " ,\n".join(lines) + "]" if is_array else "\n".join(lines) + "\n"
    write("chat.json", text)
    done = run("compact", "chat.json", "--granularity", "excerpt", "--ratio", "0.4")
    assert (done.returncode, done.stderr) == (0, b"")
    written = done.stdout.decode()
    assert lines[0] in written
    assert lines[2] in written
    kept = json.loads(written) if is_array else [json.loads(line) for line in written.splitlines()]
    assert len(kept) == 3
    assert "lines omitted" in kept[1]["content"]
    shown = json.loads(
        run("compact", "chat.json", "--granularity", "excerpt", "--json", "--explain").stdout
    )
    assert shown["stats"]["excerpted"] == 1
    blocks = shown["explanation"][1]["blocks"]
    assert {block["kept"] for block in blocks} == {True, False}
    report = run("compact", "chat.json", "--granularity", "excerpt", "--explain").stdout.decode()
    assert "1 in part" in report
    assert "of message 1 " in report


def test_inputs_of_calls_are_cut_in_excerpts(run, write):
    write("chat.json", session())
    options = ("compact", "chat.json", "--ratio", "0.5")
    kept = json.loads(run(*options, "--granularity", "excerpt").stdout)
    assert "lines omitted" in kept[1]["content"][0]["input"]["content"]
    assert b"lines omitted" not in run(*options).stdout


def test_the_page_shows_the_session_before_and_after(run, chat, write, tmp_path):
    write("chat.json", [*chat, {"role": "user", "content": "</script> & שלום"}])
    done = run("compact", "chat.json", "--query", "Lisbon", "--html", "page.html")
    assert (done.returncode, done.stdout) == (0, b"")
    said = done.stderr.decode()
    assert said.startswith("wrote page.html: chat.json before and after, ")
    assert said.endswith(" messages dropped\n") and "->" in said
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "chat.json: before and after" in page and "</span> Lisbon</p>" in page
    assert "&lt;/script&gt; &amp; שלום" in page


def test_the_page_comes_with_whatever_else_is_asked_for(run, chat, write, tmp_path):
    write("chat.json", chat)
    plain = run("compact", "chat.json")
    done = run("compact", "chat.json", "--html", "page.html", "-o", "small.json")
    assert done.returncode == 0
    assert (tmp_path / "small.json").read_bytes() == plain.stdout
    figures = run("compact", "chat.json", "--html", "page.html", "--json").stdout
    assert json.loads(figures)["messages"] == json.loads(plain.stdout)
    report = run("compact", "chat.json", "--html", "page.html", "--explain").stdout
    assert b" tokens" in report.splitlines()[0]
    assert (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--html", "chat.json"], "--html chat.json would overwrite the input"),
        (["--html", "-"], "'-' isn't a file for the page; name one, such as page.html"),
        (["--html", "x.json", "-o", "./x.json"], "-o and --html both name x.json"),
        (["--html", "no/page.html"], "cannot be written: No such file"),
    ],
)
def test_the_page_is_written_nowhere_else(run, chat, write, arguments, said):
    path = write("chat.json", chat)
    before = path.read_bytes()
    done = run("compact", "chat.json", *arguments)
    assert (done.returncode, done.stdout, path.read_bytes()) == (2, b"", before)
    assert said in done.stderr.decode()


def test_an_outline_is_one_message_more_and_all_others_are_written_as_they_were(
    run, transcript, write
):
    # Long enough for an outline to be worth its frame, and with names that only results mention.
    said = [line.replace("word ", f"word berth_{n} " * 8) for n, line in enumerate(transcript)]
    path = write("session.jsonl", said)
    done = run("compact", "session.jsonl", "--ratio", "0.2", "--outline", "-o", "small.jsonl")
    assert (done.returncode, done.stderr) == (0, b"")
    source = path.read_bytes().splitlines(keepends=True)
    lines = (path.parent / "small.jsonl").read_bytes().splitlines(keepends=True)
    (made,) = [json.loads(line) for line in lines if line not in source]
    assert made["isMeta"] is True and 'id="outline"' in made["message"]["content"]
    assert not rehydrate.validate([json.loads(line) for line in lines])
    report = run("compact", "session.jsonl", "--ratio", "0.2", "--outline", "--explain").stdout
    assert b"an outline of" in report
