"""Export and import: any namespace comes back unchanged."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rehydrate import Memory
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory import Link, MemoryItem
from rehydrate.memory.transfer import from_line, to_line
from tests.memory.plain import PlainStore

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
TIMES = st.datetimes(datetime(1970, 1, 2), datetime(2999, 1, 1), timezones=st.just(UTC))
ITEMS = st.builds(
    MemoryItem,
    st.text(min_size=1) | st.text(st.characters(), min_size=1),
    kind=NAMES,
    tier=st.sampled_from(["hot", "warm", "cold"]),
    source=NAMES,
    thread=NAMES,
    tool=NAMES,
    principal=NAMES,
    trust=st.floats(0, 1),
    confidence=st.floats(0, 1),
    parents=st.lists(NAMES, max_size=3).map(tuple),
    time=TIMES,
    expires=st.none() | TIMES.map(lambda time: time + timedelta(days=400_000)),
    metadata=st.dictionaries(st.text(), JSON, max_size=3),
)


def comparable(item: MemoryItem) -> MemoryItem:
    """Return the item without its storage time, with its links sorted."""
    ends = {"links": tuple(sorted(item.links)), "linked_from": tuple(sorted(item.linked_from))}
    return replace(item, created=None, **ends)


@given(ITEMS)
def test_a_line_is_the_item(item: MemoryItem):
    line = to_line(item)
    assert "\n" not in line
    line.encode()
    assert from_line(line) == item
    assert list(from_line(line).metadata) == list(item.metadata)


@given(st.lists(ITEMS, max_size=6), st.randoms(use_true_random=False))
def test_everything_comes_back_ids_provenance_times_and_links(items: list[MemoryItem], chance: Any):
    with TemporaryDirectory() as folder, Memory(PlainStore(), namespace="a") as first:
        handles = [added.handle for added in first.add(items)]
        for _ in range(min(3, len(set(handles)) - 1)):
            start, end = chance.sample(sorted(set(handles)), 2)
            first.link(start, "supersedes", end)
        count = first.export_items(f"{folder}/out.jsonl")
        with Memory(PlainStore(), namespace="a") as second:
            report = second.import_items(f"{folder}/out.jsonl")
            assert report.added == count == len(set(handles))
            assert report.lost_links == 0
            before, after = first.list(limit=None), second.list(limit=None)
            assert list(map(comparable, after)) == list(map(comparable, before))
            again = second.import_items(f"{folder}/out.jsonl")
            assert (again.added, again.unchanged, again.links) == (0, count, 0)
            assert list(map(comparable, second.list(limit=None))) == list(map(comparable, after))
            second.export_items(f"{folder}/again.jsonl")
        same = [Path(f"{folder}/{name}.jsonl").read_bytes() for name in ("out", "again")]
        assert same[0] == same[1]


def test_a_memory_comes_back_from_its_export(opened: Any, tmp_path: Path):
    first, second = opened(namespace="a"), opened(namespace="a")
    old, new = (one.handle for one in first.add(["the port is 80", "line\u2028one\r\ntwo \ud800"]))
    first.link(new, "supersedes", old)
    first.link(new, "explains", old)
    first.add("password=hunter22 it was", source="x", parents=(old,), metadata={"b": 1, "a": [2.5]})
    assert first.export_items(tmp_path / "out.jsonl") == 3
    report = second.import_items(tmp_path / "out.jsonl")
    assert (report.added, report.links) == (3, 2)
    before, after = first.list(limit=None), second.list(limit=None)
    assert list(map(comparable, after)) == list(map(comparable, before))


def test_in_another_namespace_links_follow_the_new_handles(opened: Any, tmp_path: Path):
    memory = opened()
    alice, bob = memory.within("alice"), memory.within("bob")
    old, new = (one.handle for one in alice.add(["old", "new"]))
    alice.link(new, "supersedes", old)
    alice.export_items(tmp_path / "out.jsonl")
    bob.import_items(tmp_path / "out.jsonl")
    by_text = {item.text: item for item in bob.list()}
    assert by_text["new"].links == (Link("supersedes", by_text["old"].handle),)
    assert not {old, new} & {item.handle for item in bob.list()}


def test_a_file_written_by_hand_is_imported_and_its_secrets_taken_out(
    memory: Memory, tmp_path: Path
):
    path = tmp_path / "notes.jsonl"
    path.write_text('\n{"text": "Use tabs."}\n{"text": "password=hunter22", "tier": "hot"}\n')
    assert memory.import_items(path).added == 2
    assert memory.list(tiers=["hot"])[0].text == "password=[redacted:password]"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "it isn't JSON"),
        ("[1]", "it isn't an item"),
        ('{"kind": "note"}', "it isn't an item"),
        ('{"text": ""}', "text is empty"),
        ('{"text": "a", "tier": "lukewarm"}', "tier is 'lukewarm'"),
        ('{"text": "a", "colour": "red"}', "an item has no 'colour'"),
        ('{"text": "a", "time": "yesterday"}', "time is 'yesterday'"),
        ('{"text": "a", "time": 5}', "time is 5"),
        ('{"text": "a", "trust": 2}', "trust is 2"),
        ('{"text": "a", "links": ["x"]}', "links is"),
        ('{"format": "rehydrate memory", "version": 1}', "it isn't an item"),
    ],
)
def test_a_line_that_is_no_item_is_named(memory: Memory, tmp_path: Path, line: str, says: str):
    path = tmp_path / "bad.jsonl"
    path.write_text(f'{{"text": "fine"}}\n{line}\n')
    with pytest.raises(InvalidArgumentError, match=r"bad\.jsonl, line 2: ") as raised:
        memory.import_items(path)
    assert says in str(raised.value)


def test_a_file_of_a_later_version_is_refused(memory: Memory, tmp_path: Path):
    path = tmp_path / "later.jsonl"
    path.write_text('{"format": "rehydrate memory", "version": 99}\n')
    with pytest.raises(InvalidArgumentError, match="upgrade rehydrate"):
        memory.import_items(path)


def test_files_that_cannot_be_read_or_written_are_named(memory: Memory, tmp_path: Path):
    with pytest.raises(InvalidArgumentError, match="nowhere"):
        memory.import_items(tmp_path / "nowhere.jsonl")
    with pytest.raises(InvalidArgumentError, match="cannot be written"):
        memory.export_items(tmp_path / "no" / "folder.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidArgumentError, match="UTF-8"):
        memory.import_items(tmp_path / "latin.jsonl")


def test_an_export_is_its_owners_and_replaces_the_last_one(memory: Memory, tmp_path: Path):
    path = tmp_path / "out.jsonl"
    memory.add("one")
    memory.export_items(path)
    memory.add("two")
    memory.export_items(path)
    assert [json.loads(line).get("text") for line in path.read_text().splitlines()] == [
        *(None, "one", "two")
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.glob("*.jsonl*")] == ["out.jsonl"]
