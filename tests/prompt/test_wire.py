"""JSON both ways: equal after the trip, readable on the way, and typed errors that name places."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage

from rehydrate import formats
from rehydrate.errors import InvalidArgumentError, UnreadableIRError
from rehydrate.prompt import (
    CompiledPrompt,
    CompositionMode,
    History,
    Priority,
    PromptIR,
    Provenance,
    Section,
    Segment,
    Stability,
)
from tests.prompt.example_irs import lawful_irs
from tests.prompt.test_verify import LAWFUL, SYSTEM


@given(lawful_irs())
def test_a_round_trip_gives_an_equal_ir(ir: PromptIR):
    back = PromptIR.from_json(ir.to_json())
    if ir.history.format in ("langchain", "bedrock"):
        # LangChain's objects became chat's dicts, and the bytes of Converse base64.
        assert back.history.format in ("openai_chat", "bedrock")
        ir = back
        back = PromptIR.from_json(ir.to_json())
    assert back == ir
    assert back.to_json() == ir.to_json()


@given(lawful_irs())
def test_what_came_back_breaks_no_law_and_has_the_same_table(ir: PromptIR):
    back = PromptIR.from_dict(ir.to_dict())
    assert back.verify() == []
    if ir.history.format != "langchain":
        assert back.explain() == ir.explain()


def test_enums_and_times_are_readable():
    section = replace(SYSTEM, provenance=replace(SYSTEM.provenance, time=datetime(2026, 2, 17, 9)))
    written = PromptIR(sections=(section,)).to_dict()["sections"][0]
    assert (written["priority"], written["mode"]) == ("critical", "hierarchical")
    assert (written["stability"], written["position"]) == ("static", "middle")
    assert written["provenance"]["time"] == "2026-02-17T09:00:00"
    back = PromptIR.from_dict(PromptIR(sections=(section,)).to_dict()).sections[0]
    assert back.priority is Priority.CRITICAL and back.stability is Stability.STATIC
    assert back.mode is CompositionMode.HIERARCHICAL


def test_the_document_says_what_it_is_and_in_which_version():
    written = LAWFUL.to_dict()
    assert list(written)[:2] == ["rehydrate", "version"]
    assert (written["rehydrate"], written["version"]) == ("prompt_ir", 1)
    assert json.loads(LAWFUL.to_json(indent=2)) == written


def test_what_is_written_is_a_copy():
    ir = PromptIR(history=History(({"role": "user", "content": [{"type": "text"}]},)))
    ir.to_dict()["history"]["entries"][0]["content"].append("more")
    assert ir.history.entries[0]["content"] == [{"type": "text"}]


def test_defaults_may_be_left_out():
    document = {"rehydrate": "prompt_ir", "version": 1}
    assert PromptIR.from_dict(document) == PromptIR()
    section = {"id": "a", "content": "b", "provenance": {"source": "mine"}}
    read = PromptIR.from_dict({**document, "sections": [section]})
    assert read.sections == (Section("a", "b", Provenance("mine")),)


def test_message_objects_become_dicts_that_say_the_same():
    entries = (
        HumanMessage("Which port?"),
        RemoveMessage(id="gone"),
        AIMessage("", tool_calls=[{"id": "t1", "name": "grep", "args": {"q": "port"}}]),
    )
    ir = PromptIR(
        sections=(Section("s", (HumanMessage("Found."),), Provenance("temporal"), tokens=2),),
        history=History(entries, "langchain", (3, 0, 9)),
    )
    back = PromptIR.from_json(ir.to_json())
    assert back.history.format == "openai_chat"
    assert (back.history.tokens, back.history.entry_indices) == ((3, 9), (0, 2))
    assert list(back.history.entries) == formats.langchain_to_openai([entries[0], entries[2]])
    assert back.sections[0].content == ({"role": "user", "content": "Found."},)


def test_half_a_surrogate_pair_survives():
    ir = PromptIR(history=History(({"role": "user", "content": "\ud800 日本"},)))
    assert PromptIR.from_json(ir.to_json()) == ir
    assert PromptIR.from_json(ir.to_json().encode()) == ir


def test_a_compiled_prompt_is_written_with_its_ir():
    segment = Segment("system", "system", 4, "00ff", "static", breakpoint=True)
    compiled = CompiledPrompt(
        "anthropic", {"messages": [], "system": ({"a": 1},)}, LAWFUL, (segment,)
    )
    written = json.loads(compiled.to_json())
    assert (written["rehydrate"], written["provider"]) == ("compiled_prompt", "anthropic")
    assert written["request"] == {"messages": [], "system": [{"a": 1}]}
    assert written["segments"][0]["digest"] == "00ff"
    assert PromptIR.from_dict(written) == LAWFUL
    back = CompiledPrompt.from_json(compiled.to_json())
    assert (back.ir, back.segments, back.provider) == (LAWFUL, (segment,), "anthropic")
    assert compiled.explain() == LAWFUL.explain()


@pytest.mark.parametrize(
    ("changes", "place", "said"),
    [
        ({"rehydrate": "prompt_ir"}, "rehydrate", "compiled_prompt"),
        ({"provider": "soup"}, "provider", "'anthropic'"),
        ({"colour": "red"}, "", "'colour'"),
        ({"segments": [{"id": "a"}]}, "segments[0]", "'digest'"),
        ({"ir": None}, "", "to_dict"),
    ],
)
def test_what_is_no_compiled_prompt_names_the_place(changes: dict[str, Any], place: str, said: str):
    document = CompiledPrompt("anthropic", {}, LAWFUL, ()).to_dict() | changes
    with pytest.raises(UnreadableIRError) as caught:
        CompiledPrompt.from_dict(document)
    assert caught.value.place == place
    assert said in str(caught.value)
    del document["segments"]
    with pytest.raises(UnreadableIRError):
        CompiledPrompt.from_dict(document)


def changed(*path: str | int, to: Any) -> Callable[[], Any]:
    def change() -> Any:
        document = LAWFUL.to_dict()
        *way, last = path
        inner: Any = document
        for step in way:
            inner = inner[step]
        inner[last] = to
        return document

    return change


def without(*path: str | int) -> Callable[[], Any]:
    def take() -> Any:
        document = LAWFUL.to_dict()
        *way, last = path
        inner: Any = document
        for step in way:
            inner = inner[step]
        del inner[last]
        return document

    return take


UNREADABLE: dict[str, tuple[Callable[[], Any], str, str]] = {
    "no IR": (lambda: {"messages": []}, "", "to_dict"),
    "no object": (lambda: [LAWFUL.to_dict()], "", "to_dict"),
    "another kind": (changed("rehydrate", to="soup"), "rehydrate", "'soup'"),
    "a newer version": (changed("version", to=2), "version", "upgrade"),
    "no version": (without("version"), "version", "pass 1"),
    "a version that is none": (changed("version", to="1"), "version", "'1'"),
    "an unknown field": (changed("colour", to="red"), "", "'colour'"),
    "an unknown field inside": (
        changed("sections", 1, "provenance", "colour", to="red"), "sections[1].provenance",
        "'colour'"),
    "a missing field": (without("sections", 2, "id"), "sections[2]", "'id'"),
    "an unknown priority": (
        changed("sections", 0, "priority", to="urgent"), "sections[0].priority", "'critical'"),
    "a priority as a number": (
        changed("sections", 0, "priority", to=4), "sections[0].priority", "'critical'"),
    "an unknown mode": (changed("sections", 0, "mode", to="x"), "sections[0].mode", "'additive'"),
    "an unknown status": (
        changed("meta", "sources", 0, "status", to="x"), "meta.sources[0].status", "'late'"),
    "a number for a text": (changed("counter", to=7), "counter", "a string"),
    "a text for a number": (
        changed("sections", 0, "tokens", to="7"), "sections[0].tokens", "a whole number"),
    "true for a number": (
        changed("history", "tokens", 0, to=True), "history.tokens[0]", "a whole number"),
    "an object for a list": (changed("sections", to={}), "sections", "a list"),
    "a list for an object": (changed("history", to=[]), "history", "an object"),
    "a list for shares": (
        changed("request", "strategy", "shares", to=[]), "request.strategy.shares", "an object"),
    "null for a list": (changed("sections", 0, "content", to=None), "sections[0].content", "null"),
    "no time": (
        changed("sections", 0, "provenance", "time", to="noon"), "sections[0].provenance.time",
        "2026"),
    "a trust of two": (
        changed("sections", 0, "provenance", "trust", to=2), "sections[0].provenance", "0 to 1"),
    "a budget of none": (
        changed("request", "budget", "soft_tokens", to=0), "request.budget", "from 1 to"),
    "a count too few": (changed("history", "tokens", to=[1]), "history.tokens", "5 entries"),
    "an entry index too few": (
        changed("history", "entry_indices", to=[1]), "history.entry_indices", "5 entries"),
    "an entry index below 0": (
        changed("history", "entry_indices", to=[0, -1, 2, 3, 4]), "history.entry_indices[1]",
        "from 0 to 9999999999999999"),
    "an entry index above 64 bits": (
        changed("history", "entry_indices", to=[0, 1, 2, 3, 2**64]), "history.entry_indices[4]",
        "18446744073709551616"),
    "a count above 64 bits": (
        changed("history", "tokens", 0, to=10**400), "history.tokens[0]", "of 64 bits"),
    "a time above 64 bits": (
        changed("meta", "sources", 0, "elapsed_ms", to=2**64), "meta.sources[0].elapsed_ms",
        "of 64 bits"),
    "a compiled prompt without its IR": (
        lambda: {"rehydrate": "compiled_prompt", "version": 1}, "", "to_dict"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_names_the_place_and_the_remedy(name: str):
    make, place, said = UNREADABLE[name]
    with pytest.raises(UnreadableIRError) as caught:
        PromptIR.from_dict(make())
    assert caught.value.place == place
    assert said in str(caught.value)
    assert isinstance(caught.value, InvalidArgumentError)


def test_unknown_and_missing_fields_are_named_for_programs_too():
    with pytest.raises(UnreadableIRError) as caught:
        PromptIR.from_dict({**LAWFUL.to_dict(), "a": 1, "b": 2})
    assert caught.value.names == ("a", "b")


@pytest.mark.parametrize("text", ["", "{", b"\xff", "[" * 100_000])
def test_what_is_no_json_is_a_typed_error(text: str | bytes):
    with pytest.raises(UnreadableIRError, match="is not JSON"):
        PromptIR.from_json(text)


def nested() -> dict[str, Any]:
    inner: dict[str, Any] = {}
    for _ in range(5_000):
        inner = {"a": inner}
    return inner


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"x": object()}, r"sections\[0\].metadata.x is of type object"),
        ({"x": {3: 1}}, r"metadata.x has the key 3"),
        ({"x": b"abc"}, r"is of type bytes"),
        (nested(), "nested too deeply"),
    ],
    ids=["object", "key", "bytes", "nested"],
)
def test_what_json_has_no_word_for_is_named(value: dict[str, Any], said: str):
    section = Section("s", "x", Provenance("mine"), metadata=value)
    with pytest.raises(UnreadableIRError, match=said):
        PromptIR(sections=(section,)).to_json()


def test_the_error_survives_pickling():
    import pickle

    error = UnreadableIRError("sections[1]", "has no 'id'", "add it", ["id"])
    back = pickle.loads(pickle.dumps(error))
    assert (str(back), back.names) == (str(error), ("id",))
