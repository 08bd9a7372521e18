"""Tampered stores change nothing of somebody else's, end in typed errors, and answer right."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
import sys
from contextlib import closing
from pathlib import Path

import pytest

from rehydrate import Context, Memory
from rehydrate.errors import RehydrateError, StoreCorruptError, UnreadableIRError
from tests.sizes import sized
from tests.stress.programs import run_module

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX")


def test_no_tampering_is_a_crash_or_another_answer():
    ended = run_module("tests.stress.tampered", "--count", str(sized(15, 36)), "--seed", "1")
    assert ended.code == 0, f"{ended.out[-3_000:]} {ended.err[-800:]}"


def _record_altered(where, kind, alter):
    from xxhash import xxh3_128_digest

    with closing(sqlite3.connect(where)) as edit, edit:
        query = "SELECT id, time, body FROM records WHERE kind = ? ORDER BY id LIMIT 1"
        id_, time, body = edit.execute(query, (kind,)).fetchone()
        body = json.dumps(alter(json.loads(body))).encode()
        hashed = struct.pack("<q", id_) + bytes([kind]) + struct.pack("<d", time) + body
        update = "UPDATE records SET body = ?, hash = ? WHERE id = ?"
        edit.execute(update, (body, xxh3_128_digest(hashed), id_))


@pytest.mark.parametrize(
    ("kind", "alter"),
    [
        (0, lambda content: {**content, "format": None}),
        (0, lambda content: [content]),
        (1, lambda content: {"tokens": 1}),
        (1, lambda content: {**content, "tokens": -1}),
        (1, lambda content: {**content, "tokens": 10**40}),
        (2, lambda content: {**content, "sections": [0, 7]}),
        (2, lambda content: {**content, "prompts": "many"}),
        (2, lambda content: {}),
    ],
)
def test_a_record_with_the_right_hash_that_none_of_ours_says_is_a_typed_error(
    tmp_path, kind, alter
):
    where = tmp_path / "t.db"
    with Context.open(where, thread="t", namespace="a") as context:
        context.prompt("Hello.")
    _record_altered(where, kind, alter)
    with pytest.raises(UnreadableIRError, match=r"restore|upgrade"):
        Context.open(where, thread="t", namespace="a")


def _list_is_damaged(where: Path, edited: str, value: object) -> None:
    with Memory.open(where, namespace="a") as memory:
        memory.add("The gate is open.")
    with closing(sqlite3.connect(where)) as edit, edit:
        edit.execute(edited, (value,))
    with Memory.open(where, namespace="a") as memory, pytest.raises(StoreCorruptError):
        memory.list()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("time", 2**63 - 1),
        ("created", -(2**63)),
        ("expires", 2**62),
        ("trust", 1e308),
        ("confidence", -1.0),
    ],
)
def test_a_number_that_no_item_has_is_damage(tmp_path, column, value):
    _list_is_damaged(tmp_path / "m.db", f"UPDATE items SET {column} = ?", value)


@pytest.mark.parametrize("notes", ["{", "[" * 3_000, "7", '"x"'])
@pytest.mark.parametrize("column", ["meta", "redactions"])
def test_notes_that_are_no_json_of_ours_are_damage(tmp_path, column, notes):
    _list_is_damaged(tmp_path / "m.db", f"UPDATE bodies SET {column} = ?", notes)


@pytest.mark.parametrize("place", ["folder", "lock"])
def test_a_link_in_the_place_of_the_index_is_not_followed(tmp_path, place):
    where, outside = tmp_path / "m.db", tmp_path / "outside"
    outside.mkdir()
    index = tmp_path / "m.db-index"
    if place == "folder":
        index.symlink_to(outside)
    else:
        index.mkdir()
        (index / "lock").symlink_to(outside / "made")
    with Memory.open(where, namespace="a") as memory:
        memory.add([f"note {number} about penguins" for number in range(30)])
        memory.rebuild()
        assert memory.search("note 7")
        assert memory.verify().damaged_indexes == 0
    assert list(outside.iterdir()) == []
    assert not index.is_symlink() and not (index / "lock").is_symlink()


def test_files_next_to_a_linked_store_are_checked_too(tmp_path):
    real, link = tmp_path / "real.db", tmp_path / "m.db"
    link.symlink_to(real)
    # Also while a store of this process has the file open.
    with Memory.open(real, namespace="a") as memory:
        memory.add("The gate is open.")
        os.mkfifo(tmp_path / "real.db-journal")
        for path in (real, link):
            with pytest.raises(RehydrateError):
                Memory.open(path, namespace="a")


def test_a_clock_that_went_back_hides_nothing(tmp_path):
    where = tmp_path / "m.db"
    with Memory.open(where, namespace="a") as memory:
        memory.add([f"note {number} about penguins" for number in range(30)])
        memory.rebuild()
    with closing(sqlite3.connect(where)) as edit, edit:
        edit.execute("UPDATE namespaces SET rev = rev + 20")
    with Memory.open(where, namespace="a") as memory:
        memory.search("note 7")
        memory.rebuild()
        memory.add("A whale was seen.")
        assert memory.search("whale")[0].text
        assert memory.verify().ok
