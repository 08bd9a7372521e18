"""Ways to tamper with a store: with its files, with the rows of its tables, with its indexes."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from xxhash import xxh3_64_intdigest, xxh3_128_digest

from tests.memory.stress import damage


class Target(NamedTuple):
    """A store to tamper with, others to take files from, and what may not be touched."""

    store: Path
    other: Path
    """A store of other items."""
    outside: Path
    """A folder of somebody else's files, of which one is called ``thesis.txt``."""

    @property
    def folder(self) -> Path:
        """The folder of the index files."""
        return Path(f"{self.store}-index")

    def segments(self) -> list[Path]:
        """Return the index files."""
        return sorted(self.folder.glob("*.segment"))


Way = Callable[[Target, Random], str]
"""Tampers, and says with what; an empty text: there was nothing to tamper with."""


# Files

_ON_A_FILE: tuple[Callable[[Path, Random], None], ...] = (
    *(damage.flip_bits, damage.flip_in_the_head, damage.truncate, damage.fill_with_zeros),
    *(damage.fill_with_noise, damage.extend, damage.make_a_pipe, damage.make_a_folder),
)


def database(target: Target, random: Random) -> str:
    """Damage the file of the store."""
    how = random.choice(_ON_A_FILE)
    how(target.store, random)
    return how.__name__


def database_empty(target: Target, random: Random) -> str:
    """Leave a file of 0 bytes."""
    target.store.write_bytes(b"")
    return "0 bytes"


def database_replaced(target: Target, random: Random) -> str:
    """Put something else in the place of the store's file, its index staying."""
    how = random.choice(("another store", "a link to another store", "a text", "a link to a text"))
    target.store.unlink()
    if how == "another store":
        shutil.copy(target.other, target.store)
    elif how == "a link to another store":
        target.store.symlink_to(target.other)
    elif how == "a text":
        target.store.write_text("SQLite format 3 is what this is not.")
    else:
        target.store.symlink_to(target.outside / "thesis.txt")
    return how


def beside(target: Target, random: Random) -> str:
    """Put something where SQLite looks for its log or its journal."""
    ending = random.choice(("-wal", "-shm", "-journal"))
    place = Path(f"{target.store}{ending}")
    place.unlink(missing_ok=True)
    how = random.choice(("noise", "empty", "pipe", "folder", "link", "hostile journal", "zeros"))
    if how == "noise":
        place.write_bytes(random.randbytes(random.choice((1, 32, 4_096, 40_000))))
    elif how == "empty":
        place.write_bytes(b"")
    elif how == "zeros":
        place.write_bytes(bytes(33_000))
    elif how == "pipe":
        os.mkfifo(place)
    elif how == "folder":
        place.mkdir()
    elif how == "link":
        place.symlink_to(target.outside / random.choice(("thesis.txt", "nothing")))
    else:
        _journal_of_several_files(place, target.outside / "thesis.txt")
    return f"{how} as {ending}"


def _journal_of_several_files(place: Path, named: Path) -> None:
    """Write a journal that has SQLite remove what it names (file format, 3.2)."""
    name = os.fsencode(named)
    magic = bytes.fromhex("d9d505f920a163d7")
    head = magic + struct.pack(">IIIII", 0, 0, 1, 512, 4_096)
    end = struct.pack(">II", len(name), sum(name)) + magic
    place.write_bytes(head.ljust(512, b"\0") + struct.pack(">I", 1) + name + end)


def index_file(target: Target, random: Random) -> str:
    """Damage an index file, the folder, or the lock."""
    files = target.segments()
    how = random.choice(damage.DAMAGES)
    if not files:
        return ""
    how(random.choice(files), random)
    return how.__name__


def index_of_another(target: Target, random: Random) -> str:
    """Put the index of another store in the place of this one's: files, or the whole folder."""
    theirs = sorted(Path(f"{target.other}-index").glob("*.segment"))
    ours = target.segments()
    if not theirs or not ours:
        return ""
    if random.random() < 0.3:
        shutil.rmtree(target.folder)
        shutil.copytree(theirs[0].parent, target.folder)
        return "the folder"
    mine, its = random.choice(ours), random.choice(theirs)
    shutil.copy(its, mine)
    if random.random() < 0.7:
        _enter(target, mine)
        return "a file, entered"
    return "a file"


def index_linked(target: Target, random: Random) -> str:
    """Put a link in the place of an index file, of the lock or of the folder."""
    files = target.segments()
    if not files:
        return ""
    what = random.choice(("file", "folder", "lock"))
    if what == "folder":
        shutil.rmtree(target.folder)
        target.folder.symlink_to(target.outside)
    else:
        place = random.choice(files) if what == "file" else target.folder / "lock"
        place.unlink(missing_ok=True)
        place.symlink_to(target.outside / random.choice(("thesis.txt", "folder", "nothing")))
    return what


# Index files with the right checksums

_HEADER = 32
_SECTIONS = 48


def index_altered(target: Target, random: Random) -> str:
    """Alter the numbers of an index file, and make both of its checksums right again."""
    files = target.segments()
    if not files:
        return ""
    file = random.choice(files)
    content = bytearray(file.read_bytes())
    table = [struct.unpack_from("<QQ", content, _HEADER + 16 * at) for at in range(_SECTIONS)]
    filled = [at for at, (_, length) in enumerate(table) if length]
    section = random.choice(filled)
    start, length = table[section]
    how = random.choice(("ones", "noise", "zeros", "bytes", "word", "table", "header", "swap"))
    if how == "table":
        odd = random.choice((start, 0, 2**63, len(content) - 8, 2**64 - 8)), _number(random)
        struct.pack_into("<QQ", content, _HEADER + 16 * section, *(each % 2**64 for each in odd))
    elif how == "header":
        struct.pack_into("<I", content, random.choice((8, 12)), random.randrange(2**32))
    elif how == "swap":
        other = random.choice(filled)
        for at, values in ((section, table[other]), (other, table[section])):
            struct.pack_into("<QQ", content, _HEADER + 16 * at, *values)
    elif how == "word":
        width = min(length, 8)
        at = start + random.randrange(length // width) * width
        content[at : at + width] = struct.pack("<Q", _number(random) % 2**64)[:width]
    elif how == "bytes":
        for _ in range(8):
            content[start + random.randrange(length)] = random.randrange(256)
    else:
        kinds = {"ones": b"\xff" * length, "zeros": bytes(length)}
        content[start : start + length] = kinds.get(how) or random.randbytes(length)
    struct.pack_into("<Q", content, 24, xxh3_64_intdigest(bytes(content[_HEADER:])))
    file.write_bytes(content)
    _enter(target, file)
    return f"{how} in section {section}"


def _number(random: Random) -> int:
    near = random.randrange(300)
    return random.choice((0, 1, near, -1, 2**31, 2**32 - near, 2**62, 2**63 - 1, 2**64 - near - 1))


def _enter(target: Target, file: Path) -> None:
    """Have the store's table name the file with its length and checksum of now."""
    content = file.read_bytes()
    update = "UPDATE segments SET checksum = ?, bytes = ? WHERE file = ?"
    with closing(sqlite3.connect(target.store)) as edit, edit:
        edit.execute(update, (xxh3_128_digest(content), len(content), file.name))


# Rows

_NUMBERS = (0, 1, -1, 2, 7, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**63), 3.5, 1e308, -1e308)
_JSON = ("[" * 3_000, "{", "[]", "{}", "null", '"x"', '[[1,2,"kind"]]', '{"a": 1e999}', "7", '"\\')


def _odd(target: Target, random: Random) -> Any:
    """Return a value that no store of ours holds."""
    thesis = target.outside / "thesis.txt"
    return random.choice(
        (
            *(random.choice(_NUMBERS) for _ in range(4)),
            random.choice(_JSON),
            str(thesis),
            os.path.relpath(thesis, target.folder),
            os.path.relpath(thesis, target.store.parent),
            f"{'0' * 32}.segment",
            "",
            "a\0b",
            "é" * random.choice((1, 5_000)),
            b"",
            random.randbytes(random.choice((1, 15, 16, 64))),
            b"\xff" * 16,
            struct.pack("<Q", random.choice((2**63, 2**64 - 1, 3))) + b"abc",
        )
    )


_TABLES = ("segments", "namespaces", "items", "bodies", "names", "links", "tombstones", "clock")
_THREADS = ("threads", "records")


def rows(target: Target, random: Random) -> str:
    """Put an odd value into a row, or take a row away."""
    with closing(sqlite3.connect(target.store)) as edit, edit:
        there = [name for (name,) in edit.execute("SELECT name FROM sqlite_schema")]
        tables = [name for name in (*_TABLES, *_THREADS) if name in there]
        if not tables:
            return ""
        weights = [3 if name in ("segments", "threads", "records") else 1 for name in tables]
        (table,) = random.choices(tables, weights)
        found = edit.execute(f"SELECT * FROM {table}").fetchall()
        columns = [each[1] for each in edit.execute(f"PRAGMA table_info({table})")]
        if not found:
            return ""
        row = random.choice(found)
        where = " AND ".join(f"{name} IS ?" for name in columns)
        if random.random() < 0.1:
            edit.execute(f"DELETE FROM {table} WHERE {where}", row)
            return f"{table}: a row less"
        column = random.randrange(len(columns))
        value = _odd(target, random)
        if isinstance(row[column], int) and random.random() < 0.3:
            value = row[column] + random.choice((-1, 1, 2, 100))
        elif random.random() < 0.2:
            value = random.choice(found)[column]
        is_every = random.random() < 0.2
        named = columns[column]
        try:
            end = ("", ()) if is_every else (f"WHERE {where}", row)
            edit.execute(f"UPDATE {table} SET {named} = ? {end[0]}", (value, *end[1]))
        except (sqlite3.Error, OverflowError):
            return ""
        return f"{table}.{named} = {str(value)[:40]!r}"


_STATEMENTS = (
    "PRAGMA user_version = 2",
    "PRAGMA user_version = -1",
    "PRAGMA application_id = 7",
    "PRAGMA journal_mode = DELETE",
    "CREATE TRIGGER t AFTER UPDATE ON clock BEGIN DELETE FROM items; END",
    "CREATE TRIGGER t AFTER INSERT ON items BEGIN UPDATE bodies SET text = x'78'; END",
    "CREATE TABLE more (x)",
    "UPDATE sqlite_sequence SET seq = 9223372036854775807",
    "DROP INDEX items_by_handle",
    "DROP INDEX items_by_rev",
    *(f"DROP TABLE {name}" for name in (*_TABLES, *_THREADS)),
    *(f"DELETE FROM {name}" for name in (*_TABLES, *_THREADS)),
    "ALTER TABLE items RENAME TO others;CREATE VIEW items AS SELECT * FROM others",
    "ALTER TABLE segments RENAME COLUMN file TO path",
)


def schema(target: Target, random: Random) -> str:
    """Change the tables themselves."""
    statement = random.choice(_STATEMENTS)
    with closing(sqlite3.connect(target.store, isolation_level=None)) as edit:
        try:
            edit.executescript(statement)
        except sqlite3.Error:
            return ""
    return statement[:60]


# Records of a thread with the right hash


def records(target: Target, random: Random) -> str:
    """Alter what a record of a thread says, and make its hash right again."""
    with closing(sqlite3.connect(target.store)) as edit, edit:
        try:
            found = edit.execute("SELECT id, kind, time, body FROM records").fetchall()
        except sqlite3.Error:
            return ""
        if not found:
            return ""
        id_, kind, time, body = random.choice(found)
        what = random.choice(("body", "body", "body", "kind", "time", "raw"))
        if what == "kind":
            kind = random.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 255))
        elif what == "time":
            time = random.choice((-1.0, 1e300, -1e300, 1e18, 0.0, 253402300800.0))
        elif what == "raw":
            body = random.choice(_JSON).encode()
        else:
            value = json.loads(body)
            _alter(value, random)
            body = json.dumps(value).encode()
        hashed = struct.pack("<q", id_) + bytes([kind]) + struct.pack("<d", time) + body
        update = "UPDATE records SET kind = ?, time = ?, hash = ?, body = ? WHERE id = ?"
        edit.execute(update, (kind, time, xxh3_128_digest(hashed), body, id_))
    return f"{what} of a record of kind {kind}"


_VALUES = (None, True, 0, -1, 10**6, 2**63, 10**40, 1.5, "", "x", "../x", [], {}, [[]], [0, []])


def _alter(value: Any, random: Random) -> None:
    """Change one value somewhere inside."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = random.choice(keys)
        inside = value[key]
        if isinstance(inside, (dict, list)) and inside and random.random() < 0.75:
            value = inside
            continue
        if random.random() < 0.2:
            del value[key]
        elif isinstance(inside, int) and random.random() < 0.4:
            value[key] = inside + random.choice((-1, 1, 50))
        else:
            value[key] = random.choice(_VALUES)
        return


WAYS: dict[str, Way] = {
    way.__name__: way
    for way in (
        *(database, database_empty, database_replaced, beside, index_file, index_of_another),
        *(index_linked, index_altered, rows, schema, records),
    )
}
WEIGHTS = {"index_altered": 4, "rows": 6, "records": 4, "database": 2, "beside": 2}
