"""OpenAIChatModel: OpenAI and compatible servers; a reply is in the form that the API accepts."""

import json

import pytest

from rehydrate import validate
from rehydrate.agent import OpenAIChatModel
from rehydrate.cost import Usage
from rehydrate.errors import ProviderUnavailableError, RateLimitError
from tests.agent.models.fake_transport import FakeTransport, ask, httpx, prompt, sse

USAGE = {
    "prompt_tokens": 1500,
    "completion_tokens": 9,
    "prompt_tokens_details": {"cached_tokens": 1408},
}


def tool_call(number=1, name="book", arguments='{"berth": 4}', **own):
    function = {"name": name, "arguments": arguments}
    return {"id": f"call_{number}", "type": "function", "function": function, **own}


def completion(message, reason="stop", **own):
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "gpt-x-2026",
        "choices": [choice],
        "usage": USAGE,
        **own,
    }


def chunks(*deltas, reason="stop", usage=USAGE):
    def chunk(choices, **own):
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "model": "gpt-x-2026",
            "choices": choices,
            **own,
        }

    listed = [chunk([{"index": 0, "delta": each, "finish_reason": None}]) for each in deltas]
    listed.append(chunk([{"index": 0, "delta": {}, "finish_reason": reason}]))
    return [*listed, *([chunk([], usage=usage)] if usage else []), "[DONE]"]


def ask_model(*answers, on_text=None, backend="asyncio", **options):
    transport = FakeTransport(*answers)
    model = OpenAIChatModel("gpt-x", client=transport.client("openai"), **options)
    return ask(model, prompt("openai_chat"), on_text=on_text, backend=backend), transport


def checked(reply):
    """Return the one entry; the API would accept it."""
    history = [{"role": "user", "content": "Hi."}, *reply.entries]
    assert validate(history, format="openai_chat") == []
    (entry,) = reply.entries
    return entry


MESSAGE = {"role": "assistant", "content": "I book.", "tool_calls": [tool_call(1), tool_call(2)]}
PIECES = [
    {"role": "assistant", "content": ""},
    {"content": "I "},
    {"content": "book."},
    {"tool_calls": [{"index": 0, **tool_call(1, arguments="")}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '{"berth"'}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": ": 4}"}}]},
    {"tool_calls": [{"index": 1, **tool_call(2)}]},
]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_an_answer_comes_back_as_the_message_that_the_api_takes(is_streamed, backend):
    nulls = {"refusal": None, "annotations": [], "audio": None, "function_call": None}
    whole = completion(MESSAGE | nulls, "tool_calls")
    pieces = []
    reply, transport = ask_model(
        chunks(*PIECES, reason="tool_calls") if is_streamed else whole,
        on_text=pieces.append if is_streamed else None,
        backend=backend,
    )
    assert checked(reply) == MESSAGE
    assert (reply.stop, reply.text, "".join(pieces)) == (
        "calls",
        "I book.",
        "I book." if is_streamed else "",
    )
    assert [(call.id, call.arguments()) for call in reply.calls] == [
        ("call_1", {"berth": 4}),
        ("call_2", {"berth": 4}),
    ]
    assert reply.usage == Usage(read=1408, uncached=92, output=9)
    assert (reply.model, reply.id) == ("gpt-x-2026", "chatcmpl-1")
    if is_streamed:
        assert transport.requests[0]["stream_options"] == {"include_usage": True}
    else:
        assert "stream" not in transport.requests[0]


def test_stream_options_can_be_left_to_a_server_that_takes_none():
    _, transport = ask_model(chunks({"content": "Hi."}), on_text=print, stream_options=None)
    assert transport.requests[0]["stream_options"] is None


@pytest.mark.parametrize(
    ("message", "reason", "stop", "text", "calls"),
    [
        ({"content": "Hi."}, "stop", "answer", "Hi.", 0),
        ({"content": "Hi."}, "length", "length", "Hi.", 0),
        ({"content": "Hi."}, "content_filter", "refusal", "Hi.", 0),
        ({"content": None, "refusal": "I can't."}, "stop", "refusal", "I can't.", 0),
        ({"content": None, "tool_calls": [tool_call()]}, "stop", "calls", "", 1),
        ({"content": "Hi.", "tool_calls": []}, "tool_calls", "answer", "Hi.", 0),
        (
            {"content": None, "tool_calls": [tool_call(), tool_call(2, arguments='{"be')]},
            "length",
            "calls",
            "",
            1,
        ),
        ({"content": "H", "tool_calls": [tool_call(arguments="")]}, "length", "calls", "H", 1),
        ({"content": "H", "tool_calls": [tool_call()]}, "content_filter", "refusal", "H", 0),
        ({"content": "Hi."}, None, "answer", "Hi.", 0),
    ],
)
def test_what_it_stopped_for(message, reason, stop, text, calls):
    reply, _ = ask_model(completion({"role": "assistant", **message}, reason))
    assert (reply.stop, reply.text, len(reply.calls)) == (stop, text, calls)
    entry = checked(reply)
    assert len(entry.get("tool_calls", ())) == calls
    assert entry.get("tool_calls") != []


def test_an_answer_that_says_nothing_adds_nothing():
    for message in ({"content": None}, {"content": ""}, {"content": None, "tool_calls": []}):
        reply, _ = ask_model(completion({"role": "assistant", **message}))
        assert (reply.entries, reply.text, reply.stop) == ((), "", "answer")


@pytest.mark.parametrize("is_streamed", [False, True])
def test_what_a_server_adds_goes_back_to_it(is_streamed):
    own = {"extra_content": {"google": {"thought_signature": "Eo4B=="}}}
    reasoning = {
        "reasoning_content": "Berth 4, I think.",
        "reasoning_details": [{"type": "reasoning.encrypted", "data": "gAAA"}],
    }
    message = {"role": "assistant", "content": None, **reasoning, "tool_calls": [tool_call(**own)]}
    pieces = [
        {"reasoning_content": "Berth 4, "},
        {"reasoning_content": "I think."},
        {"reasoning_details": reasoning["reasoning_details"]},
        {"tool_calls": [{"index": 0, **tool_call(**own)}]},
    ]
    reply, _ = ask_model(
        chunks(*pieces) if is_streamed else completion(message),
        on_text=print if is_streamed else None,
    )
    assert checked(reply) == message


@pytest.mark.parametrize(
    "given", [{"berth": 4, "név": "Réka"}, '{"berth": 4, "név": "Réka"}', {}, "", None, "  "]
)
@pytest.mark.parametrize("is_streamed", [False, True])
def test_arguments_come_as_json_in_whatever_way_a_server_gives_them(given, is_streamed):
    call = tool_call(arguments=given)
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    pieces = {"tool_calls": [{"index": 0, **call}]}
    reply, _ = ask_model(
        chunks(pieces) if is_streamed else completion(message),
        on_text=print if is_streamed else None,
    )
    written = checked(reply)["tool_calls"][0]["function"]["arguments"]
    full = given and (isinstance(given, dict) or given.strip())
    expected = {"berth": 4, "név": "Réka"} if full else {}
    assert json.loads(written) == reply.calls[0].arguments() == expected


@pytest.mark.parametrize("ids", [(None, None), ("", ""), ("call_7", "call_7")])
def test_calls_without_an_id_of_their_own_get_one(ids):
    calls = [tool_call(id=each) for each in ids]
    reply, _ = ask_model(completion({"role": "assistant", "content": None, "tool_calls": calls}))
    made = [call["id"] for call in checked(reply)["tool_calls"]]
    assert made == [call.id for call in reply.calls]
    assert len(set(made)) == 2
    assert ids[0] is None or ids[0] == "" or made[0] == ids[0]


@pytest.mark.parametrize(
    "deltas",
    [
        # all numbered 0, each whole (Gemini's and older vLLM's compatible endpoints)
        [{"index": 0, **tool_call(1)}, {"index": 0, **tool_call(2)}],
        # not numbered at all
        [tool_call(1), tool_call(2)],
        # in pieces, not numbered
        [
            tool_call(1, arguments='{"ber'),
            {"function": {"arguments": 'th": 4}'}},
            tool_call(2, arguments=""),
            {"function": {"arguments": '{"berth": 4}'}},
        ],
        # an empty one between the others (LiteLLM 1.80)
        [
            {"index": 0, **tool_call(1)},
            {"index": 1, "id": "", "type": "", "function": {"name": "", "arguments": ""}},
            {"index": 2, **tool_call(2)},
        ],
        # the name again with each piece
        [
            {"index": 0, **tool_call(1, arguments='{"ber')},
            {"index": 0, **tool_call(1, arguments='th": 4}')},
            {"index": 1, **tool_call(2)},
        ],
    ],
)
def test_calls_that_are_streamed_in_a_servers_own_way_are_put_together(deltas):
    listed = chunks(*[{"tool_calls": [each]} for each in deltas])
    reply, _ = ask_model(listed, on_text=print)
    assert checked(reply)["tool_calls"] == [tool_call(1), tool_call(2)]


def test_parts_of_a_content_are_kept_and_their_texts_said():
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "text", "text": "Berth 4."},
    ]
    reply, _ = ask_model(completion({"role": "assistant", "content": parts}))
    assert (checked(reply)["content"], reply.text) == (parts, "Berth 4.")


@pytest.mark.parametrize("usage", [None, {}])
def test_tokens_are_counted_where_a_server_does_not_say_them(usage):
    reply, _ = ask_model(completion({"role": "assistant", "content": "Berth 4."}, usage=usage))
    assert reply.usage == Usage(uncached=7, output=5)
    reply, _ = ask_model(chunks({"content": "Berth 4."}, usage=usage), on_text=print)
    assert reply.usage == Usage(uncached=7, output=5)


@pytest.mark.parametrize("ending", [[], ["[DONE]"]])
@pytest.mark.parametrize("count", range(1, 7))
def test_a_stream_that_ends_early_is_an_error_and_never_half_an_answer(count, ending):
    with pytest.raises(ProviderUnavailableError, match="ended before the answer was whole"):
        ask_model([*chunks(*PIECES)[:count], *ending], on_text=print)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_connection_that_breaks_in_the_midst_of_a_stream_is_one_too(backend):
    broken = sse(chunks(*PIECES)[:3], httpx.RemoteProtocolError("peer closed connection"))
    with pytest.raises(ProviderUnavailableError):
        ask_model(broken, on_text=print, backend=backend)


def test_an_error_in_an_answer_that_said_200_is_that_error():
    error = {"error": {"message": "Provider returned error", "code": 429}}
    with pytest.raises(RateLimitError, match="Provider returned error"):
        ask_model(error)
    with pytest.raises(RateLimitError, match="Provider returned error"):
        ask_model([*chunks(*PIECES)[:3], error], on_text=print)


def test_an_error_in_the_place_of_a_choice_is_that_error():
    body = completion({"role": "assistant", "content": ""}, "error")
    body["choices"][0]["error"] = {"code": 502, "message": "Upstream failed"}
    with pytest.raises(ProviderUnavailableError, match="answered 502: Upstream failed"):
        ask_model(body)


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": [{}]}, {"choices": [None]}])
def test_an_answer_of_another_shape_is_no_answer(body):
    with pytest.raises(ProviderUnavailableError, match="cannot be read"):
        ask_model(body)


def test_a_page_in_place_of_an_answer_is_no_answer():
    page = httpx.Response(200, text="<html>Sign in</html>", headers={"content-type": "text/html"})
    with pytest.raises(ProviderUnavailableError, match="broke off: JSONDecodeError"):
        ask_model(page)


def test_an_answer_is_not_lost_for_figures_that_contradict_each_other(caplog):
    usage = {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 11}}
    reply, _ = ask_model(completion({"role": "assistant", "content": "Hi."}, usage=usage))
    assert (reply.text, reply.usage) == ("Hi.", Usage())
    assert "openai_chat: the usage isn't counted" in caplog.text
