"""Detection of formats, and input that is refused before detection."""

from __future__ import annotations

import pickle
from collections import UserDict, UserList
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rehydrate import formats
from rehydrate.errors import (
    InvalidArgumentError,
    InvalidConversationError,
    InvalidMessageError,
    MissingPackageError,
    RehydrateError,
    UnknownFormatError,
    Violation,
)
from rehydrate.formats import FORMATS, detect_format, parse, validate

TEXT = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
MARKED = {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {}}]}
CALLS = {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]}
USES = {"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}
THINKS = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}
REFUSES = {"role": "assistant", "content": [{"type": "refusal", "refusal": "I cannot."}]}
LINE = {"type": "user", "message": TEXT, "uuid": "1"}


@pytest.mark.parametrize(
    ("entries", "name"),
    [
        ([], "plain"),
        ([{"role": "user", "content": "hi"}], "plain"),
        ([TEXT], "plain"),
        ([TEXT, USES], "anthropic"),
        ([TEXT, MARKED], "anthropic"),
        ([MARKED, CALLS], "openai_chat"),
        ([THINKS | CALLS], "openai_chat"),
        ([{"role": "developer", "content": "Be brief."}], "openai_chat"),
        ([{"role": "tool", "tool_call_id": "a", "content": ""}], "openai_chat"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "openai_chat"),
        ([{"role": "user", "content": [{"type": "image", "source": {}}]}], "anthropic"),
        ([TEXT, {"type": "reasoning", "id": "rs_1", "summary": []}], "openai_responses"),
        ([{"type": "function_call_output", "call_id": "a", "output": ""}], "openai_responses"),
        ([{"type": "call_of_the_future", "call_id": "a"}], "openai_responses"),
        ([{"role": "user", "content": [{"type": "input_text"}]}], "openai_responses"),
        ([{"type": "message", "role": "user", "content": "hi"}], "openai_responses"),
        ([{"type": "message", **REFUSES}], "openai_responses"),
        ([REFUSES], "openai_chat"),
        ([TEXT, {"role": "assistant", "audio": {"id": "audio_1"}}], "openai_chat"),
        ([{"type": "message", "role": "assistant", "content": USES["content"]}], "anthropic"),
        ([LINE], "claude_code"),
        ([{"type": "file-history-snapshot", "messageId": "m"}, LINE], "claude_code"),
    ],
)
def test_the_first_entry_that_only_one_format_can_hold_decides(entries, name):
    assert detect_format(entries) == name
    assert parse(entries).format == name


def test_an_unknown_format_is_refused_with_the_known_ones():
    for ask in (parse, validate):
        for name in ("cohere", None, ["plain"]):
            with pytest.raises(UnknownFormatError, match=r"'anthropic'.*'plain'") as caught:
                ask([], name)
            assert caught.value.known == tuple(FORMATS)


@pytest.mark.parametrize(
    ("messages", "remedy"),
    [
        ("[]", "json.loads"),
        (b"[]", "json.loads"),
        ({"messages": []}, "pass its 'messages'"),
        (TEXT, "wrap it in a list"),
        ((entry for entry in [TEXT]), r"list\(messages\)"),
        (None, "list"),
    ],
)
def test_what_is_no_list_is_refused_with_a_remedy(messages, remedy):
    for ask in (parse, validate, detect_format):
        with pytest.raises(InvalidMessageError, match=remedy) as caught:
            ask(messages)
        assert caught.value.index is None


def test_tuples_and_other_sequences_of_other_mappings_are_read():
    for messages in ((TEXT,), UserList([UserDict(TEXT)])):
        assert parse(messages).messages[0].text == "hi"
        assert validate(messages) == []


class Model(SimpleNamespace):
    """Looks like a message object of an SDK."""

    def model_dump(self) -> dict[str, Any]:
        return vars(self)


def test_what_can_dump_itself_is_read_as_what_it_dumps():
    reported = {"role": "user", "content": [Model(type="text", text="hi")]}
    for messages in ([reported], [Model(role="user", content="hi")]):
        assert parse(messages).messages[0].text == "hi"
        assert validate(messages) == []


@pytest.mark.parametrize("name", ["anthropic", "openai_chat", "openai_responses", "plain"])
@pytest.mark.parametrize(
    ("entry", "part", "remedy"),
    [
        ("hello", "", "wrap it as"),
        (7, "", "convert it to a dict"),
        ({"content": "hi"}, "role", "add the role"),
        ({"role": None, "content": "hi"}, "role", "add the role"),
        ({"role": "user", "content": 7}, "content", "convert it to a string"),
        ({"role": "user", "content": {"type": "text"}}, "content", "wrap the block in a list"),
        ({"role": "user", "content": ["x", 7]}, r"content\[1\]", "convert it to a dict"),
    ],
)
def test_an_entry_that_is_no_message_is_refused_with_its_place_and_a_remedy(
    name, entry, part, remedy
):
    for ask in (parse, validate):
        with pytest.raises(InvalidMessageError, match=f"message 1.*{part}.*{remedy}") as caught:
            ask([TEXT, entry], name)
        assert caught.value.index == 1
        assert isinstance(caught.value, (ValueError, TypeError))


@pytest.mark.parametrize("name", ["anthropic", "openai_chat", "plain"])
@pytest.mark.parametrize(
    ("entry", "remedy"),
    [
        (LINE, "transcript"),
        ({"lc": 1, "type": "constructor", "id": [], "kwargs": {}}, "LangChain's stored form"),
        ({"type": "human", "data": {"content": "hi"}}, "LangChain's stored form"),
    ],
)
def test_an_entry_of_another_kind_of_record_is_refused_with_its_name(name, entry, remedy):
    for ask in (parse, validate):
        with pytest.raises(InvalidMessageError, match=f"message 1: role.*{remedy}"):
            ask([TEXT, entry], name)


@pytest.mark.parametrize(
    ("tool_calls", "part"),
    [({"id": "a"}, "tool_calls"), ([7], r"tool_calls\[0\]")],
)
def test_tool_calls_of_the_wrong_shape_are_refused(tool_calls, part):
    entry = {"role": "assistant", "content": None, "tool_calls": tool_calls}
    for ask in (parse, validate):
        with pytest.raises(InvalidMessageError, match=f"message 0: {part}"):
            ask([entry], "openai_chat")


def test_errors_survive_pickling_with_message_and_attributes():
    errors = [
        InvalidArgumentError("target_ratio is nan; pass a number from 0.05 to 1"),
        UnknownFormatError("cohere", ["plain"]),
        InvalidMessageError(3, "content", object(), "a string", "convert it"),
        MissingPackageError("langchain-core", "makes LangChain's messages"),
        InvalidConversationError([Violation(0, "empty_text", "a text block is empty")] * 7),
    ]
    for error in errors:
        again = pickle.loads(pickle.dumps(error))
        assert isinstance(again, RehydrateError)
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_every_rule_that_is_reported_is_in_the_table():
    from tests.formats import (
        test_ai_sdk_rules,
        test_anthropic,
        test_bedrock,
        test_gemini,
        test_openai_chat,
        test_openai_responses,
    )

    tests = (
        *(test_ai_sdk_rules, test_anthropic, test_bedrock),
        *(test_gemini, test_openai_chat, test_openai_responses),
    )
    planted = {rule for test in tests for rule in test.PLANTED}
    further = {"cache_control_on_empty_text", "server_result_without_call"}
    further |= {"misplaced_system", "citations_of_user"}
    further.add("thinking_after_changed_prefix")  # in test_binding.py
    assert set(_rules(formats.validate.__doc__ or "")) == planted | further


def test_the_documentation_shows_the_same_rules_and_every_format():
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    assert _rules(page[page.index("## Rules") :]) == _rules(formats.validate.__doc__ or "")
    assert [name for name in FORMATS if f"| `{name}` |" not in page] == []


def _rules(text: str) -> dict[str, list[str]]:
    """Return the rows of the table of rules: name to its formats and its text."""
    rows = [
        [cell.strip(" `") for cell in row.strip().strip("|").split("|")]
        for row in text.splitlines()
        if row.count("|") in (4, 5)  # the page also says when each was read
    ]
    found = {name: rest[:2] for name, *rest in rows}
    return {name: rest for name, rest in found.items() if name != "rule" and "---" not in name}
