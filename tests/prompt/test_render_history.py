"""Histories of one format, rendered for another provider: what is said stays said."""

import json
from itertools import product

import pytest

import rehydrate
from rehydrate.errors import InvalidMessageError
from rehydrate.prompt import PROVIDERS, History, PromptIR, compile
from tests.rendered import render_history

CALL = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "a.py"}}
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}
ANTHROPIC = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is in a.py?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "text", "text": "I read it."},
            CALL,
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "toolu_1",
                "content": [{"type": "text", "text": "x = 1"}, PNG],
            },
            {"type": "text", "text": "Go on."},
        ],
    },
    {"role": "assistant", "content": "It sets x."},
)


def rendered(entries, format, provider):
    history = render_history(entries, format, provider)
    messages = [each.message for each in history.messages]
    if provider == "bedrock":  # joins what is of one role
        messages = compile(PromptIR(history=History(entries, format)), provider).messages
    assert rehydrate.validate(messages, provider) == []
    return messages, history


def test_anthropic_calls_and_results_become_openai_ones():
    messages, history = rendered(ANTHROPIC, "anthropic", "openai_chat")
    assert [message["role"] for message in messages] == [
        *("system", "user", "assistant", "tool", "user", "user", "assistant")
    ]
    call = messages[2]["tool_calls"][0]
    assert call["id"] == messages[3]["tool_call_id"] == "toolu_1"
    assert json.loads(call["function"]["arguments"]) == {"path": "a.py"}
    assert messages[2]["content"] == "I read it."
    assert messages[3]["content"] == "x = 1"
    assert messages[4]["content"][0]["image_url"]["url"] == "data:image/png;base64,iVBO"
    assert messages[5]["content"] == "Go on."
    (note,) = history.notes
    assert "thinking" in note
    assert "history[2]" in note


def test_anthropic_calls_and_results_become_items():
    items, _ = rendered(ANTHROPIC, "anthropic", "openai_responses")
    kinds = [item.get("type", item.get("role")) for item in items]
    assert kinds == [
        *("system", "user", "assistant", "function_call", "function_call_output", "user"),
        "assistant",
    ]
    assert [part["type"] for part in items[4]["output"]] == ["input_text", "input_image"]


def test_a_system_entry_at_the_beginning_is_lifted_and_a_later_one_stays_in_its_place():
    late = [*ANTHROPIC, {"role": "system", "content": "Now in French."}]
    messages, history = rendered(late, "anthropic", "anthropic")
    assert [block.message["text"] for block in history.system] == ["Be brief."]
    assert messages[0] is ANTHROPIC[1]
    assert messages[-1]["role"] == "user"
    assert messages[-1]["content"][0]["text"] == "[system]\nNow in French."


def test_a_document_of_the_assistants_is_sent_in_a_user_message_before_it():
    pdf = {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBE"}}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    entries = [
        {"role": "user", "content": "Draw."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "drawn"},
        {"role": "assistant", "content": [{"type": "text", "text": "Here."}, pdf]},
        {"role": "user", "content": "Thanks."},
    ]
    messages, _ = rendered(entries, "openai_chat", "anthropic")
    assert [each["role"] for each in messages[3:]] == ["user", "assistant", "user"]
    assert messages[3]["content"][0]["text"] == "[assistant]"
    assert messages[3]["content"][1]["type"] == "document"
    assert messages[4]["content"] == [{"type": "text", "text": "Here."}]


def test_tools_that_come_and_go_stay_in_their_place_and_are_named_where_they_are_not_sent():
    tool = {"type": "tool_reference", "name": "weigh"}
    comes = {"role": "system", "content": [{"type": "tool_addition", "tool": tool}]}
    goes = {
        "role": "system",
        "content": [
            {"type": "text", "text": "No weighing now."},
            {"type": "tool_removal", "tool": tool},
        ],
    }
    entries = [ANTHROPIC[1], comes, ANTHROPIC[4], ANTHROPIC[1], goes]
    messages, history = rendered(entries, "anthropic", "anthropic")
    assert messages[1] is comes
    assert messages[4] is goes
    assert history.notes == ()
    for provider in ("openai_chat", "openai_responses"):
        messages, history = rendered(entries, "anthropic", provider)
        assert "weigh" not in str(messages).replace("weighing", "")
        assert "tool_addition" in history.notes[0]
        assert "tool_removal" in history.notes[1]
    _, history = rendered([comes, ANTHROPIC[1]], "anthropic", "anthropic")
    assert "history[0]" in history.notes[0]


@pytest.mark.parametrize(
    ("order", "sent", "moved"),
    [
        ("USA", "USA", 0),
        ("US", "US", 0),
        ("USU", "UUS", 1),
        ("UAS", "USA", 1),
        ("UASU", "UAUS", 1),
        ("UASAU", "USAAU", 1),
        ("USSA", "USA", 2),
        ("USUSA", "UUSA", 2),
        ("UTSA", "UUSA", 1),
        ("USASA", "USAA", 2),
    ],
)
def test_a_tool_comes_where_the_api_takes_it_and_a_move_is_noted(order, sent, moved):
    comes = [{"type": "tool_addition", "tool": {"type": "tool_reference", "name": "weigh"}}]
    entries = {
        "U": {"role": "user", "content": "Go on."},
        "A": {"role": "assistant", "content": "Done."},
        "S": {"role": "system", "content": comes},
        "T": {"role": "system", "content": "In French."},
    }
    given = [entries[each] for each in order.replace("UTS", "UST")]
    messages, history = rendered(given, "anthropic", "anthropic")
    assert "".join(each["role"][0].upper() for each in messages) == sent
    added = sum(len(each["content"]) for each in messages if each["role"] == "system")
    assert added == order.count("S")
    assert len(history.lost) == (moved > 0)
    for places in history.lost.values():
        assert len(places) == moved


def test_a_system_entry_between_a_call_and_its_results_moves_after_them():
    entries = [*ANTHROPIC[:3], {"role": "system", "content": "Note."}, *ANTHROPIC[3:]]
    messages, _ = rendered(entries, "anthropic", "anthropic")
    assert [message["role"] for message in messages] == [
        *("user", "assistant", "user", "user", "assistant")
    ]
    rendered(entries[:4], "anthropic", "anthropic")


def test_a_system_entry_after_an_open_call_moves_in_front_of_it():
    entries = [*ANTHROPIC[1:3], {"role": "system", "content": "Note."}]
    for provider, kinds in {
        "anthropic": ["user", "user", "assistant"],
        "openai_chat": ["user", "system", "assistant"],
        "openai_responses": ["user", "system", "assistant", "function_call"],
    }.items():
        messages, _ = rendered(entries, "anthropic", provider)
        assert [message.get("type", message.get("role")) for message in messages] == kinds


def test_a_system_entry_parts_no_call_from_its_results_wherever_it_comes():
    def calls(*numbers):
        return [{**CALL, "id": f"toolu_{number}"} for number in numbers]

    def results(*numbers):
        ids = [f"toolu_{number}" for number in numbers]
        return [{"type": "tool_result", "tool_use_id": each, "content": "x"} for each in ids]

    entries = [
        {"role": "system", "content": "Note."},
        {"role": "assistant", "content": "I read it."},
        *({"role": "assistant", "content": calls(*numbers)} for numbers in ((1,), (2,))),
        *({"role": "user", "content": results(*numbers)} for numbers in ((1,), (1, 2))),
    ]
    tried = 0
    for length in range(5):
        for middle in product(entries, repeat=length):
            history = [ANTHROPIC[1], *middle]
            if rehydrate.validate(history, "anthropic") == []:
                tried += 1
                for provider in PROVIDERS:
                    rendered(history, "anthropic", provider)
    assert tried > 100


def test_an_image_of_a_half_answered_turn_waits_for_the_other_results():
    calls = [{**CALL, "id": f"toolu_{number}"} for number in (1, 2)]
    result = {"type": "tool_result", "tool_use_id": "toolu_2", "content": [PNG]}
    entries = [
        ANTHROPIC[1],
        {"role": "assistant", "content": calls},
        {"role": "user", "content": [result]},
    ]
    half, _ = rendered(entries, "anthropic", "openai_chat")
    assert [message["role"] for message in half] == ["user", "assistant", "tool"]
    entries[-1]["content"].append({**result, "tool_use_id": "toolu_1", "content": "done"})
    whole, _ = rendered(entries, "anthropic", "openai_chat")
    assert [message["role"] for message in whole] == ["user", "assistant", "tool", "tool", "user"]


CHAT = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Compare."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": f"call_{n}", "type": "function", "function": {"name": "get", "arguments": args}}
            for n, args in ((1, '{"n": 1}'), (2, "not JSON"))
        ],
    },
    {"role": "tool", "tool_call_id": "call_2", "content": "two"},
    {"role": "tool", "tool_call_id": "call_1", "content": "one"},
    {"role": "assistant", "content": "Done."},
)


def test_openai_results_come_together_in_one_anthropic_message():
    messages, history = rendered(CHAT, "openai_chat", "anthropic")
    assert messages[0] is CHAT[1]
    assert [block["input"] for block in messages[1]["content"]] == [{"n": 1}, {"input": "not JSON"}]
    assert [block["content"] for block in messages[2]["content"]] == ["two", "one"]
    assert messages[3] is CHAT[5]
    assert [each.sources for each in history.messages] == [(1,), (2,), (3, 4), (5,)]


def test_a_call_id_that_is_used_again_gets_another_for_anthropic():
    again = [*CHAT, CHAT[1], CHAT[2], CHAT[4], CHAT[3]]
    messages, _ = rendered(again, "openai_chat", "anthropic")
    ids = [
        block["id"]
        for each in messages
        if each["role"] == "assistant"
        for block in each["content"]
        if isinstance(block, dict)
    ]
    assert ids == ["call_1", "call_2", "call_1-2", "call_2-2"]


def test_items_become_messages_and_late_outputs_follow_their_calls():
    items = [
        {"role": "user", "content": "Look."},
        {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"},
        {"type": "function_call", "id": "f", "call_id": "c1", "name": "get", "arguments": "{}"},
        {"type": "function_call", "id": "g", "call_id": "c2", "name": "get", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c2", "output": "two"},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {
            "type": "message",
            "role": "assistant",
            "id": "m",
            "content": [{"type": "output_text", "text": "Both.", "annotations": []}],
        },
    ]
    messages, _ = rendered(items, "openai_responses", "anthropic")
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant"]
    chat, _ = rendered(items, "openai_responses", "openai_chat")
    assert [message["role"] for message in chat] == [
        *("user", "assistant", "tool", "tool", "assistant")
    ]


def test_what_only_its_provider_holds_is_an_error_that_names_it():
    items = [{"type": "item_reference", "id": "msg_1"}, {"role": "user", "content": "Go on."}]
    with pytest.raises(InvalidMessageError, match=r"message 0.*leave it out"):
        render_history(items, "openai_responses", "anthropic")


def test_what_a_servers_tool_found_is_sent_as_text_and_reported():
    entries = [
        {"role": "user", "content": "Search."},
        {
            "role": "assistant",
            "content": [
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
                {
                    "type": "web_search_tool_result",
                    "tool_use_id": "s1",
                    "content": [{"type": "web_search_result", "title": "Found it"}],
                },
                {"type": "text", "text": "There."},
            ],
        },
    ]
    messages, history = rendered(entries, "anthropic", "openai_chat")
    assert "Found it" in json.dumps(messages[1])
    assert any("web_search_tool_result" in note for note in history.notes)


def test_a_call_that_waits_while_the_server_goes_on_is_sent_as_text():
    def shell(number, kind="shell_call", **more):
        return {"type": kind, "id": f"{kind}{number}", "call_id": f"c{number}", **more}

    command = {"action": {"commands": ["ls -l"]}}
    items = [
        {"role": "user", "content": "Look."},
        *(shell(1, **command), shell(2, **command), shell(2, "shell_call_output", output=[])),
        {"type": "function_call", "call_id": "c3", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c3", "output": "ok"},
    ]
    for provider in ("anthropic", "openai_chat"):
        messages, _ = rendered(items, "openai_responses", provider)
        assert str(messages).count("ls -l") == 2
    messages, _ = rendered(items[:3], "openai_responses", "openai_chat")
    assert len(messages[1]["tool_calls"]) == 2


def line(kind, content, number, **message):
    role = {"role": kind, "content": content, **message}
    return {"type": kind, "uuid": f"u{number}", "sessionId": "s", "message": role}


def test_lines_of_a_transcript_become_the_messages_that_were_sent():
    results = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": str(n)} for n in (1, 2)]
    calls = [{"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {}} for n in (1, 2)]
    lines = [
        {"type": "queue-operation", "sessionId": "s"},
        line("user", "Read both.", 1),
        line("assistant", [calls[0]], 2, id="msg_1"),
        line("user", [results[0]], 3),
        line("assistant", [calls[1]], 4, id="msg_1"),
        line("user", [results[1], {"type": "text", "text": "And?"}], 5),
    ]
    messages, history = rendered(lines, "claude_code", "anthropic")
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "user"]
    assert messages[1]["content"] == calls
    assert messages[1]["content"][0] is calls[0]
    assert messages[2]["content"] == results
    assert [each.sources for each in history.messages] == [(1,), (2, 4), (3, 5), (5,)]
    chat, _ = rendered(lines, "claude_code", "openai_chat")
    assert [message["role"] for message in chat] == ["user", "assistant", "tool", "tool", "user"]


def test_a_plain_list_is_sent_as_it_is_and_unknown_roles_speak_as_the_user():
    entries = (
        {"role": "user", "content": "Hello."},
        {"role": "critic", "content": "Too short."},
        {"role": "assistant", "content": "Sorry."},
    )
    for provider in ("anthropic", "openai_chat", "openai_responses"):
        messages, _ = rendered(entries, "plain", provider)
        assert messages[0] is entries[0]
        assert messages[2] is entries[2]
        assert "[critic]\nToo short." in json.dumps(messages[1], ensure_ascii=False).replace(
            "\\n", "\n"
        )


def test_langchain_messages_are_sent_to_every_provider():
    core = pytest.importorskip("langchain_core.messages")
    entries = [
        core.HumanMessage("Look."),
        core.AIMessage("", tool_calls=[{"name": "get", "args": {"n": 1}, "id": "c1"}]),
        core.ToolMessage("one", tool_call_id="c1"),
        core.AIMessage("Done."),
    ]
    roles = {
        "anthropic": ["user", "assistant", "user", "assistant"],
        "openai_chat": ["user", "assistant", "tool", "assistant"],
    }
    for provider, expected in roles.items():
        messages, _ = rendered(entries, "langchain", provider)
        assert [message["role"] for message in messages] == expected


def test_what_was_spoken_goes_to_another_provider_by_its_words():
    audio = {"id": "audio_1", "transcript": "It is port 8443."}
    talk = [
        {"role": "user", "content": "Which port?"},
        {"role": "assistant", "content": None, "audio": audio},
        {"role": "user", "content": "And the host?"},
        {"role": "assistant", "audio": {"id": "audio_2"}},
        {"role": "user", "content": "Thanks."},
    ]
    messages, history = rendered(talk, "openai_chat", "anthropic")
    assert "It is port 8443." in json.dumps(messages)
    assert any("speech without its words is not sent" in note for note in history.notes)


@pytest.mark.parametrize("provider", ["openai_chat", "bedrock"])
def test_results_in_results_beyond_any_use_are_refused(provider: str):
    content: str | list[dict] = "core"
    for _ in range(10_000):
        content = [{"type": "tool_result", "tool_use_id": "a", "content": content}]
    with pytest.raises(InvalidMessageError, match="256 deep at most"):
        render_history([{"role": "user", "content": content}], "anthropic", provider)


def test_two_calls_of_one_id_have_a_result_each():
    def calls(*names):
        made = [{"name": name, "arguments": "{}"} for name in names]
        listed = [{"id": "a", "type": "function", "function": each} for each in made]
        return {"role": "assistant", "content": None, "tool_calls": listed}

    def answer(text):
        return {"role": "tool", "tool_call_id": "a", "content": text}

    steps = [calls("tide", "berth"), answer("high"), answer("free"), calls("crane"), answer("up")]
    messages, _ = rendered([CHAT[1], *steps], "openai_chat", "anthropic")
    blocks = [block for each in messages[1:] for block in each["content"]]
    names = {block["id"]: block["name"] for block in blocks if block["type"] == "tool_use"}
    results = [block for block in blocks if block["type"] == "tool_result"]
    assert [(names[each["tool_use_id"]], each["content"]) for each in results] == [
        ("tide", "high"),
        ("berth", "free"),
        ("crane", "up"),
    ]
