"""`rehydrate thread`: lists, shows, forks, exports, redacts and purges stored conversations."""

import io
import json
import os
import re
import unicodedata
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, strategies as st

from rehydrate._jsonl import whole_file
from rehydrate.cli.terminal import PIPE_WIDTH, Progress, Terminal, display_width, pad, write
from rehydrate.context import Context, Threads
from tests.page.reading import Page


class Done(NamedTuple):
    code: int
    out: str
    said: str


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "threads.db"
    with Context.open(path, thread="t-42", namespace="alice") as context:
        context.prompt("Which berth is free? The key is hunter2.")
        context.add({"role": "assistant", "content": "Berth 4."})
        context.prompt("Book it.")
    return path


@pytest.fixture
def thread(store, run):
    """`thread("list")`: the code, the output and what was said."""

    def thread(*arguments, stdin=b""):
        env = {"REHYDRATE_MEMORY": str(store), "REHYDRATE_NAMESPACE": "alice"}
        done = run("thread", *arguments, stdin=stdin, env=env)
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    return thread


def names(store):
    with Threads.open(store, namespace="alice") as threads:
        return [one.name for one in threads.list()]


def test_list_and_show(thread):
    assert thread("list").out.splitlines()[1].startswith("t-42 ")
    (shown,) = json.loads(thread("list", "--json").out)
    assert shown["name"] == "t-42" and shown["created"].endswith("+00:00")
    lines = thread("show", "t-42").out.splitlines()
    assert len(lines) == 3 and lines[1].startswith("#1 ") and lines[1].endswith("Berth 4.")
    assert thread("show", "t-42", "--last", "1").out.splitlines() == lines[2:]
    entries = json.loads(thread("show", "t-42", "--json").out)
    assert [entry["role"] for entry in entries] == ["user", "assistant", "user"]


def test_store(thread, store):
    with Context.open(store, thread="t-42", namespace="alice") as context:
        context.prompt("From now on, always book berth 4.")
    assert (
        "## User Preferences\n- From now on, always book berth 4. (#3)"
        in thread("store", "t-42").out
    )
    items = json.loads(thread("store", "t-42", "--json").out)
    assert {item["kind"] for item in items} == {"request", "preference"}


def test_the_page_of_a_store(thread, store, tmp_path):
    with Context.open(store, thread="t-42", namespace="alice") as context:
        context.add({"role": "user", "content": "Never say </script><script>alert(1)</script>."})
    done = thread("store", "t-42", "-o", str(tmp_path / "store.html"))
    assert (done.code, done.out) == (0, "")
    assert done.said == f"wrote {tmp_path}/store.html: the context store of t-42, 4 items\n"
    written = (tmp_path / "store.html").read_text(encoding="utf-8")
    page = Page(written)
    assert "<script" not in written and "2 superseded" in page.text
    assert "Never say </script><script>alert(1)</script>." in page.text
    assert thread("store", "t-42", "-o", "-").out == written
    both = thread("store", "t-42", "--json", "-o", str(tmp_path / "both.html"))
    assert len(json.loads(both.out)) == 4
    assert (tmp_path / "both.html").read_text(encoding="utf-8") == written


def test_a_store_without_anything_and_one_without_room_say_so(thread, store):
    with Context.open(store, thread="t-0", namespace="alice") as context:
        context.add({"role": "assistant", "content": "Hello."})
    empty = thread("store", "t-0")
    assert (empty.code, empty.out, empty.said) == (0, "", "t-0 has nothing in its store yet\n")
    assert thread("store", "t-42", "--tokens", "4k").out == thread("store", "t-42").out
    small = thread("store", "t-42", "--tokens", "99")
    assert small.code == 2 and "pass 100 or more" in small.said


def test_headings_are_bold_in_a_terminal_and_nothing_else_is_drawn(thread, store):
    with Context.open(store, thread="t-42", namespace="alice") as context:
        context.add({"role": "user", "content": "Never say \x1b[31mred\x07."})
    lines = thread("store", "t-42", "--color", "always").out.splitlines()
    assert lines[0] == "\x1b[1m## Task State\x1b[0m"
    assert "- Never say red . (#3)" in lines


def test_entries_are_read_in_the_format_of_the_thread(thread, store):
    with Context.open(store, thread="r", namespace="alice", format="openai_responses") as context:
        context.add({"role": "user", "content": "Which berth is free?"})
    assert thread("show", "r").out.endswith("Which berth is free?\n")


def test_fork_export_import(thread, store, tmp_path):
    assert thread("fork", "t-42", "t-43", "--entries", "2").code == 0
    assert thread("export", "t-42", str(tmp_path / "t.jsonl")).code == 0
    assert thread("import", str(tmp_path / "t.jsonl"), "--as", "t-44").code == 0
    assert names(store) == ["t-44", "t-43", "t-42"]
    assert len(thread("show", "t-43").out.splitlines()) == 2
    assert thread("show", "t-44").out == thread("show", "t-42").out
    refused = thread("import", str(tmp_path / "t.jsonl"))
    assert refused.code == 2 and "already" in refused.said


def test_redact_and_purge(thread, store):
    assert "3 records" in thread("redact", "t-42", stdin=b"hunter2\n").said
    assert "[redacted]" in thread("show", "t-42").out and b"hunter2" not in store.read_bytes()
    refused = thread("purge", "t-42")
    assert refused.code == 2 and "--yes" in refused.said and names(store) == ["t-42"]
    assert thread("purge", "t-42", "--yes").code == 0 and names(store) == []
    again = thread("purge", "t-42", "--yes")
    assert again.code == 2 and "no thread 't-42'" in again.said
    assert "no thread yet" in thread("list").said


def test_mistakes_are_reported(thread, run, tmp_path):
    gone = thread("show", "t-1")
    assert gone.code == 2 and gone.said == (
        "rehydrate: namespace 'alice' has no thread 't-1'; "
        "rehydrate thread list names those it has\n"
    )
    for arguments in (("store", "t-1"), ("export", "t-1", "x"), ("purge", "t-1", "--yes")):
        assert thread(*arguments).said == gone.said
    over = thread("store", "t-42", "-o", str(tmp_path / "threads.db"))
    assert over.code == 2 and "would overwrite the store" in over.said
    two = thread("store", "t-42", "--json", "-o", "-")
    assert two.code == 2 and "both write to standard output" in two.said
    away = ("--store", str(tmp_path / "x.db"))
    assert b"namespace" in run("thread", "list", *away, env={"REHYDRATE_NAMESPACE": ""}).stderr
    missing = run("thread", "list", "-n", "a", *away)
    assert missing.returncode == 2 and b"isn't a file" in missing.stderr
    assert not (tmp_path / "x.db").exists()


# Widths, colours and bars; foreign text that cannot break a layout.


class _Screen(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@given(st.text() | st.text("\x1b[]0;m\x07\x9b\u202e👩‍🇩日a\u0301"), st.integers(0, 40))
def test_no_text_is_wider_than_its_column_or_holds_a_control_character(text, cells):
    for terminal in (Terminal(), Terminal(unicode=False, encoding="ascii")):
        shown = terminal.fit(text, cells)
        assert display_width(shown) <= cells
        assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in shown)
        shown.encode(terminal.encoding)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mred\x1b[0m", "a red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jgone", "gone"),
        ("\x1bPdevice\x1b\\x", "x"),
        ("\x1b(0x", "x"),
        ("cut off \x1b[3", "cut off 3"),
        ("tab\tnew\r\nline\x00\x7f.", "tab new line ."),
        ("a\u202eb\u200bc\u2028d", "abc d"),
        ("\U0001f469\u200d\U0001f4bb \U0001f44d\U0001f3fd", "\U0001f469\U0001f4bb \U0001f44d"),
        ("\U0001f1e9\U0001f1ea", "DE"),
        ("e\u0301", "\xe9"),
        ("z" + "\u0335" * 50, "z\u0335\u0335"),
        ("\ud800x\ue000", "\ufffdx\ufffd"),
    ],
)
def test_foreign_text_is_made_safe(text, shown):
    assert Terminal().safe(text) == shown


def test_wide_characters_are_cut_between_not_through():
    assert Terminal().fit("日本語テキスト", 6) == "日本…"
    assert Terminal().fit_end("/日本語/x.json", 8) == "…/x.json"
    assert pad("日本", 6, ">") == "  日本"


def test_what_the_encoding_lacks_becomes_a_question_mark():
    assert Terminal(encoding="latin-1").safe("é 日") == "é ?"


@pytest.mark.parametrize(
    ("stream", "mode", "environ", "coloured"),
    [
        (_Screen(), "auto", {}, True),
        (io.StringIO(), "auto", {}, False),
        (_Screen(), "never", {"FORCE_COLOR": "1"}, False),
        (io.StringIO(), "always", {"NO_COLOR": "1"}, True),
        (_Screen(), "auto", {"NO_COLOR": "1"}, False),
        (_Screen(), "auto", {"NO_COLOR": ""}, True),
        (_Screen(), "auto", {"TERM": "dumb"}, False),
        (io.StringIO(), "auto", {"FORCE_COLOR": "1"}, True),
        (_Screen(), "auto", {"FORCE_COLOR": "0"}, False),
        (io.StringIO(), "auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colour_follows_the_option_then_the_environment_then_the_stream(
    stream, mode, environ, coloured
):
    assert Terminal.of(stream, mode, environ).colour is coloured


def test_the_width_is_that_of_the_environment_or_a_fixed_one_in_a_pipe():
    assert Terminal.of(io.StringIO(), environ={"COLUMNS": "77"}).width == 77
    assert Terminal.of(io.StringIO(), environ={"COLUMNS": "x"}).width == PIPE_WIDTH


def test_shades_are_ascii_where_the_encoding_has_no_blocks():
    class Old(io.StringIO):
        encoding = "latin-1"

    terminal = Terminal.of(Old(), environ={})
    assert not terminal.unicode
    assert terminal.shade(0.5).isascii()


def test_paint_adds_nothing_without_colour():
    assert Terminal().paint("x", "bold") == "x"
    assert re.sub(r"\x1b\[[0-9;]*m", "", Terminal(colour=True).paint("x", "bold", "red")) == "x"


def test_a_file_is_written_through_no_link_and_for_its_owner_alone(tmp_path: Path) -> None:
    victim = tmp_path / "key"
    victim.write_text("years of work")
    target = tmp_path / "out.html"
    for name in (f".rehydrate-{os.getpid()}.tmp", f".{target.name}-{os.getpid()}.tmp"):
        (tmp_path / name).symlink_to(victim)
    write("<p>", target)
    with whole_file(tmp_path / "part") as draft:
        assert draft.stat().st_mode & 0o777 == 0o600
        draft.write_bytes(b"x")
    assert target.read_bytes() == b"<p>"
    assert target.stat().st_mode & 0o777 == 0o600
    assert victim.read_text() == "years of work"
    with whole_file(target) as one, whole_file(target) as another:
        assert one != another


@pytest.mark.parametrize("width", (30, 60, 120))
@pytest.mark.parametrize("total", (None, 10_000))
def test_a_line_of_progress_fits_the_terminal_and_goes_when_it_ends(monkeypatch, width, total):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    screen = _Screen()
    monkeypatch.setattr("sys.stderr", screen)
    with Progress("syncing [red]notes\x1b[2J", "rows", total, shows_rate=True) as progress:
        progress.skip(1_000)
        progress.skip(3_000)
        progress.advance(1_000)
        drawn = progress.bar(screen)
        lines = drawn.console.render_lines(drawn.get_renderable())
    assert len(lines) == 1
    assert screen.getvalue().endswith("\x1b[2K")  # the line is cleared
    assert "\x1b[2J" not in screen.getvalue()
    assert "syncing" in screen.getvalue()
    assert width < 120 or "5000" in screen.getvalue()
