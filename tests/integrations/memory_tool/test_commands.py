"""The memory tool: each command and error, hostile paths, searches, secrets, limits."""

from __future__ import annotations

import random

import pytest

from rehydrate import Context, Memory
from rehydrate.errors import InvalidArgumentError
from rehydrate.integrations.memory_tool import FileLimits, MemoryFiles
from tests.integrations.memory_tool.commands import (
    NOTES,
    TEXT,
    create,
    delete,
    insert,
    rename,
    replace,
    sources,
    view,
)

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
def reported(answer: str) -> str:
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
        assert (reported(answer), is_error) == (reported(str(expected)), is_refused), arguments
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


def test_secrets_are_left_out_and_the_model_is_informed(memory, files, path):
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


def test_half_of_a_surrogate_pair_is_refused(files):
    answer, is_error = files.answer(create(text="\ud83d"))
    assert is_error and "surrogate" in answer
