"""`rehydrate thread`: lists, shows, forks, exports, redacts and purges stored conversations."""

import json
from typing import NamedTuple

import pytest

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
    (told,) = json.loads(thread("list", "--json").out)
    assert told["name"] == "t-42" and told["created"].endswith("+00:00")
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


def test_mistakes_are_told(thread, run, tmp_path):
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
    assert missing.returncode == 2 and b"is no file" in missing.stderr
    assert not (tmp_path / "x.db").exists()
