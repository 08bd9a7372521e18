"""Redacted threads: a text is gone from all that was said, and the thread is read as before."""

import json
import subprocess
import sys
from contextlib import closing, contextmanager

import pytest

from rehydrate import validate
from rehydrate._native import LocalStore, handle_of_text
from rehydrate.context import Context, ThreadReader, Threads
from rehydrate.errors import InvalidArgumentError, StoreBusyError, StoreConflictError
from rehydrate.memory import MemoryLimits
from tests.context.test_stored_threads import (
    assistant,
    call,
    opened,
    result,
    stored_bytes,
    user,
)


def test_redaction_takes_a_text_out_of_everything(where):
    secret = "sk-hunter2-hunter2"
    whole = "\n".join(f"{n}: {secret if n == 1500 else 'nothing'} here" for n in range(3_000))
    with opened(where) as context:
        context.prompt(f"The key is {secret}.")
        context.add(call("t1"), result("t1", whole))
        shown = json.dumps(context.prompt().messages)
        handle = shown[shown.index("orig_") :][:31]
    with Threads.open(where, namespace="alice") as threads:
        assert threads.redact("t-42", secret) >= 2
        assert threads.redact("t-42", secret) == 0
        with pytest.raises(InvalidArgumentError, match="empty"):
            threads.redact("t-42", " ")
    assert secret.encode() not in stored_bytes(where)
    with opened(where) as context:
        assert any("new prefix" in line for line in context.ir.meta.degraded)
        assert context.originals.get(handle) == whole.replace(secret, "[redacted]")
        compiled = context.prompt("Go on.")
        assert secret not in json.dumps(compiled.messages) and not validate(
            compiled.messages, "anthropic"
        )


def test_redaction_leaves_the_store_whole(where):
    secret = 'HUNTER2-"Secret"'
    preferences = ["Always use {} for the login.", "Never push to main.", "Never say {}"]
    with opened(where) as context:
        context.add(user("Fix it. " + " ".join(preferences).format(secret, secret)))
        context.add(call("t1", "Edit", old=secret, file_path="src/rows.py"), result("t1", "ok"))
        context.add(call("t2", "Bash", command=f"make test {'x' * 180} {secret}"))
        context.add(result("t2", f"first line\nTypeError: no {secret} here"))
    with Threads.open(where, namespace="alice") as threads:
        before = threads.store("t-42").items()
        threads.redact("t-42", secret)
        after = threads.store("t-42").items()
        assert [item.text for item in after] == [
            item.text.replace(secret, "[redacted]") for item in before
        ]
        assert [item.text for item in threads.store("t-42").items("User Preferences")] == [
            each.format("[redacted]") for each in preferences
        ]
        assert threads.redact("t-42", secret) == 0
    assert b"hunter2" not in stored_bytes(where).lower()  # the keys of items are in small letters
    with opened(where) as context:
        context.add(user(preferences[1]))
        assert len(context.store.items("User Preferences")) == 3


WORDS = ["entry", "tokens", "role", "content", "user", "format", "plain", "assistant", "name"]
WORDS += ["text", "no", "e", "1", "type", "read", "history", "anthropic", "op", "add", "request"]


@pytest.mark.parametrize("word", WORDS)
def test_redaction_leaves_the_records_and_the_format_whole(where, word):
    with opened(where) as context:
        context.add(user(f"I say the {word}, and nothing more."), call("t1", "Read", path="a.py"))
        context.add(result("t1", "done"))
        context.prompt("Which one is it?")
        context.add(assistant("Never mind."))
    with Threads.open(where, namespace="alice") as threads:
        before = threads.read("t-42").entries
        assert threads.redact("t-42", word) > 0
        after = threads.read("t-42").entries
    assert [each["role"] for each in after] == [each["role"] for each in before]
    said = before[0]["content"].replace(word, "[redacted]")
    assert after[0] == user(said)
    assert after[1]["content"][0].keys() == before[1]["content"][0].keys()
    assert after[1]["content"][0]["name"] == "Read"
    with opened(where) as context:
        assert not validate(context.prompt("Go on.").messages, "anthropic")


def chat_call(arguments):
    function = {"name": "set", "arguments": arguments}
    calls = [{"id": "c1", "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


@pytest.mark.parametrize(
    ("message", "texts", "after"),
    [
        (user("It is password123."), ["pass", "password123"], user("It is [redacted].")),
        (call("t1", pin=48213377), "48213377", call("t1", pin="[redacted]")),
        (
            call("t1", Bob={"Bob": "Bob"}),
            "Bob",
            call("t1", **{"[redacted]": {"[redacted]": "[redacted]"}}),
        ),
        (
            chat_call(json.dumps({"who": "José Müller", "n": 1})),
            "José Müller",
            chat_call(json.dumps({"who": "[redacted]", "n": 1})),
        ),
        (
            chat_call(json.dumps({"who": 'I said "alpha" to', "pin": 77123})),
            ['"alpha"', "77123"],
            chat_call(json.dumps({"who": "I said [redacted] to", "pin": "[redacted]"})),
        ),
        (
            user("log: " + json.dumps(json.dumps({"who": 'José "Joe" Müller'}))),
            'José "Joe" Müller',
            user("log: " + json.dumps(json.dumps({"who": "[redacted]"}))),
        ),
    ],
)
def test_redaction_finds_a_text_however_it_is_written(where, message, texts, after):
    format_ = "openai_chat" if "tool_calls" in message else "anthropic"
    with Threads.open(where, namespace="alice") as threads:
        Context(threads=threads, thread="t", format=format_).add(user("Set it."), message)
        assert threads.redact("t", texts) > 0
        assert threads.read("t").entries[1] == after
        assert threads.redact("t", texts) == 0


def test_a_redaction_that_no_reader_could_read_is_refused(where, monkeypatch):
    with Threads.open(where, namespace="alice") as threads:
        Context(threads=threads, thread="t").add(user("Hello."), assistant("Hi."))
        before = threads.native.records("alice", "t")
        bodies = [(1, '{"entry": {"role": "[redacted]", "content": "Hello."}, "tokens": 3}')]
        monkeypatch.setattr("rehydrate.context.threads.redacted_records", lambda *_: (bodies, []))
        with pytest.raises(InvalidArgumentError, match="nothing was changed") as refused:
            threads.redact("t", "user")
        assert "role" in str(refused.value)
        assert threads.native.records("alice", "t") == before


def test_redaction_is_one_change(where, monkeypatch):
    """A writer that comes between the replacing and the adding could lose the originals."""
    with Threads.open(where, namespace="alice") as threads:
        context = Context(threads=threads, thread="t")
        context.add(user("The key is hunter2."))
        context.close()
        handle = handle_of_text("The key is hunter2.")
        before = len(threads.native.records("alice", "t"))
        threads.redact("t", "hunter2")
        assert ThreadReader(threads, "t").whole(handle) == "The key is [redacted]."
        added = len(threads.native.records("alice", "t")) - before
        assert added == 1
        refused = [(before, "x")], [(4, 1.0, "{}")]
        with pytest.raises(StoreConflictError):
            threads.native.replace_records("alice", "t", before, *refused)
        with pytest.raises(InvalidArgumentError):
            threads.native.replace_records("alice", "t", before + 1, [(99, "x")], refused[1])
        assert len(threads.native.records("alice", "t")) == before + 1


def test_a_context_that_still_has_a_redacted_text_is_refused(where):
    with Threads.open(where, namespace="alice") as threads:
        context = Context(threads=threads, thread="t", system="The PIN is 48213377.")
        context.prompt("Hello.")
        assert threads.redact("t", "48213377") == 1
        with pytest.raises(StoreConflictError):
            context.add(assistant("Hi."))
        again = Context(threads=threads, thread="t", system="The PIN is [redacted].")
        assert "48213377" not in json.dumps(again.prompt("Go on.").request)


READER = """
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as reader:
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM records").fetchall()
    print("reading", flush=True)
    sys.stdin.read()
"""


@contextmanager
def reading(where):
    """Another process in the middle of a long read."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", READER, str(where)], **pipes) as process:
        assert process.stdout.readline()
        yield
        process.stdin.close()


def test_a_redaction_that_was_cut_off_is_finished_by_the_next(tmp_path):
    where = tmp_path / "t.db"
    with closing(LocalStore(where, limits=MemoryLimits(), busy_seconds=0.05)) as store:
        threads = Threads(store, namespace="alice")
        Context(threads=threads, thread="t").add(user("The word is incunabulum."))
        with reading(where), pytest.raises(StoreBusyError):
            threads.redact("t", "incunabulum")
        assert threads.history("t")[0][1] == user("The word is [redacted].")
        assert b"incunabulum" in stored_bytes(where)
        assert threads.redact("t", "incunabulum") == 0
        assert b"incunabulum" not in stored_bytes(where)
