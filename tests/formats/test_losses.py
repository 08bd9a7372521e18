"""What a provider cannot take of another format becomes words and a note."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from rehydrate.formats import langchain_to_openai, to_ui_messages, validate
from tests.rendered import render_history

Entry = dict[str, Any]

USER: Entry = {"role": "user", "content": "Look."}
PNG = "iVBORw0KGgo="
WORDS = base64.b64encode("a,b\n1,ü\n".encode()).decode()
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
PROVIDERS = ["anthropic", "openai_chat", "openai_responses", "gemini", "bedrock", "ai_sdk"]


def sent(format: str, entries: list[Any], provider: str) -> tuple[list[Any], str]:
    """The messages, which the provider's rules allow, and the notes."""
    rendered = render_history(entries, format, provider)
    messages = [each.message for each in rendered.messages]
    broken = {each.rule for each in validate(messages, provider)}
    assert broken <= {"roles_not_alternating"}  # a request joins the messages
    return messages, " ".join(rendered.notes)


def parts(format: str, entries: list[Any], provider: str) -> tuple[list[Any], str]:
    """The parts of the last message, and the notes."""
    messages, notes = sent(format, entries, provider)
    content = messages[-1].get("content", messages[-1].get("parts"))
    return content if isinstance(content, list) else [content], notes


def base64_of(media_type: str, data: str) -> Entry:
    return {"type": "base64", "media_type": media_type, "data": data}


def in_file(url: str) -> Entry:
    """Chat's message with a file of this content or address."""
    return {"role": "user", "content": [{"type": "file", "file": {"file_data": url}}]}


def in_image(url: str) -> Entry:
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}


# LangChain's own blocks of media, of both versions: Anthropic's, chat's and Gemini's form of each.
MP3 = {"data": "SUQz", "format": "mp3"}
PDF = {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}
OWN_MEDIA: list[tuple[Entry, Entry, Entry, Entry]] = [
    (
        {"type": "image", "base64": PNG, "mime_type": "image/png"},
        {"type": "image", "source": base64_of("image/png", PNG)},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
    ),
    (
        {"type": "image", "source_type": "base64", "data": PNG, "mime_type": "image/png"},
        {"type": "image", "source": base64_of("image/png", PNG)},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
    ),
    (
        {"type": "image", "url": "https://x/a.png"},
        {"type": "image", "source": {"type": "url", "url": "https://x/a.png"}},
        {"type": "image_url", "image_url": {"url": "https://x/a.png"}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://x/a.png"}},
    ),
    (
        {
            "type": "file",
            "base64": "JVBERg==",
            "mime_type": "application/pdf",
            "extras": {"filename": "a.pdf"},
        },
        {"type": "document", "source": base64_of("application/pdf", "JVBERg==")},
        {"type": "file", "file": PDF},
        {"inlineData": {"mimeType": "application/pdf", "data": "JVBERg=="}},
    ),
    (
        {"type": "file", "source_type": "url", "url": "https://x/a.pdf"},
        {"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}},
        {"type": "text", "text": "[file left out: https://x/a.pdf]"},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "https://x/a.pdf"}},
    ),
    (
        {"type": "audio", "base64": "SUQz", "mime_type": "audio/mpeg"},
        {"type": "text", "text": "[audio left out: audio/mpeg]"},
        {"type": "input_audio", "input_audio": MP3},
        {"inlineData": {"mimeType": "audio/mpeg", "data": "SUQz"}},
    ),
    (
        {"type": "file", "source_type": "text", "text": "Tide at 4.", "mime_type": "text/plain"},
        {"type": "text", "text": "Tide at 4."},
        {"type": "text", "text": "Tide at 4."},
        {"text": "Tide at 4."},
    ),
]


@pytest.mark.parametrize(("block", "anthropic", "chat", "gemini"), OWN_MEDIA)
def test_langchains_own_media_are_sent(
    block: Entry, anthropic: Entry, chat: Entry, gemini: Entry
) -> None:
    history = [HumanMessage([{"type": "text", "text": "See"}, block])]
    wanted = {"anthropic": anthropic, "openai_chat": chat, "gemini": gemini}
    for provider, part in wanted.items():
        found, notes = parts("langchain", history, provider)
        assert found[-1] == part
        assert bool(notes) == ("left out" in str(part))
    ((said, own),) = [each["content"] for each in langchain_to_openai(history)]
    assert (said["text"], own) == ("See", chat)


def test_langchains_file_by_an_id_is_noted() -> None:
    history = [HumanMessage([{"type": "text", "text": "See"}, {"type": "file", "file_id": "f1"}])]
    (message,) = langchain_to_openai(history)
    assert message["content"][1] == {"type": "file", "file": {"file_id": "f1"}}
    assert "file is not sent" in sent("langchain", history, "anthropic")[1]


DOCUMENT = {"type": "document", "title": "Contract", "context": "Of May."}
HELD: list[tuple[str, Entry]] = [
    ("anthropic", {**DOCUMENT, "source": {"type": "file", "file_id": "f1"}}),
    (
        "bedrock",
        {
            "document": {
                "name": "Contract",
                "format": "pdf",
                "source": {"s3Location": {"uri": "s3://b/k"}},
            }
        },
    ),
]


@pytest.mark.parametrize(("format", "block"), HELD)
def test_a_document_that_its_provider_holds_is_noted_and_its_title_is_said(
    format: str, block: Entry
) -> None:
    messages, notes = sent(format, [{"role": "user", "content": [block]}], "openai_chat")
    assert "Contract" in str(messages)
    assert "document is not sent" in notes


def test_a_text_document_keeps_its_title_and_context() -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "Berth 4."}
    history = [{"role": "user", "content": [{**DOCUMENT, "source": source}]}]
    content, notes = parts("anthropic", history, "openai_chat")
    assert [each["text"] for each in content] == ["Contract", "Of May.", "Berth 4."]
    assert not notes


TEXT_SOURCE = {"type": "text", "media_type": "text/plain", "data": "a,b\n1,ü\n"}
TO_ANTHROPIC: list[tuple[Entry, Entry]] = [
    (
        in_file(f"data:text/csv;base64,{WORDS}"),
        {"type": "document", "source": TEXT_SOURCE},
    ),
    (in_file("data:text/plain;base64,/w=="), {"type": "text", "text": "text/plain"}),
    (in_file(f"data:{DOCX};base64,UEs="), {"type": "text", "text": DOCX}),
    (in_file("data:audio/wav;base64,UklG"), {"type": "text", "text": "audio/wav"}),
    (in_image("data:image/heic;base64,AAAA"), {"type": "text", "text": "image/heic"}),
    (in_image("data:image/svg+xml;base64,PHN2"), {"type": "text", "text": "image/svg+xml"}),
    (in_image("data:image/svg+xml,<svg/>"), {"type": "text", "text": "image/svg+xml"}),
    (in_image("gs://b/a.png"), {"type": "text", "text": "gs://b/a.png"}),
    (
        in_image(f"DATA:image/png;base64,{PNG}"),
        {"type": "image", "source": base64_of("image/png", PNG)},
    ),
    (
        in_image("data:image/jpg;base64,/9j/"),
        {"type": "image", "source": base64_of("image/jpeg", "/9j/")},
    ),
    (
        in_file(f"data:image/png;base64,{PNG}"),
        {"type": "image", "source": base64_of("image/png", PNG)},
    ),
]


@pytest.mark.parametrize(("entry", "block"), TO_ANTHROPIC)
def test_anthropic_gets_only_the_media_types_of_its_api(entry: Entry, block: Entry) -> None:
    ((found,), notes) = parts("openai_chat", [entry], "anthropic")
    if block["type"] == "text":
        what = "image" if "image_url" in str(entry) else "file"
        what = "audio" if block["text"].startswith("audio") else what
        assert found == {"type": "text", "text": f"[{what} left out: {block['text']}]"}
        assert "sent" in notes
    else:
        assert (found, notes) == (block, "")


def test_bedrock_notes_what_it_does_not_take() -> None:
    found, notes = parts("openai_chat", [in_image("data:image/heic;base64,AAAA")], "bedrock")
    assert found == [{"text": "[image left out: image/heic]"}]
    assert "image/heic is not sent" in notes


@pytest.mark.parametrize(
    ("media_type", "name"),
    [
        ("application/pdf", "file.pdf"),
        ("text/csv", "file.csv"),
        (DOCX, "file.docx"),
        ("application/json", "file.json"),
        ("application/octet-stream", "file.bin"),
    ],
)
def test_a_file_without_a_name_is_named_by_its_type(media_type: str, name: str) -> None:
    block = {"type": "document", "source": base64_of(media_type, "UEs=")}
    for provider in ["openai_chat", "openai_responses"]:
        messages, _ = sent("anthropic", [{"role": "user", "content": [block]}], provider)
        assert f"'filename': '{name}'" in str(messages)


def test_batched_computer_actions_are_the_input() -> None:
    actions = [{"type": "click", "x": 1, "y": 2}]
    history = [USER, {"type": "computer_call", "call_id": "c1", "actions": actions}]
    (call,), _ = parts("openai_responses", history, "anthropic")
    assert call["input"] == {"actions": actions}


def chat_call(arguments: str, id: str = "c1") -> Entry:
    function = {"name": "f", "arguments": arguments}
    call = {"id": id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


EMPTY_IDS: dict[str, list[Entry]] = {
    "openai_chat": [
        chat_call("{}", ""),
        {"role": "tool", "tool_call_id": "", "name": "f", "content": "4"},
    ],
    "openai_responses": [
        {"type": "function_call", "call_id": "", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "", "output": "4"},
    ],
}


@pytest.mark.parametrize("format", EMPTY_IDS)
def test_calls_with_empty_ids_keep_their_results(format: str) -> None:
    messages, _ = sent(format, [USER, *EMPTY_IDS[format]], "anthropic")
    (use,), (result,) = messages[1]["content"], messages[2]["content"]
    assert use["id"] == result["tool_use_id"]


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ("", {}),
        (" ", {}),
        ('{"a": 1e999}', {"input": '{"a": 1e999}'}),
        ('{"a": [NaN]}', {"input": '{"a": [NaN]}'}),
        ('{"a": 1e9}', {"a": 1e9}),
    ],
)
def test_arguments_are_always_json(arguments: str, given: Entry) -> None:
    (call,), _ = parts("openai_chat", [USER, chat_call(arguments)], "anthropic")
    assert call["input"] == given
    json.dumps(call, allow_nan=False)


def test_a_custom_tool_may_be_given_an_empty_text() -> None:
    call = {"type": "custom_tool_call", "call_id": "c1", "name": "f", "input": ""}
    (found,), _ = parts("openai_responses", [USER, call], "anthropic")
    assert found["input"] == {"input": ""}


PATCH = {"type": "apply_patch_call", "call_id": "c1", "operation": {"type": "delete_file"}}
SHELL = {"type": "shell_call", "call_id": "c1", "action": {"commands": ["x"]}}


def shell(**outcome: Any) -> list[Entry]:
    output = [{"stdout": "", "stderr": "", "outcome": outcome}]
    return [SHELL, {"type": "shell_call_output", "call_id": "c1", "output": output}]


FAILED: list[tuple[str, list[Any], str, bool]] = [
    (
        "langchain",
        [
            AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "c1"}]),
            ToolMessage("No.", tool_call_id="c1", status="error"),
        ],
        "No.",
        True,
    ),
    (
        "openai_responses",
        [PATCH, {"type": "apply_patch_call_output", "call_id": "c1", "status": "failed"}],
        "failed",
        True,
    ),
    ("openai_responses", shell(type="exit", exit_code=2), "exit code 2", False),
    ("openai_responses", shell(type="timeout"), "timeout", False),
    (
        "anthropic",
        [
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c1", "is_error": True}],
            },
        ],
        "(empty)",
        True,
    ),
]


@pytest.mark.parametrize(("format", "entries", "text", "is_error"), FAILED)
def test_a_failed_result_says_so(
    format: str, entries: list[Any], text: str, is_error: bool
) -> None:
    user = HumanMessage("Go.") if format == "langchain" else USER
    ((result,), _) = parts(format, [user, *entries], "bedrock")
    assert result["toolResult"]["content"] == [{"text": text}]
    assert ("status" in result["toolResult"]) == is_error
    if format != "anthropic":
        ((result,), _) = parts(format, [user, *entries], "anthropic")
        assert result["content"] == text
        assert result.get("is_error", False) == is_error


def test_an_error_without_a_content_gets_one_for_anthropic() -> None:
    call = {"toolUse": {"toolUseId": "c1", "name": "f", "input": {}}}
    result = {"toolResult": {"toolUseId": "c1", "content": [], "status": "error"}}
    history = [
        {"role": "user", "content": [{"text": "Go."}]},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    ((found,), _) = parts("bedrock", history, "anthropic")
    assert (found["content"], found["is_error"]) == ("(empty)", True)


def test_langchains_status_is_no_key_of_chats() -> None:
    (message,) = langchain_to_openai([ToolMessage("No.", tool_call_id="c1", status="error")])
    assert set(message) == {"role", "content", "tool_call_id"}


def test_a_picture_in_an_error_is_said() -> None:
    picture = {"type": "image", "source": base64_of("image/png", PNG)}
    content = [{"type": "text", "text": "No."}, picture]
    result = {"type": "tool_result", "tool_use_id": "a", "is_error": True, "content": content}
    history = [
        USER,
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}],
        },
        {"role": "user", "content": [result]},
    ]
    words = "No.\n\n[image left out: image/png]"
    (found,), notes = parts("anthropic", history, "ai_sdk")
    assert found["output"] == {"type": "error-text", "value": words}
    assert "image/png is not sent" in notes
    assert to_ui_messages(history)[-1]["parts"][0]["errorText"] == words


MADE = {
    "type": "image_generation_call",
    "id": "ig",
    "status": "completed",
    "result": PNG,
    "revised_prompt": "A quay.",
}


@pytest.mark.parametrize("provider", [each for each in PROVIDERS if each != "openai_responses"])
def test_a_picture_that_the_provider_made_is_sent(provider: str) -> None:
    messages, notes = sent("openai_responses", [USER, MADE, USER], provider)
    shown = str(messages)
    assert "completed" not in shown
    assert "A quay." in shown
    if provider == "openai_chat":
        assert "[image left out: image/png]" in shown
        assert "image/png is not sent" in notes
    else:
        assert PNG in shown or str(base64.b64decode(PNG)) in shown


@pytest.mark.parametrize("provider", PROVIDERS)
def test_speech_is_sent_or_said(provider: str) -> None:
    speech = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    history = [{"role": "user", "content": [speech]}]
    if provider == "openai_chat":
        messages, notes = sent("openai_responses", history, provider)
    else:
        messages, notes = sent("openai_chat", history, provider)
    if provider in {"openai_chat", "gemini", "ai_sdk"}:
        assert "UklGRg==" in str(messages)
        assert not notes
    else:
        assert "[audio left out: audio/wav]" in str(messages)
        assert "audio/wav is not sent" in notes


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"rejected_by": "Ada"}, '{"rejected_by":"Ada"}'),
        ({"output": "Ada"}, "Ada"),
        ({"result": "Ada"}, "Ada"),
        ({"error": "Ada"}, "Ada"),
    ],
)
def test_a_response_of_geminis_keeps_a_key_that_says_something(response: Entry, text: str) -> None:
    history = [
        {"role": "user", "parts": [{"text": "Go."}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": response}}]},
    ]
    ((result,), _) = parts("gemini", history, "anthropic")
    assert result["content"] == text
