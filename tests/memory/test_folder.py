"""Folder sync: only changed chunks are touched; odd files are refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rehydrate import Memory
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory.folder import MAX_FILE_BYTES

DECISIONS = """\
# Decisions

## Ports

Staging is 8443.

## Names

Use snake case.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "notes"
    files = {
        "core.md": "# Rules\n\nNever push to main.\n",
        "decisions.md": DECISIONS,
        "daily/2026-02-17.md": "Met Anna about the zebra enclosure.\n",
        "archive/2024.md": "The old server was called hamlet.\n",
    }
    for name, text in files.items():
        write(root, name, text)
    return root


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def held(memory: Memory) -> dict[str, str]:
    return {item.handle: item.text for item in memory.list(limit=None)}


def test_every_file_gets_the_tier_of_its_place(memory: Memory, folder: Path):
    report = memory.sync_folder(folder)
    assert set(report.added) == {
        *("core.md", "decisions.md", "daily/2026-02-17.md", "archive/2024.md")
    }
    tiers = {item.source: item.tier for item in memory.list()}
    assert tiers == {
        "notes/core.md": "hot",
        "notes/decisions.md": "warm",
        "notes/daily/2026-02-17.md": "warm",
        "notes/archive/2024.md": "cold",
    }
    (hit, *_) = memory.search("which animal lives there? zebra")
    assert hit.item.source == "notes/daily/2026-02-17.md"
    assert hit.item.time is not None
    assert hit.item.time.date().isoformat() == "2026-02-17"
    assert hit.item.tool == "sync"


def test_chunks_carry_their_headings(memory: Memory, folder: Path):
    memory.sync_folder(folder)
    names = next(item for item in memory.list() if "snake case" in item.text)
    assert names.metadata["headings"] == ["Decisions"]
    assert names.text == "Decisions\n\n## Names\n\nUse snake case.\n"
    assert names.kind == "decision"


def test_syncing_again_changes_nothing(memory: Memory, folder: Path):
    memory.sync_folder(folder)
    before = held(memory)
    report = memory.sync_folder(folder)
    assert len(report.unchanged) == 4
    assert (report.added, report.changed, report.removed) == ((), (), ())
    assert (report.chunks_added, report.chunks_removed) == (0, 0)
    assert held(memory) == before


def test_only_what_changed_is_replaced(memory: Memory, folder: Path):
    memory.sync_folder(folder)
    before = held(memory)
    write(folder, "decisions.md", DECISIONS.replace("8443", "9443"))
    report = memory.sync_folder(folder)
    assert report.changed == ("decisions.md",)
    assert (report.chunks_added, report.chunks_removed) == (1, 1)
    after = held(memory)
    assert len(before.keys() & after.keys()) == len(before) - 1
    assert not any("8443" in text for text in after.values())
    assert memory.search("9443")[0].item.source == "notes/decisions.md"


def test_what_was_removed_is_forgotten_and_other_items_are_not(memory: Memory, folder: Path):
    own = memory.add("my own note", source="notes/by hand")[0].handle
    memory.sync_folder(folder)
    (folder / "daily/2026-02-17.md").unlink()
    report = memory.sync_folder(folder)
    assert report.removed == ("daily/2026-02-17.md",)
    assert memory.search("zebra enclosure", sources=["notes/daily/2026-02-17.md"]) == []
    assert memory.get(own).text == "my own note"


def test_a_file_that_moved_to_the_archive_becomes_cold(memory: Memory, folder: Path):
    memory.sync_folder(folder)
    (folder / "daily/2026-02-17.md").rename(folder / "archive/2026-02-17.md")
    report = memory.sync_folder(folder)
    assert (report.added, report.removed) == (("archive/2026-02-17.md",), ("daily/2026-02-17.md",))
    assert memory.search("zebra")[0].item.tier == "cold"


def test_two_folders_in_one_namespace_do_not_forget_each_other(
    memory: Memory, folder: Path, tmp_path: Path
):
    other = tmp_path / "others" / "notes"
    write(other, "a.md", "Another folder of the same name.\n")
    memory.sync_folder(folder)
    memory.sync_folder(other, label="other notes")
    assert memory.sync_folder(folder).removed == ()
    assert memory.sync_folder(other, label="other notes").unchanged == ("a.md",)


def test_hot_memory_is_at_most_a_hundred_lines_and_says_so(memory: Memory, folder: Path):
    lines = [f"Rule {n}: do {n} things." for n in range(1, 141)]
    write(folder, "core.md", "\n".join(lines) + "\n")
    report = memory.sync_folder(folder)
    assert report.warnings == (
        "core.md has 140 lines, hot memory holds 100: lines 101-140 are found by searching only; "
        "move some to decisions.md",
    )
    hot = memory.hot()
    assert hot.text.splitlines() == lines[:100]
    assert hot.lines == 100
    assert hot.warning == ""
    assert memory.search("Rule 137")[0].item.tier == "warm"

    memory.add("one more", tier="hot")
    over = memory.hot()
    assert over.text.splitlines() == lines[:100]
    assert "hot memory has 101 lines" in over.warning


def test_a_core_that_fits_again_is_hot_again(memory: Memory, folder: Path):
    write(folder, "core.md", "rule\n" * 100 + "beyond\n")
    memory.sync_folder(folder)
    write(folder, "core.md", "beyond\n")
    report = memory.sync_folder(folder)
    assert report.warnings == ()
    assert memory.hot().text == "beyond"


def test_front_matter_is_kept_apart(memory: Memory, folder: Path):
    write(folder, "a.md", "---\ntitle: Zebras\ntags: [x]\n---\nThey have stripes.\n")
    memory.sync_folder(folder)
    item = memory.search("stripes")[0].item
    assert item.text == "They have stripes.\n"
    assert item.metadata["front_matter"] == {"title": "Zebras", "tags": "[x]"}


def test_odd_files_are_refused_with_a_reason_and_the_rest_goes_on(memory: Memory, folder: Path):
    outside = folder.parent / "outside.md"
    outside.write_text("secret of another folder")
    (folder / "link.md").symlink_to(outside)
    (folder / "linked folder").symlink_to(folder.parent)
    (folder / "broken.md").symlink_to(folder / "nowhere")
    (folder / "binary.md").write_bytes(b"text\0more")
    (folder / "latin.md").write_bytes("Schlüssel".encode("latin-1"))
    (folder / "huge.md").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n")
    (folder / ".hidden.md").write_text("hidden")
    os.mkfifo(folder / "pipe.md")
    report = memory.sync_folder(folder)
    reasons = dict(report.refused)
    assert set(reasons) == {
        *("link.md", "linked folder", "broken.md", "binary.md", "latin.md", "huge.md"),
        *("picture.png", "pipe.md"),
    }
    assert "symbolic link" in reasons["link.md"]
    assert "symbolic link" in reasons["linked folder"]
    assert "zero byte" in reasons["binary.md"]
    assert "byte 4" in reasons["latin.md"]
    assert "2,000,001 bytes" in reasons["huge.md"]
    assert "a note" in reasons["picture.png"]
    assert "a regular file" in reasons["pipe.md"]
    assert len(report.added) == 4
    assert not any("another folder" in text for text in held(memory).values())


def test_what_is_refused_now_keeps_what_was_stored_of_it(memory: Memory, folder: Path):
    memory.sync_folder(folder)
    before = held(memory)
    (folder / "decisions.md").write_bytes(b"\0")
    report = memory.sync_folder(folder)
    assert [refused.path for refused in report.refused] == ["decisions.md"]
    assert held(memory) == before


def test_a_folder_that_is_not_there_forgets_nothing(memory: Memory, folder: Path):
    memory.sync_folder(folder)
    folder.rename(folder.parent / "elsewhere")
    with pytest.raises(InvalidArgumentError, match="isn't a folder"):
        memory.sync_folder(folder)
    assert len(held(memory)) == 5


def test_secrets_in_notes_are_taken_out_and_the_file_counts_as_unchanged(
    memory: Memory, folder: Path
):
    write(folder, "a.md", "The database is postgres://app:hunter2@db/main.\n")
    memory.sync_folder(folder)
    assert not any("hunter2" in text for text in held(memory).values())
    assert "a.md" in memory.sync_folder(folder).unchanged


def test_a_note_with_a_secret_in_its_name_stays_however_often_it_is_synced(
    memory: Memory, folder: Path
):
    write(folder, "password=hunter2abcX.md", "# Login\n\nThe staging port is 8443 today.\n")
    memory.sync_folder(folder)
    before = held(memory)
    assert "hunter2" not in str(memory.list())
    for _ in range(3):
        report = memory.sync_folder(folder)
        assert (report.chunks_added, report.chunks_removed) == (0, 0)
        assert "password=hunter2abcX.md" in report.unchanged
    assert held(memory) == before


def test_files_whose_names_differ_in_a_secret_only_are_all_kept(memory: Memory, folder: Path):
    one, other = "password=hunter2abcX.md", "password=tango7defY.md"
    write(folder, one, "Staging is 8443.\n")
    write(folder, other, "Production is 443.\n")
    report = memory.sync_folder(folder)
    assert {one, other} <= set(report.added)
    before = held(memory)
    (source,) = {item.source for item in memory.list() if "password" in item.source}
    texts = {item.text.strip() for item in memory.list(sources=[source])}
    assert texts == {"Staging is 8443.", "Production is 443."}
    memory.sync_folder(folder)
    assert held(memory) == before
    (folder / other).write_bytes(b"\0")
    report = memory.sync_folder(folder)
    assert (held(memory), [one.path for one in report.refused]) == (before, [other])
    (folder / other).unlink()
    assert memory.sync_folder(folder).chunks_removed == 1
    (gone,) = before.items() - held(memory).items()
    assert gone[1].strip() == "Production is 443."
    (folder / one).unlink()
    assert memory.sync_folder(folder).removed == (source.removeprefix("notes/"),)


def test_the_report_says_it_in_one_line(memory: Memory, folder: Path):
    assert str(memory.sync_folder(folder)) == (
        "4 added, 0 changed, 0 removed, 0 unchanged, 0 refused; 5 chunks new, 0 gone"
    )


def test_other_front_matter_is_seen_and_links_stay(tmp_path: Path, memory: Memory):
    write(tmp_path, "a.md", "---\nstatus: draft\n---\nStaging is 8443.\n")
    write(tmp_path, "b.md", "Names are in snake case.\n")
    memory.sync_folder(tmp_path, label="notes")
    items = {item.metadata["path"]: item.handle for item in memory.list()}
    memory.link(items["a.md"], "see", items["b.md"])
    memory.link(items["b.md"], "of", items["a.md"])
    write(tmp_path, "a.md", "---\nstatus: final\n---\nStaging is 8443.\n")
    report = memory.sync_folder(tmp_path, label="notes")
    assert (report.changed, report.unchanged) == (("a.md",), ("b.md",))
    (found,) = memory.list(sources=["notes/a.md"])
    assert found.metadata["front_matter"] == {"status": "final"}
    assert [(link.relation, link.handle) for link in found.links] == [("see", items["b.md"])]
    assert [link.relation for link in found.linked_from] == ["of"]
    assert memory.search("staging")[0].item.metadata == found.metadata
    again = memory.sync_folder(tmp_path, label="notes")
    assert again.unchanged == ("a.md", "b.md")
