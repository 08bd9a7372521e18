"""`rehydrate memory`: commands, their output, and their error messages."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rehydrate import Embedder, Memory, _native
from rehydrate.cli.memory_store import default_store
from tests.sizes import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
NOTES = ROOT / "examples" / "notes"
PAGE = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")
HANDLE = re.compile(r"mem_[0-9a-z]{26}")

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "data" / "memory.db"


@pytest.fixture
def memory(run: Run, store: Path) -> Run:
    """`memory("add", "text")`, in a store of its own and the namespace alice."""

    def memory(*arguments, stdin=b"", code=0, **env):
        settings = {"REHYDRATE_MEMORY": str(store), "REHYDRATE_NAMESPACE": "alice", **env}
        done = run("memory", *arguments, stdin=stdin, env=settings)
        assert done.returncode == code, done.stderr.decode()
        return done

    return memory


def added(memory: Run, *arguments: str, **more: object) -> str:
    """Return the handle of the added item."""
    return memory("add", *arguments, **more).stdout.decode().strip()


def said(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return the one line on standard error."""
    text = done.stderr.decode()
    assert text.count("\n") == 1, text
    assert "Traceback" not in text
    return text.rstrip("\n")


def on_a_terminal(
    arguments: list[str], store: Path, answer: bytes = b"", stdin: Path | None = None
) -> tuple[int, str]:
    """Return the exit code and a terminal's content, with the user's answer to a question."""
    ours, theirs = pty.openpty()
    env = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
    env |= {"REHYDRATE_MEMORY": str(store), "REHYDRATE_NAMESPACE": "alice", "TERM": "xterm"}
    with stdin.open("rb") if stdin else os.fdopen(os.dup(theirs), "rb") as source:
        process = subprocess.Popen(
            [sys.executable, "-m", "rehydrate", "memory", *arguments],
            stdin=source, stdout=theirs, stderr=theirs,
            env={**env, "PYTHONUTF8": "1", "COLUMNS": "100"},
        )  # fmt: skip
    os.close(theirs)
    os.write(ours, answer)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65_536) if select.select([ours], [], [], 60)[0] else b""
        except OSError:  # Linux's way of saying that the other end is closed
            part = b""
        if not part:
            break
        shown += part
    os.close(ours)
    return process.wait(timeout=PATIENCE_SECONDS), shown.decode()


# Adding and finding


def test_the_example_of_the_page_prints_what_it_says(run, store):
    (console,) = re.findall(r"```console\n(.*?)```", PAGE, re.S)
    settings = {"REHYDRATE_MEMORY": str(store), "COLUMNS": "100"}
    printed = ""
    for line in console.splitlines(keepends=True):
        if line.startswith("$ export "):
            name, value = line.split()[-1].split("=")
            settings[name] = value
        elif line.startswith("$ rehydrate "):
            words = re.findall(r'"[^"]*"|\S+', line.removeprefix("$ rehydrate "))
            arguments = [word.strip('"').replace("examples/notes", str(NOTES)) for word in words]
            done = run(*arguments, env=settings)
            assert (done.returncode, done.stderr) == (0, b"")
            printed += line + done.stdout.decode()
            continue
        if line.startswith("$ export "):
            printed += line
    assert printed == console


@pytest.mark.parametrize(
    ("question", "source"),
    [
        ("can a ticket be checked without a network?", "notes/decisions.md"),
        ("how many bikes fit on the boat", "notes/decisions.md"),
        ("double booking", "notes/daily/2026-02-19.md"),
        ("expired certificate", "notes/archive/2025-retrospective.md"),
        ("quotes for card readers compared", "notes/archive/vendor-notes.md"),
    ],
)
def test_the_shipped_notes_answer_questions(memory, question, source):
    memory("sync", str(NOTES))
    found = json.loads(memory("search", question, "--json").stdout)
    assert found["hits"][0]["item"]["source"] == source


def test_the_shipped_notes_have_every_tier(memory):
    memory("sync", str(NOTES))
    stats = json.loads(memory("stats", "--json").stdout)
    assert stats["hot"] == 1
    assert stats["warm"] >= 9
    assert stats["cold"] >= 3


def test_what_is_shown_is_what_was_added_byte_for_byte(memory):
    text = "Zeile\r\n\ttab \0 nul שלום 記憶 🧠 end \n".encode()
    handle = added(memory, "-", stdin=text)
    assert memory("show", handle).stdout == text


def test_every_line_can_be_an_item(memory):
    done = memory("add", "--lines", "-", "--kind", "fact", stdin=b"one\n\ntwo\r\nthree")
    assert len(done.stdout.split()) == 3
    items = json.loads(memory("list", "--json", "--oldest-first").stdout)["items"]
    assert [(item["text"], item["kind"]) for item in items] == [
        ("one", "fact"),
        ("two", "fact"),
        ("three", "fact"),
    ]


def test_adding_twice_gives_the_same_handle(memory):
    first = added(memory, "Anna prefers tea.", "--source", "chat/1")
    again = json.loads(memory("add", "Anna prefers tea.", "--source", "chat/1", "--json").stdout)
    assert again["added"] == [{"handle": first, "created": False, "redactions": []}]


def test_a_secret_is_taken_out_and_the_user_is_informed(memory):
    done = memory("add", "the key is AKIAIOSFODNN7EXAMPLE")
    assert "aws_access_key" in said(done)
    shown = memory("show", done.stdout.decode().strip()).stdout
    assert shown == b"the key is [redacted:aws_access_key]"
    kept = added(memory, "the key is AKIAIOSFODNN7EXAMPLE", "--no-redact")
    assert memory("show", kept).stdout == b"the key is AKIAIOSFODNN7EXAMPLE"


def test_what_is_said_of_a_text_comes_back_with_it(memory):
    handle = added(
        memory, "Never on a Friday.", "--kind", "rule", "--tier", "hot", "--source", "chat/1",
        "--thread", "s1", "--principal", "anna", "--trust", "0.5", "--time", "2026-02-17",
    )  # fmt: skip
    item = json.loads(memory("show", handle, "--json").stdout)
    assert {name: item[name] for name in ("kind", "tier", "source", "thread", "principal")} == {
        "kind": "rule", "tier": "hot", "source": "chat/1", "thread": "s1", "principal": "anna",
    }  # fmt: skip
    assert (item["trust"], item["time"]) == (0.5, "2026-02-17T00:00:00+00:00")
    assert (item["handle"], item["namespace"]) == (handle, "alice")


def test_an_item_that_expires_in_some_days_is_found_until_then(memory):
    handle = added(memory, "Berth 4 is free.", "--expires", "7d")
    (hit,) = json.loads(memory("search", "berth", "--json").stdout)["hits"]
    assert hit["item"]["handle"] == handle
    assert "in how long: 36h" in said(memory("add", "x", "--expires", "soon", code=2))


def test_filters_narrow_what_is_found(memory):
    memory("add", "old port 8080", "--time", "2025-01-01", "--kind", "decision")
    memory("add", "new port 8443", "--time", "2026-01-01", "--tier", "cold")

    def found(*filters):
        hits = json.loads(memory("search", "port", "--json", *filters).stdout)["hits"]
        return {hit["item"]["text"] for hit in hits}

    assert found() == {"old port 8080", "new port 8443"}
    assert found("--after", "2025-06-01") == {"new port 8443"}
    assert found("--before", "2025-06-01") == {"old port 8080"}
    assert found("--tier", "cold") == {"new port 8443"}
    assert found("--kind", "decision", "--kind", "other") == {"old port 8080"}
    assert found("--source", "elsewhere") == set()


def test_another_namespace_sees_nothing(memory):
    handle = added(memory, "the port is 8443")
    assert "holds nothing yet" in said(memory("search", "port", "-n", "bob"))
    assert "'bob' holds no" in said(memory("show", handle, "-n", "bob", code=2))
    assert memory("forget", handle, "-n", "bob", code=1).stdout == b"0 forgotten\n"
    assert memory("show", handle).stdout == b"the port is 8443"


def test_a_list_comes_in_pages(memory):
    memory("add", "--lines", "-", stdin=b"a1\na2\na3\na4\na5")

    def page(number):
        done = json.loads(memory("list", "--limit", "2", "--page", number, "--json").stdout)
        return [item["text"] for item in done["items"]], done["more"]

    assert [page("1"), page("2"), page("3")] == [
        (["a5", "a4"], True),
        (["a3", "a2"], True),
        (["a1"], False),
    ]
    assert "beyond the last; there are 5 items" in said(memory("list", "--page", "9"))


@pytest.mark.parametrize("width", ["40", "60", "80", "120", "200"])
def test_no_line_of_a_table_is_wider_than_the_terminal(memory, width):
    memory("sync", str(NOTES))
    lines = memory("list", COLUMNS=width).stdout.decode().splitlines()
    assert max(map(len, lines)) <= max(int(width), 30 + 2 + 4 + 2 + 20)
    assert all(HANDLE.match(line) for line in lines[1:])


def test_an_export_comes_back_the_same(memory, tmp_path):
    memory("sync", str(NOTES))
    before = memory("export", "-").stdout
    memory("export", "x.jsonl")
    assert (tmp_path / "x.jsonl").read_bytes() == before
    memory("forget", "--all", "--yes")
    assert json.loads(memory("import", "-", "--json", stdin=before).stdout)["added"] == 14
    assert memory("export", "-").stdout == before


def test_a_sync_tells_what_changed(memory, tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("alpha\n")
    (notes / "b.md").write_text("beta\n")
    memory("sync", "notes")
    (notes / "a.md").write_text("alpha two\n")
    (notes / "b.md").unlink()
    (notes / "c.png").write_bytes(b"\x89PNG\0")
    lines = memory("sync", "notes").stdout.decode().splitlines()
    assert lines[:2] == ["~ a.md", "- b.md"]
    assert lines[2].startswith("! c.png: it isn't a note")
    assert lines[3].startswith("1 changed, 1 removed, 1 refused; 1 passage new, 2 gone")


def test_too_much_hot_memory_is_warned_of(memory, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "core.md").write_text("A line.\n" * 140)
    assert "core.md has 140 lines, hot memory holds 100" in said(memory("sync", "notes"))


# Forgetting


def test_handles_to_forget_come_from_standard_input_too(memory):
    handles = memory("add", "--lines", "-", stdin=b"a1\na2").stdout
    assert memory("forget", "-", stdin=handles).stdout == b"2 forgotten\n"
    done = memory("forget", "-", stdin=handles, code=1)
    assert "2 handles not there" in said(done)


def test_all_of_a_source_or_a_session_can_go(memory):
    memory("add", "one", "--source", "a")
    memory("add", "two", "--thread", "s")
    memory("add", "three")
    assert memory("forget", "--source", "a", "--yes").stdout == b"1 forgotten\n"
    assert memory("forget", "--thread", "s", "--yes").stdout == b"1 forgotten\n"
    assert memory("forget", "--all", "--yes").stdout == b"1 forgotten\n"


def test_nothing_wide_is_forgotten_unless_someone_says_yes(memory, store):
    handle = added(memory, "keep me")
    assert "--yes" in said(memory("forget", "--all", code=2))
    code, shown = on_a_terminal(["forget", "--all"], store, b"\n")
    assert (code, "forget 1 item, all of namespace 'alice'? [y/N]" in shown) == (1, True)
    assert memory("show", handle).stdout == b"keep me"
    code, shown = on_a_terminal(["forget", "--all"], store, b"y\n")
    assert (code, "1 forgotten" in shown) == (0, True)
    memory("show", handle, code=2)


@pytest.mark.parametrize(
    "arguments", [["forget"], ["forget", "mem_x", "--all"], ["forget", "--all", "--source", "x"]]
)
def test_forget_wants_to_know_exactly_what(memory, arguments):
    added(memory, "keep me")
    said(memory(*arguments, code=2))


# Errors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["search", "x", "-n", " "], "--namespace is ' '"),
        (["add", "x", "-n", ""], "leave it out for that of $REHYDRATE_NAMESPACE"),
        (["forget", "--all", "-y", "-n", ""], "--namespace is ''"),
        (["rebuild", "-n", ""], "--namespace is ''"),
        (["add", ""], "at least one character"),
        (["add", "-"], "standard input is empty"),
        (["add", "-", "-"], "only once"),
        (["add", "x", "--tier", "tepid"], "invalid choice"),
        (["add", "x", "--trust", "2"], "a number from 0 to 1"),
        (["list", "--after", "yesterday"], "isn't a time"),
        (["list", "--limit", "0"], "a number from 1"),
        (["search", " "], "the query is empty"),
        (["show", "nothing"], "'t a handle"),
        (["sync", "nowhere"], "isn't a folder"),
        (["import", "nowhere.jsonl"], "cannot be read"),
        (["export", "nowhere/x.jsonl"], "cannot be written"),
        (["list", "--store", "."], "is a folder"),
        (["list", "--store", "mysql://host/db"], "name a file"),
        (["add", "x", "--store", "~stranger/m.db"], "name a path"),
        (["add", "x", "--embedder", "no-such-model"], "no-such-model"),
        (["list", "--store", "junk.db"], "isn't a store"),
        (["list", "--store", "none.db"], "there is no memory yet"),
        (["rebuild", "--store", "none.db"], "there is no memory yet"),
        (["verify", "--store", "none.db"], "there is no memory yet"),
        (["forget", "--all", "-y", "--store", "none.db"], "there is no memory yet"),
    ],
)
def test_a_mistake_is_one_line_with_the_remedy_and_exit_code_2(memory, tmp_path, arguments, words):
    added(memory, "something")
    (tmp_path / "junk.db").write_bytes(b"no database " * 100)
    assert words in said(memory(*arguments, code=2))
    assert not (tmp_path / "none.db").exists()


def test_no_namespace_is_a_mistake_not_a_default(memory):
    added(memory, "something")
    assert "REHYDRATE_NAMESPACE" in said(memory("list", code=2, REHYDRATE_NAMESPACE=""))


def test_a_line_that_is_no_item_is_named(memory):
    done = memory("import", "-", stdin=b'{"text": "a"}\n{"text": 3}\n', code=2)
    assert "rehydrate: standard input, line 2: it isn't an item" in said(done)


def test_text_that_is_no_utf8_is_refused(memory):
    assert "byte 3" in said(memory("add", "-", stdin=b"caf\xe9", code=2))


def test_a_damaged_file_is_reported_by_verify(memory, store):
    memory("add", "--lines", "-", stdin=b"\n".join(b"fact %d" % n for n in range(200)))
    assert memory("verify").stdout.decode().startswith("ok  200 items in ")
    content = bytearray(store.read_bytes())
    content[4096:] = bytes(byte ^ 0x55 for byte in content[4096:])
    store.write_bytes(content)
    assert memory("verify", code=1).stdout.decode().startswith("damaged")
    assert json.loads(memory("verify", "--json", code=1).stdout)["ok"] is False
    assert "restore" in said(memory("list", code=2))


def test_a_damaged_index_is_no_error(memory, store):
    memory("add", "--lines", "-", stdin=b"\n".join(b"fact %d" % n for n in range(200)))
    memory("rebuild")
    segments = list(Path(f"{store}-index").iterdir())
    assert segments
    for segment in segments:
        segment.write_bytes(segment.read_bytes()[:-9] + b"damaged!!")
    assert "thrown away" in memory("verify").stdout.decode()
    found = json.loads(memory("search", "fact 17", "--json").stdout)
    assert found["hits"][0]["item"]["text"] == "fact 17"


def test_vectors_are_dropped_where_that_is_asked_for(memory, store):
    embedder = Embedder(lambda texts: [[float(len(text)), 1.0] for text in texts], space="old")
    with Memory.open(store, namespace="alice", embedder=embedder) as opened:
        opened.add(["one", "two and more"])
    stats = lambda: json.loads(memory("stats", "--json").stdout)  # noqa: E731
    memory("rebuild")
    assert (stats()["vectors"], stats()["vector_space"]) == (2, "old")
    memory("rebuild", "--vectors")
    assert (stats()["vectors"], stats()["vector_space"], stats()["items"]) == (0, None, 2)


def test_a_reader_who_leaves_early_is_no_error(memory, store):
    memory("add", "--lines", "-", stdin=b"\n".join(b"fact %d" % n for n in range(3000)))
    command = f"'{sys.executable}' -m rehydrate memory list --limit 3000 | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        env={**os.environ, "REHYDRATE_MEMORY": str(store), "REHYDRATE_NAMESPACE": "alice"},
        capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode in (0, 141), done.stderr) == (True, b"")


def test_an_interrupt_leaves_what_was_brought_in(memory, store, tmp_path):
    facts = tmp_path / "facts.txt"
    facts.write_text("".join(f"Fact {n} of many, with some words.\n" for n in range(100_000)))
    with facts.open("rb") as lines:
        process = subprocess.Popen(
            [sys.executable, "-m", "rehydrate", "memory", "add", "--lines", "-"],
            stdin=lines, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env={**os.environ, "REHYDRATE_MEMORY": str(store), "REHYDRATE_NAMESPACE": "alice"},
        )  # fmt: skip
    while process.poll() is None and items_in(store) == 0:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert words.decode().startswith("rehydrate: interrupted; what was brought in stays")
    assert 0 < items_in(store) < 100_000
    memory("verify")


def items_in(store: Path) -> int:
    if not store.exists():
        return 0
    with Memory.open(store, namespace="alice") as memory:
        return memory.stats().items


# Output on a terminal


def test_matches_are_marked_where_there_is_colour(memory):
    added(memory, "The ferry leaves at noon; ferries are blue.")
    shown = memory("search", "when do ferries leave?", "--color", "always").stdout.decode()
    assert "\x1b[33;1mferries\x1b[0m" in shown
    assert "\x1b[33;1mleaves\x1b[0m" in shown
    assert "\x1b[" not in memory("search", "ferries").stdout.decode()


@pytest.mark.parametrize(
    ("query", "text", "marked"),
    [
        ("what is the port", "the port is on", ["port"]),
        ("->", "a -> b", ["->"]),
        ("הספר", "קראתי את הספר", ["הספר"]),
        ("記憶", "長期記憶の話", ["記憶"]),
        ("go", "go, and gone", ["go"]),
    ],
)
def test_what_is_marked_is_what_was_asked_for(query, text, marked):
    lines, *_ = _native.hit_lines([text], query, 80, 6)
    assert [parts[1::2] for parts in lines] == [marked]


def test_a_text_cannot_command_the_terminal(memory, store):
    handle = added(memory, "-", stdin=b"def f():\n    \x1b]0;gotcha\x07return 1\n\x1b[2Jend")
    for arguments in (["show", handle], ["search", "return"], ["list"]):
        _, shown = on_a_terminal(arguments, store)
        assert "\x1b]0;" not in shown
        assert "\x1b[2J" not in shown
    assert "    return 1\r\n" in on_a_terminal(["show", handle], store)[1]


def test_progress_is_drawn_on_a_terminal_and_taken_away(store, tmp_path, memory):
    facts = tmp_path / "facts.txt"
    facts.write_text("".join(f"Fact {n} of many, with some words.\n" for n in range(20_000)))
    code, shown = on_a_terminal(["add", "--lines", "-"], store, stdin=facts)
    assert code == 0
    assert re.search(r"adding .*% +\d+/20000 texts", re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", shown))
    assert "\x1b[2K" in shown
    assert "20,000 new, 0 there already" in shown.rsplit("\x1b[2K", 1)[1]
    assert memory("add", "--lines", "-", stdin=facts.read_bytes()).stderr == b""


# Location of the file


def test_the_store_is_where_the_environment_says():
    assert default_store({"REHYDRATE_MEMORY": "/srv/m.db"}) == Path("/srv/m.db")
    assert default_store({"REHYDRATE_HOME": "/srv"}) == Path("/srv/memory.db")
    assert default_store({"XDG_DATA_HOME": "/data"}) == Path("/data/rehydrate/memory.db")


def test_without_a_word_it_is_in_the_users_data(run, tmp_path):
    env = {"XDG_DATA_HOME": str(tmp_path / "data"), "REHYDRATE_NAMESPACE": "alice"}
    env |= {"REHYDRATE_MEMORY": "", "REHYDRATE_HOME": ""}
    assert run("memory", "add", "something", env=env).returncode == 0
    assert (tmp_path / "data" / "rehydrate" / "memory.db").is_file()


@pytest.mark.parametrize(
    "command",
    ["add", "sync", "import", "search", "list", "show", "stats", "forget", "verify", "rebuild",
     "export"],
)  # fmt: skip
def test_every_command_explains_itself(run, command):
    done = run("memory", command, "--help")
    assert done.returncode == 0
    assert b"--store PATH" in done.stdout
