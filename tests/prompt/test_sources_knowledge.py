"""knowledge: chunks of documents, folders and texts, the most relevant first."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import pytest

from rehydrate import Memory, count_tokens
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory import MemoryItem
from rehydrate.prompt import (
    ContextRequest,
    Priority,
    Provenance,
    Section,
    SourceRequest,
    TimeRange,
    hydrate,
    hydrate_source,
)
from rehydrate.prompt.sources import function, knowledge
from tests.prompt.test_hydrate import TALK, source_of

documents = importlib.import_module("rehydrate.prompt.sources.knowledge")

NOTES = Path(__file__).resolve().parents[2] / "examples" / "notes"
PORTS = "# Ports\n\nStaging listens on 8443.\n"
LUNCH = "# Lunch\n\nLunch is served at noon in the garden.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    (docs / "deep").mkdir(parents=True)
    (docs / ".git").mkdir()
    (docs / ".git" / "secret.md").write_text("staging port of git", encoding="utf-8")
    (docs / "ports.md").write_text(PORTS, encoding="utf-8")
    (docs / "deep" / "lunch.rst").write_text(LUNCH, encoding="utf-8")
    (docs / "picture.png").write_bytes(b"\x89PNG\0")
    return docs


def found(query: str, *given: Any, **settings: Any) -> tuple[Section, ...]:
    source = knowledge(*given, **{"timeout": None, **settings})
    return hydrate_source(query, source).sections


def aged(path: Path, seconds: float) -> None:
    """Make the file this much older."""
    then = path.stat().st_mtime - seconds
    os.utime(path, (then, then))


def test_the_piece_that_the_question_is_about_comes_first(folder: Path):
    first, second = found("which port does staging listen on?", folder)
    assert first.content == PORTS.strip()
    assert first.id == "knowledge:docs/ports.md#1"
    assert first.title == first.provenance.origin == "docs/ports.md"
    assert first.provenance.items[0].startswith("docs/ports.md#1@")
    assert first.trust == 0.8
    assert not first.is_system
    assert first.relevance > second.relevance
    assert second.id == "knowledge:docs/deep/lunch.rst#1"
    assert found("when is lunch?", folder)[0].id == second.id


def test_a_string_is_a_path_where_something_is_there_and_a_text_otherwise(folder: Path):
    assert found("port", str(folder))[0].id == "knowledge:docs/ports.md#1"
    assert found("port", "Staging listens on 8443.")[0].id == "knowledge:text-1#1"
    assert found("port", {"ports": PORTS, "lunch": LUNCH})[0].id == "knowledge:ports#1"


def test_a_folder_of_real_notes_answers():
    best = found("why was sqlite chosen", NOTES)
    assert best[0].provenance.origin.startswith("notes/")
    assert len(best) == 8
    assert len({section.id for section in best}) == 8


def test_a_single_file_may_be_any_text(tmp_path: Path):
    code = tmp_path / "ports.py"
    code.write_text("STAGING_PORT = 8443\n", encoding="utf-8")
    assert found("staging port", code)[0].content == "STAGING_PORT = 8443"


def test_a_long_document_is_cut_into_pieces_that_are_in_it(folder: Path):
    text = "".join(f"## Part {n}\n\n{f'Fact {n} of many. ' * 40}\n\n" for n in range(20))
    sections = found("fact 7", {"facts": text}, limit=3)
    assert len(sections) == 3
    assert all(str(section.content) in text for section in sections)
    assert sections[0].id == "knowledge:facts#8"


def test_a_budget_keeps_whole_pieces(folder: Path):
    sections = found("which port does staging listen on?", folder, budget_tokens=18)
    assert [section.content for section in sections] == [PORTS.strip()]


@pytest.mark.parametrize("age_seconds", [0, 100])
def test_a_file_that_changed_is_read_again(folder: Path, age_seconds: float):
    ports = folder / "ports.md"
    aged(ports, age_seconds)
    (before,) = found("port of staging", ports)
    ports.write_text(PORTS.replace("8443", "9000"), encoding="utf-8")
    aged(ports, age_seconds / 2)
    (after,) = found("port of staging", ports)
    assert "9000" in after.content
    assert after.id == before.id
    assert after.provenance.items != before.provenance.items


def test_what_did_not_change_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch):
    for path in (folder / "ports.md", folder / "deep" / "lunch.rst"):
        aged(path, 100)
    first = found("port of staging", folder)

    def unread(*_: Any) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr(documents, "read_note", unread)
    monkeypatch.setattr(documents, "Corpus", unread)
    assert found("port of staging", folder) == first


def test_what_was_ranked_is_not_kept_without_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(documents, "_MAX_CACHED_CHARS", 100)
    monkeypatch.setattr(documents, "_corpora", type(documents._corpora)())
    for n in range(10):
        found("x", {"text": f"Text number {n} " * 3})
    assert sum(corpus.characters for corpus in documents._corpora.values()) <= 100


def test_what_is_visible_makes_room_for_the_next_best(folder: Path):
    source = knowledge(folder, limit=1, timeout=None)
    (first,) = hydrate_source("port of staging", source).sections
    (second,) = hydrate_source("port of staging", source, visible=first.provenance.items).sections
    assert second.id != first.id


def test_a_file_that_cannot_be_read_is_said_and_the_others_are_read(folder: Path):
    (folder / "broken.md").write_bytes(b"\xff\xfe\xfa")
    ir = hydrate("port of staging", knowledge(folder, timeout=None))
    assert ir.sections[0].content == PORTS.strip()
    assert ir.meta.degraded == (
        "knowledge: docs/broken.md: it isn't UTF-8 text: byte 0 begins no character",
    )


def test_a_file_that_is_gone_by_now_is_said(folder: Path):
    source = knowledge(folder / "ports.md", {"lunch": LUNCH}, timeout=None)
    (folder / "ports.md").unlink()
    ir = hydrate("port of staging", source)
    assert [section.id for section in ir.sections] == ["knowledge:lunch#1"]
    assert ir.meta.degraded[0].startswith("knowledge: ports.md: it cannot be read")


def test_two_folders_of_one_name_are_distinguished(folder: Path, tmp_path: Path):
    other = tmp_path / "other" / "docs"
    other.mkdir(parents=True)
    (other / "ports.md").write_text("# Ports\n\nStaging listens on 9000.\n", encoding="utf-8")
    sections = found("which port does staging listen on?", folder, other)
    origins = [section.provenance.origin for section in sections]
    assert len(set(origins)) == len(origins) == 3
    assert f"{other.resolve().as_posix()}/ports.md" in origins


def test_an_empty_folder_brings_nothing(tmp_path: Path):
    assert found("x", tmp_path) == ()
    assert found("x", {"empty": " \n"}) == ()


def test_with_nothing_to_look_for_it_is_off():
    assert hydrate_source("", knowledge({"a": PORTS}), timeout=None).report.status == "off"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (("no/such/place.md",), "there is no 'no/such/place.md'"),
        ((17,), "a document is of type int"),
        (({"a": 17},), "'a' is of type int"),
        ((), "has no documents"),
    ],
)
def test_what_is_no_document_is_a_typed_error(given: tuple[Any, ...], error: str):
    with pytest.raises(InvalidArgumentError, match=error):
        knowledge(*given)


def test_trust_is_the_callers_to_say_and_must_be_a_share():
    assert found("port", {"a": PORTS}, trust=0.3)[0].trust == 0.3
    with pytest.raises(InvalidArgumentError, match="trust is 3"):
        knowledge({"a": PORTS}, trust=3)


def test_two_knowledge_sources_have_names_of_their_own():
    sources = [knowledge({"a": PORTS}, name="ops"), knowledge({"a": LUNCH}, name="people")]
    ir = hydrate("port", sources, timeout=None)
    assert [section.id for section in ir.sections] == ["ops:a#1", "people:a#1"]


# function: whatever the caller's own function returns.


def sections_of(answer: Any, **settings: Any) -> tuple[Section, ...]:
    return hydrate("x", source_of("docs", answer, **settings)).sections


@pytest.mark.parametrize("nothing", [None, "", " \n", [], ["", " "]])
def test_nothing_is_no_section(nothing: Any):
    assert sections_of(nothing) == ()


def test_a_text_is_a_section_of_the_sources_name():
    (section,) = sections_of("Rain.", priority=Priority.LOW)
    assert (section.id, section.content, section.priority) == ("docs", "Rain.", Priority.LOW)
    assert section.provenance.source == "docs"


def test_a_section_keeps_what_it_says_of_itself():
    own = Section("docs:a", "Rain.", Provenance("weather", trust=1.0), priority=Priority.HIGH)
    (section,) = sections_of(own)
    assert (section.id, section.provenance, section.priority) == (
        "docs:a",
        own.provenance,
        Priority.HIGH,
    )


def test_hits_and_items_become_sections_with_their_provenance(memory: Memory):
    hits = memory.search("staging port", 1)
    (section,) = sections_of(hits)
    assert section.id == f"docs:{hits[0].handle}"
    assert section.trust == 0.6
    stored, new = sections_of([hits[0].item, MemoryItem("Never stored.", trust=0.3)])
    assert stored.provenance.items == (hits[0].handle,)
    assert (new.id, new.provenance.items, new.trust) == ("docs:2", (), 0.3)


def test_messages_are_one_section():
    (section,) = sections_of(TALK)
    assert section.content == tuple(TALK)
    assert section.tokens == count_tokens(TALK)


def test_it_hears_what_the_turn_is_about():
    heard: list[SourceRequest] = []
    request = ContextRequest("x", thread="t", time_range=TimeRange(), namespace="alice")
    hydrate(request, function("docs", heard.append, budget_tokens=7, timeout=None))
    (asked,) = heard
    assert asked.request == request
    assert (asked.query, asked.thread, asked.namespace) == ("x", "t", "alice")
    assert (asked.source, asked.budget_tokens, asked.after) == ("docs", 7, None)


def test_a_function_by_itself_has_its_own_name():
    def weather(_: SourceRequest) -> str:
        return "Rain."

    class Clock:
        def __call__(self, _: SourceRequest) -> str:
            return "Noon."

    ir = hydrate("x", [weather, Clock(), lambda _: "third"], timeout=None)
    assert [section.id for section in ir.sections] == ["weather", "Clock", "function"]
