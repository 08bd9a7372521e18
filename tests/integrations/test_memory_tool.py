"""The memory tool: each command and error, hostile paths, writers, crashes, three providers."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rehydrate import Context, Interpreter, Memory
from rehydrate.context import Threads
from rehydrate.errors import InvalidArgumentError, StoreClosedError
from rehydrate.integrations.memory_tool import FileLimits, MemoryFiles
from rehydrate.integrations.memory_tool.memory_files import FileLog
from tests.provider import Call, ScriptedReply, StrictProvider
from tests.sizes import PATIENCE_SECONDS

NOTES = "/memories/notes.md"
TEXT = "Staging listens on 8443.\nThe pilot prefers short answers.\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def memory(path: Path) -> Iterator[Memory]:
    with Memory.open(path, namespace="alice") as memory:
        yield memory


@pytest.fixture
def files(memory: Memory) -> MemoryFiles:
    return MemoryFiles(memory)


def create(path: str = NOTES, text: str = TEXT) -> dict[str, Any]:
    return {"command": "create", "path": path, "file_text": text}


def view(path: str = NOTES, *view_range: int) -> dict[str, Any]:
    return {
        "command": "view",
        "path": path,
        **({"view_range": [*view_range]} if view_range else {}),
    }


def replace(old: str, new: str | None = None, path: str = NOTES) -> dict[str, Any]:
    given = {"command": "str_replace", "path": path, "old_str": old}
    return given if new is None else {**given, "new_str": new}


def insert(line: Any, text: str, path: str = NOTES) -> dict[str, Any]:
    return {"command": "insert", "path": path, "insert_line": line, "insert_text": text}


def delete(path: str = NOTES) -> dict[str, Any]:
    return {"command": "delete", "path": path}


def rename(old: str, new: str) -> dict[str, Any]:
    return {"command": "rename", "old_path": old, "new_path": new}


def sources(memory: Memory, query: str) -> list[str]:
    return [hit.item.source for hit in memory.search(query)]


# ----------------------------------------------------------------------------------------- commands


def test_an_empty_memory_is_shown_and_is_no_error(files):
    assert files.answer(view("/memories")) == (
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden "
        "items and node_modules:\n0B\t/memories",
        False,
    )


def test_each_command_answers_as_documented(files):
    assert files.answer(create()) == (f"File created successfully at: {NOTES}", False)
    assert files.run(view()) == (
        f"Here's the content of {NOTES} with line numbers:\n"
        "     1\tStaging listens on 8443.\n     2\tThe pilot prefers short answers.\n     3\t"
    )
    assert files.run(view(NOTES, 2, 2)).endswith(":\n     2\tThe pilot prefers short answers.")
    assert files.run(view(NOTES, 2, -1)).endswith("answers.\n     3\t")
    assert files.run(view(NOTES, -5, 99)).endswith("answers.\n     3\t")
    assert files.run(replace("8443", "9443")) == (
        "The memory file has been edited. Here is the snippet showing the change (with line "
        "numbers):\n     1\tStaging listens on 9443.\n     2\tThe pilot prefers short answers.\n"
        "     3\t"
    )
    assert files.run(insert(1, "Production: 443.\n")) == f"The file {NOTES} has been edited."
    assert files.texts()[NOTES] == (
        "Staging listens on 9443.\nProduction: 443.\nThe pilot prefers short answers.\n"
    )
    files.run(replace("Production: 443.\n"))
    assert files.texts()[NOTES] == TEXT.replace("8443", "9443")
    assert files.run(rename(NOTES, "/memories/old/ports.md")) == (
        f"Successfully renamed {NOTES} to /memories/old/ports.md"
    )
    assert [*files.texts()] == ["/memories/old/ports.md"]
    assert files.run(delete("/memories/old")) == "Successfully deleted /memories/old"
    assert files.texts() == {}


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (view("/memories/none"), "The path /memories/none does not exist. Please provide a valid "
         "path."),
        (create(), f"Error: File {NOTES} already exists"),
        (create("/memories"), "Error: File /memories already exists"),
        (create("/memories/dir"), "Error: File /memories/dir already exists"),
        (create(f"{NOTES}/inner.md"), f"Error: The path {NOTES} is a file, not a directory"),
        (replace("a", "b", "/memories/none"), "Error: The path /memories/none does not exist. "
         "Please provide a valid path."),
        (replace("a", "b", "/memories/dir"), "Error: The path /memories/dir does not exist. Please "
         "provide a valid path."),
        (replace("tug", "b"), "No replacement was performed, old_str `tug` did not appear verbatim "
         f"in {NOTES}."),
        (replace("s", "b"), "No replacement was performed. Multiple occurrences of old_str `s` in "
         "lines: 1, 1, 2, 2, 2, 2. Please ensure it is unique"),
        (replace("", "b"), "No replacement was performed. `old_str` is empty; send the text to "
         "replace"),
        (insert(0, "a", "/memories/none"), "Error: The path /memories/none does not exist"),
        (insert(3, "a"), "Error: Invalid `insert_line` parameter: 3. It should be within the range "
         "of lines of the file: [0, 2]"),
        (insert(-1, "a"), "Error: Invalid `insert_line` parameter: -1. It should be within the "
         "range of lines of the file: [0, 2]"),
        (insert("1", "a"), "Error: Invalid `insert_line` parameter: 1. It should be within the "
         "range of lines of the file: [0, 2]"),
        (delete("/memories/none"), "Error: The path /memories/none does not exist"),
        (delete("/memories"), "Error: Cannot delete the /memories directory itself"),
        (rename("/memories/none", "/memories/b"), "Error: The path /memories/none does not exist"),
        (rename(NOTES, "/memories/dir/a.md"), "Error: The destination /memories/dir/a.md already "
         "exists"),
        (rename(NOTES, "/memories/dir"), "Error: The destination /memories/dir already exists"),
        (rename("/memories", "/memories/b"), "Error: Cannot rename the /memories directory itself"),
        (rename("/memories/dir", "/memories/dir/b"), "Error: Cannot rename /memories/dir into "
         "itself"),
        (view(NOTES, 9, 10), "Error: Invalid `view_range` parameter: [9, 10]. It should be within "
         "the range of lines of the file: [1, 3]"),
        ({**view(), "view_range": "1-2"}, "Error: Invalid `view_range` parameter: '1-2'. It should "
         "be [start_line, end_line], or [start_line, -1] for the rest of the file."),
        ({"command": "format"}, "Error: `command` is 'format'; send one of view, create, "
         "str_replace, insert, delete, rename"),
        ({}, "Error: `command` is None; send one of view, create, str_replace, insert, delete, "
         "rename"),
        ({"command": ["view"]}, "Error: `command` is ['view']; send one of view, create, "
         "str_replace, insert, delete, rename"),
        ({"command": "create", "path": "/memories/b"}, "Error: `file_text` is None; send a string"),
        ({"command": "view"}, "Error: `path` is None; send a path such as /memories/notes.md"),
        ([], "Error: the arguments are []; send an object"),
    ],
)  # fmt: skip
def test_a_wrong_command_changes_nothing_and_says_what_is_wrong(files, arguments, answer):
    files.run(create())
    files.run(create("/memories/dir/a.md", ""))
    before = files.texts()
    assert files.answer(arguments) == (answer, True)
    assert files.texts() == before


@pytest.mark.parametrize(
    "hostile",
    [
        *("", "/", "notes.md", "memories/notes.md", "/etc/passwd", "/memoriesx/a", "//etc"),
        *("/memories/../secrets.env", "/memories/a/../../b", "/memories/..", "/memories/a/.."),
        *("/memories/%2e%2e%2fsecrets", "/memories/%252e%252e/b", "/memories/..%2fb"),
        *("/memories/..\\b", "/memories/a\\b", "/memories/a\0b", "/memories/a\nb", "/MEMORIES/a"),
        *("/memories/\ud83d", "/memories/\u202egpj.md", "/memories/" + "a" * 600, 17, None, ["/"]),
    ],
)  # fmt: skip
def test_a_hostile_path_is_refused_by_every_command(files, hostile):
    files.run(create())
    for arguments in (
        view(hostile),
        create(hostile),
        replace("a", "b", hostile),
        insert(0, "a", hostile),
        delete(hostile),
        rename(hostile, "/memories/b"),
        rename(NOTES, hostile),
    ):
        answer, is_error = files.answer(arguments)
        assert is_error
        answer.encode()  # every request can carry it
    assert files.texts() == {NOTES: TEXT}


def test_a_folder_is_shown_two_levels_deep_without_what_is_hidden(files):
    for name, size in {
        "b.md": 5_632,
        "a/one.md": 900,
        "a/deep/two.md": 100,
        ".hidden": 1,
        "a/.git/x": 1,
        "node_modules/x.js": 1,
        "c/d/e/f.md": 2_097_152 // 4,
    }.items():
        files.run(create(f"/memories/{name}", "x" * size))
    assert files.run(view("/memories/")).split("\n")[1:] == [
        "518.5K\t/memories",
        "1001B\t/memories/a/",
        "100B\t/memories/a/deep/",
        "900B\t/memories/a/one.md",
        "5.5K\t/memories/b.md",
        "512K\t/memories/c/",
        "512K\t/memories/c/d/",
    ]
    assert files.run(view("/memories/a")).split("\n")[1:] == [
        "1001B\t/memories/a",
        "100B\t/memories/a/deep/",
        "100B\t/memories/a/deep/two.md",
        "900B\t/memories/a/one.md",
    ]
    assert files.run(view("/memories/.hidden")).endswith("     1\tx")


def test_a_long_file_is_shown_in_parts_that_together_are_the_whole(files):
    text = "\n".join(f"Line {number} of the log." for number in range(1, 3_001))
    files.run(create(text=text))
    shown, first = [], 1
    while first:
        lines = files.run(view(NOTES, first, -1)).split("\n")[1:]
        more = lines.pop() if lines[-1].startswith("[lines") else ""
        assert sum(map(len, lines)) < 2 * 16_000
        shown += [line.partition("\t")[2] for line in lines]
        first = int(more.partition("view_range [")[2].partition(",")[0] or 0)
    assert "\n".join(shown) == text
    files.run(create("/memories/wide.md", "w" * 40_000 + "\nend"))
    wide = files.run(view("/memories/wide.md"))
    assert "[line 1 is cut: it has 40,000 characters]\n[lines 2-2 are not shown" in wide


def test_a_file_with_too_many_lines_is_not_shown(memory):
    files = MemoryFiles(memory, limits=FileLimits(max_file_bytes=2_000_000))
    files.run(create(text="\n" * 999_999))
    assert files.answer(view()) == (
        f"File {NOTES} exceeds maximum line limit of 999,999 lines.",
        True,
    )


def test_a_create_replaces_a_file_where_it_may(memory):
    files = MemoryFiles(memory, overwrites=True)
    files.run(create())
    assert files.answer(create(text="New.")) == (f"File created successfully at: {NOTES}", False)
    assert files.texts() == {NOTES: "New."}
    files.run(create("/memories/dir/a.md"))
    assert files.answer(create("/memories/dir"))[1]


# Keyed by the tool's answer, without the prefix that only the documentation has.
def told(answer: str) -> str:
    short = answer.removeprefix("Error: ").replace(" of lines of the file:", "")
    return short.rstrip(".").removesuffix(". Please provide a valid path").rstrip(".")


def test_the_sdks_own_file_tool_does_the_same_with_the_same_commands(files, tmp_path):
    pytest.importorskip("anthropic", reason="anthropic is not installed")
    from anthropic.lib.tools import ToolError
    from anthropic.tools import BetaLocalFilesystemMemoryTool

    twin = BetaLocalFilesystemMemoryTool(str(tmp_path / "twin"))
    chance = random.Random(17)
    paths = [f"/memories/{name}.md" for name in ("a", "b", "d/a", "d/b", "e/f/g")]
    texts = ["one\ntwo\nthree\n", "one", "", "tow\r\nrope\n\n", "é\u2028x\nend", "one one\n\n\n"]
    for _ in range(600):
        path, other = chance.sample(paths, 2)
        arguments = chance.choice(
            [
                create(path, chance.choice(texts)),
                create(path, chance.choice(texts)),
                view(path),
                view(path, 1, chance.choice([1, 2, -1])),
                replace(chance.choice(["one", "two", "rope", "\n"]), chance.choice(texts), path),
                insert(chance.randrange(4), chance.choice(texts), path),
                delete(path),
                rename(path, other),
            ]
        )
        answer, is_error = files.answer(arguments)
        try:
            expected, is_refused = twin.call(arguments), False
        except ToolError as error:
            expected, is_refused = str(error), True
        assert (told(answer), is_error) == (told(str(expected)), is_refused), arguments
        root = tmp_path / "twin"
        held = {
            f"/{file.relative_to(root).as_posix()}": file.read_bytes().decode()
            for file in root.rglob("*.md")
        }
        assert files.texts() == held
    assert len(held) > 1


# ---------------------------------------------------------------------------- searches, and secrets


def test_passages_of_a_file_are_found_while_they_are_in_it(memory, files):
    long = "\n\n".join(f"# Berth {n}\n\nBerth {n} is {n} metres deep. " * 4 for n in range(60))
    files.run(create(text=long))
    files.run(create("/memories/ports.md", "Staging listens on 8443."))
    (hit, *_) = memory.search("how deep is berth 37?")
    assert hit.item.source == NOTES and "Berth 37 is 37 metres" in hit.snippet
    assert (hit.item.kind, hit.item.tool, hit.item.trust) == ("memory_file", "memory", 0.5)
    assert len(hit.item.text) < 2_000
    files.run(rename("/memories/ports.md", "/memories/servers.md"))
    assert sources(memory, "which port has staging?")[0] == "/memories/servers.md"
    files.run(replace("8443", "9443", "/memories/servers.md"))
    assert memory.search("staging port")[0].snippet.endswith("9443.")
    files.run(delete("/memories/servers.md"))
    assert "/memories/servers.md" not in sources(memory, "staging listens on port 9443")
    assert memory.list(sources=["/memories/servers.md"]) == []


def test_a_prompt_is_given_what_a_model_wrote_as_data_of_less_trust(memory, files):
    files.run(create(text="The pilot of the ferry Aurora is Ms Lindqvist."))
    prompt = Context(sources=memory).prompt("Who is the pilot of the ferry Aurora?")
    (section,) = [each for each in prompt.ir.sections if "Lindqvist" in str(each.content)]
    assert section.provenance.trust == 0.5


def test_another_namespace_has_files_of_its_own(memory, files):
    files.run(create())
    other = MemoryFiles(memory, namespace="bob")
    assert other.texts() == {}
    other.run(create(text="Bob's."))
    assert files.texts() == {NOTES: TEXT}
    assert "Bob" not in str(memory.search("Bob's notes"))


def test_secrets_are_left_out_and_the_model_is_told(memory, files, path):
    answer = files.run(create(text="password=hunter2hunter2\nport 8443\n"))
    assert answer.splitlines()[1] == "Secrets were left out of the file: password."
    files.run(insert(1, "token: ghp_" + "a1B2" * 9))
    files.run(replace("port 8443", "password=open-sesame-42"))
    assert files.answer(create("/memories/password=hunter2hunter2"))[1]
    assert "hunter2" not in str(files.texts()) and "[redacted:password]" in files.texts()[NOTES]
    memory.close()
    held = b"".join(each.read_bytes() for each in path.parent.rglob("*") if each.is_file())
    for secret in (b"hunter2", b"a1B2a1B2", b"open-sesame"):
        assert secret not in held


def test_secrets_stay_where_the_memory_keeps_them(path):
    with Memory.open(path, namespace="alice", redact=False) as memory:
        files = MemoryFiles(memory)
        files.run(create(text="password=hunter2hunter2"))
        assert files.texts() == {NOTES: "password=hunter2hunter2"}


def test_limits_refuse_and_drop_nothing(memory):
    limits = FileLimits(max_file_bytes=100, max_bytes=250, max_files=3)
    files = MemoryFiles(memory, limits=limits)
    assert "at most 100;" in files.answer(create(text="é" * 51))[0]
    for name in "ab":
        files.run(create(f"/memories/{name}", "x" * 100))
    assert "at most 100;" in files.answer(insert(1, "y", "/memories/a"))[0]
    assert "all together at most 250" in files.answer(create(text="x" * 60))[0]
    files.run(create("/memories/c", "x" * 50))
    assert "more than 3 files" in files.answer(create(text=""))[0]
    files.run(delete("/memories/a"))
    files.run(create(text="x"))
    assert len(files.texts()) == 3
    with pytest.raises(InvalidArgumentError):
        FileLimits(max_files=0)


# --------------------------------------------------------------------------- writers and crashes


@pytest.mark.parametrize(
    "text",
    ["", "no end", "\r\ncarriage\r\n\r\n", "é漢字🚢\u2028x\x00\x0b", "\n" * 9, " \t", "\ufeffa"],
)
def test_a_text_comes_back_byte_for_byte_after_the_file_was_opened_again(path, text):
    with Memory.open(path, namespace="alice") as memory:
        MemoryFiles(memory).run(create(text=text))
    with Memory.open(path, namespace="alice") as memory:
        assert MemoryFiles(memory).texts() == {NOTES: text}


def test_half_of_a_surrogate_pair_is_refused(files):
    answer, is_error = files.answer(create(text="\ud83d"))
    assert is_error and "surrogate" in answer


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
        # What searches find is the text of the last edit.
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
        log = FileLog(threads.native, "alice", "/memories")
        assert log.write(log.read(), {NOTES: "The lamp of the lighthouse is green."})
        assert sources(memory, "lighthouse lamp") == []
        files = MemoryFiles(memory)
        files.run(view("/memories"))
        assert sources(memory, "lighthouse lamp") == [NOTES]
        assert log.write(log.read(), {NOTES: None})
    MemoryFiles(memory).run(view("/memories"))
    assert sources(memory, "lighthouse lamp") == []


def test_a_redacted_text_is_gone_from_files_that_were_read_before(memory, files, path):
    files.run(create(text="The code is tango."))
    with Threads.open(path, namespace="alice") as threads:
        assert threads.redact("/memories", "tango") == 1
    assert files.texts() == {NOTES: "The code is [redacted]."}


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


# -------------------------------------------------------------------------------------- providers


def test_it_is_a_function_of_any_provider(files):
    for provider in ("anthropic", "openai_chat", "openai_responses"):
        assert "str_replace" in json.dumps(MemoryFiles.definition(provider))
    arguments = json.dumps(create())
    chat = {"id": "call_1", "type": "function",
            "function": {"name": "memory", "arguments": arguments}}  # fmt: skip
    assert files.handles(chat)
    assert files.handle(chat) == {
        "role": "tool",
        "tool_call_id": "call_1",
        "content": f"File created successfully at: {NOTES}",
    }
    item = {"type": "function_call", "call_id": "c2", "name": "memory", "arguments": arguments}
    assert files.handle(item)["output"] == f"Error: File {NOTES} already exists"
    broken = {**item, "arguments": "{not json"}
    assert files.handle(broken)["output"].startswith("Error: ")
    block = {"type": "tool_use", "id": "toolu_1", "name": "memory", "input": view("/etc")}
    assert files.handle(block)["is_error"]
    assert not files.handles({**item, "name": "bash"})
    with pytest.raises(InvalidArgumentError):
        files.handle({**item, "name": "bash"})


def test_a_closed_store_is_an_answer_that_shows_no_path(memory, files, path):
    files.run(create())
    memory.close()
    block = {"type": "tool_use", "id": "toolu_1", "name": "memory", "input": view()}
    result = files.handle(block)
    assert result["is_error"] and str(path) not in result["content"]
    with pytest.raises(StoreClosedError):
        files.run(view())


def test_a_memory_must_name_a_namespace_and_have_threads(path):
    with Memory.open(path) as memory:
        with pytest.raises(InvalidArgumentError, match="names no namespace"):
            MemoryFiles(memory)

        class Other:
            redactor = None

        other = Memory(Other(), namespace="alice")
        other._owns_store = False
        with pytest.raises(InvalidArgumentError, match="pass threads="):
            MemoryFiles(other)


WRITES = (
    Call("memory", view("/memories")),
    Call("memory", create()),
    Call("memory", create()),
    Call("memory", replace("8443", "9443")),
    Call("memory", {**replace("short", "long"), "path": "/memories/../x"}),
)


def writing(body: Any, wire: str) -> ScriptedReply:
    """View, create, create again, edit, and try to get out; then answer."""
    done = sum(each["role"] == "assistant" for each in body["messages"])
    if done < len(WRITES):
        return ScriptedReply("I note it.", calls=(WRITES[done],))
    return ScriptedReply("Noted.")


def results_of(provider: StrictProvider) -> list[tuple[str, bool]]:
    messages = (provider.requests[-1].body or {})["messages"]
    blocks = [block for each in messages if isinstance(each["content"], list)
              for block in each["content"]]  # fmt: skip
    return [
        (str(block["content"]), bool(block.get("is_error")))
        for block in blocks
        if block["type"] == "tool_result"
    ]


def assert_written(provider: StrictProvider, files: MemoryFiles) -> None:
    assert provider.refusals == []
    assert files.texts() == {NOTES: TEXT.replace("8443", "9443")}
    results = results_of(provider)
    assert [is_error for _, is_error in results] == [False, False, True, False, True]
    assert results[2][0] == f"Error: File {NOTES} already exists"
    assert results[4][0] == "Error: Path /memories/../x would escape /memories directory"


def test_the_tool_runner_of_anthropics_sdk_runs_it(memory):
    anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed")
    from rehydrate.integrations.memory_tool import RehydrateMemoryTool

    tool = RehydrateMemoryTool(memory, cache_control={"type": "ephemeral"})
    with (
        StrictProvider(writing) as provider,
        anthropic.Anthropic(api_key="key", base_url=provider.url, max_retries=0) as client,
    ):
        last = client.beta.messages.tool_runner(
            model="claude-sonnet-5-5",
            max_tokens=500,
            tools=[tool],
            thread=False,
            messages=[{"role": "user", "content": "Remember the port."}],
        ).until_done()
        assert last.content[0].text == "Noted."
        assert_written(provider, tool.files)
        tools = (provider.requests[0].body or {})["tools"]
        mark = {"type": "ephemeral"}
        assert tools == [{"type": "memory_20250818", "name": "memory", "cache_control": mark}]
    assert tool.clear_all_memory() == "All memory cleared"
    assert tool.files.texts() == {}


def test_the_async_tool_runner_runs_it(memory):
    anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed")
    from rehydrate.integrations.memory_tool import AsyncRehydrateMemoryTool

    tool = AsyncRehydrateMemoryTool(memory)

    async def run(url: str) -> None:
        client = anthropic.AsyncAnthropic(api_key="key", base_url=url, max_retries=0)
        async with client:
            await client.beta.messages.tool_runner(
                model="claude-sonnet-5-5",
                max_tokens=500,
                tools=[tool],
                thread=False,
                messages=[{"role": "user", "content": "Remember the port."}],
            ).until_done()

    with StrictProvider(writing) as provider:
        asyncio.run(run(provider.url))
        assert_written(provider, tool.files)
    assert asyncio.run(tool.clear_all_memory()) == "All memory cleared"


def test_the_commands_of_the_sdks_types_are_taken_too(memory):
    pytest.importorskip("anthropic", reason="anthropic is not installed")
    from anthropic.lib.tools import ToolError
    from anthropic.types.beta import (
        BetaMemoryTool20250818CreateCommand as Create,
        BetaMemoryTool20250818ViewCommand as View,
    )

    from rehydrate.integrations.memory_tool import RehydrateMemoryTool

    tool = RehydrateMemoryTool(memory)
    made = Create(command="create", path=NOTES, file_text="Hello.")
    assert tool.execute(made) == f"File created successfully at: {NOTES}"
    assert tool.view(View(command="view", path=NOTES)).endswith("\n     1\tHello.")
    with pytest.raises(ToolError, match="already exists"):
        tool.create(made)
    with pytest.raises(ToolError, match="`command` is None"):
        tool.call("nonsense")


def test_an_interpreter_runs_it(memory, files):
    anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed")
    from rehydrate.agent import AnthropicModel

    async def run(url: str) -> str:
        async with anthropic.AsyncAnthropic(api_key="key", base_url=url, max_retries=0) as client:
            model = AnthropicModel("claude-sonnet-5-5", client=client, max_tokens=500)
            turn = await Interpreter(model, tools=[files.tool]).arun(Context(), "Remember it.")
            return turn.answer

    with StrictProvider(writing) as provider:
        assert asyncio.run(run(provider.url)) == "Noted."
        assert_written(provider, files)
