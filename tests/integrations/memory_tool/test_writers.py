"""Files of the memory tool outlive their writers: threads, processes, kills, deletions."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from rehydrate import Memory
from rehydrate._native import memory_command
from rehydrate.context import Threads
from rehydrate.integrations.memory_tool import FileLimits, MemoryFiles
from rehydrate.integrations.memory_tool.memory_files import FileLog
from tests.integrations.memory_tool.commands import (
    NOTES,
    create,
    delete,
    insert,
    sources,
    view,
)
from tests.sizes import PATIENCE_SECONDS


@pytest.mark.parametrize(
    "text",
    ["", "no end", "\r\ncarriage\r\n\r\n", "é漢字🚢\u2028x\x00\x0b", "\n" * 9, " \t", "\ufeffa"],
)
def test_a_text_comes_back_byte_for_byte_after_the_file_was_opened_again(path, text):
    with Memory.open(path, namespace="alice") as memory:
        MemoryFiles(memory).run(create(text=text))
    with Memory.open(path, namespace="alice") as memory:
        assert MemoryFiles(memory).texts() == {NOTES: text}


def test_old_versions_do_not_pile_up_and_the_text_stays(path):
    with Memory.open(path, namespace="alice") as memory:
        files = MemoryFiles(memory)
        files.run(create("/memories/kept.md", "Kept."))
        for number in range(100):
            files.run(create(text=f"{number} " + "word " * 4_000))
            files.run(delete())
        files.run(create(text="The end."))
        with Threads.open(path, namespace="alice") as threads:
            (thread,) = threads.list()
        assert (thread.name, thread.records) == ("/memories", 203)
        assert thread.bytes < 400_000
    with Memory.open(path, namespace="alice") as memory:
        expected = {"/memories/kept.md": "Kept.", NOTES: "The end."}
        assert MemoryFiles(memory).texts() == expected


def test_threads_edit_one_file_and_no_edit_is_lost(path):
    with Memory.open(path, namespace="alice") as memory:
        shared = MemoryFiles(memory)
        shared.run(create(text=""))
        answers: list[str] = []

        def edit(part: int) -> None:
            files = shared if part % 2 else MemoryFiles(memory)
            answers.extend(files.run(insert(0, f"Edit {part}-{n}.")) for n in range(12))

        workers = [threading.Thread(target=edit, args=(part,)) for part in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert set(answers) == {f"The file {NOTES} has been edited."}
        lines = shared.texts()[NOTES].splitlines()
        assert sorted(lines) == sorted(f"Edit {p}-{n}." for p in range(4) for n in range(12))
        # Searches find the text of the last edit.
        held = "".join(item.text for item in memory.list(sources=[NOTES], newest_first=False))
        assert sorted(held.splitlines()) == sorted(lines)


EDITOR = """
import sys
from rehydrate import Memory
from rehydrate.integrations.memory_tool import MemoryFiles

path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
files = MemoryFiles(Memory.open(path, namespace="alice"))
won = files.answer({"command": "create", "path": "/memories/lock", "file_text": name})
print("lost" if won[1] else "won", flush=True)
for number in range(count):
    text = f"{name} {number} " + "word " * 50
    print(files.answer({"command": "insert", "path": "/memories/notes.md", "insert_line": 0,
                        "insert_text": text})[1], flush=True)
"""


def editor(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", EDITOR, str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_processes_edit_one_file_and_one_of_them_creates_another(path, memory, files):
    files.run(create(text=""))
    running = [editor(path, name, 10) for name in "xyz"]
    outputs = [process.communicate(timeout=PATIENCE_SECONDS)[0].split() for process in running]
    assert sorted(output[0] for output in outputs) == ["lost", "lost", "won"]
    assert {each for output in outputs for each in output[1:]} == {"False"}
    lines = [line.split()[:2] for line in files.texts()[NOTES].splitlines()]
    assert sorted(lines) == sorted([name, str(n)] for name in "xyz" for n in range(10))
    for name in "xyz":
        own = [int(number) for who, number in lines if who == name]
        assert own == [*range(9, -1, -1)]


def test_after_a_kill_every_answered_edit_is_there_and_is_found(path):
    with Memory.open(path, namespace="alice") as memory:
        MemoryFiles(memory).run(create(text=""))
    with editor(path, "k", 10_000) as process:
        assert process.stdout is not None
        answered = [process.stdout.readline() for _ in range(15)][1:]
        process.kill()
    with Memory.open(path, namespace="alice") as memory:
        files = MemoryFiles(memory)
        lines = files.texts()[NOTES].splitlines()
        assert len(lines) >= len(answered)
        assert lines == [f"k {n} " + "word " * 50 for n in range(len(lines) - 1, -1, -1)]
        files.run(view("/memories"))
        held = "".join(item.text for item in memory.list(sources=[NOTES], newest_first=False))
        assert set(held.splitlines()) == set(lines)


def test_what_a_crash_left_without_passages_gets_them(memory, path):
    with Threads.open(path) as threads:
        log = FileLog(threads.native, "alice")

        def write_alone(command: dict[str, Any]) -> None:
            held = log.read()
            new = not held.records
            *_, rows = memory_command(command, held.texts, new, None, FileLimits(), False)
            assert log.write(held, rows)

        write_alone(create(text="The lamp of the lighthouse is green."))
        assert sources(memory, "lighthouse lamp") == []
        files = MemoryFiles(memory)
        files.run(view("/memories"))
        assert sources(memory, "lighthouse lamp") == [NOTES]
        write_alone(delete())
    MemoryFiles(memory).run(view("/memories"))
    assert sources(memory, "lighthouse lamp") == []


def test_a_redacted_text_is_gone_from_files_that_were_read_before(memory, files, path):
    files.run(create(text="The code is tango."))
    with Threads.open(path, namespace="alice") as threads:
        assert threads.redact("/memories", "tango") == 1
    assert files.texts() == {NOTES: "The code is [redacted]."}
    files.run(view("/memories"))
    assert [item.text for item in memory.list()] == ["The code is [redacted]."]


def test_no_byte_of_the_passages_of_a_redacted_text_stays(memory, files, path):
    memory.add("Another note.", source="notes")
    files.run(create(text="The code is incunabulum."))
    with Threads.open(path, namespace="alice") as threads:
        threads.redact("/memories", "incunabulum")
    files.run(view("/memories"))
    held = b"".join(file.read_bytes() for file in path.parent.rglob("*") if file.is_file())
    assert b"incunabulum" not in held
    assert {item.text for item in memory.list()} == {"Another note.", "The code is [redacted]."}


def test_a_redaction_leaves_the_files_where_they_were(memory, files, path):
    files.run(create(text="The path of the content is an entry."))
    with Threads.open(path, namespace="alice") as threads:
        threads.redact("/memories", ["path", "content", "entry", "role"])
    assert files.texts() == {NOTES: "The [redacted] of the [redacted] is an [redacted]."}


def test_clear_and_a_purge_delete_every_file(path):
    with Memory.open(path, namespace="alice") as memory:
        files = MemoryFiles(memory)
        memory.add("A note of the user.")
        files.run(create(text="The lighthouse keeper is Vanterpool."))
        files.clear()
        assert files.texts() == {} and "/memories" not in str(memory.search("Vanterpool"))
        assert len(memory.list()) == 1
        files.run(create(text="Vanterpool again."))
        memory.purge(everything=True)
        assert files.texts() == {} and memory.list() == []
        assert not files.answer(create())[1]
