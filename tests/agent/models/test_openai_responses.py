"""OpenAIResponsesModel: output items become input items that the API accepts."""

import pytest

from rehydrate import validate
from rehydrate.agent import OpenAIResponsesModel
from rehydrate.agent.openai import ENCRYPTED
from rehydrate.cost import Usage
from rehydrate.errors import (
    ContextOverflowError,
    ProviderUnavailableError,
    RequestRefusedError,
)
from tests.agent.models.fake_transport import FakeTransport, ask, httpx, prompt, refusal, sse

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAABo=="}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "book",
    "arguments": '{"berth": 4}',
    "status": "completed",
}
SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "tide"},
}
UNKNOWN = {"type": "hologram", "id": "h_1", "shape": {"sides": [1, 2.5]}}
USAGE = {
    "input_tokens": 1500,
    "input_tokens_details": {"cached_tokens": 1408},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 4},
    "total_tokens": 1509,
}


def message_item(text="Berth 4.", **own):
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    return {**message, "content": [part], **own}


def response(output, status="completed", reason=None, **own):
    return {
        "id": "resp_1",
        "object": "response",
        "model": "gpt-x-2026",
        "status": status,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "output": output,
        "usage": USAGE,
        **own,
    }


def stream(body):
    start = {"type": "response.created", "response": {**body, "output": [], "status": "queued"}}
    listed = [start]
    for index, item in enumerate(body["output"]):
        added = {"type": "response.output_item.added", "output_index": index, "item": item}
        listed.append(added)
        for part in item.get("content") or ():
            text = part.get("text", "")
            delta = {"type": "response.output_text.delta", "output_index": index}
            listed += [{**delta, "delta": piece} for piece in (text[:4], text[4:])]
        listed.append({**added, "type": "response.output_item.done"})
    return [*listed, {"type": f"response.{body['status']}", "response": body}]


def ask_model(*answers, on_text=None, backend="asyncio", **options):
    transport = FakeTransport(*answers)
    model = OpenAIResponsesModel("gpt-x", client=transport.client("openai"), **options)
    return ask(model, prompt("openai_responses"), on_text=on_text, backend=backend), transport


ALL = [REASONING, SEARCH, UNKNOWN, message_item(phase="commentary"), CALL]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_every_item_comes_back_as_it_was_sent(is_streamed, backend):
    body = response(ALL)
    pieces = []
    reply, _ = ask_model(
        stream(body) if is_streamed else body,
        on_text=pieces.append if is_streamed else None,
        backend=backend,
    )
    assert list(reply.entries) == ALL
    assert validate([{"role": "user", "content": "?"}, *ALL], format="openai_responses") == []
    assert (reply.stop, reply.text) == ("calls", "Berth 4.")
    assert [(call.id, call.arguments()) for call in reply.calls] == [("call_1", {"berth": 4})]
    assert reply.usage == Usage(read=1408, uncached=92, output=9)
    assert (reply.model, reply.id) == ("gpt-x-2026", "resp_1")
    assert "".join(pieces) == (reply.text if is_streamed else "")


def test_nothing_is_stored_and_reasoning_comes_encrypted():
    _, transport = ask_model(response([message_item()]), include=["web_search_call.action.sources"])
    (request,) = transport.requests
    assert request["store"] is False
    assert request["include"] == ["web_search_call.action.sources", ENCRYPTED]


def test_fields_that_only_answers_have_do_not_go_back():
    reasoning = {**REASONING, "status": None, "content": None}
    call = {**CALL, "namespace": None, "created_by": "agent_1"}
    reply, _ = ask_model(response([reasoning, call]))
    assert list(reply.entries) == [REASONING, CALL]


REFUSED = refusal(
    400,
    {
        "error": {
            "message": "Encrypted content is not supported with this model.",
            "type": "invalid_request_error",
            "param": "include",
            "code": None,
        }
    },
)


@pytest.mark.parametrize("include", [[], ["web_search_call.action.sources"]])
def test_a_model_that_does_not_reason_is_asked_without_it_from_then_on(include):
    transport = FakeTransport(REFUSED, response([message_item()]), response([message_item()]))
    model = OpenAIResponsesModel("gpt-4o", client=transport.client("openai"), include=include)
    for _ in range(2):
        assert ask(model, prompt("openai_responses")).text == "Berth 4."
    assert [request.get("include", []) for request in transport.requests] == [
        [*include, ENCRYPTED],
        include,
        include,
    ]


def test_it_is_asked_again_once_only():
    with pytest.raises(RequestRefusedError, match="Encrypted content"):
        ask_model(REFUSED, REFUSED)


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    ("output", "status", "reason", "stop", "kept", "calls"),
    [
        ([message_item()], "completed", None, "answer", [message_item()], 0),
        ([message_item()], "incomplete", "max_output_tokens", "length", [message_item()], 0),
        ([message_item()], "incomplete", "content_filter", "refusal", [message_item()], 0),
        ([REASONING], "incomplete", "max_output_tokens", "length", [], 0),
        ([REASONING, message_item(content=[])], "completed", None, "answer", [], 0),
        (
            [REASONING, CALL, {**CALL, "call_id": "call_2", "arguments": '{"be'}],
            "incomplete",
            "max_output_tokens",
            "calls",
            [REASONING, CALL],
            1,
        ),
        (
            [REASONING, {**CALL, "status": "incomplete"}],
            "incomplete",
            "max_output_tokens",
            "length",
            [],
            0,
        ),
        ([message_item(), CALL], "incomplete", "content_filter", "refusal", [message_item()], 0),
        ([{**CALL, "arguments": ""}], "completed", None, "calls", [{**CALL, "arguments": "{}"}], 1),
        ([], "completed", None, "answer", [], 0),
    ],
)
def test_what_it_stopped_for_and_what_of_it_can_be_sent_again(
    output, status, reason, stop, kept, calls, is_streamed
):
    body = response(output, status, reason)
    reply, _ = ask_model(
        stream(body) if is_streamed else body, on_text=print if is_streamed else None
    )
    assert (reply.stop, len(reply.calls)) == (stop, calls)
    assert list(reply.entries) == kept
    history = [{"role": "user", "content": "?"}, *reply.entries]
    assert validate(history, format="openai_responses") == []


def test_a_refusal_is_said_and_kept():
    message = message_item(content=[{"type": "refusal", "refusal": "I can't."}])
    reply, _ = ask_model(response([message]))
    assert (reply.stop, reply.text, list(reply.entries)) == ("refusal", "I can't.", [message])


def test_items_that_a_server_lists_in_the_stream_alone_are_taken_from_there():
    listed = stream(response(ALL))
    listed[-1]["response"] = response([])
    reply, _ = ask_model(listed, on_text=print)
    assert list(reply.entries) == ALL


OVERFLOW = {
    "code": "context_length_exceeded",
    "message": "Your input exceeds the context window of this model.",
}


@pytest.mark.parametrize(
    "listed",
    [
        [{"type": "response.failed", "response": response([], "failed", error=OVERFLOW)}],
        [{"type": "error", **OVERFLOW, "param": "input", "sequence_number": 1}],
        [{"type": "error", "error": {"type": "invalid_request_error", **OVERFLOW}}],
    ],
)
def test_a_failure_in_the_midst_of_a_stream_is_that_failure(listed):
    with pytest.raises(ContextOverflowError, match="exceeds the context window"):
        ask_model([*stream(response([message_item()]))[:3], *listed], on_text=print)


def test_a_response_that_failed_is_its_error():
    error = {"code": "server_error", "message": "The server had an error."}
    with pytest.raises(ProviderUnavailableError, match="The server had an error"):
        ask_model(response([], "failed", error=error))
    with pytest.raises(ProviderUnavailableError, match="the response is cancelled"):
        ask_model(response([], "cancelled"))


@pytest.mark.parametrize("count", range(1, 6))
def test_a_stream_that_ends_early_is_an_error_and_never_half_an_answer(count):
    with pytest.raises(ProviderUnavailableError, match="ended before the answer was whole"):
        ask_model(stream(response([message_item(), CALL]))[:count], on_text=print)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_connection_that_breaks_in_the_midst_of_a_stream_is_one_too(backend):
    broken = sse(stream(response([message_item()]))[:3], httpx.ReadError("reset by peer"))
    with pytest.raises(ProviderUnavailableError):
        ask_model(broken, on_text=print, backend=backend)


@pytest.mark.parametrize("body", [{}, {"output": None}, {"output": ["text"]}])
def test_an_answer_of_another_shape_is_no_answer(body):
    with pytest.raises(ProviderUnavailableError, match="cannot be read"):
        ask_model(body)
